//! Files that are not on this machine: which source a URL's scheme asks for, and what is in folders of servers.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use crate::source::{self, HttpSource, ObjectSource, XrootdSource};
use crate::{ByteSink, ByteSource, HttpSink, IoError, ObjectSink, Settings, XrootdSink};

/// How files of a scheme are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Xrootd,
    Http,
    Object,
    /// By what somebody brought: see [`read_others_with`].
    Other,
}

/// Opens a file of a scheme that is not known here.
pub type OpenOther = fn(&str, &Settings) -> Result<Arc<dyn ByteSource>, IoError>;

static OTHERS: OnceLock<OpenOther> = OnceLock::new();

/// From now on, files of schemes that are not known here are opened by this. Only the first one that is given counts.
pub fn read_others_with(open: OpenOther) {
    OTHERS.get_or_init(|| open);
}

/// The scheme of a URL, in small letters, if it is one.
#[must_use]
pub fn scheme(text: &str) -> Option<String> {
    let (scheme, _) = text.split_once("://")?;
    let mut letters = scheme.chars();
    let begins = letters
        .next()
        .is_some_and(|first| first.is_ascii_alphabetic());
    let goes_on = letters.all(|c| c.is_ascii_alphanumeric() || "+-.:".contains(c));
    (begins && goes_on).then(|| scheme.to_ascii_lowercase())
}

fn protocol(url: &str) -> Option<Protocol> {
    match scheme(url)?.as_str() {
        "file" => None,
        "root" | "roots" | "xroot" | "xroots" => Some(Protocol::Xrootd),
        "http" | "https" | "dav" | "davs" => Some(Protocol::Http),
        "s3" | "s3a" | "gs" | "gcs" | "az" | "azure" | "abfs" | "abfss" => Some(Protocol::Object),
        _ => OTHERS.get().map(|_| Protocol::Other),
    }
}

/// Whether a file is on a server whose files can be read.
#[must_use]
pub fn is_remote(url: &str) -> bool {
    protocol(url).is_some()
}

/// Opens a file of a server.
///
/// # Errors
/// If nothing is known about its scheme, a setting is none, there is no such file, it may not be read, or no server answers.
pub fn open_remote(url: &str, settings: &Settings) -> Result<Arc<dyn ByteSource>, IoError> {
    Ok(match protocol(url) {
        Some(Protocol::Xrootd) => XrootdSource::open(url, settings)?,
        Some(Protocol::Http) => HttpSource::open(url, settings)?,
        Some(Protocol::Object) => ObjectSource::open(url, settings)?,
        Some(Protocol::Other) => match OTHERS.get() {
            Some(open) => open(url, settings)?,
            None => return Err(unknown(url)),
        },
        None => return Err(unknown(url)),
    })
}

/// Makes a file of a server, to be written.
///
/// # Errors
/// If files are not written to servers of its scheme, there is something of that name which is not to be replaced, nothing
/// may be made there, or no server answers.
pub fn create_remote(
    url: &str,
    replaces: bool,
    settings: &Settings,
) -> Result<Arc<dyn ByteSink>, IoError> {
    match protocol(url) {
        Some(Protocol::Xrootd) => Ok(Arc::new(XrootdSink::create(url, replaces, settings)?)),
        Some(Protocol::Object) => Ok(Arc::new(ObjectSink::create(url, replaces, settings)?)),
        Some(Protocol::Http) => Ok(Arc::new(HttpSink::create(url, replaces, settings)?)),
        Some(Protocol::Other) => Err(IoError::NotWritten {
            url: public(url),
            why: "files are written to this machine, to root://, https://, davs://, s3://, gs:// and az://, and not there",
        }),
        None => Err(unknown(url)),
    }
}

fn unknown(url: &str) -> IoError {
    let url = public(url);
    IoError::UnknownScheme { url }
}

/// A URL without what may be secret in it: what is for the server, and a password. A path is itself.
#[must_use]
pub fn public(url: &str) -> String {
    let text = url.split('?').next().unwrap_or_default();
    let Some((scheme, rest)) = text.split_once("://") else {
        return url.to_owned();
    };
    let (server, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    match server.rsplit_once('@') {
        Some((user, host)) if user.contains(':') => {
            let user = user.split(':').next().unwrap_or_default();
            format!("{scheme}://{user}@{host}{path}")
        }
        _ => text.to_owned(),
    }
}

/// Something in a folder of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteEntry {
    /// Its name, without the folder's.
    pub name: String,
    /// Whether it is a folder itself.
    pub is_folder: bool,
    /// Its size in bytes, where the server says it.
    pub size: Option<u64>,
    /// When it was last changed, where the server says it.
    pub modified: Option<SystemTime>,
}

/// What is in a folder of a server, in the order of the names; of a redirector of XRootD, what all of its servers have; of
/// an object store, what begins with the folder's name, up to the next slash.
///
/// # Errors
/// If its server has no lists, there is no such folder, it may not be read, or no server answers.
pub fn list_folder(url: &str, settings: &Settings) -> Result<Vec<RemoteEntry>, IoError> {
    let mut found = match protocol(url) {
        Some(Protocol::Xrootd) => source::list_xrootd(url, settings),
        Some(Protocol::Http) => source::list_http(url, settings),
        Some(Protocol::Object) => source::list_objects(url, settings),
        _ => Err(unknown(url)),
    }?;
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        for (url, shown) in [
            ("https://h/f?token=x", "https://h/f"),
            ("https://me:secret@h:80/f@g", "https://me@h:80/f@g"),
            ("root://me@h//f", "root://me@h//f"),
            ("s3://b", "s3://b"),
        ] {
            assert_eq!(public(url), shown);
        }
    }

    #[test]
    fn schemes_that_nobody_knows_are_told() {
        assert!(is_remote("root://h//f") && is_remote("ROOTS://h//f") && is_remote("HTTPS://h/f"));
        assert!(!is_remote("/root://h") && !is_remote("file:///f") && !is_remote("a b://h"));
        let error = open_remote("gopher://h/f?x", &Settings::default()).unwrap_err();
        assert_eq!(error.kind(), "unsupported-url");
        assert!(error.to_string().starts_with("gopher://h/f: "), "{error}");
    }
}
