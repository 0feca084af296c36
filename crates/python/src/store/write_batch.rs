//! Write batches.

use femtobarn::rows::Rows;

use super::*;

/// Collects containers and products, and writes them.
///
/// No thread waits for the lock while it holds the GIL: the holder of the lock may be writing, and need the GIL for an
/// error.
#[pyclass(frozen, module = "femtobarn._core")]
pub struct WriteBatch {
    pub(super) batch: Mutex<Option<femtobarn::events::WriteBatch>>,
    pub(super) origin: Arc<Origin>,
}

/// A product that was kept: its container, label and type.
type Kept = (Container, String, String);

impl WriteBatch {
    fn kept(&self, ids: Vec<ProductId>) -> Vec<Kept> {
        let one = |id: ProductId| {
            let container = Container {
                origin: self.origin.clone(),
                descriptor: id.container,
            };
            let (label, type_name) = (id.name.label(), id.name.type_name());
            (container, label.to_owned(), type_name.to_owned())
        };
        ids.into_iter().map(one).collect()
    }

    fn with<T>(
        &self,
        run: impl FnOnce(&mut femtobarn::events::WriteBatch) -> Result<T, EventsError>,
    ) -> PyResult<T> {
        match locked(&self.batch).as_mut() {
            Some(batch) => run(batch).map_err(events_to_python),
            None => Err(usage("the batch is closed")),
        }
    }

    /// Stores encoded values as products of containers.
    fn store_each(
        &self,
        py: Python<'_>,
        keys: &[u8],
        product: &ProductName,
        encoded: &Rows,
    ) -> PyResult<()> {
        let events = keys.chunks(Descriptor::LENGTH).map(to_descriptor);
        let events = events.collect::<PyResult<Vec<_>>>()?;
        let store = |batch: &mut femtobarn::events::WriteBatch| {
            for (at, event) in events.iter().enumerate() {
                batch.store(*event, product, encoded.get(at).unwrap_or_default())?;
            }
            Ok(())
        };
        py.detach(|| self.with(store))
    }
}

#[pymethods]
impl WriteBatch {
    fn create(&self, py: Python<'_>, container: &Bound<'_, Container>) -> PyResult<()> {
        let container = container.get().descriptor;
        py.detach(|| self.with(|batch| batch.create(container)))
    }

    fn store(
        &self,
        py: Python<'_>,
        container: &Bound<'_, Container>,
        name: Name,
        value: &[u8],
    ) -> PyResult<()> {
        let (container, name) = (container.get().descriptor, product_name(&name)?);
        py.detach(|| self.with(|batch| batch.store(container, &name, value)))
    }

    /// Stores the values of a column as products of containers; or values as they are.
    fn store_rows(
        &self,
        py: Python<'_>,
        keys: &[u8],
        name: Name,
        values: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let product = product_name(&name)?;
        if let Ok(encoded) = values.cast::<Encoded>() {
            return self.store_each(py, keys, &product, &encoded.get().rows);
        }
        let (array, _) = values.cast::<Batches>()?.get().single()?;
        let n = keys.len() / Descriptor::LENGTH;
        if array.len() != n {
            let message = format!("{} values for {n} events", array.len());
            return Err(usage(message));
        }
        let rows = detached(py, || self.origin.types.of(&name.1, &name.0))?;
        let encoded = py.detach(|| rows.encode(&array)).map_err(to_python)?;
        self.store_each(py, keys, &product, &encoded)
    }

    /// Creates containers, given by their concatenated keys, and their parents.
    fn create_all(&self, py: Python<'_>, keys: &[u8]) -> PyResult<()> {
        let all = keys.chunks(Descriptor::LENGTH).map(to_descriptor);
        let all = all.collect::<PyResult<Vec<_>>>()?;
        py.detach(|| self.with(|batch| batch.create_all(&all)))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.with(|batch| batch.flush()))
    }

    fn write_all(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.with(femtobarn::events::WriteBatch::write_all))
    }

    fn take_kept(&self, py: Python<'_>) -> PyResult<Vec<Kept>> {
        let ids = py.detach(|| self.with(|batch| Ok(batch.take_kept())))?;
        Ok(self.kept(ids))
    }

    /// Writes the rest and closes the batch. Returns the products that were kept.
    fn close(&self, py: Python<'_>) -> PyResult<Vec<Kept>> {
        let Some(batch) = py.detach(|| locked(&self.batch).take()) else {
            return Ok(Vec::new());
        };
        let written = detached(py, || batch.finish())?;
        Ok(self.kept(written.kept))
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        let len = || {
            let batch = locked(&self.batch);
            batch.as_ref().map_or(0, femtobarn::events::WriteBatch::len)
        };
        py.detach(len)
    }
}
