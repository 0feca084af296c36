//! Values that each process creates for itself.

#![expect(
    unsafe_code,
    reason = "a lock could be held by another thread during a fork, and would stay locked in the child"
)]

use std::fmt::{Debug, Formatter};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, PoisonError};

/// A value that a process creates once and shares; forked processes create their own. The value of a parent is never
/// touched and never dropped in a child: its connections and locks belong to threads that do not exist there.
pub(crate) struct PerProcess<T>(AtomicPtr<Own<T>>, PhantomData<Mutex<Option<T>>>);

struct Own<T> {
    process: u32,
    value: Mutex<Option<T>>,
}

impl<T> PerProcess<T> {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()), PhantomData)
    }

    fn own(&self) -> &Own<T> {
        let process = std::process::id();
        let mut known = self.0.load(Ordering::Acquire);
        loop {
            // SAFETY: a pointer that was stored here is freed only in `drop`, which has no other users.
            if let Some(own) = unsafe { known.as_ref() }
                && own.process == process
            {
                return own;
            }
            let value = Mutex::new(None);
            let own = Box::into_raw(Box::new(Own { process, value }));
            match self
                .0
                .compare_exchange(known, own, Ordering::AcqRel, Ordering::Acquire)
            {
                // SAFETY: as above; the parent's value is leaked on purpose.
                Ok(_) => return unsafe { &*own },
                Err(found) => {
                    // SAFETY: nobody else has this pointer, as it was not stored.
                    drop(unsafe { Box::from_raw(own) });
                    known = found;
                }
            }
        }
    }
}

impl<T: Clone> PerProcess<T> {
    /// The value of this process, created at first use; other threads wait for that.
    pub fn get<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let mut value = self
            .own()
            .value
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*value {
            return Ok(known.clone());
        }
        Ok(value.insert(make()?).clone())
    }

    /// Forgets the value of this process, so that it is created again.
    pub fn clear(&self) {
        *self
            .own()
            .value
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let known = *self.0.get_mut();
        // SAFETY: `drop` has the only reference; the pointer is of a box or null.
        if unsafe { known.as_ref() }.is_some_and(|own| own.process == std::process::id()) {
            // SAFETY: the same.
            drop(unsafe { Box::from_raw(known) });
        }
    }
}

impl<T> Debug for PerProcess<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("PerProcess")
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;

    use super::*;

    fn get<T: Clone>(from: &PerProcess<T>, made: T) -> T {
        from.get(|| Ok::<_, Infallible>(made)).unwrap()
    }

    #[test]
    fn a_value_is_made_once_and_again_after_it_was_cleared() {
        let value = PerProcess::new();
        assert_eq!([get(&value, 1), get(&value, 2)], [1, 1]);
        value.clear();
        assert_eq!(get(&value, 3), 3);
        assert_eq!(PerProcess::<i32>::new().get(|| Err("no")), Err("no"));
    }

    #[test]
    fn a_value_is_dropped_with_its_holder() {
        let value = Arc::new(());
        let holder = PerProcess::new();
        get(&holder, value.clone());
        assert_eq!(Arc::strong_count(&value), 2);
        drop(holder);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn a_forked_process_makes_its_own_while_a_thread_of_the_parent_makes_one() {
        static VALUE: PerProcess<i32> = PerProcess::new();
        let (sender, receiver) = std::sync::mpsc::channel();
        let maker = std::thread::spawn(move || {
            VALUE.get(|| {
                sender.send(()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(300));
                Ok::<_, Infallible>(1)
            })
        });
        receiver.recv().unwrap();
        // SAFETY: the child takes only locks that it makes, and ends.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(20);
                libc::_exit(get(&VALUE, 2));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &raw mut status, 0), child);
            status
        };
        assert!(
            libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 2,
            "{status}"
        );
        assert_eq!(maker.join().unwrap().unwrap(), 1);
    }
}
