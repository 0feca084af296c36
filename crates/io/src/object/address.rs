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
    /// Whether it is the base of an ntuple's objects.
    pub is_set: bool,
    /// The server, if the URL contains it.
    pub endpoint: Option<String>,
}

impl Address {
    /// Parses a URL in the forms of fsspec and the crate `object_store`. Keys are not decoded: `%20` is not a space.
    pub fn parse(url: &str) -> Result<Self, IoError> {
        // what is refused may be a secret
        let shown = url.split(['?', '#']).next().unwrap_or_default();
        let failed = |why: &str| IoError::Remote {
            url: public(shown),
            source: why.into(),
        };
        let (kind, is_set) = match protocol(url) {
            Some(Protocol::Object(kind)) => (kind, false),
            Some(Protocol::Objects(Some(kind))) => (kind, true),
            _ => return Err(IoError::UnknownScheme { url: public(url) }),
        };
        let (scheme, rest) = url.split_once("://").unwrap_or_default();
        if rest.contains(['?', '#']) {
            return Err(failed("the URL of an object must not contain ? or #"));
        }
        if is_set && rest.contains('@') {
            return Err(failed(
                "the URL of an ntuple's objects must not contain @: give keys by settings or environment variables",
            ));
        }
        let protocol = scheme.to_ascii_lowercase();
        let server = protocol.strip_prefix("ntpl+s3+").map(|protocol| {
            let (host, rest) = rest.split_once('/').unwrap_or((rest, ""));
            (format!("{protocol}://{host}"), rest)
        });
        let (endpoint, rest) = match server {
            Some((endpoint, rest)) => (Some(endpoint), rest),
            None => (None, rest),
        };
        let rest = if is_set {
            rest.trim_end_matches('/')
        } else {
            rest
        };
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
            url: match is_set {
                true => public(url).trim_end_matches('/').to_owned(),
                false => public(url),
            },
            kind,
            bucket: bucket.to_owned(),
            host,
            is_folder: key.is_empty() || key.ends_with('/'),
            key: parsed,
            is_set,
            endpoint,
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
    fn bases_of_objects_are_those_of_root() {
        for (url, endpoint, bucket, key) in [
            (
                "ntpl+s3+http://127.0.0.1:9000/b/a/n//",
                Some("http://127.0.0.1:9000"),
                "b",
                "a/n",
            ),
            (
                "NTPL+S3+HTTPS://S3.cern.ch/B/n",
                Some("https://S3.cern.ch"),
                "B",
                "n",
            ),
            ("ntpl+s3://b/n/", None, "b", "n"),
            ("ntpl+gs://b/n", None, "b", "n"),
            ("ntpl+az://b/n", None, "b", "n"),
        ] {
            let found = Address::parse(url).unwrap();
            let known = (
                found.endpoint.as_deref(),
                &*found.bucket,
                found.key.as_ref(),
            );
            assert_eq!(known, (endpoint, bucket, key));
            assert!(found.is_set && !found.is_folder && !found.url.ends_with('/'));
        }
        for (url, said) in [
            ("ntpl+s3+https://me:secret@h/b/n", "must not contain @"),
            ("ntpl+s3+https://h/b/n?secret", "must not contain ?"),
            ("ntpl+s3+https://h/b/n#secret", "must not contain ?"),
            ("ntpl+s3+https://h", "e.g. s3://bucket/key"),
        ] {
            let error = Address::parse(url).unwrap_err();
            let cause = std::error::Error::source(&error).unwrap().to_string();
            assert!(cause.contains(said), "{url}: {cause}");
            assert!(!format!("{error}{cause}").contains("secret"));
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
