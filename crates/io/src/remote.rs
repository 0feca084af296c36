//! Files that are not on this machine: opening, creating and listing them by the protocol of their URL.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use crate::cache::listed;
use crate::object_set::{self, ObjectSetSource};
use crate::source::{self, HttpSource, ObjectSource, XrootdSource};
use crate::url::{Protocol, RemoteEntry, is_foreign, local_path, protocol, public};
use crate::{
    ByteSink, ByteSource, HttpSink, IoError, LocalSource, ObjectSink, OriginSource, Settings,
    SourceCost, SourceMeta, XrootdSink,
};

/// Opens a file of a scheme that is not known here.
pub type OpenForeign = fn(&str, &Settings) -> Result<Arc<dyn ByteSource>, IoError>;

/// What reads files of schemes that are not known here.
#[derive(Debug, Clone, Copy)]
pub struct ForeignFs {
    /// Opens a file.
    pub open: OpenForeign,
    /// Lists a directory.
    pub list: fn(&str, &Settings) -> Result<Vec<RemoteEntry>, IoError>,
    /// Gives the URLs of the files that fit a pattern.
    pub find: fn(&str, &Settings) -> Result<Vec<String>, IoError>,
}

static FOREIGN: OnceLock<ForeignFs> = OnceLock::new();

/// From now on, this function reads files of unknown schemes, and files whose setting `handler` is `fsspec`. Only the
/// first one that is given counts.
pub fn read_foreign_with(others: ForeignFs) {
    FOREIGN.get_or_init(|| others);
}

fn readable(url: &str) -> Option<Protocol> {
    protocol(url).filter(|found| *found != Protocol::Foreign || FOREIGN.get().is_some())
}

/// The function that reads the file of a URL, according to settings.
fn protocol_by(url: &str, settings: &Settings) -> Result<Option<Protocol>, IoError> {
    let found = readable(url);
    // files of this machine are read without anybody's help
    match found.is_some_and(|found| found != Protocol::Several) && settings.is_foreign()? {
        true => Ok(Some(Protocol::Foreign)),
        false => Ok(found),
    }
}

/// The function for unknown schemes, if it should read this URL.
///
/// # Errors
/// If a setting selects it, and no function was registered; or is nonsense.
pub fn foreign_for(url: &str, settings: &Settings) -> Result<Option<&'static ForeignFs>, IoError> {
    if protocol_by(url, settings)? != Some(Protocol::Foreign) {
        return Ok(None);
    }
    others(url).map(Some)
}

fn others(url: &str) -> Result<&'static ForeignFs, IoError> {
    FOREIGN.get().ok_or_else(|| match is_foreign(url) {
        true => unknown(url),
        false => IoError::Setting {
            url: public(url),
            what: "the handler fsspec needs the Python package: pip install 'femtobarn[fsspec]'"
                .to_owned(),
        },
    })
}

/// Whether a file is on a supported server.
#[must_use]
pub fn is_remote(url: &str) -> bool {
    readable(url).is_some()
}

/// Opens a file of a server. It is read from several servers if it has several URLs, or if a redirector of XRootD knows them.
///
/// # Errors
/// If its scheme is not supported, a setting is invalid, the file does not exist or may not be read, or no server
/// answers.
pub fn open_remote(url: &str, settings: &Settings) -> Result<Arc<dyn ByteSource>, IoError> {
    source::open_several(url, settings, open_one)
}

/// Opens one source of a file: the first, or another one, on none of these servers if a redirector of XRootD knows others.
fn open_one(
    url: &str,
    settings: &Settings,
    avoided: Option<&[String]>,
) -> Result<Arc<dyn ByteSource>, IoError> {
    let by = protocol_by(url, settings)?;
    OriginSource::open(url, settings, avoided.is_some(), || {
        Ok(match by {
            Some(Protocol::Xrootd) => {
                XrootdSource::open_elsewhere(url, settings, avoided.unwrap_or_default())?
            }
            Some(Protocol::Http) => HttpSource::open(url, settings)?,
            Some(Protocol::Object(_)) => ObjectSource::open(url, settings)?,
            Some(Protocol::Objects(_)) => ObjectSetSource::open(url, settings)?,
            Some(Protocol::Foreign) => (others(url)?.open)(url, settings)?,
            None if protocol(url).is_none() => LocalSource::open(Path::new(&*local_path(url)))?,
            Some(Protocol::Daos) => return Err(of_daos(url)),
            Some(Protocol::Several) | None => return Err(unknown(url)),
        })
    })
}

/// The state of a file, by a request that brings none of its bytes; none if its protocol has no request that is shorter
/// than opening it, or if it fails.
pub(crate) fn state_of(url: &str, settings: &Settings) -> Result<Option<SourceMeta>, IoError> {
    match protocol_by(url, settings)? {
        Some(Protocol::Http) => source::state_of_http(url, settings),
        Some(Protocol::Object(_)) => source::state_of_object(url, settings),
        Some(Protocol::Objects(_)) => object_set::state_of(url, settings),
        _ => Ok(None),
    }
}

/// How requests to files of a URL's protocol are cut.
pub(crate) fn usual_cost(url: &str) -> SourceCost {
    match protocol(url) {
        Some(Protocol::Xrootd) => XrootdSource::cost(),
        Some(Protocol::Http) => HttpSource::cost(),
        Some(Protocol::Object(_)) => ObjectSource::cost(),
        Some(Protocol::Objects(_)) => ObjectSetSource::cost(url),
        _ => SourceCost::default(),
    }
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
    match readable(url) {
        Some(Protocol::Xrootd) => Ok(Arc::new(XrootdSink::create(url, replaces, settings)?)),
        Some(Protocol::Object(_)) => Ok(Arc::new(ObjectSink::create(url, replaces, settings)?)),
        Some(Protocol::Http) => Ok(Arc::new(HttpSink::create(url, replaces, settings)?)),
        Some(Protocol::Several) => Err(IoError::NotWritten {
            url: public(url),
            why: "cannot write to several URLs: write to one of them",
        }),
        Some(Protocol::Objects(_) | Protocol::Daos) => Err(IoError::NotWritten {
            url: public(url),
            why: "only an ntuple is stored as objects: write a file to s3://, gs://, az:// or a directory",
        }),
        Some(Protocol::Foreign) => Err(IoError::NotWritten {
            url: public(url),
            why: "cannot write there: supported are local files, root://, https://, davs://, s3://, gs:// and az://",
        }),
        None => Err(unknown(url)),
    }
}

/// The error for what can only be done with files.
fn of_daos(url: &str) -> IoError {
    IoError::Unsupported {
        url: public(url),
        why: "a container of DAOS has ntuples, and no files or directories".to_owned(),
        is_missing: false,
    }
}

fn unknown(url: &str) -> IoError {
    let url = public(url);
    IoError::UnknownScheme { url }
}

/// The entries of a directory on a server, sorted by name; of a redirector of XRootD, what all of its servers have; for
/// an object store, the keys that begin with the directory's name, up to the next slash.
///
/// # Errors
/// If its server has no listings, the directory does not exist or may not be read, or no server answers.
pub fn list_folder(url: &str, settings: &Settings) -> Result<Vec<RemoteEntry>, IoError> {
    listed(url, settings, || list_now(url, settings))
}

fn list_now(url: &str, settings: &Settings) -> Result<Vec<RemoteEntry>, IoError> {
    let mut found = match protocol_by(url, settings)? {
        Some(Protocol::Xrootd) => source::list_xrootd(url, settings),
        Some(Protocol::Http) => source::list_http(url, settings),
        Some(Protocol::Object(_) | Protocol::Objects(Some(_))) => {
            source::list_objects(url, settings)
        }
        Some(Protocol::Objects(None)) => crate::object_set::list_folder(url),
        Some(Protocol::Daos) => Err(of_daos(url)),
        Some(Protocol::Foreign) => (others(url)?.list)(url, settings),
        Some(Protocol::Several) | None => Err(unknown(url)),
    }?;
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

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
