//! Whole objects below one base, each known by its name: a local directory, or a key prefix in a bucket.
//!
//! Objects are created once, under unique names, and never changed. A name has parts between slashes, as a path has,
//! and each of its beginnings can be listed and deleted.

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

/// Objects that are put, or fetched, at the same time. Each that is put to a server is in memory twice.
const AT_ONCE: usize = 8;

/// Objects below one base.
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
    /// When it was made.
    pub modified: SystemTime,
}

impl ObjectFolder {
    /// The objects below a base: the path of a directory, or `s3://bucket/prefix` (also `gs://`, `az://`). No server is
    /// contacted yet.
    ///
    /// # Errors
    /// If the URL is none, of a protocol that has no objects, or a setting is none.
    pub fn open(base: &str, settings: &Settings) -> Result<Self, IoError> {
        let base = Self::plain(base)?;
        let place = match scheme(&base) {
            None => Place::Local(LocalFolder::new(&base)),
            Some(_) => Place::Bucket(Box::new(Bucket::open(&base, settings)?)),
        };
        let url = public(&base);
        Ok(Self { url, place })
    }

    /// The normalized form of a base, so that bases of the same location are equal: a whole path, and no slash at its
    /// end.
    ///
    /// # Errors
    /// If it is empty, or of a protocol that has no objects.
    pub fn plain(base: &str) -> Result<String, IoError> {
        let failed = |why| IoError::NotWritten {
            url: public(base),
            why,
        };
        match protocol(base) {
            Some(Protocol::Object(_)) => Ok(base.trim_end_matches('/').to_owned()),
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

    /// Fails if objects can never be there, as it is a file of this machine, or below one. For a bucket, no server is
    /// contacted.
    ///
    /// # Errors
    /// If it is so.
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

    /// An object, for messages.
    #[must_use]
    pub fn url_of(&self, name: &str) -> String {
        format!("{}/{name}", self.url.trim_end_matches('/'))
    }

    /// Makes objects, several at once. When it returns, they exist, are complete, and survive a crash of the machine.
    ///
    /// # Errors
    /// If one could not be made: others may be there then.
    pub fn put(&self, objects: &[(&str, &[u8])]) -> Result<(), IoError> {
        let mut workers = [(); AT_ONCE];
        let put = |_: &mut (), (name, bytes): (&str, &[u8])| match &self.place {
            Place::Local(folder) => folder.put(name, bytes),
            Place::Bucket(bucket) => bucket.put(name, bytes),
        };
        crate::on_threads(&mut workers, objects.to_vec(), put).map(drop)
    }

    /// Makes an object, unless there is one of its name; returns whether it was new. Of several at the same time, one
    /// does.
    ///
    /// # Errors
    /// If it could not be made.
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

    /// Fetches an object of any size, by one request; none if it does not exist.
    ///
    /// # Errors
    /// If it exists and cannot be fetched, or the server cannot be reached.
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

    /// Fetches objects of known sizes, several at once; each by itself may fail.
    ///
    /// # Errors
    /// If the server cannot be reached at all.
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
    /// If one may be there still.
    pub fn delete(&self, names: &[&str]) -> Result<(), IoError> {
        match &self.place {
            Place::Local(folder) => folder.delete(names),
            Place::Bucket(bucket) => bucket.delete(names),
        }
    }

    /// Deletes all objects whose names begin with these parts.
    ///
    /// # Errors
    /// If one may be there still.
    pub fn delete_below(&self, prefix: &str) -> Result<(), IoError> {
        match &self.place {
            Place::Local(folder) => folder.delete_below(prefix),
            Place::Bucket(bucket) => bucket.delete_below(prefix),
        }
    }

    /// All objects that there are.
    ///
    /// # Errors
    /// If they cannot be listed. A missing base has none.
    pub fn list(&self) -> Result<Vec<FoundObject>, IoError> {
        match &self.place {
            Place::Local(folder) => folder.list(),
            Place::Bucket(bucket) => bucket.list(),
        }
    }
}
