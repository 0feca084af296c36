//! A layer that counts and records the reads of a source, and splits its requests according to settings.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::meter::{Meter, Stage};
use crate::usage::watch;
use crate::{ByteSource, IoError, Settings, SourceCost, SourceInfo};

/// A source with counters for its reads. The sources for all stages share the counters.
#[derive(Debug)]
pub struct MeteredSource {
    inner: Arc<Watched>,
    cost: SourceCost,
    stage: Stage,
}

/// A source and its counters, which observers may keep longer.
#[derive(Debug)]
struct Watched {
    source: Arc<dyn ByteSource>,
    meter: Arc<Meter>,
}

impl Watched {
    /// The ranges that are really read: held bytes were counted when they were fetched.
    fn read_of<'a>(&self, ranges: &'a [Range<u64>]) -> Cow<'a, [Range<u64>]> {
        let is_read = |range: &Range<u64>| self.source.peek(range).is_none();
        if ranges.iter().all(is_read) {
            return Cow::Borrowed(ranges);
        }
        let read = ranges.iter().filter(|range| is_read(range));
        read.cloned().collect()
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.meter.close(self.source.traffic());
    }
}

impl MeteredSource {
    /// Counts the reads of a source that is being opened, with costs from `settings`.
    ///
    /// # Errors
    /// If a setting is invalid.
    pub fn of(
        inner: Arc<dyn ByteSource>,
        settings: &Settings,
    ) -> Result<Arc<dyn ByteSource>, IoError> {
        let cost = settings.cost(inner.cost())?;
        let meter = Arc::new(Meter::of(inner.url()));
        if let Some(opening) = inner.info().opening {
            meter.note_opening(opening);
        }
        watch(inner.url(), inner.meta().size, &meter);
        Ok(Arc::new(Self {
            inner: Arc::new(Watched {
                source: inner,
                meter,
            }),
            cost,
            stage: Stage::Open,
        }))
    }
}

impl ByteSource for MeteredSource {
    fn info(&self) -> SourceInfo<'_> {
        SourceInfo {
            cost: self.cost,
            meter: Some(&self.inner.meter),
            ..self.inner.source.info()
        }
    }

    fn inner(&self) -> Option<&dyn ByteSource> {
        Some(&*self.inner.source)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, IoError> {
        let read = self.inner.read_of(ranges);
        let start = Instant::now();
        let answers = self.inner.source.read_ranges(ranges);
        if !read.is_empty() {
            self.inner
                .meter
                .note(self.stage, start, &read, answers.is_ok());
        }
        answers
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<(), IoError> {
        let range = [offset..offset.saturating_add(buffer.len() as u64)];
        let read = self.inner.read_of(&range);
        let start = Instant::now();
        let done = self.inner.source.read_into(offset, buffer);
        if !read.is_empty() {
            self.inner
                .meter
                .note(self.stage, start, &read, done.is_ok());
        }
        done
    }

    fn at_stage(&self, stage: Stage) -> Option<Arc<dyn ByteSource>> {
        Some(Arc::new(Self {
            inner: self.inner.clone(),
            cost: self.cost,
            stage,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MemorySource;

    #[test]
    fn stages_share_their_counters_and_settings_say_the_cost() {
        let settings = |value: &str| Settings::with("mem:x", &[("largest_gap", value)]).unwrap();
        let memory = || MemorySource::new("mem:x", b"0123456789".to_vec());
        let source = MeteredSource::of(memory(), &settings("3 KiB")).unwrap();
        assert_eq!(source.cost().largest_gap, 3072);
        source.read_ranges(&[0..2, 4..5]).unwrap();
        let data = source.at_stage(Stage::Data).unwrap();
        data.read_into(3, &mut [0; 4]).unwrap();
        data.read_ranges(&[9..11]).unwrap_err();
        let meter = source.meter().unwrap();
        assert_eq!(
            (meter.now().vectors, meter.now().bytes, meter.now().failed),
            (3, 9, 1)
        );
        let stages: Vec<Stage> = meter.spans().iter().map(|span| span.stage).collect();
        assert_eq!(stages, [Stage::Open, Stage::Data, Stage::Data]);
        assert!(MeteredSource::of(memory(), &settings("much")).is_err());
    }
}
