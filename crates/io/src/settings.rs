//! Settings for servers: from arguments, the environment, and a settings file.
//!
//! A setting is a name and a string. It is looked up in this order: the settings of one file, the settings of the
//! process ([`set_for_all`]), the environment variable `FEMTOBARN_<NAME>`, the section of the settings file whose title
//! is the longest prefix of the URL, and the top of that file. The file is given by `FEMTOBARN_CONFIG`; the default is
//! `femtobarn/config.toml` in the user's configuration directory (`XDG_CONFIG_HOME`, `~/.config`).

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use femtobarn_xrootd::{Rate, Token, read_unwritable};

use crate::nearest::nearest_within;
use crate::units::parse_bytes;
use crate::url::{is_foreign, public, scheme};
use crate::{IoError, SourceCost};

/// The variable with the most memory that is kept for later reads.
pub const IDLE_MEMORY: &str = "FEMTOBARN_IDLE_MEMORY";

/// A setting that there is: its name, and its description.
pub const SETTINGS: &[(&str, &str)] = &[
    (
        "connect_timeout",
        "timeout for connecting, including login, in seconds (10)",
    ),
    (
        "request_timeout",
        "timeout without any received data, in seconds (60)",
    ),
    (
        "longest_wait",
        "longest delay in seconds that a server can request (600)",
    ),
    (
        "least_rate",
        "minimum data rate of an answer in bytes per second, averaged over request_timeout; 0 for no minimum (100)",
    ),
    (
        "total_timeout",
        "timeout in seconds for one read from a server, including retries (3600)",
    ),
    (
        "most_redirects",
        "maximum number of redirects per request (16)",
    ),
    (
        "most_retries",
        "maximum number of retries after temporary failures (3)",
    ),
    (
        "sources",
        "maximum number of sources that one file is read from at the same time; 1 reads another one only after a failure (2)",
    ),
    (
        "open_files",
        "maximum number of files open on XRootD servers (256)",
    ),
    (
        "concurrency",
        "maximum prefetch depth: vector reads of one file at the same time (by protocol)",
    ),
    (
        "requests_at_once",
        "concurrent requests per HTTP server or bucket (16, 128), and concurrent parts of an upload (4)",
    ),
    (
        "in_flight",
        "maximum number of bytes fetched before decoding (64 MiB)",
    ),
    (
        "largest_gap",
        "gap in bytes between two ranges up to which both are read at once (by protocol)",
    ),
    (
        "largest_request",
        "maximum number of bytes of merged ranges (by protocol)",
    ),
    (
        "largest_vector",
        "maximum number of bytes of one vector read (by protocol)",
    ),
    (
        "handler",
        "library that reads remote files: femtobarn or fsspec (femtobarn, where supported)",
    ),
    (
        "record",
        "file to which operations on files are appended, in the format of XRootD's recorder",
    ),
    (
        "report",
        "report at the end of the process: 1 for text on standard error, or json:PATH",
    ),
    (
        "monitor",
        "collector that gets one datagram of JSON per closed file: udp://HOST:PORT",
    ),
    ("site", "name of this site in datagrams of monitoring"),
    ("user", "user name sent at XRootD login"),
    (
        "checksums",
        "whether XRootD transfers use checksums (false)",
    ),
    (
        "authorities",
        "certificates of authorities: a file or a directory (those of the system and the grid)",
    ),
    ("sss_keytab", "key table of sss (~/.xrd/sss.keytab)"),
    (
        "bearer_token",
        "token for https, davs and XRootD (searched as in WLCG's profile)",
    ),
    (
        "partial_lists",
        "whether listings and patterns of an XRootD redirector may be incomplete if a server does not answer (false)",
    ),
    (
        "object_size",
        "size of the objects of an ntuple: page, cluster, or bytes (16 MB; in DAOS, 1 MiB of a column)",
    ),
    (
        "object_class",
        "class of the objects of an ntuple in DAOS, such as SX (chosen by DAOS)",
    ),
    ("endpoint", "server of an object store"),
    ("region", "region of an object store"),
    ("profile", "profile in ~/.aws"),
    (
        "anonymous",
        "whether object stores are accessed without credentials (false)",
    ),
    ("access_key_id", "access key of an object store"),
    ("secret_access_key", "secret of the access key"),
    ("session_token", "session token of an object store"),
    (
        "part_size",
        "size in bytes of the parts of an upload to an object store (16 MiB)",
    ),
    (
        "cache",
        "directory for cached parts of remote files, and its maximum size: DIR or DIR:SIZE, or off (off; 20 GiB)",
    ),
    (
        "cache_key",
        "what a cached file is known by: url, or logical: its path from cache_prefix on, whatever the server (url)",
    ),
    (
        "cache_prefix",
        "where the logical name begins in the path of a URL (/store/)",
    ),
    (
        "cache_list_ttl",
        "time in seconds for which listings of servers, and the states of cached files, are not asked for again (0)",
    ),
    (
        "lazy_download",
        "size in bytes of chunks that are downloaded whole to a temporary file when something of them is read (none)",
    ),
    (
        "immutable",
        "whether cached files never change and are used without asking the server (false)",
    ),
    (
        "spool_folder",
        "directory for files that are sent as a whole after writing (the directory for temporary files)",
    ),
];

/// The settings that are secret.
pub const SECRET_SETTINGS: &[&str] = &["bearer_token", "secret_access_key", "session_token"];

/// The settings that apply to all handlers; the others are for built-in protocols only.
pub const SETTINGS_FOR_ALL: &[&str] = &[
    "handler",
    "record",
    "report",
    "monitor",
    "site",
    "concurrency",
    "in_flight",
    "largest_gap",
    "largest_request",
    "largest_vector",
    "cache",
    "cache_key",
    "cache_prefix",
    "cache_list_ttl",
    "lazy_download",
    "immutable",
];

/// Numeric settings for which 0 would block all work.
const ABOVE_ZERO: &[&str] = &[
    "connect_timeout",
    "request_timeout",
    "total_timeout",
    "open_files",
    "sources",
    "concurrency",
    "requests_at_once",
    "in_flight",
    "largest_request",
    "largest_vector",
    "lazy_download",
];

/// Bytes per second; with 128 concurrent requests, less than any usable connection.
const LEAST_RATE: u64 = 100;

/// Prefix of environment variables for settings.
const PREFIX: &str = "FEMTOBARN_";

/// The name of options that only the registered function ([`read_foreign_with`](crate::read_foreign_with)) interprets.
/// They are never read from the environment or a file.
pub const STORAGE_OPTIONS: &str = "storage_options";

/// Limits for requests to servers; the fields have the names of the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub connect_timeout: Duration,
    pub request_timeout: Duration,
    pub longest_wait: Duration,
    /// Bytes per second.
    pub least_rate: u64,
    pub total_timeout: Duration,
    pub most_redirects: usize,
    pub most_retries: usize,
}

impl Limits {
    /// Minimum rate of answers.
    pub fn rate(&self) -> Rate {
        Rate {
            least: self.least_rate,
            window: self.request_timeout,
        }
    }
}

/// Settings for all files of the process, unless a file has its own.
static OF_PROCESS: RwLock<BTreeMap<String, String>> = RwLock::new(BTreeMap::new());

/// Sets settings for all files of the process that do not have their own.
///
/// # Errors
/// If a name is not in [`SETTINGS`].
pub fn set_for_all(given: BTreeMap<String, String>) -> Result<(), IoError> {
    for name in given.keys() {
        check_name(name, "all files")?;
    }
    *OF_PROCESS.write().unwrap_or_else(PoisonError::into_inner) = given;
    Ok(())
}

/// Settings for one URL.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Settings {
    given: Arc<BTreeMap<String, String>>,
    url: String,
    /// Opening a source does not read the ends of its file.
    skips_ends: bool,
}

/// Does not print values, which may be secrets.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.given.keys()).finish()
    }
}

impl Settings {
    /// The settings for a URL, with given ones.
    ///
    /// # Errors
    /// If a name is not in [`SETTINGS`] and femtobarn itself reads the URL. Other handlers check their own names.
    pub fn new(url: &str, given: BTreeMap<String, String>) -> Result<Self, IoError> {
        let settings = Self {
            given: Arc::new(given),
            url: public(url),
            skips_ends: false,
        };
        if !is_foreign(url) && !settings.is_foreign()? {
            let names = settings.given.keys();
            for name in names.filter(|name| *name != STORAGE_OPTIONS) {
                check_name(name, &settings.url)?;
            }
            settings.check_flags()?;
        }
        Ok(settings)
    }

    /// Checks that boolean settings are valid, even if no protocol uses them.
    fn check_flags(&self) -> Result<(), IoError> {
        let flags = ["checksums", "anonymous", "partial_lists", "immutable"];
        for name in flags.iter().filter(|name| self.given.contains_key(**name)) {
            self.flag(name)?;
        }
        Ok(())
    }

    /// Whether the registered function should read remote files of any scheme.
    pub(crate) fn is_foreign(&self) -> Result<bool, IoError> {
        let parse = |text: &str| match text {
            "femtobarn" => Some(false),
            "fsspec" => Some(true),
            _ => None,
        };
        let found = self.parsed("handler", "femtobarn or fsspec", parse)?;
        Ok(found.unwrap_or_default())
    }

    /// The options for the registered function, as given.
    #[must_use]
    pub fn storage_options(&self) -> Option<&str> {
        self.given.get(STORAGE_OPTIONS).map(String::as_str)
    }

    /// The settings for a URL with given ones, in the form that tests use.
    #[cfg(test)]
    pub(crate) fn with(url: &str, given: &[(&str, &str)]) -> Result<Self, IoError> {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Self::new(url, given.iter().map(pair).collect())
    }

    /// The settings for a URL without given ones.
    #[must_use]
    pub fn of(url: &str) -> Self {
        Self {
            url: public(url),
            ..Self::default()
        }
    }

    /// The same settings, with another value of one.
    #[must_use]
    pub fn but(&self, name: &str, value: &str) -> Self {
        let mut given = BTreeMap::clone(&self.given);
        given.insert(name.to_owned(), value.to_owned());
        Self {
            given: Arc::new(given),
            ..self.clone()
        }
    }

    /// The same settings, for a source that does not read the ends of its file when it is opened, because they are here.
    #[must_use]
    pub(crate) fn without_ends(&self) -> Self {
        Self {
            skips_ends: true,
            ..self.clone()
        }
    }

    /// Whether opening a source does without the ends of its file.
    pub(crate) fn skips_ends(&self) -> bool {
        self.skips_ends
    }

    /// The same settings for another URL of the same file.
    #[must_use]
    pub(crate) fn for_url(&self, url: &str) -> Self {
        Self {
            url: public(url),
            ..self.clone()
        }
    }

    /// The value of a setting; `None` if it is not set.
    ///
    /// # Errors
    /// If the settings file is invalid.
    pub fn text(&self, name: &str) -> Result<Option<String>, IoError> {
        if let Some(given) = self.given.get(name) {
            return Ok(Some(given.clone()));
        }
        let of_process = OF_PROCESS.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(given) = of_process.get(name) {
            return Ok(Some(given.clone()));
        }
        let variable = std::env::var(variable(name));
        if let Ok(text) = variable
            && !text.trim().is_empty()
        {
            return Ok(Some(text.trim().to_owned()));
        }
        Ok(file()?.text(&self.url, name))
    }

    /// The values of a setting that the settings file has for some servers.
    ///
    /// # Errors
    /// If the settings file is invalid.
    pub fn of_servers(name: &str) -> Result<Vec<String>, IoError> {
        let parts = file()?.parts.iter();
        Ok(parts
            .filter_map(|(_, part)| part.get(name).cloned())
            .collect())
    }

    /// Where a setting is set, for messages; `None` if it is not set.
    ///
    /// # Errors
    /// If the settings file is invalid.
    pub fn place(&self, name: &str) -> Result<Option<String>, IoError> {
        if self.given.contains_key(name) {
            return Ok(Some("given".to_owned()));
        }
        let variable = variable(name);
        if std::env::var(&variable).is_ok_and(|text| !text.trim().is_empty()) {
            return Ok(Some(variable));
        }
        let found = file()?.text(&self.url, name);
        Ok(found.map(|_| "the file of settings".to_owned()))
    }

    /// A setting with a number or another value without spaces.
    ///
    /// # Errors
    /// If the value is invalid.
    pub fn number<T: FromStr + Default + PartialEq>(
        &self,
        name: &'static str,
    ) -> Result<Option<T>, IoError> {
        self.parsed(name, "a number", |text| text.parse().ok())
    }

    /// A setting with a number of bytes, such as `16 MiB`, `16M` or `16777216`.
    ///
    /// # Errors
    /// If the value is invalid.
    pub fn bytes(&self, name: &'static str) -> Result<Option<u64>, IoError> {
        self.parsed(name, "a number of bytes, e.g. 16 MiB", parse_bytes)
    }

    /// A setting with a number of seconds.
    ///
    /// # Errors
    /// If the value is invalid.
    pub fn seconds(&self, name: &'static str) -> Result<Option<Duration>, IoError> {
        self.parsed(name, "a number of seconds", |text| {
            Duration::try_from_secs_f64(text.parse().ok()?).ok()
        })
    }

    /// A boolean setting.
    ///
    /// # Errors
    /// If the value is invalid.
    pub fn flag(&self, name: &'static str) -> Result<bool, IoError> {
        let found = self.parsed(name, "true or false", |text| {
            match text.to_lowercase().as_str() {
                "1" | "true" | "yes" | "on" => Some(true),
                "0" | "false" | "no" | "off" => Some(false),
                _ => None,
            }
        })?;
        Ok(found.unwrap_or_default())
    }

    /// The limits for requests, which are the same for all protocols.
    ///
    /// # Errors
    /// If a value is invalid, or an environment variable is misspelt.
    pub(crate) fn limits(&self) -> Result<Limits, IoError> {
        self.check_environment()?;
        let seconds = |name, usual| {
            let found = self.seconds(name)?;
            Ok::<_, IoError>(found.unwrap_or(Duration::from_secs(usual)))
        };
        let count = |name, usual| Ok::<_, IoError>(self.number(name)?.unwrap_or(usual));
        Ok(Limits {
            least_rate: self.bytes("least_rate")?.unwrap_or(LEAST_RATE),
            total_timeout: seconds("total_timeout", 3600)?,
            connect_timeout: seconds("connect_timeout", 10)?,
            request_timeout: seconds("request_timeout", 60)?,
            longest_wait: seconds("longest_wait", 600)?,
            most_redirects: count("most_redirects", 16)?,
            most_retries: count("most_retries", 3)?,
        })
    }

    /// The costs of a source with overrides from settings.
    ///
    /// # Errors
    /// If a value is invalid, or an environment variable is misspelt.
    pub fn cost(&self, own: SourceCost) -> Result<SourceCost, IoError> {
        self.check_environment()?;
        let bytes = |name, own: u64| Ok::<_, IoError>(self.bytes(name)?.unwrap_or(own));
        Ok(SourceCost {
            largest_gap: bytes("largest_gap", own.largest_gap)?,
            // an explicit gap setting has no total limit
            most_gaps: match self.bytes("largest_gap")? {
                Some(_) => None,
                None => own.most_gaps,
            },
            largest_request: bytes("largest_request", own.largest_request)?,
            largest_vector: bytes("largest_vector", own.largest_vector)?,
            in_flight: bytes("in_flight", own.in_flight)?,
            concurrency: self.number("concurrency")?.unwrap_or(own.concurrency),
            ..own
        })
    }

    /// The error of an invalid setting.
    pub(crate) fn invalid(&self, what: String) -> IoError {
        let url = self.url.clone();
        IoError::Setting { url, what }
    }

    /// The bearer token from the settings.
    ///
    /// # Errors
    /// If the value is invalid: characters that HTTP headers do not allow are never sent.
    pub(crate) fn token(&self) -> Result<Option<Token>, IoError> {
        let Some(text) = self.text("bearer_token")? else {
            return Ok(None);
        };
        let is_clean = |text: &str| text.chars().all(|c| c.is_ascii_graphic());
        match Token::of(&text).filter(|token| is_clean(token.secret())) {
            Some(token) => Ok(Some(token)),
            None => Err(IoError::Setting {
                url: self.url.clone(),
                what: "invalid bearer_token: it must be a non-empty ASCII string without spaces and line breaks".to_owned(),
            }),
        }
    }

    /// The directory for local copies of files that are sent as a whole.
    ///
    /// # Errors
    /// If the settings file is invalid.
    pub fn spool_folder(&self) -> Result<PathBuf, IoError> {
        let named = self.text("spool_folder")?;
        Ok(named.map_or_else(std::env::temp_dir, PathBuf::from))
    }

    /// Checks that no environment variable is a misspelt setting, and that the variable which is read where no error can be
    /// returned is valid.
    fn check_environment(&self) -> Result<(), IoError> {
        let idle = std::env::var(IDLE_MEMORY).unwrap_or_default();
        if !idle.trim().is_empty() && parse_bytes(&idle).is_none() {
            return Err(IoError::Setting {
                url: self.url.clone(),
                what: format!(
                    "invalid {IDLE_MEMORY} {idle:?}: expected a number of bytes, e.g. 256 MiB"
                ),
            });
        }
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        let Some((name, meant)) = misspelt(names) else {
            return Ok(());
        };
        Err(IoError::Setting {
            url: self.url.clone(),
            what: format!(
                "the variable {name} is not a setting; did you mean {}?",
                variable(meant)
            ),
        })
    }

    fn parsed<T: Default + PartialEq>(
        &self,
        name: &'static str,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, IoError> {
        let Some(text) = self.text(name)? else {
            return Ok(None);
        };
        let is_above_zero = ABOVE_ZERO.contains(&name);
        match parse(&text).filter(|value| !is_above_zero || *value != T::default()) {
            Some(value) => Ok(Some(value)),
            None => {
                let least = if is_above_zero { ", above 0" } else { "" };
                let url = self.url.clone();
                let what = format!("invalid {name} {text:?}: expected {expected}{least}");
                Err(IoError::Setting { url, what })
            }
        }
    }
}

fn check_name(name: &str, place: &str) -> Result<(), IoError> {
    if SETTINGS.iter().any(|(known, _)| *known == name) {
        return Ok(());
    }
    let known: Vec<&str> = SETTINGS.iter().map(|(known, _)| *known).collect();
    let what = match nearest(name) {
        Some(meant) => format!("unknown setting {name:?}; did you mean {meant}?"),
        None => format!("unknown setting {name:?}; known: {}", known.join(", ")),
    };
    let url = place.to_owned();
    Err(IoError::Setting { url, what })
}

/// The environment variable of a setting.
fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_uppercase())
}

/// The setting with a similar name: at most two mistakes, or one in a short name.
fn nearest(name: &str) -> Option<&'static str> {
    let names = |most: usize, short: bool| {
        let names = SETTINGS.iter().map(|(known, _)| *known);
        let found = nearest_within(most, name, names.filter(|known| (known.len() < 8) == short));
        found.into_iter().next()
    };
    let found = names(1, true).or_else(|| names(2, false))?;
    SETTINGS
        .iter()
        .find(|(known, _)| *known == found)
        .map(|(known, _)| *known)
}

/// The first variable whose name is similar to a setting, and the setting. Dissimilar variables may belong to other
/// programs.
fn misspelt(variables: impl Iterator<Item = String>) -> Option<(String, &'static str)> {
    let mut found = variables.filter_map(|variable| {
        let name = variable.strip_prefix(PREFIX)?.to_lowercase();
        let is_known = SETTINGS.iter().any(|(known, _)| *known == name);
        let meant = nearest(&name).filter(|_| !is_known)?;
        Some((variable, meant))
    });
    found.next()
}

/// The settings file.
#[derive(Debug, Default)]
struct SettingsFile {
    /// The settings at the top.
    top: BTreeMap<String, String>,
    /// The settings in sections, by URL prefix.
    parts: Vec<(String, BTreeMap<String, String>)>,
}

impl SettingsFile {
    fn parse(text: &str, path: &str) -> Result<Self, IoError> {
        let failed = |what: String| IoError::Setting {
            url: path.to_owned(),
            what,
        };
        let table: toml::Table = text
            .parse()
            .map_err(|error: toml::de::Error| failed(on_one_line(&error, text)))?;
        let mut out = Self::default();
        let plain = |name: String, value: toml::Value| {
            check_name(&name, path)?;
            let text = match value {
                toml::Value::String(text) => text,
                toml::Value::Integer(number) => number.to_string(),
                toml::Value::Float(number) => number.to_string(),
                toml::Value::Boolean(flag) => flag.to_string(),
                _ => {
                    return Err(failed(format!(
                        "invalid {name}: expected a string, a number or a boolean"
                    )));
                }
            };
            Ok((name, text))
        };
        for (name, value) in table {
            match value {
                toml::Value::Table(part) => {
                    let part: Result<_, _> = part.into_iter().map(|(n, v)| plain(n, v)).collect();
                    out.parts.push((comparable(&name), part?));
                }
                value => {
                    let (name, text) = plain(name, value)?;
                    out.top.insert(name, text);
                }
            }
        }
        // longest prefix first
        out.parts
            .sort_by_key(|(start, _)| std::cmp::Reverse(start.len()));
        Ok(out)
    }

    fn text(&self, url: &str, name: &str) -> Option<String> {
        let url = comparable(url);
        let fitting = self
            .parts
            .iter()
            .filter(|(start, _)| url.starts_with(start.as_str()));
        let own = fitting.map(|(_, part)| part).chain([&self.top]);
        own.filter_map(|part| part.get(name)).next().cloned()
    }
}

/// The error of a settings file, with its line.
fn on_one_line(error: &toml::de::Error, text: &str) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    let line = before.map_or(1, |before| before.matches('\n').count() + 1);
    format!("line {line}: {}", error.message())
}

/// Normalizes a URL or a prefix of one: schemes and servers in lower case, without the default port, and XRootD paths
/// after a single slash.
pub(crate) fn comparable(url: &str) -> String {
    let Some((_, rest)) = url.split_once("://").filter(|_| !is_foreign(url)) else {
        return url.to_owned();
    };
    let scheme = match scheme(url).unwrap_or_default().as_str() {
        "xroot" => "root".to_owned(),
        "xroots" => "roots".to_owned(),
        other => other.to_owned(),
    };
    let (server, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let (user, host) = server.split_at(server.rfind('@').map_or(0, |at| at + 1));
    let usual = match scheme.as_str() {
        "root" | "roots" => ":1094",
        "http" | "dav" => ":80",
        "https" | "davs" => ":443",
        _ => "",
    };
    let host = host.to_ascii_lowercase();
    let host = host.strip_suffix(usual).unwrap_or(&host);
    let path = match path {
        // the server, port or bucket ends here: settings of one server must not apply to another whose name has the
        // same prefix
        "" if !host.is_empty() => "/".to_owned(),
        path if path.starts_with('?') => format!("/{path}"),
        path if path.starts_with('/') && scheme.starts_with("root") => {
            format!("/{}", path.trim_start_matches('/'))
        }
        path => path.to_owned(),
    };
    format!("{scheme}://{user}{host}{path}")
}

/// The settings file of this process, read once. An invalid file is reported at each use.
fn file() -> Result<&'static SettingsFile, IoError> {
    static FILE: OnceLock<Result<SettingsFile, (String, String)>> = OnceLock::new();
    let read = || {
        let named = std::env::var_os("FEMTOBARN_CONFIG").filter(|name| !name.is_empty());
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let usual = || {
            let folder = variable("XDG_CONFIG_HOME").map(PathBuf::from);
            let folder = folder.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")));
            Some(folder?.join("femtobarn/config.toml"))
        };
        let Some(path) = named.clone().map(PathBuf::from).or_else(usual) else {
            return Ok(SettingsFile::default());
        };
        let place = path.display().to_string();
        match read_unwritable(&path) {
            Ok(text) => SettingsFile::parse(&text, &place).map_err(|error| match error {
                IoError::Setting { url, what } => (url, what),
                other => (place, other.to_string()),
            }),
            // the default file need not exist
            Err(_) if named.is_none() && !path.is_file() => Ok(SettingsFile::default()),
            Err(error) => Err((place, error.to_string())),
        }
    };
    FILE.get_or_init(read)
        .as_ref()
        .map_err(|(url, what)| IoError::Setting {
            url: url.clone(),
            what: what.clone(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_of_a_url_counts() {
        let text = "user = 'a'\nmost_retries = 7\n['s3://b']\nuser = 'b'\nchecksums = true\n['s3://b/c']\nuser = 'c'\n";
        let file = SettingsFile::parse(text, "config.toml").unwrap();
        let user = |url| file.text(url, "user").unwrap();
        assert_eq!(
            (user("s3://b/c/x"), user("s3://b/d"), user("s3://x")),
            ("c".into(), "b".into(), "a".into())
        );
        assert_eq!(file.text("s3://b/c/x", "checksums").unwrap(), "true");
        assert_eq!(file.text("s3://b/c/x", "most_retries").unwrap(), "7");
        assert_eq!(file.text("s3://x", "checksums"), None);
        for (text, said) in [
            ("usr = 1", "usr"),
            ("user = []", "user"),
            ("x", "config.toml"),
        ] {
            let error = SettingsFile::parse(text, "config.toml").unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
        }
    }

    /// Regression: strings were compared, so settings with another number of slashes were ignored.
    #[test]
    fn the_same_url_has_the_same_settings_however_it_is_written() {
        for (start, fits, fits_not) in [
            (
                "root://h:99//store",
                &[
                    "root://h:99/store/f",
                    "xroot://H:99//store/f",
                    "ROOT://h:99///store",
                ][..],
                &[
                    "root://h:9//store",
                    "roots://h:99//store",
                    "root://h:99//other",
                ][..],
            ),
            (
                "root://h/",
                &["root://h//f", "root://h:1094//f", "root://h//"],
                &["root://h2//f"],
            ),
            (
                "root://h:1094",
                &["root://h//f"],
                &["root://h2//f", "root://h:10940//f"],
            ),
            (
                "root://[::1]:1094//a",
                &["root://[::1]//a"],
                &["root://[::1]:1//a"],
            ),
            (
                "S3://b",
                &["s3://b/k", "S3://b/k"],
                &["s3a://b/k", "s3://b2/k"],
            ),
            // regression: a token for one server was sent to others whose names have the same prefix
            (
                "https://cern.ch",
                &[
                    "https://cern.ch/f",
                    "https://cern.ch?x",
                    "https://CERN.ch:443/f",
                ],
                &["https://cern.ch.evil.com/f", "https://cern.ch:4430/f"],
            ),
            (
                "http://h:52",
                &["http://h:52/f"],
                &["http://h:523/f", "http://h/f"],
            ),
            (
                "https://H:443/a/",
                &["https://h/a/b"],
                &["http://h:443/a/b", "https://h/A/b"],
            ),
            ("root://me@h//f", &["root://me@h//f"], &["root://h//f"]),
            (
                "zip://A::root://H//f",
                &["zip://A::root://H//f"],
                &["zip://a::root://h//f"],
            ),
        ] {
            let file = SettingsFile::parse(&format!("['{start}']\nuser = 'x'\n"), "f").unwrap();
            let is_found = |url: &&&str| file.text(url, "user").is_some();
            assert_eq!(fits.iter().filter(is_found).count(), fits.len(), "{start}");
            assert_eq!(fits_not.iter().filter(is_found).count(), 0, "{start}");
        }
    }

    #[test]
    fn those_of_the_process_count_where_nothing_is_given() {
        let pair = |value: &str| [("session_token".to_owned(), value.to_owned())].into();
        set_for_all(pair("of all")).unwrap();
        let text = |settings: Settings| settings.text("session_token").unwrap();
        assert_eq!(text(Settings::of("s3://b/f")).as_deref(), Some("of all"));
        let given = Settings::with("s3://b/f", &[("session_token", "of one")]).unwrap();
        assert_eq!(text(given).as_deref(), Some("of one"));
        assert!(set_for_all([("sesion".to_owned(), String::new())].into()).is_err());
        set_for_all(BTreeMap::new()).unwrap();
        assert_eq!(text(Settings::of("s3://b/f")), None);
    }

    #[test]
    fn what_is_given_counts_and_nonsense_is_an_error() {
        let given = |name: &str, value: &str| Settings::with("s3://b/f?secret", &[(name, value)]);
        let settings = given("largest_gap", "8 MiB").unwrap();
        assert_eq!(settings.bytes("largest_gap").unwrap(), Some(8 << 20));
        assert_eq!(settings.seconds("longest_wait").unwrap(), None);
        assert!(!settings.flag("checksums").unwrap());
        let error = given("largest_gap", "big")
            .unwrap()
            .bytes("largest_gap")
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "setting for s3://b/f: invalid largest_gap \"big\": expected a number of bytes, e.g. 16 MiB"
        );
        assert!(
            given("largestgap", "1")
                .unwrap_err()
                .to_string()
                .contains("largest_gap")
        );
        assert!(!format!("{settings:?}").contains('8'));
        // also for settings that a protocol does not use
        let flag = Settings::with("https://h/f", &[("checksums", "maybe")]).unwrap_err();
        assert!(flag.to_string().contains("true or false"), "{flag}");
    }

    #[test]
    fn variables_that_were_meant_to_be_settings_are_found() {
        let misspelt = |name: &str| misspelt(std::iter::once(name.to_owned()));
        for (name, meant) in [
            ("FEMTOBARN_REQUEST_TIMOUT", "request_timeout"),
            ("FEMTOBARN_CONCURENCY", "concurrency"),
            ("FEMTOBARN_ENDPIONT", "endpoint"),
            ("FEMTOBARN_USR", "user"),
        ] {
            assert_eq!(misspelt(name), Some((name.to_owned(), meant)));
        }
        // settings, variables that femtobarn and its tests use, common variables of machines, and variables of other
        // programs
        let settings = SETTINGS.iter().map(|(name, _)| variable(name));
        let others = [
            "CONFIG",
            "THREADS",
            "PROGRESS",
            "IDLE_MEMORY",
            "REQUIRE_ALL",
            "MAKE_CORPUS",
            "ROOT_PYTHON",
            "ROOT_DUMP",
            "TESTDATA_MIXED",
            "HOME",
            "ROOT",
            "DIR",
            "VERSION",
        ];
        let others = others.map(|name| format!("{PREFIX}{name}"));
        for name in settings
            .chain(others)
            .chain(["REQUEST_TIMOUT".to_owned(), PREFIX.to_owned()])
        {
            assert_eq!(misspelt(&name), None, "{name}");
        }
    }

    #[test]
    fn nothing_may_be_done_not_at_all() {
        for name in ABOVE_ZERO {
            let given = |value: &str| Settings::with("https://h/f", &[(*name, value)]).unwrap();
            let found = |value| match *name {
                "connect_timeout" | "request_timeout" => given(value).seconds(name).map(drop),
                "open_files" | "concurrency" | "requests_at_once" => {
                    given(value).number::<usize>(name).map(drop)
                }
                _ => given(value).bytes(name).map(drop),
            };
            let said = found("0").unwrap_err().to_string();
            assert!(
                said.contains(" \"0\": expected ") && said.contains(", above 0"),
                "{said}"
            );
            found("1").unwrap();
        }
        // zero is allowed for these
        let none = [("longest_wait", "0"), ("most_retries", "0")];
        let settings = Settings::with("https://h/f", &none).unwrap();
        assert!(settings.limits().unwrap().longest_wait.is_zero());
    }
}
