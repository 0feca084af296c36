//! The runtime on which asynchronous sources do their work, one for the process, and how to end waiting for it.

use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::IoError;

/// Threads that wait for sockets; what they get is decoded elsewhere.
const THREADS: usize = 2;

/// How often it is asked whether to go on.
const PULSE: Duration = Duration::from_millis(100);

/// The runtime, and the process that made it: after a fork its threads are gone.
static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);

static GOES_ON: OnceLock<fn() -> bool> = OnceLock::new();

/// From now on, threads that wait for servers ask this ten times a second whether to go on; if not, what they wait for fails
/// as interrupted. Only the first one that is given counts.
pub fn while_waiting(goes_on: fn() -> bool) {
    GOES_ON.get_or_init(|| goes_on);
}

/// Does asynchronous work for a source, and waits for it.
///
/// # Errors
/// If the system gives no threads, or the waiting is ended.
pub(crate) fn wait_for<T>(url: &str, work: impl Future<Output = T>) -> Result<T, IoError> {
    let runtime = runtime().map_err(|source| IoError::from_open(url, source))?;
    runtime.block_on(async {
        tokio::pin!(work);
        let mut pulse = tokio::time::interval(PULSE);
        loop {
            tokio::select! {
                done = &mut work => return Ok(done),
                _ = pulse.tick() => {
                    if GOES_ON.get().is_some_and(|goes_on| !goes_on()) {
                        let url = url.to_owned();
                        return Err(IoError::Interrupted { url });
                    }
                }
            }
        }
    })
}

/// The number of the process whose runtime that is: what was opened by another one is not to be used in this one.
pub(crate) fn process() -> u32 {
    std::process::id()
}

fn runtime() -> std::io::Result<Arc<Runtime>> {
    let mut shared = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    match &*shared {
        Some((process, runtime)) if *process == std::process::id() => Ok(runtime.clone()),
        _ => {
            let made = Builder::new_multi_thread()
                .worker_threads(THREADS)
                .thread_name("femtobarn-io")
                .enable_all()
                .build()?;
            let made = Arc::new(made);
            let old = shared.replace((std::process::id(), made.clone()));
            // to drop one whose threads are gone would wait for them
            std::mem::forget(old);
            Ok(made)
        }
    }
}
