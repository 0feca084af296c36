//! Event queues: operations that run at the same time, and waiting for them.
//!
//! An operation in flight cannot be cancelled: `daos_event_abort` does nothing, and the library goes on writing to the
//! memory that it was given. So an operation owns its memory, and both are kept until the queue has returned its event, even
//! if nobody waits for it any more.

#![expect(
    unsafe_code,
    reason = "the library writes to the memory of operations while they run"
)]

use std::ffi::c_int;
use std::fmt::{Debug, Formatter};
use std::ptr::{self, NonNull};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::abi::{Event, Handle};
use crate::library::DaosLibrary;
use crate::{DaosError, Settings};

/// How often a waiting thread asks whether to go on.
const PULSE: Duration = Duration::from_millis(100);
/// Events that are taken from a queue at once.
const MOST_EVENTS: usize = 64;
/// The most queues of a pool: each has a network context, which some systems limit.
const MOST_QUEUES: usize = 8;
/// The time for closing connections when nothing else is done with them.
pub(crate) const CLEARING_UP: Duration = Duration::from_secs(3);

/// An operation with all its memory.
pub(crate) trait Call: Send + 'static {
    /// Starts the operation, whose event is initialised; returns its code.
    ///
    /// # Safety
    /// Until the queue returns the event, neither the event nor this value may be moved, dropped or used.
    unsafe fn start(&mut self, library: &DaosLibrary, event: *mut Event) -> c_int;
}

/// An operation in flight, at a fixed place.
struct Running<C> {
    event: Event,
    call: C,
}

/// An operation that nobody waits for: its event, and what frees its memory.
struct Abandoned {
    event: *mut Event,
    free: Box<dyn FnOnce()>,
}

/// A queue, used by one thread at a time.
pub(crate) struct Queue {
    library: &'static DaosLibrary,
    handle: Handle,
    abandoned: Vec<Abandoned>,
}

// SAFETY: a queue may be used from any thread, one at a time. The pointers of abandoned operations are of memory that only
// the queue and the library know, and what they point to is `Send` (see `Call`).
unsafe impl Send for Queue {}

impl Queue {
    fn new(library: &'static DaosLibrary) -> Result<Self, DaosError> {
        let mut handle = Handle::default();
        // SAFETY: the library is started, and writes a handle.
        let code = unsafe { (library.api.queue_create)(&raw mut handle) };
        library.check(code, || "create an event queue".into())?;
        Ok(Self {
            library,
            handle,
            abandoned: Vec::new(),
        })
    }

    /// Runs operations, at most `settings.in_flight` at a time, and gives each with its code to `done`. After an error of
    /// `done` no further operation is started, and those in flight are waited for. `what` names all of them.
    ///
    /// # Errors
    /// The first error of `done`; or that no operation ended for `settings.timeout`, or that the waiting was interrupted.
    pub fn run<C: Call>(
        &mut self,
        settings: &Settings,
        what: impl FnOnce() -> String,
        calls: impl IntoIterator<Item = C>,
        mut done: impl FnMut(C, c_int) -> Result<(), DaosError>,
    ) -> Result<(), DaosError> {
        let mut calls = calls.into_iter().fuse();
        let mut running: Vec<NonNull<Running<C>>> = Vec::new();
        let mut failed = None;
        let mut heard = Instant::now();
        let mut asked = heard;
        loop {
            while failed.is_none() && running.len() < settings.in_flight.max(1) {
                let Some(call) = calls.next() else { break };
                match self.start(call) {
                    Ok(started) => running.push(started),
                    Err((call, code)) => failed = done(call, code).err(),
                }
            }
            if running.is_empty() {
                return failed.map_or(Ok(()), Err);
            }
            let mut events = [ptr::null_mut(); MOST_EVENTS];
            let n = match self.poll(PULSE.min(settings.timeout), &mut events) {
                Ok(n) => n,
                Err(error) => {
                    self.abandon(running);
                    return Err(error);
                }
            };
            let now = Instant::now();
            for event in events.into_iter().take(n) {
                match self.ended(event, &mut running) {
                    Some((call, code)) => {
                        heard = now;
                        // the first error is the cause of those that follow
                        failed = failed.or(done(call, code).err());
                    }
                    None => self.free(event),
                }
            }
            if running.is_empty() {
                continue;
            }
            let is_late = now.duration_since(heard) >= settings.timeout;
            let is_over = now.duration_since(asked) >= PULSE && {
                asked = now;
                !(settings.goes_on)()
            };
            if is_late || is_over {
                let what = what();
                self.abandon(running);
                return Err(match is_over {
                    true => DaosError::Interrupted { what },
                    false => DaosError::TimedOut {
                        what,
                        after: settings.timeout,
                    },
                });
            }
        }
    }

    /// Runs one operation.
    ///
    /// # Errors
    /// If it fails, as for [`run`](Self::run).
    pub fn run_one<C: Call>(
        &mut self,
        settings: &Settings,
        what: impl Fn() -> String,
        call: C,
    ) -> Result<C, DaosError> {
        let mut ended = None;
        let library = self.library;
        self.run(settings, &what, [call], |call, code| {
            ended = Some(call);
            library.check(code, &what)
        })?;
        // an operation that is not in flight any more has ended
        ended.ok_or_else(|| DaosError::Interrupted { what: what() })
    }

    /// Starts an operation; if that fails, returns it with the code.
    fn start<C: Call>(&self, call: C) -> Result<NonNull<Running<C>>, (C, c_int)> {
        let event = Event::NEW;
        let place = Box::into_raw(Box::new(Running { event, call }));
        // SAFETY: the box was just made. It stays where it is until `ended` or `free` makes it a box again, after the queue
        // has returned its event; or until the code says that the operation was not started.
        unsafe {
            let event = &raw mut (*place).event;
            let mut code = (self.library.api.event_init)(event, self.handle, ptr::null_mut());
            if code == 0 {
                code = (*place).call.start(self.library, event);
                if code == 0 {
                    return Ok(NonNull::new_unchecked(place));
                }
                (self.library.api.event_fini)(event);
            }
            Err((Box::from_raw(place).call, code))
        }
    }

    /// Waits until operations end; returns how many.
    fn poll(
        &self,
        wait: Duration,
        events: &mut [*mut Event; MOST_EVENTS],
    ) -> Result<usize, DaosError> {
        let wait = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
        let most = u32::try_from(MOST_EVENTS).unwrap_or(1);
        // SAFETY: the queue is this one's; the library writes at most as many pointers as there is room for.
        let n = unsafe {
            (self.library.api.queue_poll)(self.handle, 1, wait, most, events.as_mut_ptr())
        };
        self.library.check(n, || "wait for DAOS".into())?;
        Ok(usize::try_from(n).unwrap_or_default().min(MOST_EVENTS))
    }

    /// An operation that has ended, with its code; none if the event is of another one.
    fn ended<C: Call>(
        &self,
        event: *mut Event,
        running: &mut Vec<NonNull<Running<C>>>,
    ) -> Option<(C, c_int)> {
        // SAFETY: all are in flight, so their places are valid.
        let is_it = |place: &NonNull<Running<C>>| {
            ptr::eq(unsafe { &raw const (*place.as_ptr()).event }, event)
        };
        let place = running.swap_remove(running.iter().position(is_it)?);
        // SAFETY: the queue has returned the event, so the library does not use the operation any more.
        unsafe {
            let code = (*event).error;
            (self.library.api.event_fini)(event);
            Some((Box::from_raw(place.as_ptr()).call, code))
        }
    }

    /// Leaves operations to themselves.
    fn abandon<C: Call>(&mut self, running: Vec<NonNull<Running<C>>>) {
        self.abandoned
            .extend(running.into_iter().map(|place| Abandoned {
                // SAFETY: the operation is in flight, so its place is valid.
                event: unsafe { &raw mut (*place.as_ptr()).event },
                // SAFETY: it is called once, after the queue has returned the event.
                free: Box::new(move || drop(unsafe { Box::from_raw(place.as_ptr()) })),
            }));
    }

    /// Frees an abandoned operation that has ended.
    fn free(&mut self, event: *mut Event) {
        let is_it = |abandoned: &Abandoned| ptr::eq(abandoned.event, event);
        if let Some(at) = self.abandoned.iter().position(is_it) {
            let abandoned = self.abandoned.swap_remove(at);
            // SAFETY: the queue has returned the event.
            unsafe { (self.library.api.event_fini)(event) };
            (abandoned.free)();
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        let since = Instant::now();
        while !self.abandoned.is_empty() && since.elapsed() < CLEARING_UP {
            let mut events = [ptr::null_mut(); MOST_EVENTS];
            let Ok(n) = self.poll(PULSE, &mut events) else {
                break;
            };
            events
                .into_iter()
                .take(n)
                .for_each(|event| self.free(event));
        }
        if self.abandoned.is_empty() {
            // SAFETY: nothing is in flight, and nobody else has the handle.
            unsafe { (self.library.api.queue_destroy)(self.handle, 0) };
        } else {
            // the library may still write to this memory
            std::mem::take(&mut self.abandoned)
                .into_iter()
                .for_each(std::mem::forget);
        }
    }
}

impl Debug for Queue {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "Queue({})", self.abandoned.len())
    }
}

/// The queues of a pool, created when they are needed.
#[derive(Debug)]
pub(crate) struct Queues {
    library: &'static DaosLibrary,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    idle: Vec<Queue>,
    n: usize,
}

impl Queues {
    pub fn new(library: &'static DaosLibrary) -> Self {
        Self {
            library,
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    /// Does work with a queue that nobody else uses. If all are in use, waits for one.
    pub fn with<T>(
        &self,
        settings: &Settings,
        work: impl FnOnce(&mut Queue) -> Result<T, DaosError>,
    ) -> Result<T, DaosError> {
        let mut queue = Lent {
            queue: Some(self.take(settings)?),
            queues: self,
        };
        match &mut queue.queue {
            Some(queue) => work(queue),
            None => Err(DaosError::Interrupted {
                what: "get an event queue".into(),
            }),
        }
    }

    fn take(&self, settings: &Settings) -> Result<Queue, DaosError> {
        let since = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(queue) = state.idle.pop() {
                return Ok(queue);
            }
            if state.n < MOST_QUEUES {
                match Queue::new(self.library) {
                    Ok(queue) => {
                        state.n += 1;
                        return Ok(queue);
                    }
                    // there may be no further network context
                    Err(error) if state.n == 0 => return Err(error),
                    Err(_) => {}
                }
            }
            let what = || "wait for a free event queue".to_owned();
            if since.elapsed() >= settings.timeout {
                let after = settings.timeout;
                return Err(DaosError::TimedOut {
                    what: what(),
                    after,
                });
            }
            if !(settings.goes_on)() {
                return Err(DaosError::Interrupted { what: what() });
            }
            let waited = self.freed.wait_timeout(state, PULSE);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// A queue in use; it is given back even after a panic.
struct Lent<'q> {
    queue: Option<Queue>,
    queues: &'q Queues,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self
            .queues
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        state.idle.extend(self.queue.take());
        drop(state);
        self.queues.freed.notify_one();
    }
}
