//! File formats.

use std::path::Path;

use femtobarn_io::{is_object_set, wanted_name};
use femtobarn_rntuple::RNTupleError;

use crate::choice::Choice;
use crate::inputs::misused;
use crate::staged::shown;

/// A file format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "they are their own explanation")]
pub enum Format {
    Root,
    Parquet,
    ArrowIpc,
}

impl Choice for Format {
    const ALL: &[(&str, Self)] = &[
        ("root", Self::Root),
        ("parquet", Self::Parquet),
        ("arrow", Self::ArrowIpc),
    ];
}

impl Format {
    /// The format by file name extension; ROOT if it is unknown.
    pub fn of(path: &Path) -> Self {
        let name = shown(path)
            .file_name()
            .map(|name| name.to_string_lossy().to_lowercase());
        let name = name.unwrap_or_default();
        match wanted_name(&name).rsplit('.').next() {
            Some("parquet" | "pq") => Self::Parquet,
            Some("arrow" | "arrows" | "feather" | "ipc") => Self::ArrowIpc,
            _ => Self::Root,
        }
    }

    /// The format by the extension of an output's name.
    ///
    /// # Errors
    /// If the extension is unknown.
    pub fn of_output(path: &Path) -> Result<Self, RNTupleError> {
        if is_object_set(&path.to_string_lossy()) {
            return Ok(Self::Root);
        }
        let name = shown(path)
            .file_name()
            .map(|name| name.to_string_lossy().to_lowercase());
        let name = name.unwrap_or_default();
        let is_root = name.contains(".root") || !name.contains('.');
        if name.ends_with(".arrows") {
            let reason = "streams of Arrow IPC can only be read: use .arrow to write a file";
            return Err(misused(&shown(path).to_string_lossy(), reason));
        }
        match Self::of(path) {
            Self::Root if !is_root => Err(misused(
                &shown(path).to_string_lossy(),
                "unknown format: a file must end with .root, .parquet, .arrow or .feather, a directory with /",
            )),
            format => Ok(format),
        }
    }

    /// Checks that the format supports a compression setting.
    ///
    /// # Errors
    /// If it does not.
    pub fn check_compression(self, settings: u32) -> Result<(), RNTupleError> {
        let (kind, known, takes): (_, _, &[u32]) = match self {
            Self::Root => return Ok(()),
            Self::Parquet => ("Parquet", "zstd, lz4, zlib (its gzip) or none", &[1, 4, 5]),
            Self::ArrowIpc => ("Arrow IPC", "zstd, lz4 or none", &[4, 5]),
        };
        if settings.is_multiple_of(100) || takes.contains(&(settings / 100)) {
            return Ok(());
        }
        Err(RNTupleError::Usage {
            what: format!("invalid compression for {kind}: use {known}"),
        })
    }

    /// The name of the format, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Root => "a ROOT file",
            Self::Parquet => "Parquet",
            Self::ArrowIpc => "Arrow IPC",
        }
    }
}
