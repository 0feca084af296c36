//! Large products as objects: files in a directory, or objects in a bucket. The store contains references to them.
//!
//! This layer is above the engines, which do not know it. Because of the order of writes, a crash can leave an orphan
//! (an object without a product), but never a reference without an object. An object is complete before its reference
//! is written, and is deleted after the removal of the reference is durable. Orphans are deleted with their container,
//! or by a sweep.
//!
//! The store records the location of objects, so all clients use the same one. For each name it also records whether a
//! product was ever an object, so that overwriting other products needs no check.

mod load;
mod name;
mod owner;
mod sweep;
mod write;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

use femtobarn_io::{IoError, ObjectFolder, Settings};
use serde_json::{Value, json};

pub use load::visit_inline;
pub use name::{BESIDE, Reference};
pub use sweep::Swept;

use crate::seal::unseal;
use crate::{Backend, Descriptor, EventsError, Parent, ProductId, ProductName, Scan, Wanted};

/// Key of the recorded location.
const NOTE: &str = "objects";
/// By default, products above this size are objects.
const OVER: u64 = 1 << 20;

/// The location of large products.
#[derive(Clone, Default)]
pub struct ObjectOptions {
    /// A directory, or a bucket URL with a prefix; `None` for the recorded location.
    pub base: Option<String>,
    /// Products with more bytes become objects; `None` for the recorded size, or 1 MiB in a new store.
    pub over: Option<u64>,
    /// Settings of the bucket, as in `femtobarn_io`.
    pub settings: BTreeMap<String, String>,
}

impl ObjectOptions {
    /// Whether a location or a size limit for large products is given.
    pub(crate) fn is_given(&self) -> bool {
        self.base.is_some() || self.over.is_some()
    }
}

impl std::fmt::Debug for ObjectOptions {
    /// Does not print the values of settings, which may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ObjectOptions")
            .field("base", &self.base.as_deref().map(femtobarn_io::public))
            .field("over", &self.over)
            .field("settings", &self.settings.keys())
            .finish()
    }
}

/// The objects of a store.
#[derive(Debug)]
pub struct LargeObjects {
    url: String,
    /// The location, for messages.
    place: String,
    folder: ObjectFolder,
    over: u64,
    /// Whether the location is known to belong to this store.
    is_ours: AtomicBool,
    /// The names whose products may be objects.
    large: RwLock<HashSet<ProductName>>,
}

impl LargeObjects {
    /// Opens the recorded location, or the given one if none is recorded. It is recorded now if the store may be
    /// written and the location is available; otherwise when the first object is written.
    pub fn open(
        backend: &dyn Backend,
        options: &ObjectOptions,
    ) -> Result<Option<Self>, EventsError> {
        let url = backend.url();
        let given = options.base.as_deref().map(ObjectFolder::plain).transpose();
        let given = given.map_err(|error| wrong(url, &error))?;
        let noted = noted(backend)?;
        let (base, over) = match (&noted, &given) {
            (Some(found), _) => found.clone(),
            (None, Some(given)) => (given.clone(), OVER),
            (None, None) if options.over.is_none() => return Ok(None),
            (None, None) => return Err(nowhere(url)),
        };
        check_place(url, given.as_deref(), &base)?;
        let objects = owner::folder_in(&base, backend)?;
        let folder = folder(url, &objects, options.settings.clone())?;
        if noted.is_none() {
            folder.check_base().map_err(|error| wrong(url, &error))?;
        }
        let mut beside = Self {
            url: url.into(),
            place: femtobarn_io::public(&base),
            folder,
            over: options.over.unwrap_or(over),
            is_ours: AtomicBool::new(false),
            large: RwLock::default(),
        };
        if backend.check_writes("put large products").is_ok() {
            match beside.check_ours(backend) {
                // The location may never be needed.
                Err(EventsError::Objects { .. }) => {}
                checked => checked?,
            }
        }
        if noted.is_none() {
            match backend.note(NOTE, &written(&base, beside.over)) {
                Ok(noted) => {
                    let (noted, over) = read(url, &noted)?;
                    check_place(url, given.as_deref(), &noted)?; // another client was faster
                    beside.over = options.over.unwrap_or(over);
                }
                // Without a record, the store has no objects.
                Err(EventsError::ReadOnly { .. }) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        Ok(Some(beside))
    }

    /// Fails if the location belongs to another store; claims it if it has no owner.
    fn check_ours(&self, backend: &dyn Backend) -> Result<(), EventsError> {
        if !self.is_ours.load(Ordering::Acquire) {
            owner::claim(&self.folder, backend)?;
            self.is_ours.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// The location of the objects, for messages.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Products with more bytes become objects.
    pub fn over(&self) -> u64 {
        self.over
    }

    /// The existing objects with their sizes.
    pub fn sizes(&self) -> Result<HashMap<String, u64>, EventsError> {
        let found = self.folder.list().map_err(|source| EventsError::Objects {
            url: self.url.clone(),
            doing: "list the objects of the store",
            source,
        })?;
        let pairs = found.into_iter().map(|object| (object.name, object.size));
        Ok(pairs.collect())
    }

    /// Records that products with a name may be objects.
    fn note_large(&self, backend: &dyn Backend, name: &ProductName) -> Result<(), EventsError> {
        if !self.knows(name) {
            backend.note(&large_note(name), b"")?;
            self.learn(name);
        }
        Ok(())
    }

    /// Whether products of a name may be objects.
    fn may_be_large(&self, backend: &dyn Backend, name: &ProductName) -> Result<bool, EventsError> {
        if self.knows(name) {
            return Ok(true);
        }
        // A negative result is not cached, because other clients may write meanwhile.
        let is_noted = backend.noted(&large_note(name))?.is_some();
        if is_noted {
            self.learn(name);
        }
        Ok(is_noted)
    }

    fn knows(&self, name: &ProductName) -> bool {
        let large = self.large.read().unwrap_or_else(PoisonError::into_inner);
        large.contains(name)
    }

    fn learn(&self, name: &ProductName) {
        let mut large = self.large.write().unwrap_or_else(PoisonError::into_inner);
        large.insert(name.clone());
    }

    /// The objects that products currently use, and whether some products are damaged, which makes this incomplete.
    fn referred(
        &self,
        backend: &dyn Backend,
        wanted: &[Wanted<'_>],
    ) -> Result<(Vec<String>, bool), EventsError> {
        let (mut found, mut has_damaged) = (Vec::new(), false);
        backend.load(wanted, &mut |w, e, stored| {
            let reference = match (container(wanted, w, e), stored.map(unseal)) {
                (Some(container), Some(Ok((bytes, BESIDE)))) => Reference::of(bytes, &container),
                (_, Some(Err(damage))) => Err(damage),
                _ => return Ok(()),
            };
            has_damaged |= reference.is_err();
            found.extend(reference.ok().map(|reference| reference.name));
            Ok(())
        })?;
        Ok((found, has_damaged))
    }

    /// Removes products of one event, or of the parent itself, and then their objects.
    pub fn remove_products(
        &self,
        backend: &dyn Backend,
        parent: &Parent,
        event: u64,
        name: Option<&ProductName>,
    ) -> Result<(), EventsError> {
        let names = match name {
            Some(name) => vec![name.clone()],
            None => backend.names(parent, event, None)?,
        };
        let mut objects = Vec::new();
        for name in &names {
            if self.may_be_large(backend, name)? {
                let wanted = Wanted {
                    parent: *parent,
                    name,
                    events: &[event],
                };
                objects.extend(self.referred(backend, &[wanted])?.0);
            }
        }
        if !objects.is_empty() {
            self.check_ours(backend)?;
        }
        backend.remove_products(parent, event, name)?;
        self.delete_unreferred(backend, &objects)
    }

    /// Removes the products with a name from all events of a subrun, and then their objects; returns their number.
    pub fn remove_named(
        &self,
        backend: &dyn Backend,
        parent: &Parent,
        name: &ProductName,
    ) -> Result<u64, EventsError> {
        let objects = match self.may_be_large(backend, name)? {
            true => self.referred_by_events(backend, parent, name)?,
            false => Vec::new(),
        };
        if !objects.is_empty() {
            self.check_ours(backend)?;
        }
        let n = backend.remove_named(parent, name)?;
        self.delete_unreferred(backend, &objects)?;
        Ok(n)
    }

    /// The objects of the products of all events of a subrun.
    fn referred_by_events(
        &self,
        backend: &dyn Backend,
        parent: &Parent,
        name: &ProductName,
    ) -> Result<Vec<String>, EventsError> {
        const PAGE: usize = 4096;
        let mut objects = Vec::new();
        let mut from = 0;
        loop {
            let scan = Scan {
                parent: *parent,
                from,
                limit: PAGE,
            };
            let events = backend.numbers(&[scan])?.pop().unwrap_or_default();
            let wanted = Wanted {
                parent: *parent,
                name,
                events: &events,
            };
            objects.extend(self.referred(backend, &[wanted])?.0);
            match events.last() {
                Some(last) if events.len() == PAGE => from = last.saturating_add(1),
                _ => return Ok(objects),
            }
        }
    }

    /// Deletes objects of products that were removed.
    fn delete_unreferred(
        &self,
        backend: &dyn Backend,
        objects: &[String],
    ) -> Result<(), EventsError> {
        if objects.is_empty() {
            return Ok(());
        }
        // A crash may undo the last writes, so objects are deleted only after a flush.
        backend.flush()?;
        self.delete(objects)
    }

    /// Deletes all objects of an emptied container and its contents.
    pub fn delete_below(
        &self,
        backend: &dyn Backend,
        container: &Descriptor,
    ) -> Result<(), EventsError> {
        let Some(prefix) = name::below(container) else {
            return Ok(());
        };
        self.check_ours(backend)?;
        backend.flush()?; // as above
        let deleted = self.folder.delete_below(&prefix);
        deleted.map_err(|error| self.not_deleted(error))
    }

    fn delete(&self, objects: &[String]) -> Result<(), EventsError> {
        let objects: Vec<_> = objects.iter().map(String::as_str).collect();
        let deleted = self.folder.delete(&objects);
        deleted.map_err(|error| self.not_deleted(error))
    }

    fn not_deleted(&self, error: IoError) -> EventsError {
        const DOING: &str = "delete objects of removed products; `fb store sweep` deletes them";
        EventsError::Objects {
            url: self.url.clone(),
            doing: DOING,
            source: error,
        }
    }
}

fn container(wanted: &[Wanted<'_>], w: usize, e: usize) -> Option<Descriptor> {
    let wanted = wanted.get(w)?;
    Some(wanted.parent.member(*wanted.events.get(e)?))
}

fn product(wanted: &[Wanted<'_>], w: usize, e: usize) -> Option<ProductId> {
    Some(ProductId {
        container: container(wanted, w, e)?,
        name: wanted.get(w)?.name.clone(),
    })
}

fn large_note(name: &ProductName) -> String {
    format!("{NOTE}/{name}")
}

fn written(base: &str, over: u64) -> Vec<u8> {
    json!({"base": base, "over": over}).to_string().into_bytes()
}

/// Parses the record: the location, and the minimum size of objects.
fn read(url: &str, note: &[u8]) -> Result<(String, u64), EventsError> {
    let found = || {
        let value: Value = serde_json::from_slice(note).ok()?;
        let base = value.get("base")?.as_str()?.to_owned();
        Some((base, value.get("over")?.as_u64()?))
    };
    found().ok_or_else(|| EventsError::Layout {
        url: url.into(),
        expected: "a valid entry for the location of large products".into(),
        found: format!("{:?}", String::from_utf8_lossy(note)),
    })
}

fn noted(backend: &dyn Backend) -> Result<Option<(String, u64)>, EventsError> {
    let note = backend.noted(NOTE)?;
    note.map(|note| read(backend.url(), &note)).transpose()
}

fn wrong(url: &str, error: &IoError) -> EventsError {
    EventsError::Usage {
        what: format!("{url}: objects: {}", femtobarn_io::with_causes(error)),
    }
}

fn folder(
    url: &str,
    base: &str,
    settings: BTreeMap<String, String>,
) -> Result<ObjectFolder, EventsError> {
    Settings::new(base, settings)
        .and_then(|settings| ObjectFolder::open(base, &settings))
        .map_err(|error| wrong(url, &error))
}

fn check_place(url: &str, given: Option<&str>, base: &str) -> Result<(), EventsError> {
    let Some(given) = given.filter(|given| *given != base) else {
        return Ok(());
    };
    let [given, base] = [given, base].map(femtobarn_io::public);
    Err(EventsError::Usage {
        what: format!(
            "{url}: its large products are in {base}, not in {given}: leave out objects, or if they were moved there, \
             run `fb store moved {url} {given}`"
        ),
    })
}

fn nowhere(url: &str) -> EventsError {
    EventsError::Usage {
        what: format!("{url}: objects_over needs a location for large products (objects)"),
    }
}

/// Checks the settings for large products of a new store before the store is created.
///
/// # Errors
///
/// [`EventsError::OthersObjects`] if the location belongs to another store; an error if it is missing, not a directory,
/// or invalid.
pub fn check_free(url: &str, options: &ObjectOptions) -> Result<(), EventsError> {
    let Some(base) = &options.base else {
        return Err(nowhere(url));
    };
    let base = ObjectFolder::plain(base).map_err(|error| wrong(url, &error))?;
    let folder = folder(url, &base, options.settings.clone())?;
    folder.check_base().map_err(|error| wrong(url, &error))?;
    owner::check_free(&folder, url)
}

/// The location of a store's objects, if it has one. Fails if the location belongs to another store.
pub fn own_place(backend: &dyn Backend) -> Result<Option<String>, EventsError> {
    let Some((base, _)) = noted(backend)? else {
        return Ok(None);
    };
    owner::claim(&folder(backend.url(), &base, BTreeMap::new())?, backend)?;
    Ok(Some(base))
}

/// Records that all objects of a store were moved to another location, with the same names, or that this store takes
/// over the objects there. Returns the previous location.
///
/// # Errors
///
/// If the store has no location of objects, or the new one cannot be claimed; errors of the backend.
pub fn objects_moved(backend: &dyn Backend, base: &str) -> Result<String, EventsError> {
    let url = backend.url();
    let Some((before, over)) = noted(backend)? else {
        return Err(EventsError::NotFound {
            url: url.into(),
            what: "location of large products".into(),
            hint: "; set it when you create the store (objects)".into(),
        });
    };
    let base = ObjectFolder::plain(base).map_err(|error| wrong(url, &error))?;
    owner::take(&folder(url, &base, BTreeMap::new())?, backend)?;
    backend.replace_note(NOTE, &written(&base, over))?;
    Ok(femtobarn_io::public(&before))
}
