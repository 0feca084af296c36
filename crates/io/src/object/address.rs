//! Parses URLs of object stores: kind of store, bucket, and key. Pure.

use object_store::path::Path;

use crate::IoError;
use crate::url::{Protocol, protocol, public};

pub(crate) use crate::url::Store as Kind;

/// An object, or a prefix that acts as a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// The URL for messages, without secrets.
    pub url: String,
    pub kind: Kind,
    /// The bucket; Azure calls it a container.
    pub bucket: String,
    /// The host of an Azure account, if the URL contains it.
    pub host: Option<String>,
    pub key: Path,
    /// Whether it ends with a slash, so it is not an object.
    pub is_folder: bool,
}

impl Address {
    /// Parses a URL in the forms of fsspec and the crate `object_store`. Keys are not decoded: `%20` is not a space.
    pub fn parse(url: &str) -> Result<Self, IoError> {
        let failed = |why: &str| IoError::Remote {
            url: public(url),
            source: why.into(),
        };
        let Some(Protocol::Object(kind)) = protocol(url) else {
            return Err(IoError::UnknownScheme { url: public(url) });
        };
        let rest = url.split_once("://").map_or("", |(_, rest)| rest);
        if rest.contains(['?', '#']) {
            return Err(failed("the URL of an object must not contain ? or #"));
        }
        let (server, key) = rest.split_once('/').unwrap_or((rest, ""));
        let (bucket, host) = match server.split_once('@') {
            Some((container, host)) if kind == Kind::Azure => (container, Some(host.to_owned())),
            _ => (server, None),
        };
        if bucket.is_empty() || bucket.contains(['@', ':']) {
            return Err(failed(
                "expected a bucket and a key, e.g. s3://bucket/key; give the server with the setting endpoint",
            ));
        }
        let parsed = Path::parse(key).map_err(|error| failed(&error.to_string()))?;
        Ok(Self {
            url: public(url),
            kind,
            bucket: bucket.to_owned(),
            host,
            is_folder: key.is_empty() || key.ends_with('/'),
            key: parsed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_those_of_other_programs() {
        for (url, kind, bucket, host, key) in [
            ("s3://b/a/k.root", Kind::S3, "b", None, "a/k.root"),
            ("S3A://b/a%20b c", Kind::S3, "b", None, "a%20b c"),
            ("gs://b/k", Kind::Google, "b", None, "k"),
            ("gcs://b/k", Kind::Google, "b", None, "k"),
            ("az://c/k", Kind::Azure, "c", None, "k"),
            ("azure://c/k", Kind::Azure, "c", None, "k"),
            ("abfs://c/k", Kind::Azure, "c", None, "k"),
            (
                "abfss://c@me.dfs.core.windows.net/k",
                Kind::Azure,
                "c",
                Some("me.dfs.core.windows.net"),
                "k",
            ),
        ] {
            let found = Address::parse(url).unwrap();
            assert_eq!(
                (found.kind, &*found.bucket, found.host.as_deref()),
                (kind, bucket, host)
            );
            assert_eq!(found.key.as_ref(), key);
            assert!(!found.is_folder);
        }
        for folder in ["s3://b", "s3://b/", "s3://b/a/"] {
            assert!(Address::parse(folder).unwrap().is_folder, "{folder}");
        }
    }

    #[test]
    fn what_names_no_object_is_told() {
        for (url, said) in [
            ("s3://", "e.g. s3://bucket/key"),
            ("s3://key:secret@b/k", "e.g. s3://bucket/key"),
            ("s3://host:9000/b/k", "endpoint"),
            ("s3://b/a//k", "Path"),
            ("s3://b/../k", ".."),
            ("s3://b/k?token=secret", "must not contain ?"),
        ] {
            let error = Address::parse(url).unwrap_err();
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert!(cause.contains(said), "{url}: {cause}");
            assert!(
                !format!("{error}{cause}").contains("secret"),
                "{error} {cause}"
            );
        }
    }
}
