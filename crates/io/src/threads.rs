//! Runs tasks on several threads.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::{IoError, PULSE, Together, goes_on};

/// An error that may be an interruption.
pub trait MayInterrupt {
    /// Whether the error is an interruption.
    fn is_interruption(&self) -> bool;

    /// The error for work that the caller has stopped.
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

/// Runs tasks with one thread per worker. The first worker is the caller's thread. The results are in the order of the
/// tasks. If a task is interrupted, the tasks that wait for servers stop as well. The caller's thread calls [`goes_on`] between its tasks,
/// because Python handles signals on its main thread.
///
/// # Errors
/// The error of the first task that fails.
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
                // earlier tasks were taken before
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
