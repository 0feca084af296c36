//! Fork safety. After a fork, threads do not exist in the child, and locks held by other threads stay locked. So locks
//! that forked processes need are never held during a fork.

#![expect(
    unsafe_code,
    reason = "a fork handler costs nothing until a fork happens; getpid costs as much as loading a product"
)]

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{
    Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

mod per_process;

pub use per_process::PerProcess;

/// Distinguishes this process from those that it was forked from.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process that created an object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process(u32);

impl Process {
    /// The current process.
    pub fn this() -> Self {
        static IS_TOLD: OnceLock<bool> = OnceLock::new();
        // SAFETY: may be called at any time; the handlers only lock and unlock locks of this module, on the forking
        // thread.
        let told = || unsafe { libc::pthread_atfork(Some(hold), Some(release), Some(begin)) } == 0;
        match IS_TOLD.get_or_init(told) {
            true => Self(FORKS.load(Ordering::Relaxed)),
            false => Self(process::id()),
        }
    }

    /// Whether this is the current process, and not one of its ancestors.
    pub fn is_this(self) -> bool {
        self == Self::this()
    }
}

/// Held while a lock is held, so that no lock is held during a fork: the child could never release it.
static FORK: RwLock<()> = RwLock::new(());

thread_local! {
    /// The lock that this thread holds while it forks.
    static HELD: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
    /// How many locks this thread holds, and what makes forks wait meanwhile. A thread does not take `FORK` twice: a fork
    /// that waits in between would stop both.
    static LOCKS: RefCell<(usize, Option<RwLockReadGuard<'static, ()>>)> = const { RefCell::new((0, None)) };
}

/// A locked value; forks wait until it is dropped.
pub struct Locked<'a, T> {
    // dropped in this order
    lock: MutexGuard<'a, T>,
    _no_fork: NoFork,
}

/// Makes forks wait until it is dropped. It has a guard of its own in a thread that is ending.
struct NoFork(Option<RwLockReadGuard<'static, ()>>);

impl NoFork {
    fn begin() -> Self {
        Process::this(); // registers the handlers that make forks wait
        let hold = || Some(FORK.read().unwrap_or_else(PoisonError::into_inner));
        let counted = LOCKS.try_with(|locks| {
            let (n, fork) = &mut *locks.borrow_mut();
            if *n == 0 {
                *fork = hold();
            }
            *n += 1;
        });
        Self(if counted.is_ok() { None } else { hold() })
    }
}

impl Drop for NoFork {
    fn drop(&mut self) {
        if self.0.is_some() {
            return;
        }
        let _ = LOCKS.try_with(|locks| {
            let (n, fork) = &mut *locks.borrow_mut();
            *n -= 1;
            if *n == 0 {
                *fork = None;
            }
        });
    }
}

/// Locks data that are consistent even after a panic. Forks wait for the lock, so it must be held only briefly, and
/// nothing may be forked by the thread that holds it.
pub fn lock<T>(mutex: &Mutex<T>) -> Locked<'_, T> {
    let no_fork = NoFork::begin();
    Locked {
        lock: mutex.lock().unwrap_or_else(PoisonError::into_inner),
        _no_fork: no_fork,
    }
}

impl<T> Deref for Locked<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.lock
    }
}

impl<T> DerefMut for Locked<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.lock
    }
}

extern "C" fn hold() {
    let fork = FORK.write().unwrap_or_else(PoisonError::into_inner);
    // A thread that is ending may not have this value any more.
    let _ = HELD.try_with(|held| held.replace(Some(fork)));
}

extern "C" fn release() {
    let _ = HELD.try_with(RefCell::take);
}

/// Called in each forked process by its only thread.
extern "C" fn begin() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    release();
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use femtobarn_testkit::in_a_fork;

    use super::*;

    #[test]
    fn a_process_is_forked_when_nobody_has_a_lock() {
        static NUMBER: Mutex<i32> = Mutex::new(1);
        let (sender, receiver) = channel();
        let holder = thread::spawn(move || {
            let mut number = lock(&NUMBER);
            sender.send(()).unwrap();
            thread::sleep(Duration::from_millis(300));
            *number = 0;
        });
        receiver.recv().unwrap();
        assert!(in_a_fork(|| *lock(&NUMBER) == 0));
        holder.join().unwrap();
    }

    #[test]
    fn a_thread_takes_a_second_lock_while_a_fork_waits_for_the_first() {
        static NUMBERS: [Mutex<i32>; 2] = [Mutex::new(0), Mutex::new(0)];
        let (sender, receiver) = channel();
        let holder = thread::spawn(move || {
            let first = lock(&NUMBERS[0]);
            sender.send(()).unwrap();
            thread::sleep(Duration::from_millis(300));
            let mut second = lock(&NUMBERS[1]);
            drop(first);
            thread::sleep(Duration::from_millis(100));
            *second = 7;
        });
        receiver.recv().unwrap();
        assert!(in_a_fork(|| *lock(&NUMBERS[1]) == 7));
        holder.join().unwrap();
    }
}
