//! Makes recorded reads again.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use femtobarn_io::{
    ByteSource, IoError, MayInterrupt as _, Operation, PULSE, Settings, Together, goes_on,
    is_stopped,
};
use femtobarn_rntuple::RNTupleError;

use super::inputs::open_traced;
use super::{OpenFile, ReplayOptions, Trace, opened_as};

/// Reads at once, of all files together.
const MOST_READS: usize = 128;

/// Bytes of these.
const MOST_BYTES: u64 = 512 << 20;

/// An operation that was made again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replayed {
    /// Its number in the trace.
    pub action: usize,
    /// When it began, from the beginning of the replay.
    pub start: Duration,
    /// How long it took.
    pub duration: Duration,
    /// What went wrong.
    pub error: Option<String>,
}

/// A replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Played {
    /// How long it took until the end of the last operation.
    pub runtime: Duration,
    /// The operations that were made, in the order of their ends.
    pub actions: Vec<Replayed>,
    /// Operations that were left out: those that had failed, those of files that cannot be opened, and writes.
    pub skipped: u64,
}

/// Makes the reads of a trace again, each file by a thread of its own. An operation begins at its recorded time, divided
/// by the speed, but never before the answers that its program had when it asked. So a program that read one piece
/// after the other does so again, however slow the server. Reads that had no answer yet overlap again.
///
/// # Errors
/// If a setting is invalid, or the waiting is interrupted. Errors of operations are parts of the result.
pub fn play(trace: &Trace, options: &ReplayOptions) -> Result<Played, RNTupleError> {
    let origin = trace.extent().map_or(Duration::ZERO, |(first, _)| first);
    let mut files = trace.files();
    for file in &mut files {
        file.actions.sort_by_key(|(_, action)| action.start);
    }
    let first = |file: &OpenFile<'_>| file.actions.first().map(|(_, action)| action.start);
    files.sort_by_key(first);
    let player = Player {
        origin,
        options,
        begin: Instant::now(),
        together: Together::of_this_thread(),
        state: Mutex::default(),
        changed: Condvar::new(),
    };
    let interrupted = std::thread::scope(|scope| {
        let threads: Vec<_> = files
            .iter()
            .map_while(|file| {
                let start = first(file).unwrap_or_default();
                // a file that was opened after another one was closed needs no thread before
                player.wait_until(start).ok()?;
                let player = &player;
                Some(scope.spawn(move || player.together.work(|| player.file(file))))
            })
            .collect();
        // this thread is the one that signals come to
        while !threads.iter().all(|thread| thread.is_finished()) {
            std::thread::sleep(PULSE / 10);
            if !goes_on() || is_stopped() {
                player.together.stop();
            }
        }
        let results = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Ok(())));
        results.filter_map(Result::err).next()
    });
    let state = player
        .state
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    match interrupted {
        Some(error) => Err(error.into()),
        None if !goes_on() || is_stopped() => Err(IoError::interruption().into()),
        None => Ok(Played {
            runtime: state.ends().max().unwrap_or_default(),
            actions: state.done,
            skipped: state.skipped,
        }),
    }
}

struct Player<'a> {
    /// The time of the first operation.
    origin: Duration,
    options: &'a ReplayOptions,
    begin: Instant,
    together: Together,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    reads: usize,
    bytes: u64,
    done: Vec<Replayed>,
    skipped: u64,
}

impl State {
    fn ends(&self) -> impl Iterator<Item = Duration> {
        let actions = self.done.iter();
        actions.map(|action| action.start.saturating_add(action.duration))
    }
}

impl Player<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the time of an operation.
    fn wait_until(&self, start: Duration) -> Result<(), IoError> {
        let Some(speed) = self.options.speed else {
            return Ok(());
        };
        let due = start.saturating_sub(self.origin).as_secs_f64() / speed;
        let due = Duration::try_from_secs_f64(due).unwrap_or(Duration::MAX);
        loop {
            let Some(rest) = due.checked_sub(self.begin.elapsed()) else {
                return Ok(());
            };
            std::thread::sleep(rest.min(PULSE));
            if is_stopped() || !goes_on() {
                return Err(IoError::interruption());
            }
        }
    }

    /// Makes the operations on one file.
    fn file(&self, file: &OpenFile<'_>) -> Result<(), IoError> {
        let open = Open::default();
        let is_written = file.is_written();
        let mut source: Option<Arc<dyn ByteSource>> = None;
        std::thread::scope(|scope| {
            for (at, (index, action)) in file.actions.iter().enumerate() {
                self.wait_until(action.start)?;
                open.wait_for_answers_before(action.start);
                if is_stopped() {
                    return Err(IoError::interruption());
                }
                match &action.operation {
                    _ if is_written || action.error.is_some() => self.lock().skipped += 1,
                    Operation::Open { url, .. } => {
                        self.make(*index, || {
                            let url = opened_as(url);
                            // servers are measured, not what a cache has of their files
                            let settings = Settings::new(&url, self.options.settings.clone())?;
                            let settings = settings.but("cache", "off");
                            source = Some(open_traced(&url, &settings)?);
                            Ok(())
                        })?;
                    }
                    Operation::Read(..) => {
                        let Some(source) = source.clone() else {
                            self.lock().skipped += 1;
                            continue;
                        };
                        let ranges = action.ranges();
                        let next = file.actions.get(at + 1).map(|(_, next)| next.start);
                        let read = move || Ok(source.read_ranges(&ranges).map(drop)?);
                        if next.is_none_or(|next| next >= action.stop) {
                            self.make(*index, read)?;
                            continue;
                        }
                        let n_bytes = action.n_bytes();
                        self.begin_read(n_bytes);
                        open.begin(action.stop);
                        let (open, index) = (&open, *index);
                        scope.spawn(move || {
                            // an interruption is noticed by the thread of the file
                            let _ = self.together.work(|| self.make(index, read));
                            open.end(action.stop);
                            self.end_read(n_bytes);
                        });
                    }
                    Operation::Close => {
                        open.wait_for_answers_before(Duration::MAX);
                        let last = source.take();
                        self.make(*index, || {
                            drop(last);
                            Ok(())
                        })?;
                    }
                    // the answer is known from opening
                    Operation::Stat { .. } => self.make(*index, || Ok(()))?,
                    _ => self.lock().skipped += 1,
                }
            }
            Ok(())
        })
    }

    /// Makes an operation, and notes how it went.
    fn make(
        &self,
        action: usize,
        work: impl FnOnce() -> Result<(), RNTupleError>,
    ) -> Result<(), IoError> {
        let (start, began) = (self.begin.elapsed(), Instant::now());
        let error = work().err();
        let duration = began.elapsed();
        if error
            .as_ref()
            .is_some_and(|error| error.kind() == "interrupted")
        {
            return Err(IoError::interruption());
        }
        self.lock().done.push(Replayed {
            action,
            start,
            duration,
            error: error.map(|error| error.with_causes()),
        });
        Ok(())
    }

    /// Waits until a further read finds memory.
    fn begin_read(&self, n_bytes: u64) {
        let mut state = self.lock();
        while state.reads > 0
            && (state.reads >= MOST_READS || state.bytes.saturating_add(n_bytes) > MOST_BYTES)
        {
            let waited = self.changed.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        state.reads += 1;
        state.bytes += n_bytes;
    }

    fn end_read(&self, n_bytes: u64) {
        let mut state = self.lock();
        state.reads -= 1;
        state.bytes -= n_bytes;
        self.changed.notify_all();
    }
}

/// Reads of a file that have no answer yet, by the recorded times of their answers.
#[derive(Default)]
struct Open {
    waiting: Mutex<Vec<Duration>>,
    changed: Condvar,
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, Vec<Duration>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, stop: Duration) {
        self.lock().push(stop);
    }

    fn end(&self, stop: Duration) {
        let mut waiting = self.lock();
        if let Some(at) = waiting.iter().position(|found| *found == stop) {
            waiting.swap_remove(at);
        }
        self.changed.notify_all();
    }

    /// Waits for the answers that had come at this recorded time.
    fn wait_for_answers_before(&self, start: Duration) {
        let mut waiting = self.lock();
        while waiting.iter().any(|stop| *stop <= start) {
            let waited = self.changed.wait(waiting);
            waiting = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }
}
