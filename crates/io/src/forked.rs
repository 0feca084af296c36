//! What a fork does not bring along: threads, and what others were about to do with locks. So a lock that processes need which
//! are forked from this one is held only where no fork happens.

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

/// The number of this process among forked ones.
static FORKS: AtomicU32 = AtomicU32::new(0);

/// The process in which something was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Process(u32);

impl Process {
    /// This one.
    pub fn this() -> Self {
        static IS_TOLD: OnceLock<bool> = OnceLock::new();
        // SAFETY: it may be called at any time; the functions lock and unlock, in the thread that forks, what only they lock.
        let told = || unsafe { libc::pthread_atfork(Some(hold), Some(release), Some(begin)) } == 0;
        match IS_TOLD.get_or_init(told) {
            true => Self(FORKS.load(Ordering::Relaxed)),
            false => Self(process::id()),
        }
    }

    /// Whether it is this one, and not one that this one was forked from.
    pub fn is_this(self) -> bool {
        self == Self::this()
    }
}

/// Held while a lock is held, so that no lock is held during a fork: the child could never release it.
static FORK: RwLock<()> = RwLock::new(());

thread_local! {
    /// What this thread holds while it forks.
    static HELD: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// A locked value, while forks wait.
pub struct Locked<'a, T> {
    // in this order
    lock: MutexGuard<'a, T>,
    _fork: RwLockReadGuard<'static, ()>,
}

/// Locks data that are always consistent, also after a panic, for a time short enough for forks to wait. While it is
/// held, nothing else may be locked by this function.
pub fn lock<T>(mutex: &Mutex<T>) -> Locked<'_, T> {
    Process::this(); // from now on, forks wait
    let fork = FORK.read().unwrap_or_else(PoisonError::into_inner);
    Locked {
        lock: mutex.lock().unwrap_or_else(PoisonError::into_inner),
        _fork: fork,
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
    // A thread that ends may have it no more.
    let _ = HELD.try_with(|held| held.replace(Some(fork)));
}

extern "C" fn release() {
    let _ = HELD.try_with(RefCell::take);
}

/// Is called in each process that was forked, by its only thread.
extern "C" fn begin() {
    FORKS.fetch_add(1, Ordering::Relaxed);
    release();
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

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
        // SAFETY: the child locks, and ends; if it waits for ever, the alarm ends it.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(20);
                libc::_exit(*lock(&NUMBER));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        };
        assert_eq!(status, 0);
        holder.join().unwrap();
    }
}
