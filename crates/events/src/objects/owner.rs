//! The owner of a location of objects. Two stores with one location would delete each other's objects, because an
//! unknown object looks like an orphan. So a marker object names the owner, and other stores do not write there.

use std::path::Path;

use femtobarn_io::ObjectFolder;
use serde_json::{Value, json};

use crate::{Backend, EventsError, Uuid};

/// The marker object of the owner.
pub const MARKER: &str = "femtobarn-store.json";
/// Key of the store ID.
const NOTE: &str = "id";
/// Key of the record that the location has a marker.
const MARKED: &str = "objects marked";

/// The identity of a store in the marker.
#[derive(Debug)]
struct Owner {
    store: String,
    seat: Option<String>,
    /// For messages.
    url: String,
}

impl Owner {
    fn new(backend: &dyn Backend, id: &[u8]) -> Self {
        let url = backend.url();
        let path = url.strip_prefix("dir:").map(Path::new);
        let whole = path.and_then(|path| std::path::absolute(path).ok());
        Self {
            store: String::from_utf8_lossy(id).into_owned(),
            seat: backend.seat(),
            url: whole.map_or_else(|| url.into(), |path| format!("dir:{}", path.display())),
        }
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let text = |name: &str| Some(value.get(name)?.as_str()?.to_owned());
        Some(Self {
            store: text("store")?,
            seat: text("seat"),
            url: text("url")?,
        })
    }

    fn to_bytes(&self) -> Vec<u8> {
        json!({"store": self.store, "seat": self.seat, "url": self.url})
            .to_string()
            .into_bytes()
    }

    fn is(&self, other: &Self) -> bool {
        self.store == other.store && self.seat == other.seat
    }
}

/// Claims a location for a store, if it has no owner.
///
/// # Errors
///
/// [`EventsError::OthersObjects`] if it belongs to another store; [`EventsError::ObjectsGone`] if it belonged to this
/// store and the marker is missing; [`EventsError::Objects`] if the location is not available.
pub fn claim(folder: &ObjectFolder, backend: &dyn Backend) -> Result<(), EventsError> {
    if !backend.is_kept() {
        return Ok(()); // it has its own subdirectory
    }
    let own = Owner::new(backend, &backend.note(NOTE, &new_id(backend)?)?);
    let failed = |source| failed(backend, source);
    let found = match folder.get_small(MARKER).map_err(failed)? {
        Some(found) => found,
        None => {
            // An empty mount point of an unmounted disk must not be filled.
            if backend.noted(MARKED)?.is_some() {
                return Err(EventsError::ObjectsGone {
                    url: backend.url().into(),
                    place: folder.url().into(),
                    marker: MARKER,
                });
            }
            match folder.put_new(MARKER, &own.to_bytes()).map_err(failed)? {
                true => own.to_bytes(),
                false => folder
                    .get_small(MARKER)
                    .map_err(failed)?
                    .unwrap_or_default(),
            }
        }
    };
    match Owner::read(&found) {
        Some(owner) if owner.is(&own) => backend.note(MARKED, b"").map(drop),
        owner => Err(others(folder, backend.url(), owner)),
    }
}

/// Fails if a location has an owner.
pub fn check_free(folder: &ObjectFolder, url: &str) -> Result<(), EventsError> {
    match folder.get_small(MARKER) {
        Ok(Some(found)) => Err(others(folder, url, Owner::read(&found))),
        // A location that is not available now may never be needed.
        Ok(None) | Err(_) => Ok(()),
    }
}

/// The error that a location belongs to another store.
fn others(folder: &ObjectFolder, url: &str, owner: Option<Owner>) -> EventsError {
    EventsError::OthersObjects {
        url: url.into(),
        place: folder.url().into(),
        owner: owner.map_or_else(|| "which is unknown".into(), |owner| owner.url),
    }
}

/// Claims a location for a store, whatever its owner. The store gets a new ID, so that its copies are different
/// stores.
pub fn take(folder: &ObjectFolder, backend: &dyn Backend) -> Result<(), EventsError> {
    backend.check_writes("take over objects")?;
    if !backend.is_kept() {
        return Ok(());
    }
    let id = new_id(backend)?;
    let marker = Owner::new(backend, &id).to_bytes();
    let put = folder.put(&[(MARKER, &marker)]);
    put.map_err(|source| failed(backend, source))?;
    backend.replace_note(NOTE, &id)?;
    backend.note(MARKED, b"").map(drop)
}

/// The subdirectory of a location with the objects of a store: the top, except for stores that end with their
/// process. Nobody knows whether such a store still exists, so its objects are in a subdirectory named after its ID.
pub fn folder_in(base: &str, backend: &dyn Backend) -> Result<String, EventsError> {
    if backend.is_kept() {
        return Ok(base.into());
    }
    let id = backend.note(NOTE, &new_id(backend)?)?;
    let id = String::from_utf8_lossy(&id);
    Ok(format!("{}/memory-{id}", base.trim_end_matches('/')))
}

fn new_id(backend: &dyn Backend) -> Result<Vec<u8>, EventsError> {
    let id = Uuid::random().map_err(|error| {
        EventsError::engine(backend.url(), "create random bytes", error.to_string())
    })?;
    Ok(id.to_string().into_bytes())
}

fn failed(backend: &dyn Backend, source: femtobarn_io::IoError) -> EventsError {
    EventsError::Objects {
        url: backend.url().into(),
        doing: "check the owner of its large products",
        source,
    }
}
