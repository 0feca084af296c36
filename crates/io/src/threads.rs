//! Tasks on several threads.

use std::sync::{Mutex, PoisonError};

use crate::{IoError, Together};

/// An error that may be an interruption.
pub trait MayInterrupt {
    /// Whether it is one.
    fn is_interruption(&self) -> bool;
}

impl MayInterrupt for IoError {
    fn is_interruption(&self) -> bool {
        matches!(self, Self::Interrupted { .. })
    }
}

/// Does tasks, on a thread for each worker; their results come in order. When one is interrupted, those that wait for
/// servers end as well.
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
    let work = |worker: &mut W| {
        let mut own = Vec::new();
        while let Some((at, task)) = next() {
            let result = together.work(|| work(worker, task));
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
            scope.spawn(|| work(worker));
        }
        first.map(work);
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
