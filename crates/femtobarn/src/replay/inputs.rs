//! The files that a trace reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use femtobarn_daos::Address;
use femtobarn_io::{
    ByteSource, IoError, Settings, is_daos, is_object_set, pieces, public, with_causes,
};
use femtobarn_rntuple::RNTupleError;

use super::{ReplayOptions, Trace, opened_as};
use crate::daos::values_of;
use crate::open::open_source_with;
use crate::writable::create_sink;

/// Bytes that are written at once.
const PIECE: u64 = 1 << 20;

/// A file that a trace reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Input {
    /// Its URL, without secrets.
    pub url: String,
    /// The size that it must have, at least.
    pub n_needed: u64,
    /// What was found.
    pub state: InputState,
}

/// The state of such a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputState {
    /// It is large enough.
    Fine,
    /// It has only so many bytes.
    TooSmall(u64),
    /// It was created.
    Created,
    /// It cannot be read or created.
    Failed(String),
}

/// Opens what a trace names; an ntuple in DAOS is `daos://POOL/CONTAINER:NAME` there.
pub(super) fn open_traced(
    url: &str,
    settings: &Settings,
) -> Result<Arc<dyn ByteSource>, RNTupleError> {
    let source = open_source_with(url, settings)?;
    match Address::with_ntuple(url) {
        Ok((_, Some(name))) if is_daos(url) => Ok(values_of(&source, name)?),
        _ => Ok(source),
    }
}

/// Checks that the files exist that a trace reads and does not write, and have the sizes that are needed; with `create`,
/// creates missing ones, filled with numbers. Existing files are never changed.
///
/// # Errors
/// If a setting is invalid, or the waiting is interrupted.
pub fn check_inputs(
    trace: &Trace,
    options: &ReplayOptions,
    create: bool,
) -> Result<Vec<Input>, RNTupleError> {
    let mut needed: BTreeMap<String, u64> = BTreeMap::new();
    for file in trace.files().iter().filter(|file| !file.is_written()) {
        let Some(url) = file.url().filter(|_| file.done().next().is_some()) else {
            continue;
        };
        let size = needed.entry(opened_as(url)).or_default();
        *size = file.n_needed().max(*size);
    }
    let check = |(url, n_needed): (String, u64)| {
        let settings = Settings::new(&url, options.settings.clone())?.but("cache", "off");
        let state = match open_traced(&url, &settings) {
            Ok(source) if source.meta().size >= n_needed => InputState::Fine,
            Ok(source) => InputState::TooSmall(source.meta().size),
            Err(error) if create && error.kind() == "file-not-found" && is_object_set(&url) => {
                let how = "objects are not created: write the ntuple there with `fb migrate`";
                InputState::Failed(format!("{}; {how}", error.with_causes()))
            }
            Err(error) if create && error.kind() == "file-not-found" => {
                match fill(&url, n_needed, &settings) {
                    Ok(()) => InputState::Created,
                    Err(error) => InputState::Failed(with_causes(&error)),
                }
            }
            Err(error) if error.kind() == "interrupted" => return Err(error),
            Err(error) => InputState::Failed(error.with_causes()),
        };
        Ok(Input {
            url: public(&url),
            n_needed,
            state,
        })
    };
    needed.into_iter().map(check).collect()
}

/// Creates a file of this size, in which each eight bytes are their number.
fn fill(url: &str, size: u64, settings: &Settings) -> Result<(), IoError> {
    let sink = create_sink(url, false, settings)?;
    for piece in pieces(size, PIECE) {
        let length = usize::try_from(piece.end - piece.start).unwrap_or(usize::MAX);
        // pieces begin at multiples of eight
        let numbers = (piece.start / 8..).flat_map(u64::to_le_bytes);
        let bytes: Vec<u8> = numbers.take(length).collect();
        sink.write_at(piece.start, &bytes)?;
    }
    sink.commit()
}
