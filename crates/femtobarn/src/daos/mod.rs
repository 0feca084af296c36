//! Ntuples in containers of DAOS: read as sources of objects, and written by a sink of pages.

mod claims;
mod sink;
mod source;
mod sweep;
#[cfg(test)]
mod tests;
mod updates;
mod writing;

use femtobarn_daos::{Address, DaosError, Settings as DaosSettings};
use femtobarn_io::{IoError, Settings, goes_on, is_daos, is_stopped, public};

pub use sink::DaosSink;
pub(crate) use sink::{DaosPreview, has_marked};
pub(crate) use source::{ContainerSource, open_ntuple, values_of};
pub(crate) use sweep::{delete_ntuple, sweep};
pub(crate) use updates::n_updates;

/// The URL of an ntuple, to open it even if its container does not list it. Others are unchanged.
pub(crate) fn with_name<'u>(url: &'u str, name: Option<&str>) -> std::borrow::Cow<'u, str> {
    let has_none = || Address::with_ntuple(url).is_ok_and(|(_, named)| named.is_none());
    match name.filter(|_| is_daos(url) && has_none()) {
        Some(name) => format!("{}:{name}", url.trim_end_matches([':', '/'])).into(),
        None => url.into(),
    }
}

/// How requests are made.
pub(crate) fn requests_by(settings: &Settings) -> Result<DaosSettings, IoError> {
    let usual = DaosSettings::default();
    Ok(DaosSettings {
        in_flight: settings
            .number("requests_at_once")?
            .unwrap_or(usual.in_flight),
        timeout: settings
            .seconds("request_timeout")?
            .unwrap_or(usual.timeout),
        goes_on: || goes_on() && !is_stopped(),
        #[cfg(test)]
        library: Some(tests::library().to_owned()),
        #[cfg(not(test))]
        library: None,
    })
}

/// The error of opening a container.
pub(crate) fn unopened(url: &str, error: DaosError) -> IoError {
    let url = public(url);
    match &error {
        _ if error.is_missing() => IoError::NotFound {
            url: format!("{url}: {error}"),
        },
        DaosError::Address { .. } => IoError::NoUrl {
            url,
            what: error.to_string(),
        },
        _ => unread(&url, error),
    }
}

/// The error of reading or writing.
fn failed(url: &str, error: DaosError, is_written: bool) -> IoError {
    let url = public(url);
    match &error {
        DaosError::NoLibrary { .. } | DaosError::WrongLibrary { .. } => IoError::Unsupported {
            url,
            why: error.to_string(),
            is_missing: true,
        },
        DaosError::NoClass { .. } => IoError::Setting {
            url,
            what: error.to_string(),
        },
        DaosError::Interrupted { .. } => IoError::Interrupted { url },
        _ if error.is_denied() => IoError::Refused {
            url,
            why: error.to_string(),
        },
        _ if is_written => IoError::Sending {
            url,
            source: Box::new(error),
        },
        _ => IoError::Remote {
            url,
            source: Box::new(error),
        },
    }
}

fn unread(url: &str, error: DaosError) -> IoError {
    failed(url, error, false)
}

fn unwritten(url: &str, error: DaosError) -> IoError {
    failed(url, error, true)
}
