//! The report at the end of the process, whatever language its program is written in.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock};

use super::Report;
use crate::at_exit::at_exit;
use crate::{IoError, Settings};

/// Where a report goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportTo {
    /// Standard error, as text.
    StandardError,
    /// A file, as JSON.
    Json(PathBuf),
}

impl ReportTo {
    /// Of a string as the setting `report` has it; the inner one is none where it asks for no report.
    #[must_use]
    pub fn parse(text: &str) -> Option<Option<Self>> {
        match text {
            "0" | "false" => Some(None),
            "1" | "true" => Some(Some(Self::StandardError)),
            text => {
                let path = text.strip_prefix("json:").filter(|path| !path.is_empty())?;
                Some(Some(Self::Json(path.into())))
            }
        }
    }

    fn send(&self, report: &Report) {
        let done = match self {
            Self::StandardError => std::io::stderr().write_all(report.text().as_bytes()),
            Self::Json(path) => fs::write(path, format!("{:#}\n", report.json())),
        };
        if let (Err(error), Self::Json(path)) = (done, self) {
            // where standard error is closed as well, nobody is left to be told
            let path = path.display();
            let _ = writeln!(
                std::io::stderr(),
                "femtobarn: cannot write the report {path}: {error}"
            );
        }
    }
}

/// Where the report of this process goes at its end, and the number of the process.
static WANTED: RwLock<Option<(u32, ReportTo)>> = RwLock::new(None);

/// At the end of this process, its report goes there; it is the process that counts, not those forked from it.
pub fn report_at_exit(to: ReportTo) {
    let mut wanted = WANTED.write().unwrap_or_else(PoisonError::into_inner);
    *wanted = Some((std::process::id(), to));
    drop(wanted);
    at_exit(send);
}

fn send() {
    let wanted = WANTED
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    if let Some((owner, to)) = wanted
        && owner == std::process::id()
    {
        to.send(&Report::now());
    }
}

/// Sends the report at the end of this process if the settings of a file say so; the first file counts.
///
/// # Errors
/// If the setting is invalid.
pub(crate) fn report_if_set(settings: &Settings) -> Result<(), IoError> {
    super::process::begin();
    let Some(text) = settings.text("report")? else {
        return Ok(());
    };
    let to = ReportTo::parse(&text).ok_or_else(|| IoError::Setting {
        url: "report".to_owned(),
        what: format!("invalid report {text:?}: expected 1 or json:PATH"),
    })?;
    let is_first = WANTED
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .is_none();
    if let (Some(to), true) = (to, is_first) {
        report_at_exit(to);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_goes_where_the_setting_says() {
        assert_eq!(ReportTo::parse("1"), Some(Some(ReportTo::StandardError)));
        assert_eq!(
            ReportTo::parse("json:a b"),
            Some(Some(ReportTo::Json("a b".into())))
        );
        assert_eq!(ReportTo::parse("0"), Some(None));
        for text in ["", "json:", "yes please", "xml:f"] {
            assert_eq!(ReportTo::parse(text), None, "{text}");
        }
        let given = Settings::with("mem:x", &[("report", "xml:f")]).unwrap();
        let error = report_if_set(&given).unwrap_err().to_string();
        assert!(error.contains("json:PATH"), "{error}");
    }
}
