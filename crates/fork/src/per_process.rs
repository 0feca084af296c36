//! Values that each process creates for itself.

use std::fmt::{Debug, Formatter};
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Process, lock};

/// A value that a process creates once and shares; forked processes create their own. A parent's value is leaked:
/// dropping it would wait for threads that do not exist after the fork, or close the parent's connections.
pub struct PerProcess<T>(Mutex<Option<(Process, Own<T>)>>);

/// The value of a process. A child does not use its lock, which a thread of the parent may have held during the fork.
type Own<T> = Arc<Mutex<Option<T>>>;

impl<T> PerProcess<T> {
    /// Without a value.
    pub const fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// With the value of this process.
    pub fn of(value: T) -> Self {
        let own = Arc::new(Mutex::new(Some(value)));
        Self(Mutex::new(Some((Process::this(), own))))
    }

    fn own(&self) -> Own<T> {
        let this = Process::this();
        let mut shared = lock(&self.0);
        match &*shared {
            Some((owner, own)) if *owner == this => own.clone(),
            _ => {
                let own = Own::default();
                mem::forget(shared.replace((this, own.clone())));
                own
            }
        }
    }

    /// Forgets the value of this process, so that it is created again.
    pub fn clear(&self) {
        *self.own().lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl<T: Clone> PerProcess<T> {
    /// The value of this process, if it was created.
    pub fn known(&self) -> Option<T> {
        let own = self.own();
        let value = own.lock().unwrap_or_else(PoisonError::into_inner);
        value.clone()
    }

    /// The value of this process, created at first use; other threads wait for that.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn get<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let own = self.own();
        let mut value = own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*value {
            return Ok(known.clone());
        }
        Ok(value.insert(make()?).clone())
    }
}

impl<T> Default for PerProcess<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Debug for PerProcess<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        f.write_str("PerProcess")
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let shared = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((owner, own)) = shared
            && !owner.is_this()
        {
            mem::forget(own.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use femtobarn_testkit::in_a_fork;

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
        assert!(in_a_fork(|| get(&VALUE, 2) == 2));
        assert_eq!(maker.join().unwrap(), Ok(1));
        assert_eq!(VALUE.known(), Some(1));
        assert!(in_a_fork(|| VALUE.known().is_none()));
    }
}
