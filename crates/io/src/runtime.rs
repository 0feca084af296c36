//! The runtime of asynchronous sources, one per process, and interruption of waiting.

use std::convert::Infallible;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use femtobarn_fork::PerProcess;
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, interval_at};

use crate::IoError;
use crate::together::is_stopped;

/// Number of threads that wait for sockets; other threads decode the data.
const THREADS: usize = 2;

/// Threads that wait for requests to one of several sources, or for names of servers.
const MOST_THREADS: usize = 4096;

/// Interval for checking whether to continue.
pub const PULSE: Duration = Duration::from_millis(100);

/// Created again after a fork, because its threads do not exist in the child.
static RUNTIME: PerProcess<Arc<Runtime>> = PerProcess::new();

/// Timeout for cleaning up, if the server does not answer any more.
const CLEARING_UP: Duration = Duration::from_secs(3);

static GOES_ON: RwLock<Vec<fn() -> bool>> = RwLock::new(Vec::new());

/// Registers a function that threads waiting for servers call ten times per second. If it returns false, their waiting
/// fails as interrupted. Several functions may be registered, such as Python's and that of the embedding program: each
/// can interrupt the waiting.
pub fn while_waiting(goes_on: fn() -> bool) {
    let mut asked = GOES_ON.write().unwrap_or_else(PoisonError::into_inner);
    asked.push(goes_on);
}

/// Whether all functions allow waiting to continue.
pub fn goes_on() -> bool {
    // called without the lock: the functions may have to wait for other threads
    let asked = GOES_ON
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .clone();
    asked.iter().all(|goes_on| goes_on())
}

/// Runs asynchronous work for a source and waits for it.
///
/// # Errors
/// If the system cannot start threads, or the waiting is interrupted.
pub(crate) fn wait_for<T>(url: &str, work: impl Future<Output = T>) -> Result<T, IoError> {
    let runtime = runtime().map_err(|source| IoError::from_open(url, source))?;
    runtime.block_on(async {
        tokio::pin!(work);
        // most work is done before the first check
        let mut pulse = interval_at(Instant::now() + PULSE, PULSE);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                _ = pulse.tick() => {
                    if is_stopped() || !goes_on() {
                        let url = url.to_owned();
                        return Err(IoError::Interrupted { url });
                    }
                }
            }
        }
    })
}

/// Does work that may wait on a thread of its own, for which nobody waits.
///
/// # Errors
/// If the system cannot start threads.
pub(crate) fn in_background(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    runtime().map(|runtime| drop(runtime.spawn_blocking(work)))
}

/// Work that is done again and again, until this is dropped.
pub(crate) struct Repeating(tokio::task::AbortHandle);

/// Does work that may wait for a disk at each interval from now on; none if the system cannot start threads.
pub(crate) fn repeating(
    interval: Duration,
    work: impl Fn() + Send + Sync + 'static,
) -> Option<Repeating> {
    let work = Arc::new(work);
    let repeat = async move {
        loop {
            tokio::time::sleep(interval).await;
            let work = work.clone();
            let _ = tokio::task::spawn_blocking(move || work()).await;
        }
    };
    Some(Repeating(runtime().ok()?.spawn(repeat).abort_handle()))
}

impl Drop for Repeating {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Runs asynchronous cleanup, limited only by its timeout.
pub(crate) fn clear_up(work: impl Future<Output = ()>) {
    if let Ok(runtime) = runtime() {
        // the cleanup can do nothing if it takes longer
        let _ = runtime.block_on(async { tokio::time::timeout(CLEARING_UP, work).await });
    }
}

/// The process number of the runtime: objects opened by another process must not be used in this one.
pub(crate) fn process() -> u32 {
    std::process::id()
}

/// Values that a process shares between all users with the same settings. If there are very many, some are created
/// again.
pub(crate) struct PerSettings<K, V>(PerProcess<Arc<Pairs<K, V>>>);

type Pairs<K, V> = Mutex<Vec<(K, V)>>;

impl<K: PartialEq + Clone, V: Clone> PerSettings<K, V> {
    /// Maximum number of stored values.
    const MOST: usize = 64;

    pub const fn new() -> Self {
        Self(PerProcess::new())
    }

    fn with<T>(&self, look: impl FnOnce(&mut Vec<(K, V)>) -> T) -> T {
        let all = self.0.get(|| Ok(Arc::default()));
        let all = all.unwrap_or_else(|never: Infallible| match never {});
        look(&mut all.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The client for these settings, if it exists.
    pub fn known(&self, settings: &K) -> Option<V> {
        self.with(|all| found(all, settings))
    }

    /// The client for these settings, created at first use; others wait for that.
    pub fn get<E>(&self, settings: &K, make: impl FnOnce() -> Result<V, E>) -> Result<V, E> {
        self.with(|all| {
            if let Some(known) = found(all, settings) {
                return Ok(known);
            }
            let made = make()?;
            if all.len() >= Self::MOST {
                all.remove(0);
            }
            all.push((settings.clone(), made.clone()));
            Ok(made)
        })
    }
}

fn found<K: PartialEq, V: Clone>(all: &[(K, V)], settings: &K) -> Option<V> {
    let known = all.iter().find(|(known, _)| known == settings);
    known.map(|(_, found)| found.clone())
}

fn runtime() -> std::io::Result<Arc<Runtime>> {
    RUNTIME.get(|| {
        let made = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("femtobarn-io")
            .max_blocking_threads(MOST_THREADS)
            .enable_all()
            .build();
        made.map(Arc::new)
    })
}
