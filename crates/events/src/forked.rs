//! What a fork does not bring along: threads, and what others were about to do with locks. So what a process has opened is
//! of no use to those that are forked from it, and is let go there without anything being written or waited for; but for
//! stores in a Redis, whose locks are held only where no fork happens.

#![expect(
    unsafe_code,
    reason = "to be told of forks costs nothing in between; to ask the system who we are costs as much as loading a product"
)]

use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{
    Mutex, MutexGuard, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use crate::EventsError;

/// Which process this is, of those that were forked from the first that has asked.
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

    /// Fails in a process that was forked since.
    ///
    /// # Errors
    ///
    /// [`EventsError::Usage`], which says what it was (`dir:a: this store was opened`), and what to do.
    pub fn check(self, what: impl FnOnce() -> String, again: &str) -> Result<(), EventsError> {
        match self.is_this() {
            true => Ok(()),
            false => Err(EventsError::Usage {
                what: format!(
                    "{} before the process was forked: {again} in each process",
                    what()
                ),
            }),
        }
    }
}

/// Held by whoever holds a lock, so that none is held where a process is forked: nobody would ever release it there.
static FORK: RwLock<()> = RwLock::new(());

thread_local! {
    /// What this thread holds while it forks.
    static HELD: RefCell<Option<RwLockWriteGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// What is locked, with forks held up.
pub struct Locked<'a, T> {
    // in this order
    lock: MutexGuard<'a, T>,
    _fork: RwLockReadGuard<'static, ()>,
}

/// Locks what is whole at any time, whatever became of who had it, for so short that forks may wait. Whoever has it locks
/// nothing else by this.
pub fn lock<T>(mutex: &Mutex<T>) -> Locked<'_, T> {
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
