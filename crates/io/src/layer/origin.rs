//! A layer directly over a source that reads by itself: it counts for each server, records, and tells monitoring.

use std::ops::Range;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use crate::monitor::{Monitor, monitor_of};
use crate::report::report_if_set;
use crate::runtime::process;
use crate::source::read_of;
use crate::trace::{Recorded, Started, trace_of};
use crate::url::{public, server};
use crate::usage::{Origin, note_open};
use crate::{ByteSource, IoError, Settings, SourceInfo};

/// A source over one that talks to one server, or reads files of this machine. Layers over it may have several of
/// these, or need them only for a part of the reads.
///
/// Reads through a map of memory are not seen. While operations are recorded, there is no such map.
#[derive(Debug)]
pub struct OriginSource {
    origin: Arc<Origin>,
    recorded: Option<Recorded>,
    monitor: Option<Monitor>,
    opened: SystemTime,
    /// The process that has opened it.
    owner: u32,
}

impl OriginSource {
    /// Opens a source by `open`; a fallback is not the first source of its file.
    ///
    /// # Errors
    /// Those of `open`; if a setting is invalid, or the trace cannot be written.
    pub fn open(
        url: &str,
        settings: &Settings,
        is_fallback: bool,
        open: impl FnOnce() -> Result<Arc<dyn ByteSource>, IoError>,
    ) -> Result<Arc<dyn ByteSource>, IoError> {
        report_if_set(settings)?;
        let (trace, monitor) = (trace_of(settings)?, monitor_of(settings, is_fallback)?);
        let start = Started::now();
        let opened = open();
        let duration = start.at().elapsed();
        let found = opened.as_ref().ok().and_then(|source| source.server());
        let named = server(url);
        let server = match (found, named.split_once("://")) {
            (Some(found), Some((scheme, _))) => format!("{scheme}://{found}"),
            _ => named,
        };
        note_open(&server, duration, opened.is_ok());
        let recorded = trace.map(|trace| {
            let meta = opened.as_ref().map(|source| source.meta());
            Recorded::open(trace, &public(url), (start, duration), meta)
        });
        let source = opened?;
        let own = Self {
            monitor: monitor.filter(|_| server != "local"),
            origin: Origin::open(source, server),
            recorded,
            opened: SystemTime::now(),
            owner: process(),
        };
        if let Some(opening) = own.origin.source.info().opening {
            let (at, ranges) = (opening.start, &opening.ranges);
            let start = start.moved(at);
            own.origin
                .note(|reads| reads.note(ranges, opening.duration, true));
            if let Some(recorded) = &own.recorded {
                recorded.read(ranges, start, opening.duration, None);
            }
        }
        Ok(Arc::new(own))
    }

    /// Does a read of these ranges.
    fn read<T>(
        &self,
        ranges: &[Range<u64>],
        read: impl FnOnce(&dyn ByteSource) -> Result<T, IoError>,
    ) -> Result<T, IoError> {
        let source = &*self.origin.source;
        let asked = read_of(source, ranges);
        let start = Started::now();
        let answer = read(source);
        if !asked.is_empty() {
            let duration = start.at().elapsed();
            self.origin
                .note(|reads| reads.note(&asked, duration, answer.is_ok()));
            if let Some(recorded) = &self.recorded {
                recorded.read(&asked, start, duration, answer.as_ref().err());
            }
        }
        answer
    }
}

impl Drop for OriginSource {
    fn drop(&mut self) {
        if let Some(recorded) = &self.recorded {
            recorded.close();
        }
        // a forked process has read nothing of its own through it, or opened the file again
        if let Some(monitor) = self.monitor.as_ref().filter(|_| self.owner == process()) {
            monitor.closed(&self.origin, self.opened);
        }
    }
}

impl ByteSource for OriginSource {
    fn info(&self) -> SourceInfo<'_> {
        self.origin.source.info()
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        Some(&*self.origin.source)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        self.read(ranges, |source| source.read_ranges(ranges))
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<(), IoError> {
        let range = [offset..offset.saturating_add(buffer.len() as u64)];
        self.read(&range, |source| source.read_into(offset, buffer))
    }

    fn map(&self) -> Option<Bytes> {
        match self.recorded {
            Some(_) => None,
            None => self.origin.source.map(),
        }
    }
}
