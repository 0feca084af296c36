//! One source of several: its state, and what it is asked for at the moment. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use super::quality::{Quality, whole};
use super::share::Lane;
use crate::units::real;

/// The number of a source, in the order in which they were named or found.
pub(super) type SourceId = usize;
/// The number of a request to one source.
pub(super) type BatchId = u64;
/// The number of a vector read of the caller.
pub(super) type CallId = u64;

/// The state of one source of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceState {
    /// It was named, and there was no need to open it.
    Unopened,
    /// It is being opened.
    Opening,
    /// It is read.
    Active,
    /// It is open, and others are read.
    Inactive,
    /// It failed, or its bytes are not those of the others.
    Disabled,
}

impl SourceState {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unopened => "unopened",
            Self::Opening => "opening",
            Self::Active => "active",
            Self::Inactive => "inactive",
            Self::Disabled => "disabled",
        }
    }
}

/// The rate of a source before any is known, in bytes a second.
const UNKNOWN_RATE: f64 = 1e6;
/// The delay of a source before any is known, in seconds.
const UNKNOWN_DELAY: f64 = 0.01;
/// A source is asked for at least so many bytes at once.
const LEAST_WINDOW: f64 = (1 << 20) as f64;
/// The same of a source that is read alone, while others may be opened.
const LEAST_ALONE: f64 = (8 << 20) as f64;
/// A source is asked for what comes in so many seconds, beyond its delay.
const AHEAD: f64 = 0.25;
/// Seconds that one request should take, so that the rest can be shared out again.
const PER_BATCH: f64 = 0.1;
/// The least and the most bytes of one request.
const BATCH: (f64, f64) = (super::pieces::LARGEST as f64, (8 << 20) as f64);
/// The most requests to one source at once.
const MOST_BATCHES: usize = 16;
/// A source is silent if nothing came for so long.
const SILENCE: Duration = Duration::from_millis(1000);
/// The same of a source that cannot tell that parts of an answer came: unless its answer may take longer.
const SILENCE_OF_WHOLE: f64 = 1.5;

/// A request that is under way.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub call: CallId,
    pub pieces: Vec<usize>,
    pub n_bytes: u64,
    pub start: Duration,
    /// Seconds that it should take.
    pub expected: f64,
    /// Whether nothing else was asked for at its start.
    pub is_alone: bool,
    /// Whether its pieces are asked for elsewhere, too, only to be quicker.
    pub is_extra: bool,
    /// Whether its pieces were given to other sources, because this one does not answer.
    pub is_taken: bool,
}

/// A source.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub state: SourceState,
    /// Whether it is disabled for good: its bytes are wrong.
    pub is_wrong: bool,
    /// Whether nothing comes from it at the moment.
    pub is_silent: bool,
    /// Until when it is not active while there are others, because it was silent or slow.
    pub demoted_until: Duration,
    /// How often it was silent since it has answered.
    pub n_silent: u32,
    /// Since when it is in its state.
    pub since: Duration,
    /// Failures since it has answered.
    pub failures: u32,
    /// Whether a redirector has chosen it.
    pub is_redirected: bool,
    /// Whether it tells that parts of answers came.
    pub tells_progress: bool,
    /// How many requests it answers at once, each on a connection of its own.
    pub at_once: usize,
    pub quality: Quality,
    pub batches: BTreeMap<BatchId, Batch>,
    pub outstanding: u64,
    /// When something came last, or the first request was made after a pause.
    pub heard: Duration,
    /// Bytes that it gave, and requests that it got.
    pub n_bytes: u64,
    pub n_requests: u64,
}

impl Member {
    pub fn new(state: SourceState, now: Duration) -> Self {
        Self {
            state,
            is_wrong: false,
            is_silent: false,
            demoted_until: Duration::ZERO,
            n_silent: 0,
            since: now,
            failures: 0,
            is_redirected: false,
            tells_progress: false,
            at_once: 1,
            quality: Quality::default(),
            batches: BTreeMap::new(),
            outstanding: 0,
            heard: now,
            n_bytes: 0,
            n_requests: 0,
        }
    }

    pub fn enter(&mut self, state: SourceState, now: Duration) {
        self.state = state;
        self.since = now;
    }

    /// Whether it is open and not disabled.
    pub fn is_open(&self) -> bool {
        matches!(self.state, SourceState::Active | SourceState::Inactive)
    }

    /// Whether it can be asked with hope.
    pub fn is_ready(&self) -> bool {
        self.is_open() && !self.is_silent
    }

    /// Its part in sharing; `usual` is the rate of the others, if known: a source that was not measured is believed to be as
    /// quick, until as much came as tells.
    pub fn lane(&self, usual: Option<f64>) -> Lane {
        Lane {
            rate: self.quality.rate().or(usual).unwrap_or(UNKNOWN_RATE),
            delay: self.quality.delay().unwrap_or(UNKNOWN_DELAY),
            outstanding: real(self.outstanding),
        }
    }

    /// How many more bytes may be requested from it now; `is_alone` tells whether it is the only source that is read.
    pub fn room(&self, is_alone: bool) -> u64 {
        if self.batches.len() >= MOST_BATCHES {
            return 0;
        }
        let least = if is_alone { LEAST_ALONE } else { LEAST_WINDOW };
        whole(self.window().max(least)).saturating_sub(self.outstanding)
    }

    /// How many bytes it should be asked for at once, by its rate.
    fn window(&self) -> f64 {
        let rate = self.quality.rate().unwrap_or_default();
        rate * (self.lane(None).delay + AHEAD)
    }

    /// How many bytes one request to it should have: so few that it has as many requests as it answers at once. With fewer,
    /// its connections are idle, and its rate is taken for lower than it is.
    pub fn per_batch(&self) -> u64 {
        let rate = self.quality.rate().unwrap_or_default();
        let most = (rate * PER_BATCH).min(self.window() / real(self.at_once.max(1) as u64));
        whole(most.clamp(BATCH.0, BATCH.1))
    }

    /// Seconds that a further request should take.
    pub fn expected(&self, n_bytes: u64) -> f64 {
        let lane = self.lane(None);
        lane.delay
            .max((lane.outstanding + real(n_bytes)) / lane.rate)
    }

    /// Since when its oldest request waits.
    pub fn oldest(&self) -> Option<&Batch> {
        self.batches.values().min_by_key(|batch| batch.start)
    }

    /// Whether nothing came for too long though it was asked.
    pub fn has_fallen_silent(&self, now: Duration) -> bool {
        let Some(oldest) = self.oldest() else {
            return false;
        };
        let silent = now.saturating_sub(self.heard);
        match self.tells_progress {
            true => silent >= SILENCE,
            false => silent.as_secs_f64() >= SILENCE_OF_WHOLE.max(4.0 * oldest.expected),
        }
    }
}
