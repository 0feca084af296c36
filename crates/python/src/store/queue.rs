//! Queues between programs.

use super::*;

/// A queue.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Queue {
    pub(super) queue: std::sync::RwLock<femtobarn::events::Queue>,
}

impl Queue {
    fn read(&self) -> std::sync::RwLockReadGuard<'_, femtobarn::events::Queue> {
        self.queue
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[pymethods]
impl Queue {
    fn push(&self, py: Python<'_>, value: &[u8]) -> PyResult<()> {
        detached(py, || self.read().push(value))
    }

    /// The next value; None if no producer has the queue open any more.
    fn pop<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let found = detached(py, || self.read().pop(&goes_on))?;
        if let Some(raised) = crate::error::take_raised() {
            return Err(raised);
        }
        Ok(found.map(|value| PyBytes::new(py, &value)))
    }

    /// A value, if there is one, and whether the queue has ended; does not wait.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<(Option<Bound<'py, PyBytes>>, bool)> {
        Ok(match detached(py, || self.read().take())? {
            Taken::Value(value) => (Some(PyBytes::new(py, &value)), false),
            Taken::Nothing => (None, false),
            Taken::Ended => (None, true),
        })
    }

    /// Puts a value back to the front.
    fn put_back(&self, py: Python<'_>, value: &[u8]) -> PyResult<()> {
        detached(py, || self.read().put_back(value))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || {
            let mut queue = self
                .queue
                .write()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            queue.close()
        })
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        let n = detached(py, || self.read().len())?;
        Ok(usize::try_from(n).unwrap_or(usize::MAX))
    }
}
