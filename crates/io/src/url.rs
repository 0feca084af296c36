//! URLs: schemes, protocols, and removal of secrets. Pure.

use std::borrow::Cow;
use std::time::SystemTime;

use femtobarn_xrootd::without_password;
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// The protocol for a scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Xrootd,
    Http,
    Object(Store),
    /// The objects of an ntuple in a bucket, or as files of a directory.
    Objects(Option<Store>),
    /// A container of DAOS, with ntuples. It is opened by another crate.
    Daos,
    /// Several URLs of the same file: see [`split_sources`].
    Several,
    /// Another protocol, read by a registered function: see [`read_foreign_with`](crate::read_foreign_with).
    Foreign,
}

/// The protocol of an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    S3,
    Google,
    Azure,
}

/// All built-in schemes except local files.
const SCHEMES: [(&[&str], Protocol); 10] = [
    (&["root", "roots", "xroot", "xroots"], Protocol::Xrootd),
    (&["http", "https", "dav", "davs"], Protocol::Http),
    (&["s3", "s3a"], Protocol::Object(Store::S3)),
    (&["gs", "gcs"], Protocol::Object(Store::Google)),
    (
        &["az", "azure", "abfs", "abfss"],
        Protocol::Object(Store::Azure),
    ),
    // ROOT's scheme has the server in the URL
    (
        &["ntpl+s3+https", "ntpl+s3+http", "ntpl+s3"],
        Protocol::Objects(Some(Store::S3)),
    ),
    (&["ntpl+gs"], Protocol::Objects(Some(Store::Google))),
    (&["ntpl+az"], Protocol::Objects(Some(Store::Azure))),
    (&["ntpl+file"], Protocol::Objects(None)),
    (&["daos"], Protocol::Daos),
];

/// The scheme of a URL in lower case, if the string is a URL. For a chain (`simplecache::https://…`), everything before
/// the first `://`.
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

/// The protocol of a URL; `None` for local files and for strings that are not URLs.
pub(crate) fn protocol(url: &str) -> Option<Protocol> {
    let (sources, size) = split_sources(url);
    if sources.len() > 1 || size.is_some() && sources.iter().any(|url| scheme(url).is_some()) {
        return Some(Protocol::Several);
    }
    let scheme = scheme(url).filter(|scheme| scheme != "file")?;
    let known = SCHEMES
        .iter()
        .find(|(names, _)| names.contains(&scheme.as_str()));
    Some(known.map_or(Protocol::Foreign, |(_, protocol)| *protocol))
}

/// Whether the URL has a scheme that femtobarn does not implement: a file system of a registered function, or a chain.
#[must_use]
pub fn is_foreign(url: &str) -> bool {
    protocol(url) == Some(Protocol::Foreign)
}

/// Whether a URL is the base of an ntuple's objects (`ntpl+s3://…`), or a container of DAOS (`daos://…`): not a file.
#[must_use]
pub fn is_object_set(url: &str) -> bool {
    matches!(protocol(url), Some(Protocol::Objects(_) | Protocol::Daos))
}

/// The URL of an ntuple in objects, from that of its anchor as a file.
#[must_use]
pub fn ntuple_of_anchor(file: &str) -> Option<String> {
    let rest = file.split_once("://").map_or(file, |(_, rest)| rest);
    Some(match protocol(file) {
        Some(Protocol::Object(Store::S3)) => format!("ntpl+s3://{rest}"),
        Some(Protocol::Object(Store::Google)) => format!("ntpl+gs://{rest}"),
        Some(Protocol::Object(Store::Azure)) => format!("ntpl+az://{rest}"),
        None => {
            let path = std::path::absolute(&*local_path(file)).ok()?;
            let folder = path.to_str()?.strip_suffix("/anchor")?;
            format!("ntpl+file://{}", encoded(folder))
        }
        Some(_) => return None,
    })
}

/// Whether bytes are the beginning of an anchor, whose first member is its version.
#[must_use]
pub fn begins_as_anchor(bytes: &[u8]) -> bool {
    let members = bytes.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
    members.is_some_and(|members| members.starts_with(b"\"anchorVersion\""))
}

/// Whether a URL is a file that is an object of an object store.
#[must_use]
pub fn is_object(url: &str) -> bool {
    matches!(protocol(url), Some(Protocol::Object(_)))
}

/// Whether a URL is a container of DAOS.
#[must_use]
pub fn is_daos(url: &str) -> bool {
    protocol(url) == Some(Protocol::Daos)
}

/// Whether a URL is an XRootD URL.
#[must_use]
pub fn is_of_xrootd(url: &str) -> bool {
    protocol(url) == Some(Protocol::Xrootd)
}

/// A URL without secrets: without its query and password. A path is unchanged.
#[must_use]
pub fn public(url: &str) -> String {
    let shown = split_sources(url).0.into_iter().map(public_of_one);
    shown.collect::<Vec<_>>().join("|")
}

fn public_of_one(url: &str) -> String {
    match is_foreign(url) {
        true => url
            .split("::")
            .map(public_link)
            .collect::<Vec<_>>()
            .join("::"),
        false => public_link(url),
    }
}

/// The URLs of one file, and its size if `|size=1234` at the end gives it. ROOT separates URLs by `|`, after which a URL
/// follows; in a query, `|` is written `%7C`.
///
/// ```
/// use femtobarn_io::split_sources;
/// assert_eq!(split_sources("root://a//f|https://b/f|size=12").0.len(), 2);
/// assert_eq!(split_sources("a|b.root").0.len(), 1);
/// ```
#[must_use]
pub fn split_sources(text: &str) -> (Vec<&str>, Option<u64>) {
    let sized = text.rsplit_once("|size=");
    let sized = sized.and_then(|(urls, size)| Some((urls, size.parse().ok()?)));
    let (text, size) = sized.map_or((text, None), |(urls, size)| (urls, Some(size)));
    let (mut sources, mut start) = (Vec::new(), 0);
    for (at, _) in text.match_indices('|') {
        let rest = text.get(at + 1..).unwrap_or_default();
        if at > start && scheme(rest).is_some() {
            sources.extend(text.get(start..at));
            start = at + 1;
        }
    }
    sources.extend(text.get(start..));
    (sources, size)
}

/// The name of a file with several URLs or paths, and its size if it is known.
#[must_use]
pub fn join_sources(sources: &[impl AsRef<str>], size: Option<u64>) -> String {
    let name = |source: &str| match scheme(source) {
        Some(_) => source.to_owned(),
        None => {
            let path = std::path::absolute(source).unwrap_or_else(|_| source.into());
            let path = path.to_string_lossy();
            format!("file://{}", path.replace('%', "%25").replace('|', "%7C"))
        }
    };
    let mut names: Vec<String> = sources.iter().map(|source| name(source.as_ref())).collect();
    names.extend(size.map(|size| format!("size={size}")));
    names.join("|")
}

/// The same for one part of a chain.
fn public_link(url: &str) -> String {
    match url.split_once("://") {
        None => url.to_owned(),
        // in a path, a question mark is an ordinary character
        Some(("file" | "ntpl+file", _)) => url.to_owned(),
        // the part after the colon is the repository, not a password
        Some(("github", _)) => url.split('?').next().unwrap_or_default().to_owned(),
        Some(_) => without_password(url),
    }
}

/// The server of a URL, or the bucket, with the scheme; `local` for files of this machine.
pub(crate) fn server(url: &str) -> String {
    match public(url).split_once("://") {
        None | Some(("file" | "ntpl+file", _)) => "local".to_owned(),
        Some((scheme, rest)) => {
            let host = rest.split(['/', '?']).next().unwrap_or_default();
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            format!("{scheme}://{host}")
        }
    }
}

/// An entry of a directory on a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteEntry {
    /// Its name, without the directory.
    pub name: String,
    /// Whether it is a directory itself.
    pub is_folder: bool,
    /// Its size in bytes, if the server reports it.
    pub size: Option<u64>,
    /// Its modification time, if the server reports it.
    pub modified: Option<SystemTime>,
}

/// The path of a local file. The scheme and percent-encoding of a `file:` URL are removed, and a leading `~` is
/// replaced by the home directory.
#[must_use]
pub fn local_path(text: &str) -> Cow<'_, str> {
    let Some((scheme, path)) = text.split_once("://") else {
        return expand_home(text);
    };
    match scheme.eq_ignore_ascii_case("file") {
        true => Cow::Owned(decoded(path)),
        false => Cow::Borrowed(text),
    }
}

/// A path with a leading `~` replaced by the home directory.
#[must_use]
pub fn expand_home(path: &str) -> Cow<'_, str> {
    match (path.strip_prefix('~'), std::env::var("HOME")) {
        (Some(rest), Ok(home)) if rest.is_empty() || rest.starts_with('/') => {
            Cow::Owned(format!("{home}{rest}"))
        }
        _ => Cow::Borrowed(path),
    }
}

/// What has a meaning in URLs of objects, or in patterns of them.
const SPECIAL: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'%')
    .add(b'#')
    .add(b'?')
    .add(b':')
    .add(b'@')
    .add(b'*')
    .add(b'[')
    .add(b']')
    .add(b'{')
    .add(b'}')
    .add(b'|')
    .add(b'\\');

/// A path as part of the URL of objects, as `open` reads it.
#[must_use]
pub fn encoded(path: &str) -> String {
    utf8_percent_encode(path, SPECIAL).to_string()
}

/// Decodes percent-encoding. Invalid sequences are kept, for servers that do not encode.
pub(crate) fn decoded(name: &str) -> String {
    percent_decode_str(name).decode_utf8_lossy().into_owned()
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
            (
                "root://h//f?x|https://me:secret@h/f?token=x|file:///a?b",
                "root://h//f|https://me@h/f|file:///a?b",
            ),
            // passwords without the required encoding
            ("https://me:pa/ss@h/f?x", "https://me@h/f"),
            ("https://me:pa?ss@h/f", "https://me@h/f"),
            ("https://me:p#a/s?s@h:80/f@g", "https://me@h:80/f@g"),
            ("root://me:/secret@h//f", "root://me@h//f"),
            // without a password
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
    fn servers_have_no_users_and_no_secrets() {
        for (url, found) in [
            ("root://me@h:1094//f?authz=x", "root://h:1094"),
            ("https://me:secret@h/f", "https://h"),
            ("s3://bucket/key", "s3://bucket"),
            ("/data/f", "local"),
            ("file:///data/f", "local"),
            ("zip://a.root::https://h/f.zip?x", "zip://a.root::https:"),
        ] {
            assert_eq!(server(url), found);
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
            assert_eq!(is_foreign(url), expected.is_some());
        }
        assert!(!is_foreign("root://h//f") && !is_foreign("/f") && !is_foreign("file:///f"));
    }

    #[test]
    fn several_urls_of_one_file_are_one_name() {
        let all = ["root://h//f", "https://h:80/g?a=%7Cb", "file:///a%20b"];
        for size in [None, Some(12)] {
            let name = join_sources(&all, size);
            assert_eq!(split_sources(&name), (all.to_vec(), size));
            assert_eq!(protocol(&name), Some(Protocol::Several));
        }
        let local = join_sources(&["/x%y|z.root", "root://h//f"], None);
        assert_eq!(
            split_sources(&local).0,
            ["file:///x%25y%7Cz.root", "root://h//f"]
        );
        assert_eq!(local_path("file:///x%25y%7Cz.root"), "/x%y|z.root");
        assert_eq!(split_sources("/a|b|root://h//f").0, ["/a|b", "root://h//f"]);
        assert_eq!(split_sources("|root://h//f").0, ["|root://h//f"]);
        assert_eq!(
            (split_sources("").0, protocol("/a|size=5")),
            (vec![""], None)
        );
    }
}
