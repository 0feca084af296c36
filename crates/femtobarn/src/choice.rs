//! Options with named values, which have the same names in Python and in `fb`.

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::Mode;

use crate::convert::Format;
use crate::export::Missing;
use crate::ingest::OnConflict;
use crate::inputs::{OtherObjects, Unmatched};
use crate::merge::Level;
use crate::transfer::quoted;

/// An option with named values.
pub trait Choice: Copy + PartialEq + Send + Sync + 'static {
    /// All values, with their names.
    const ALL: &[(&str, Self)];

    /// The value of a name.
    fn of(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|&(_, value)| value)
    }

    /// The value of a name that was given for an option.
    ///
    /// # Errors
    /// If no value has this name.
    fn parse(option: &str, name: &str) -> Result<Self, RNTupleError> {
        Self::of(name).ok_or_else(|| {
            let names: Vec<String> = Self::ALL.iter().map(|(name, _)| quoted(name)).collect();
            let (last, others) = names.split_last().map_or(("", &[][..]), |(l, o)| (l, o));
            let (others, name) = (others.join(", "), quoted(name));
            let what = format!("{option} must be {others} or {last}, not {name}");
            RNTupleError::Usage { what }
        })
    }

    /// Its name.
    fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, value)| *value == self);
        found.map_or("", |(name, _)| name)
    }
}

impl Choice for Level {
    const ALL: &[(&str, Self)] = &[
        ("auto", Self::Auto),
        ("L0", Self::L0),
        ("L1", Self::L1),
        ("L2", Self::L2),
        ("L3", Self::L3),
        ("L4", Self::L4),
    ];
}

impl Choice for Mode {
    const ALL: &[(&str, Self)] = &[
        ("filter", Self::Filter),
        ("union", Self::Union),
        ("strict", Self::Strict),
    ];
}

impl Choice for OtherObjects {
    const ALL: &[(&str, Self)] = &[
        ("error", Self::Error),
        ("first", Self::First),
        ("drop", Self::Drop),
    ];
}

impl Choice for Unmatched {
    const ALL: &[(&str, Self)] = &[("error", Self::Error), ("drop", Self::Drop)];
}

impl Choice for OnConflict {
    const ALL: &[(&str, Self)] = &[
        ("raise", Self::Raise),
        ("keep", Self::Keep),
        ("replace", Self::Replace),
    ];
}

impl Choice for Missing {
    const ALL: &[(&str, Self)] = &[("optional", Self::Optional), ("list", Self::List)];
}

impl Choice for Format {
    const ALL: &[(&str, Self)] = &[
        ("root", Self::Root),
        ("parquet", Self::Parquet),
        ("arrow", Self::ArrowIpc),
    ];
}
