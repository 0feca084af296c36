//! Opening sources, and checking that they have the same file.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use femtobarn_xrootd::with_causes;

use super::HEAD;
use super::crew::Crew;
use super::member::SourceId;
use super::report::Past;
use super::state::{Source, State, is_final};
use crate::runtime::in_background;
use crate::url::public;
use crate::{ByteSource, IoError};

/// A source that has the same file; how many bytes were read of it, and in which time.
type Joined = (Arc<dyn ByteSource>, Option<(u64, Duration)>);

/// Why a source is not read.
struct NotJoined {
    error: IoError,
    /// The range in which its bytes differ from those of others, and how many bytes readers had rejected before.
    compared: Option<(Range<u64>, u64)>,
}

impl From<IoError> for NotJoined {
    fn from(error: IoError) -> Self {
        Self {
            error,
            compared: None,
        }
    }
}

impl Crew {
    pub(super) fn open(
        self: &Arc<Self>,
        state: &mut State,
        number: SourceId,
        avoided: Option<Vec<String>>,
    ) {
        let Some(url) = state
            .sources
            .get(number)
            .map(|source| source.past.url.clone())
        else {
            return;
        };
        let (crew, work) = (self.clone(), self.work.part());
        let begun = in_background(move || {
            let opened = work.work(|| crew.opened(&url, number, avoided.as_deref()));
            crew.joins(number, opened, avoided.is_some());
        });
        if let Err(error) = begun {
            let error = IoError::from_open(&self.plan.shown, error);
            state.failed(number, error, self.now());
            state.schedule.not_opened(number, self.now());
        }
    }

    /// Opens a further source that a redirector may know.
    pub(super) fn search(self: &Arc<Self>, state: &mut State, number: SourceId) {
        let known = state.sources.iter();
        let avoided: Vec<String> = known.filter_map(|s| s.past.server.clone()).collect();
        let of = state.sources.iter().find(|s| s.past.server.is_some());
        let past = of.map(|source| Past {
            url: source.past.url.clone(),
            shown: source.past.shown.clone(),
            is_sought: true,
            ..Past::default()
        });
        state.sources.push(Source {
            past: past.unwrap_or_default(),
            ..Source::default()
        });
        self.open(state, number, Some(avoided));
    }

    /// Opens a source, and checks that it has the same file.
    fn opened(
        &self,
        url: &str,
        number: SourceId,
        avoided: Option<&[String]>,
    ) -> Result<Joined, NotJoined> {
        let settings = self.plan.settings.for_url(url);
        let avoided = avoided.or((number > 0).then_some(&[]));
        let source = (self.plan.open)(url, &settings, avoided)?;
        let found = source.meta().size;
        let Some(expected) = self.lock().size else {
            return Ok((source, None));
        };
        if found != expected {
            return Err(self
                .differs(url, &format!("it has {found} bytes, not {expected}"))
                .into());
        }
        let n_rejected = self.lock().n_rejected;
        let witness = self.witness(number, expected)?;
        let Some((range, known)) = witness.filter(|(range, _)| !range.is_empty()) else {
            return Ok((source, None));
        };
        let (is_held, start) = (source.peek(&range).is_some(), Instant::now());
        let own = crate::source::read_one(&*source, range.clone())?;
        let took = start.elapsed();
        if own != known {
            let what = format!("its bytes {} to {} differ", range.start, range.end);
            return Err(NotJoined {
                error: self.differs(url, &what),
                compared: Some((range, n_rejected)),
            });
        }
        Ok((
            source,
            (!is_held).then_some((range.end - range.start, took)),
        ))
    }

    fn differs(&self, url: &str, what: &str) -> IoError {
        IoError::Unsupported {
            url: public(url),
            why: format!("it is not used, as {what}: another version of the file"),
            is_missing: false,
        }
    }

    /// Bytes of the file that all sources must have: the beginning, for which another source is asked if nobody has read it
    /// so far; if none is open, anything else that was read.
    fn witness(&self, but: SourceId, size: u64) -> Result<Option<(Range<u64>, Bytes)>, IoError> {
        let range = 0..HEAD.min(size);
        let (known, other) = {
            let state = self.lock();
            let mut others = state.schedule.ids_open().filter(|number| *number != but);
            let other = others.next().and_then(|number| state.source(number));
            (state.witness.clone(), other)
        };
        match other {
            Some(other) if known.as_ref().is_none_or(|(known, _)| *known != range) => {
                let head = crate::source::read_one(&*other, range.clone())?;
                Ok(Some((range, head)))
            }
            _ => Ok(known),
        }
    }

    fn joins(
        self: &Arc<Self>,
        number: SourceId,
        opened: Result<Joined, NotJoined>,
        is_search: bool,
    ) {
        let (mut state, now) = (self.lock(), self.now());
        match opened {
            Ok((source, read)) => {
                state.size.get_or_insert(source.meta().size);
                state.put(number, source, now, read);
            }
            // what it was compared with may have been damaged
            Err(NotJoined {
                compared: Some((_, n_rejected)),
                ..
            }) if n_rejected != state.n_rejected => state.schedule.readmit(number, now),
            Err(NotJoined { error, compared }) => {
                let compared = compared.map(|(range, _)| (number, range));
                state.differing.extend(compared);
                let is_final = is_final(&error);
                let is_first = state.schedule.ids_open().next().is_none();
                if is_first && !is_search {
                    state.tell(number, &with_causes(&error));
                } else if is_final && !is_search {
                    let text = with_causes(&error);
                    state.notices.push((text.clone(), text));
                }
                state.failed_to_open(number, error);
                match is_search {
                    true => state.schedule.not_found(number, now),
                    false => state.schedule.not_opened(number, now),
                }
                if is_final {
                    state.schedule.disable(number, now, true);
                }
            }
        }
        self.drive(&mut state);
        drop(state);
        self.changed.notify_all();
    }
}
