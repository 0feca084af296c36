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
}

/// A locked value; forks wait until it is dropped.
pub struct Locked<'a, T> {
    // dropped in this order
    lock: MutexGuard<'a, T>,
    _fork: RwLockReadGuard<'static, ()>,
}

/// Locks data that are consistent even after a panic. Forks wait for the lock, so it must be held only briefly. While
/// it is held, this function must not lock anything else.
pub fn lock<T>(mutex: &Mutex<T>) -> Locked<'_, T> {
    Process::this(); // registers the handlers that make forks wait
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

    use super::*;
    use crate::runtime::PerProcess;

    /// Forks; the child exits with the code that it finds. If it waits forever, an alarm ends it.
    fn code_of_child(find: impl FnOnce() -> i32) -> i32 {
        // SAFETY: what the child finds needs locks and memory only.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(20);
                libc::_exit(find());
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            assert!(libc::WIFEXITED(status), "{status}");
            libc::WEXITSTATUS(status)
        }
    }

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
        assert_eq!(code_of_child(|| *lock(&NUMBER)), 0);
        holder.join().unwrap();
    }

    #[test]
    fn a_child_does_not_wait_for_a_value_that_its_parent_makes() {
        static VALUE: PerProcess<i32> = PerProcess::new();
        let (sender, receiver) = channel();
        let maker = thread::spawn(move || {
            VALUE.get(|| {
                sender.send(()).unwrap();
                thread::sleep(Duration::from_millis(300));
                Ok::<_, ()>(1)
            })
        });
        receiver.recv().unwrap();
        assert_eq!(code_of_child(|| VALUE.get(|| Ok::<_, ()>(2)).unwrap()), 2);
        assert_eq!(maker.join().unwrap(), Ok(1));
        assert_eq!(VALUE.known(), Some(1));
        assert_eq!(code_of_child(|| VALUE.known().unwrap_or(3)), 3);
    }
}
