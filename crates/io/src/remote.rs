//! Files that are not on this machine: which source a URL's scheme asks for, and what is in folders of servers.

use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use femtobarn_xrootd::without_password;

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

/// What reads files of schemes that are not known here.
#[derive(Debug, Clone, Copy)]
pub struct Others {
    /// Opens a file.
    pub open: OpenOther,
    /// Says what is in a folder.
    pub list: fn(&str, &Settings) -> Result<Vec<RemoteEntry>, IoError>,
    /// Gives the URLs of the files that fit a pattern.
    pub find: fn(&str, &Settings) -> Result<Vec<String>, IoError>,
}

static OTHERS: OnceLock<Others> = OnceLock::new();

/// From now on, files of schemes that are not known here are read by this, and those for which the setting `handler` says
/// `fsspec`. Only the first one that is given counts.
pub fn read_others_with(others: Others) {
    OTHERS.get_or_init(|| others);
}

/// The scheme of a URL, in small letters, if it is one. Of a chain (`simplecache::https://…`) it is all in front of the first
/// `://`.
#[must_use]
pub fn scheme(text: &str) -> Option<String> {
    let (schemes, _) = text.split_once("://")?;
    let is_scheme = |text: &str| {
        let mut letters = text.chars();
        let begins = letters
            .next()
            .is_some_and(|first| first.is_ascii_alphabetic());
        begins && letters.all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
    };
    let are_schemes = schemes.split("::").all(is_scheme);
    are_schemes.then(|| schemes.to_ascii_lowercase())
}

/// Who reads a scheme; none for files of this machine, and for what is no URL.
fn of_scheme(url: &str) -> Option<Protocol> {
    Some(match scheme(url)?.as_str() {
        "file" => return None,
        "root" | "roots" | "xroot" | "xroots" => Protocol::Xrootd,
        "http" | "https" | "dav" | "davs" => Protocol::Http,
        "s3" | "s3a" | "gs" | "gcs" | "az" | "azure" | "abfs" | "abfss" => Protocol::Object,
        _ => Protocol::Other,
    })
}

fn protocol(url: &str) -> Option<Protocol> {
    of_scheme(url).filter(|found| *found != Protocol::Other || OTHERS.get().is_some())
}

/// Who reads the file of a URL, where settings say it as well.
fn protocol_by(url: &str, settings: &Settings) -> Result<Option<Protocol>, IoError> {
    let found = protocol(url);
    // files of this machine are read without anybody's help
    match found.is_some() && settings.is_for_others()? {
        true => Ok(Some(Protocol::Other)),
        false => Ok(found),
    }
}

/// Whether a URL is none of this machine and of the protocols that are known here: one of a file system that somebody may
/// have brought, or a chain of such.
#[must_use]
pub fn is_for_others(url: &str) -> bool {
    of_scheme(url) == Some(Protocol::Other)
}

/// Whether a URL is one of XRootD.
#[must_use]
pub fn is_of_xrootd(url: &str) -> bool {
    of_scheme(url) == Some(Protocol::Xrootd)
}

/// Who reads what is not known here, if that is to read this URL.
///
/// # Errors
/// If a setting says so, and nobody was brought; or is nonsense.
pub fn others_for(url: &str, settings: &Settings) -> Result<Option<&'static Others>, IoError> {
    if protocol_by(url, settings)? != Some(Protocol::Other) {
        return Ok(None);
    }
    others(url).map(Some)
}

fn others(url: &str) -> Result<&'static Others, IoError> {
    OTHERS.get().ok_or_else(|| match is_for_others(url) {
        true => unknown(url),
        false => IoError::Setting {
            url: public(url),
            what:
                "the handler fsspec is one of the Python package: pip install 'femtobarn[fsspec]'"
                    .to_owned(),
        },
    })
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
    Ok(match protocol_by(url, settings)? {
        Some(Protocol::Xrootd) => XrootdSource::open(url, settings)?,
        Some(Protocol::Http) => HttpSource::open(url, settings)?,
        Some(Protocol::Object) => ObjectSource::open(url, settings)?,
        Some(Protocol::Other) => (others(url)?.open)(url, settings)?,
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
    match is_for_others(url) {
        true => url
            .split("::")
            .map(public_link)
            .collect::<Vec<_>>()
            .join("::"),
        false => public_link(url),
    }
}

/// The same of a part of a chain.
fn public_link(url: &str) -> String {
    match url.split_once("://") {
        None => url.to_owned(),
        // a question mark is a part of a path
        Some(("file", _)) => url.to_owned(),
        // what is behind the colon is no password there, but the repository
        Some(("github", _)) => url.split('?').next().unwrap_or_default().to_owned(),
        Some(_) => without_password(url),
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
    let mut found = match protocol_by(url, settings)? {
        Some(Protocol::Xrootd) => source::list_xrootd(url, settings),
        Some(Protocol::Http) => source::list_http(url, settings),
        Some(Protocol::Object) => source::list_objects(url, settings),
        Some(Protocol::Other) => (others(url)?.list)(url, settings),
        None => Err(unknown(url)),
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
            ("file:///a?b.root", "file:///a?b.root"),
            (
                "zip://a.root?x::https://me:secret@h/f.zip?token=x::simplecache",
                "zip://a.root::https://me@h/f.zip::simplecache",
            ),
            ("root://[::1]//f?x", "root://[::1]//f"),
            // passwords that are not encoded as they must be
            ("https://me:pa/ss@h/f?x", "https://me@h/f"),
            ("https://me:pa?ss@h/f", "https://me@h/f"),
            ("https://me:p#a/s?s@h:80/f@g", "https://me@h:80/f@g"),
            ("root://me:/secret@h//f", "root://me@h//f"),
            // these have none
            (
                "root://h:1094//eos/me@cern/f",
                "root://h:1094//eos/me@cern/f",
            ),
            ("root://h//eos/me:x@cern/f", "root://h//eos/me:x@cern/f"),
            ("https://[::1]:80/a@b", "https://[::1]:80/a@b"),
            ("https://h/f?mail=a@b", "https://h/f"),
            (
                "github://me:repository@main/f",
                "github://me:repository@main/f",
            ),
        ] {
            assert_eq!(public(url), shown);
        }
    }

    #[test]
    fn chains_have_schemes_and_are_for_others() {
        for (url, expected) in [
            ("SimpleCache::https://h/f", Some("simplecache::https")),
            ("zip://a.root::https://h/f", Some("zip")),
            ("a b::https://h/f", None),
            ("a:b://h/f", None),
        ] {
            assert_eq!(scheme(url).as_deref(), expected);
            assert_eq!(is_for_others(url), expected.is_some());
        }
        assert!(
            !is_for_others("root://h//f") && !is_for_others("/f") && !is_for_others("file:///f")
        );
    }

    #[test]
    fn who_is_to_read_by_a_setting_must_be_there() {
        let given = |handler: &str| Settings::with("root://h//f", &[("handler", handler)]);
        let error = open_remote("root://h//f", &given("fsspec").unwrap()).unwrap_err();
        assert!(error.to_string().contains("pip install"), "{error}");
        let error = given("uproot").unwrap_err();
        assert!(error.to_string().contains("femtobarn or fsspec"), "{error}");
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
