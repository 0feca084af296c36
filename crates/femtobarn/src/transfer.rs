//! What ingesting and exporting share: errors, the words of their messages, and descriptions of exported columns.

use std::fmt;

use femtobarn_events::EventsError;
use femtobarn_io::{IoError, with_causes};
use femtobarn_rntuple::RNTupleError;
use serde_json::{Value, json};

use crate::kinds;

/// Names of the numbers of an event, as arguments and in descriptions.
pub const NUMBERS: [&str; 3] = ["run", "subrun", "event"];

/// The ntuples beside that of the events in an exported file, in their order.
pub(crate) const LEVELS: [&str; 3] = ["dataset", "runs", "subruns"];

/// Why files could not be ingested, or events could not be exported.
#[derive(Debug)]
pub enum TransferError {
    /// An error of the event store.
    Store(EventsError),
    /// An error of a file.
    File(RNTupleError),
    /// Any other error.
    Told {
        /// The class of the exception in `femtobarn.errors`.
        class: &'static str,
        /// Its stable name.
        kind: &'static str,
        /// What is wrong, where, and what to do.
        message: String,
    },
    /// An error with the file or product that it is about.
    Of {
        /// The file or product.
        what: String,
        /// The error.
        error: Box<Self>,
    },
}

impl TransferError {
    pub(crate) fn new(kind: &'static str, message: impl Into<String>) -> Self {
        Self::Told {
            class: kinds::kind(kind).class,
            kind,
            message: message.into(),
        }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::new("usage", message)
    }

    pub(crate) fn of(self, what: impl Into<String>) -> Self {
        Self::Of {
            what: what.into(),
            error: Box::new(self),
        }
    }

    /// The stable name of the error.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Store(error) => error.kind(),
            Self::File(error) => error.kind(),
            Self::Told { kind, .. } => kind,
            Self::Of { error, .. } => error.kind(),
        }
    }

    /// The class of the exception in `femtobarn.errors`.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Store(error) => kinds::store_class(error),
            Self::Of { error, .. } => error.class(),
            Self::File(error) => kinds::kind(error.kind()).class,
            Self::Told { class, .. } => class,
        }
    }

    /// The exit code of `fb`.
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::File(error) => kinds::exit_code(error),
            Self::Of { error, .. } => error.exit_code(),
            other => kinds::kind(other.kind()).exit,
        }
    }
}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => f.write_str(&with_causes(error)),
            Self::File(error) => f.write_str(&error.with_causes()),
            Self::Told { message, .. } => f.write_str(message),
            Self::Of { what, error } => write!(f, "{what}: {error}"),
        }
    }
}

impl std::error::Error for TransferError {}

impl From<EventsError> for TransferError {
    fn from(error: EventsError) -> Self {
        Self::Store(error)
    }
}

impl From<RNTupleError> for TransferError {
    fn from(error: RNTupleError) -> Self {
        Self::File(error)
    }
}

impl From<IoError> for TransferError {
    fn from(error: IoError) -> Self {
        Self::File(error.into())
    }
}

/// How messages name options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Words {
    /// As arguments of Python: `drop='x'`.
    #[default]
    Python,
    /// As options of `fb`: `--drop 'x'`.
    Shell,
}

impl Words {
    /// An option without a value.
    pub(crate) fn name(self, option: &str) -> String {
        match self {
            Self::Python => format!("{option}="),
            Self::Shell => format!("--{}", option.replace('_', "-")),
        }
    }

    /// An option with a value.
    pub(crate) fn with(self, option: &str, value: &str) -> String {
        let space = if self == Self::Shell { " " } else { "" };
        format!("{}{space}{}", self.name(option), quoted(value))
    }

    /// An option with a value, or a list of several.
    pub(crate) fn with_all(self, option: &str, values: &[impl AsRef<str>]) -> String {
        let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
        match values.as_slice() {
            [one] => self.with(option, one),
            values => self.list(option, values),
        }
    }

    /// An option with a list of values, also of a single one.
    pub(crate) fn list(self, option: &str, values: &[&str]) -> String {
        match self {
            Self::Python => {
                let quotes = values.iter().map(|value| quoted(value));
                format!("{option}=[{}]", joined(quotes))
            }
            Self::Shell => self.with(option, &values.join(",")),
        }
    }

    /// An option that is set.
    pub(crate) fn on(self, option: &str) -> String {
        match self {
            Self::Python => format!("{option}=True"),
            Self::Shell => self.name(option),
        }
    }
}

/// A string in quotes, as Python writes it.
pub(crate) fn quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == quote => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

/// Texts separated by commas.
pub(crate) fn joined(texts: impl IntoIterator<Item = String>) -> String {
    texts.into_iter().collect::<Vec<_>>().join(", ")
}

/// Texts separated by commas; of many, the first five and the number of the others.
pub(crate) fn shortened(texts: &[impl AsRef<str>]) -> String {
    const MOST: usize = 5;
    let shown: Vec<&str> = texts.iter().take(MOST).map(AsRef::as_ref).collect();
    let more = match texts.len().saturating_sub(MOST) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    format!("{}{more}", shown.join(", "))
}

/// The description of a field ("product", "number") or an ntuple ("level"), which records its origin in a store.
pub(crate) fn note(what: &str, value: Value) -> String {
    spaced(&json!({"femtobarn": {what: value}}))
}

/// The value in a description that [`note`] made; none in any other.
pub(crate) fn noted(what: &str, description: &str) -> Option<Value> {
    if !description.starts_with("{\"femtobarn\"") {
        return None;
    }
    let mut known: Value = serde_json::from_str(description).ok()?;
    match known.get_mut("femtobarn")?.get_mut(what)?.take() {
        Value::Null => None,
        value => Some(value),
    }
}

/// JSON with spaces after colons and commas.
pub(crate) fn spaced(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", joined(items.iter().map(spaced))),
        Value::Object(members) => {
            let member =
                |(name, value): (&String, &Value)| format!("{}: {}", json!(name), spaced(value));
            format!("{{{}}}", joined(members.iter().map(member)))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_named_for_python_and_for_the_shell() {
        let both = |made: fn(Words) -> String| [made(Words::Python), made(Words::Shell)];
        assert_eq!(
            both(|w| w.name("on_conflict")),
            ["on_conflict=", "--on-conflict"]
        );
        assert_eq!(both(|w| w.with("drop", "x")), ["drop='x'", "--drop 'x'"]);
        assert_eq!(
            both(|w| w.with_all("drop", &["x", "y"])),
            ["drop=['x', 'y']", "--drop 'x,y'"]
        );
    }

    #[test]
    fn descriptions_come_back() {
        let value = json!({"label": "a\"b", "classes": [["C", []]]});
        let text = note("product", value.clone());
        assert_eq!(
            text,
            r#"{"femtobarn": {"product": {"label": "a\"b", "classes": [["C", []]]}}}"#
        );
        assert_eq!(noted("product", &text), Some(value));
        assert_eq!(noted("number", &text), None);
        assert_eq!(noted("product", "something else"), None);
    }

    #[test]
    fn strings_are_quoted_as_in_python() {
        assert_eq!(quoted("a'b"), "\"a'b\"");
        assert_eq!(quoted("a'\"\n"), "'a\\'\"\\n'");
    }
}
