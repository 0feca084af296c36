//! Additions to existing files.
//!
//! An update that was killed leaves bytes after the end that is in the header. They begin with a marker record, by which
//! the next update recognizes and removes them. Other bytes are left alone, as somebody may want to recover them: they
//! become a gap between records.

use std::ops::Range;
use std::sync::Arc;

use femtobarn_io::ByteSink;

use super::folder::Folder;
use super::{FileWriter, now};
use crate::cursor::{Cursor, Place};
use crate::{Key, RootFile, RootFileError};

/// Title of the record that begins an update.
const MARK: &str = "an update of femtobarn";
/// Upper limit for the size of that record.
const LONGEST_MARK: u64 = 128;

/// The largest gap that is written as one: sizes are signed 32-bit numbers.
const LARGEST_GAP: u64 = 1_000_000_000;
/// The smallest gap, which contains only its size.
const SMALLEST_GAP: u64 = 4;

impl FileWriter {
    /// Adds to an existing file, which `file` has opened and `sink` can write to.
    ///
    /// # Errors
    /// If its directories cannot be read, or the sink fails.
    pub fn update(sink: Arc<dyn ByteSink>, file: &RootFile) -> Result<Self, RootFileError> {
        let header = file.header().clone();
        let mut folders = Vec::new();
        for directory in file.directories()? {
            folders.push(Folder::existing(&directory, &folders));
        }
        let infos = file.streamer_infos()?.into_iter();
        let mut size = file.source().meta().size;
        let mut gap = header.end..header.end;
        // bytes after a crash may be in use: the root directory's record is written after the header
        if size > header.end && !is_used_behind(file, &folders, header.end) {
            if is_left_over(file, header.end) {
                sink.truncate(header.end)?;
                size = header.end;
            } else {
                gap.end = size.max(header.end + SMALLEST_GAP);
            }
        }
        let mut writer = Self {
            sink,
            folders,
            old_infos: file.streamer_info_object()?,
            described: infos.map(|info| (info.name, info.version)).collect(),
            new_infos: Vec::new(),
            // after everything that exists, whether the header includes it or not
            end: size.max(gap.end),
            header,
            now: now(),
            failed: false,
            old_size: Some(size),
            gap,
        };
        let key = writer.key(("RBlob", "", MARK), writer.header.begin, (0, 0), 1)?;
        writer.append(&key, &[])?;
        Ok(writer)
    }

    /// Marks the bytes in no record as a gap, so that the records are a chain again.
    pub(super) fn write_gap(&mut self) -> Result<(), RootFileError> {
        let mut at = self.gap.start;
        while at < self.gap.end {
            let mut n_bytes = (self.gap.end - at).min(LARGEST_GAP);
            let rest = self.gap.end - at - n_bytes;
            if rest > 0 && rest < SMALLEST_GAP {
                n_bytes -= SMALLEST_GAP;
            }
            let size = i32::try_from(n_bytes).unwrap_or(i32::MAX);
            self.write_at(at, &(-size).to_be_bytes())?;
            at += n_bytes;
        }
        Ok(())
    }
}

/// Whether anything refers to bytes after an end.
fn is_used_behind(file: &RootFile, folders: &[Folder], end: u64) -> bool {
    let header = file.header();
    let info = header
        .seek_info
        .saturating_add(u64::from(header.n_bytes_info));
    let free = header
        .seek_free
        .saturating_add(u64::from(header.n_bytes_free));
    let is_behind = |range: Range<u64>| range.end > end;
    let has_behind = |folder: &Folder| {
        folder.record.key_list().is_some_and(is_behind)
            || folder.keys.iter().any(|key| is_behind(key.record()))
    };
    info.max(free) > end || folders.iter().any(has_behind)
}

/// Whether an unfinished update begins here.
fn is_left_over(file: &RootFile, at: u64) -> bool {
    let source = file.source();
    let end = source.meta().size.min(at.saturating_add(LONGEST_MARK));
    let range = at..end;
    let bytes = source.read_ranges(std::slice::from_ref(&range)).ok();
    let bytes = bytes.into_iter().flatten().next().unwrap_or_default();
    let place = Place {
        url: source.url(),
        what: "record after the end",
    };
    let is_mark = |key: Key| {
        (key.class_name.as_str(), key.title.as_str(), key.seek_key) == ("RBlob", MARK, at)
    };
    Key::parse(&mut Cursor::new(&bytes, at, place)).is_ok_and(is_mark)
}
