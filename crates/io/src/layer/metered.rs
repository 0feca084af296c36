//! A layer that counts and records the reads of a source, and splits its requests according to settings.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::meter::{Meter, Stage};
use crate::source::read_of;
use crate::usage::File;
use crate::{ByteSource, IoError, Settings, SourceCost, SourceInfo};

/// A source with counters for its reads. The sources for all stages share the counters.
#[derive(Debug)]
pub struct MeteredSource {
    inner: Arc<File>,
    cost: SourceCost,
    stage: Stage,
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
        let meter = Meter::of(inner.url());
        if let Some(opening) = inner.info().opening {
            meter.note_opening(opening);
        }
        Ok(Arc::new(Self {
            inner: File::open(inner, meter),
            cost,
            stage: Stage::Open,
        }))
    }

    fn note(&self, start: Instant, read: &[Range<u64>], is_answered: bool) {
        if !read.is_empty() {
            let meter = &self.inner.meter;
            meter.note(self.stage, start, read, is_answered);
        }
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
        let (mut read, start) = (Vec::new(), Instant::now());
        let answers = self.inner.source.read_noting(ranges, &mut read);
        self.note(start, &read, answers.is_ok());
        answers
    }

    fn read_into(&self, offset: u64, buffer: &mut [u8]) -> Result<(), IoError> {
        let range = [offset..offset.saturating_add(buffer.len() as u64)];
        let read = read_of(&*self.inner.source, &range);
        let start = Instant::now();
        let done = self.inner.source.read_into(offset, buffer);
        self.note(start, &read, done.is_ok());
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
            (3, 7, 1)
        );
        let stages: Vec<Stage> = meter.spans().iter().map(|span| span.stage).collect();
        assert_eq!(stages, [Stage::Open, Stage::Data, Stage::Data]);
        assert!(MeteredSource::of(memory(), &settings("much")).is_err());
    }
}
