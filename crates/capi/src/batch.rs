//! Writing many containers and products with few requests, at once or in the background.

use femtobarn::events::{BatchOptions, EventsError, ProductName, WriteBatch};

use crate::descriptor::fb_descriptor;
use crate::error::{border, fb_error, free, handle, taken};
use crate::input::{fb_bytes, fb_text, given, given_mut, product_name};
use crate::product::{fb_overwrite, fb_products, overwrite};
use crate::store::fb_store;

/// How many names of products a batch remembers, so that each is made once.
const REMEMBERED: usize = 8;

/// What a batch may hold before it is written, and who writes it. Zeros stand for what is usual.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct fb_batch_options {
    /// Containers and products for one target of the store, at most.
    pub max_items: usize,
    /// Bytes of products for one target, at most.
    pub max_bytes: usize,
    /// Threads that write in the background; with none, who fills a batch writes it.
    pub threads: usize,
    /// What happens to products that are there already.
    pub if_there: fb_overwrite,
}

/// Containers and products that are collected, and written when there are many.
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

/// An empty batch; NULL for the usual options.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_new(
    store: *const fb_store,
    options: *const fb_batch_options,
    error: *mut *mut fb_error,
) -> *mut fb_write_batch {
    let make = || {
        // SAFETY: the caller gives a store, and options or NULL.
        let (store, options) = unsafe { (given(store)?, options.as_ref()) };
        let batch = WriteBatch::new(&store.store, read(options)?);
        let names = Vec::new();
        Ok(handle(fb_write_batch { batch, names }))
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, std::ptr::null_mut(), make) }
}

/// Adds a run, subrun or event; writes, if the batch is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_create(
    batch: *mut fb_write_batch,
    container: *const fb_descriptor,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller gives a batch and a descriptor.
        let (batch, container) = unsafe { (given_mut(batch)?, given(container)?) };
        batch.batch.create(container.read()?).map(|()| true)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// Adds a product; writes, if the batch is full.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_store(
    batch: *mut fb_write_batch,
    container: *const fb_descriptor,
    name: fb_text,
    value: fb_bytes,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller gives a batch, a descriptor, a text and bytes.
        let (batch, container, name, value) = unsafe {
            let (batch, container) = (given_mut(batch)?, given(container)?);
            (batch, container, name.read()?, value.read())
        };
        let name = batch.name(name)?;
        let container = container.read()?;
        batch.batch.store(container, &name, value).map(|()| true)
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// Writes all that was collected, and returns when it is as durable as the store makes it. What could not be written is
/// kept, and written by the next call if that can.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_flush(
    batch: *mut fb_write_batch,
    error: *mut *mut fb_error,
) -> bool {
    // SAFETY: the caller gives a batch.
    let make = || unsafe { given_mut(batch) }?.batch.flush().map(|()| true);
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// How many containers and products were collected that nobody writes yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_len(batch: *const fb_write_batch) -> usize {
    // SAFETY: the caller gives a batch that is not freed, or NULL.
    unsafe { batch.as_ref() }.map_or(0, |batch| batch.batch.len())
}

/// The products that were there and were kept (FB_KEEP), as far as is known after the last flush; each is given once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_take_kept(batch: *mut fb_write_batch) -> *mut fb_products {
    // SAFETY: the caller gives a batch that is not freed, or NULL.
    let batch = unsafe { batch.as_mut() };
    let found = batch.map(|batch| batch.batch.take_kept());
    handle(fb_products {
        found: found.unwrap_or_default(),
    })
}

/// Writes what was collected and frees the batch, also if that fails: what could not be written is lost then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_close(
    batch: *mut fb_write_batch,
    error: *mut *mut fb_error,
) -> bool {
    let make = || {
        // SAFETY: the caller gives a batch that is not freed, or NULL.
        let batch = unsafe { taken(batch) };
        batch.map_or(Ok(true), |batch| batch.batch.finish().map(|_| true))
    };
    // SAFETY: the caller gives a place for an error, or NULL.
    unsafe { border(error, false, make) }
}

/// Writes what was collected and frees the batch. Errors go to standard error then: who wants to know calls
/// fb_write_batch_flush before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fb_write_batch_free(batch: *mut fb_write_batch) {
    // SAFETY: the caller gives a batch that is not freed, or NULL.
    unsafe { free(batch) };
}
