//! Writing many containers and products with few requests, at once or in the background.

use femtobarn::events::{BatchOptions, EventsError, ProductName, WriteBatch};

use super::descriptor::fb_descriptor;
use super::error::{border, fb_error, free, handle, taken};
use super::input::{fb_bytes, fb_text, given, given_mut, product_name};
use super::product::{fb_overwrite, fb_products, overwrite};
use super::store::fb_store;

/// How many product names a batch caches, so that each is parsed once.
const REMEMBERED: usize = 8;

/// Limits of a batch, and its number of background threads. Zero stands for the default.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_batch_options {
    /// Maximum number of containers and products collected for one target of the store.
    pub max_items: usize,
    /// Maximum number of product bytes collected for one target.
    pub max_bytes: usize,
    /// Threads that write in the background; with 0, the call that fills the batch writes it.
    pub threads: usize,
    /// What happens to products that exist already.
    pub if_there: fb_overwrite,
}

/// Collects containers and products, and writes them when there are many.
pub struct fb_write_batch {
    batch: WriteBatch,
    names: Vec<ProductName>,
}

impl fb_write_batch {
    fn name(&mut self, text: &str) -> Result<ProductName, EventsError> {
        if let Some(known) = self.names.iter().find(|name| name.as_str() == text) {
            return Ok(known.clone());
        }
        let name = product_name(text)?;
        if self.names.len() == REMEMBERED {
            self.names.clear();
        }
        self.names.push(name.clone());
        Ok(name)
    }
}

fn read(options: Option<&fb_batch_options>) -> Result<BatchOptions, EventsError> {
    let usual = BatchOptions::default();
    let Some(options) = options else {
        return Ok(usual);
    };
    let or = |given: usize, usual: usize| if given == 0 { usual } else { given };
    Ok(BatchOptions {
        max_items: or(options.max_items, usual.max_items),
        max_bytes: or(options.max_bytes, usual.max_bytes),
        overwrite: overwrite(options.if_there)?,
        threads: options.threads,
    })
}

/// Creates an empty batch; pass NULL for the default options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_new(
    store: *const fb_store,
    options: *const fb_batch_options,
    error: *mut *mut fb_error,
) -> *mut fb_write_batch {
    let make = || {
        // SAFETY: the caller passes a store, and options or NULL.
        let (store, options) = unsafe { (given(store)?, options.as_ref()) };
        let batch = WriteBatch::new(&store.store, read(options)?);
        let names = Vec::new();
        Ok(handle(fb_write_batch { batch, names }))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// Adds a run, subrun or event. Writes the batch if it is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_create(
    batch: *mut fb_write_batch,
    container: *const fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a batch and a descriptor.
        let (batch, container) = unsafe { (given_mut(batch)?, given(container)?) };
        batch.batch.create(container.read()?).map(|()| true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Adds a product. Writes the batch if it is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_store(
    batch: *mut fb_write_batch,
    container: *const fb_descriptor,
    name: fb_text,
    value: fb_bytes,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a batch, a descriptor, a string and bytes.
        let (batch, container, name, value) = unsafe {
            let (batch, container) = (given_mut(batch)?, given(container)?);
            (batch, container, name.read()?, value.read())
        };
        let name = batch.name(name)?;
        let container = container.read()?;
        batch.batch.store(container, &name, value).map(|()| true)
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Writes everything collected, and returns when it is as durable as the store makes it. Items that could not be
/// written stay in the batch; the next call tries them again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_flush(
    batch: *mut fb_write_batch,
    error: *mut *mut fb_error,
) -> bool {
    // SAFETY: the caller passes a batch.
    let make = || unsafe { given_mut(batch) }?.batch.flush().map(|()| true);
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Returns the number of collected containers and products that are not being written yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_len(batch: *const fb_write_batch) -> usize {
    // SAFETY: the caller passes a batch that is not freed, or NULL.
    unsafe { batch.as_ref() }.map_or(0, |batch| batch.batch.len())
}

/// Returns the products that existed and were kept (FB_KEEP), as known after the last flush. Each is returned once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_take_kept(batch: *mut fb_write_batch) -> *mut fb_products {
    // SAFETY: the caller passes a batch that is not freed, or NULL.
    let batch = unsafe { batch.as_mut() };
    let found = batch.map(|batch| batch.batch.take_kept());
    handle(fb_products {
        found: found.unwrap_or_default(),
    })
}

/// Writes everything collected and frees the batch, also if writing fails: items that could not be written are then
/// lost.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_close(
    batch: *mut fb_write_batch,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller passes a batch that is not freed, or NULL.
        let batch = unsafe { taken(batch) };
        batch.map_or(Ok(true), |batch| batch.batch.finish().map(|_| true))
    };
    // SAFETY: the caller passes an error pointer or NULL.
    unsafe { border(error, false, make) }
}

/// Writes everything collected and frees the batch. Errors go to standard error; call fb_write_batch_flush before to
/// handle them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_free(batch: *mut fb_write_batch) {
    // SAFETY: the caller passes a batch that is not freed, or NULL.
    unsafe { free(batch) };
}
