//! Tasks on several threads.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::{IoError, PULSE, Together, goes_on};

/// An error that may be an interruption.
pub trait MayInterrupt {
    /// Whether it is one.
    fn is_interruption(&self) -> bool;

    /// One of work that the caller does not want any more.
    fn interruption() -> Self;
}

impl MayInterrupt for IoError {
    fn is_interruption(&self) -> bool {
        matches!(self, Self::Interrupted { .. })
    }

    fn interruption() -> Self {
        let url = "other work".into();
        Self::Interrupted { url }
    }
}

/// Does tasks, on a thread for each worker, the first of which is the caller's; their results come in order. When one is
/// interrupted, those that wait for servers end as well. The caller's thread asks [`goes_on`] between its tasks: Python
/// handles signals on its main thread.
///
/// # Errors
/// That of the first task that fails.
pub fn on_threads<W: Send, T: Send, R: Send, E: MayInterrupt + Send>(
    workers: &mut [W],
    tasks: Vec<T>,
    work: impl Fn(&mut W, T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let n = tasks.len();
    let tasks = Mutex::new(tasks.into_iter().enumerate());
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).next();
    let done = Mutex::new(Vec::with_capacity(n));
    let together = Together::of_this_thread();
    let work = |worker: &mut W, asks: bool| {
        let mut own = Vec::new();
        let mut asked = Instant::now();
        while let Some((at, task)) = next() {
            let is_due = asks && asked.elapsed() >= PULSE;
            if is_due {
                asked = Instant::now();
            }
            let result = match is_due && !goes_on() {
                true => Err(E::interruption()),
                false => together.work(|| work(worker, task)),
            };
            if let Err(error) = &result {
                if error.is_interruption() {
                    together.stop();
                }
                // earlier ones were taken before
                while next().is_some() {}
            }
            own.push((at, result));
        }
        let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.extend(own);
    };
    let mut workers = workers.iter_mut();
    let first = workers.next();
    std::thread::scope(|scope| {
        for worker in workers.take(n.saturating_sub(1)) {
            scope.spawn(|| work(worker, false));
        }
        if let Some(worker) = first {
            work(worker, true);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
