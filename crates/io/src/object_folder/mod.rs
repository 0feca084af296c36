//! Named objects below a base: a local directory, or a key prefix in a bucket.
//!
//! Objects are created once, under unique names, and never changed. A name has parts separated by slashes, like a path;
//! objects can be listed and deleted by the first parts of their names.

mod local;
mod remote;
#[cfg(test)]
mod tests;

use std::time::SystemTime;

use bytes::Bytes;

use crate::url::{Protocol, protocol, public, scheme};
use crate::{IoError, Settings};
use local::LocalFolder;
use remote::Bucket;

/// Number of objects that are written or fetched concurrently. An object that is sent to a server is in memory twice.
const AT_ONCE: usize = 8;

/// The objects below a base.
#[derive(Debug)]
pub struct ObjectFolder {
    url: String,
    place: Place,
}

#[derive(Debug)]
enum Place {
    Local(LocalFolder),
    Bucket(Box<Bucket>),
}

/// An existing object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundObject {
    /// Its name, without the base.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// The modification time.
    pub modified: SystemTime,
}

impl ObjectFolder {
    /// Opens a base: the path of a directory, or `s3://bucket/prefix` (also `gs://`, `az://`). No server is contacted
    /// yet.
    ///
    /// # Errors
    /// If the URL or a setting is invalid, or the protocol has no objects.
    pub fn open(base: &str, settings: &Settings) -> Result<Self, IoError> {
        let base = Self::plain(base)?;
        let place = match scheme(&base) {
            None => Place::Local(LocalFolder::new(&base)),
            Some(_) => Place::Bucket(Box::new(Bucket::open(&base, settings)?)),
        };
        let url = public(&base);
        Ok(Self { url, place })
    }

    /// Normalizes a base, so that equal locations have equal bases: an absolute path, without a slash at the end.
    ///
    /// # Errors
    /// If it is empty, or the protocol has no objects.
    pub fn plain(base: &str) -> Result<String, IoError> {
        let failed = |why| IoError::NotWritten {
            url: public(base),
            why,
        };
        match protocol(base) {
            Some(Protocol::Object(_) | Protocol::Objects(Some(_))) => {
                Ok(base.trim_end_matches('/').to_owned())
            }
            Some(Protocol::Objects(None)) => {
                let path = base.split_once("://").map_or("", |(_, path)| path);
                Self::plain(&format!("file://{path}"))
            }
            Some(_) => Err(failed(
                "objects must be in a local directory or in a bucket (s3://, gs://, az://)",
            )),
            None => {
                let path = match scheme(base) {
                    Some(_) => base.get("file://".len()..).unwrap_or_default(),
                    None => base,
                };
                let whole = std::path::absolute(path)
                    .map_err(|_| failed("directory for objects missing"))?;
                let text = whole.to_str();
                let text =
                    text.ok_or_else(|| failed("the name of the directory is not valid UTF-8"))?;
                let plain = text.trim_end_matches('/');
                Ok(if plain.is_empty() { "/" } else { plain }.to_owned())
            }
        }
    }

    /// Fails if the base cannot hold objects, because it is a local file or inside one. For a bucket, no server is
    /// contacted.
    ///
    /// # Errors
    /// If it cannot.
    pub fn check_base(&self) -> Result<(), IoError> {
        let is_folder = match &self.place {
            Place::Local(folder) => folder.may_be_folder(),
            Place::Bucket(_) => true,
        };
        match is_folder {
            true => Ok(()),
            false => Err(IoError::NotWritten {
                url: self.url.clone(),
                why: "objects need a directory, but this path is a file or inside a file",
            }),
        }
    }

    /// The base, for messages.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL of an object, for messages.
    #[must_use]
    pub fn url_of(&self, name: &str) -> String {
        format!("{}/{name}", self.url.trim_end_matches('/'))
    }

    /// Creates objects concurrently. Afterwards they are complete and durable.
    ///
    /// # Errors
    /// If an object cannot be created; others may exist then.
    pub fn put(&self, objects: &[(&str, &[u8])]) -> Result<(), IoError> {
        let mut workers = [(); AT_ONCE];
        let put = |_: &mut (), (name, bytes): (&str, &[u8])| match &self.place {
            Place::Local(folder) => folder.put(name, bytes),
            Place::Bucket(bucket) => bucket.put(name, bytes),
        };
        crate::on_threads(&mut workers, objects.to_vec(), put).map(drop)
    }

    /// Creates an object if its name is free; returns whether it was created. Of several concurrent calls, one creates
    /// it.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, IoError> {
        let put = match &self.place {
            Place::Local(folder) => folder.put_new(name, bytes),
            Place::Bucket(bucket) => bucket.put_new(name, bytes),
        };
        match put {
            Ok(()) => Ok(true),
            Err(IoError::Exists { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Fetches an object of unknown size with one request; `None` if it does not exist.
    ///
    /// # Errors
    /// If it exists and cannot be fetched, or the server does not answer.
    pub fn get_small(&self, name: &str) -> Result<Option<Vec<u8>>, IoError> {
        let got = match &self.place {
            Place::Local(folder) => folder.get_small(name),
            Place::Bucket(bucket) => bucket.get_small(name),
        };
        match got {
            Ok(bytes) => Ok(Some(bytes)),
            Err(IoError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Fetches objects of known sizes concurrently, with one result per object.
    ///
    /// # Errors
    /// If the server does not answer at all.
    pub fn get(&self, objects: &[(&str, u64)]) -> Result<Vec<Result<Bytes, IoError>>, IoError> {
        match &self.place {
            Place::Local(folder) => {
                let mut workers = [(); AT_ONCE];
                let get = |_: &mut (), (name, size): (&str, u64)| {
                    Ok::<_, IoError>(folder.get(name, size))
                };
                crate::on_threads(&mut workers, objects.to_vec(), get)
            }
            Place::Bucket(bucket) => bucket.get(objects),
        }
    }

    /// Deletes objects. A missing one counts as deleted.
    ///
    /// # Errors
    /// If an object may still exist.
    pub fn delete(&self, names: &[&str]) -> Result<(), IoError> {
        match &self.place {
            Place::Local(folder) => folder.delete(names),
            Place::Bucket(bucket) => bucket.delete(names),
        }
    }

    /// Deletes all objects whose names begin with these parts.
    ///
    /// # Errors
    /// If an object may still exist.
    pub fn delete_below(&self, prefix: &str) -> Result<(), IoError> {
        match &self.place {
            Place::Local(folder) => folder.delete_below(prefix),
            Place::Bucket(bucket) => bucket.delete_below(prefix),
        }
    }

    /// All existing objects.
    ///
    /// # Errors
    /// If they cannot be listed. A missing base is empty.
    pub fn list(&self) -> Result<Vec<FoundObject>, IoError> {
        match &self.place {
            Place::Local(folder) => folder.list(),
            Place::Bucket(bucket) => bucket.list(),
        }
    }
}
