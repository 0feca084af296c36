//! Errors that end a subcommand early: message, exit code, next step.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use femtobarn::Error;
use femtobarn::convert::Format;
use femtobarn::io::IoError;
use femtobarn::kinds::{exit_code, kind};
use femtobarn::url::is_remote;
use serde_json::{Value, json};

use crate::output::Output;
use crate::table::printable;
use femtobarn::Target;

use crate::target::similar_file;

pub use femtobarn::kinds::exit as code;

/// An error as the user sees it.
#[derive(Debug)]
pub struct Failure {
    pub code: i32,
    pub kind: Cow<'static, str>,
    pub message: String,
    /// What the user can do.
    pub next: Option<String>,
}

impl Failure {
    pub fn new(code: i32, kind: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let (kind, message, next) = (kind.into(), message.into(), None);
        Self {
            code,
            kind,
            message,
            next,
        }
    }

    /// Adds the next step, if this has none and one is given.
    pub fn advise(mut self, target: &Target) -> Self {
        if self.next.is_none() {
            self.next = advice(&self.kind, target);
        }
        self
    }

    /// The error as JSON, with the file's name if there are several files.
    pub fn document(&self, file: Option<&str>) -> Value {
        let (kind, message, next) = (&self.kind, &self.message, &self.next);
        let error = json!({"kind": kind, "message": message, "next": next});
        match file {
            Some(file) => json!({"file": file, "error": error}),
            None => json!({"error": error}),
        }
    }

    /// Writes the error for people, or for programs.
    pub fn write(&self, err: &mut Output<'_>) -> std::io::Result<()> {
        if err.is_json {
            return writeln!(err, "{}", self.document(None));
        }
        for (i, line) in self.message.lines().enumerate() {
            let prefix = if i == 0 { "fb: " } else { "" };
            writeln!(err, "{prefix}{}", printable(line))?;
        }
        self.next
            .iter()
            .try_for_each(|next| writeln!(err, "fb: {}", printable(next)))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let next = match &error {
            Error::NoSuchField { name, .. } if name.contains(',') => by_spaces(name),
            Error::NoSuchField { url, ntuple, .. } if !ntuple.is_empty() => {
                Some(format!("`fb info {url}:{ntuple}` lists the fields"))
            }
            Error::Io(IoError::Exists { .. }) => {
                Some("give another name, or use --force to replace it".to_owned())
            }
            error => Some(kind(error.kind()).advice)
                .filter(|advice| !advice.is_empty())
                .map(str::to_owned),
        };
        Self {
            next,
            ..Self::new(exit_code(&error), error.kind(), error.with_causes())
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let message = format!("cannot write to standard output: {error}");
        Self::new(code::NOT_THERE, "output", message)
    }
}

/// Advice for several fields in one argument, of subcommands that take each as its own.
pub fn by_spaces(fields: &str) -> Option<String> {
    let spaced = || {
        format!(
            "separate fields by spaces here: {}",
            fields.replace(',', " ")
        )
    };
    fields.contains(',').then(spaced)
}

/// The next step after an error of this kind in a file.
fn advice(kind: &str, target: &Target) -> Option<String> {
    let file = target.shown();
    let is_asked = is_remote(&target.file) && target.file.contains('?');
    Some(match kind {
        "file-not-found" if file.contains(['*', '[']) => {
            "patterns are not supported here: give one file".to_owned()
        }
        "file-not-found" => format!("did you mean {}?", similar_file(target)?),
        "key-not-found" | "not-a-directory" => format!("`fb ls {file}` lists its contents"),
        "not-a-file" if Path::new(&file).is_dir() => {
            format!(
                "this is a directory: give its files, e.g. '{}/*.root'",
                file.trim_end_matches('/')
            )
        }
        "ambiguous-ntuple" if is_asked => {
            format!("put the name before the question mark: `{file}:NAME?…`")
        }
        "ambiguous-ntuple" => format!("put the name after the file: `{file}:NAME`"),
        "no-ntuple" | "not-an-rntuple" => format!("`fb ls {file}` lists its contents"),
        "no-such-field" => format!("`fb info {target}` lists the fields"),
        "page-checksum" | "corrupt-data" => format!(
            "`fb verify {target}` lists the damage and the lost entries; other entries can be read"
        ),
        "not-a-root-file" if Format::of(Path::new(&file)) != Format::Root => {
            format!("`fb convert {file} NAME.root` converts a table to a ROOT file")
        }
        _ => return None,
    })
}
