//! Loaded events and some of their products.

use super::*;

/// Iterates over events and some of their products.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Loader {
    pub(super) loader: Mutex<Option<femtobarn::events::Loader>>,
    pub(super) passed: Passed,
    pub(super) origin: Arc<Origin>,
    pub(super) names: Vec<ProductName>,
}

#[pymethods]
impl Loader {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Events>> {
        let next = || {
            locked(&self.loader)
                .as_mut()
                .and_then(Iterator::next)
                .transpose()
        };
        let Some(loaded) = detached(py, next)? else {
            return Ok(None);
        };
        Ok(Some(Events {
            range: 0..loaded.len(),
            loaded: Arc::new(loaded),
            origin: self.origin.clone(),
            names: self.names.clone(),
        }))
    }

    /// Raises if runs or subruns that were listed do not exist any more, also after `close`.
    fn check_left(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.passed.check_left())
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| drop(locked(&self.loader).take()));
    }
}

/// Loaded events, or a part of them.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct Events {
    pub(super) loaded: Arc<Loaded>,
    pub(super) range: Range<usize>,
    pub(super) origin: Arc<Origin>,
    pub(super) names: Vec<ProductName>,
}

#[pymethods]
impl Events {
    fn __len__(&self) -> usize {
        self.range.len()
    }

    /// A part of these events.
    fn part(&self, start: usize, n: usize) -> Self {
        let start = self.range.end.min(self.range.start.saturating_add(start));
        Self {
            loaded: self.loaded.clone(),
            range: start..self.range.end.min(start.saturating_add(n)),
            origin: self.origin.clone(),
            names: self.names.clone(),
        }
    }

    /// Their keys, concatenated.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let n = self.range.len() * Descriptor::LENGTH;
        PyBytes::new_with(py, n, |bytes| {
            let events = self.loaded.descriptors_in(self.range.clone());
            for (place, event) in bytes.chunks_mut(Descriptor::LENGTH).zip(events) {
                place.copy_from_slice(&event.to_bytes());
            }
            Ok(())
        })
    }

    /// One of them.
    fn container(&self, at: usize) -> PyResult<Container> {
        let at = self.range.start.saturating_add(at);
        let event = self.loaded.descriptors_in(at..at.saturating_add(1)).next();
        Ok(Container {
            origin: self.origin.clone(),
            descriptor: event.ok_or_else(|| usage("there are fewer events"))?,
        })
    }

    /// The stored value of one product of an event.
    fn value<'py>(
        &self,
        py: Python<'py>,
        product: usize,
        event: usize,
    ) -> Option<Bound<'py, PyBytes>> {
        let event = self.range.clone().nth(event)?;
        let value = self.loaded.products.get(product)?.get(event)?;
        Some(PyBytes::new(py, value))
    }

    /// For each product, how many of these events have it.
    fn counts(&self) -> Vec<usize> {
        let count = |values: &femtobarn::events::Values| {
            let own = values.iter().skip(self.range.start).take(self.range.len());
            own.flatten().count()
        };
        self.loaded.products.iter().map(count).collect()
    }

    /// The products as columns.
    fn arrays(&self, py: Python<'_>, with_numbers: bool) -> PyResult<Batch> {
        let columns = || {
            let pieces = [(&*self.loaded, self.range.clone())];
            let Origin { store, types, .. } = &*self.origin;
            products::columns(types, store, &pieces, &self.names, with_numbers)
        };
        let arrays = detached(py, columns)?;
        Ok(Batch::plain(arrays, self.origin.store.url()))
    }
}
