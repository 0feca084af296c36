//! The configuration file of a store: `config.json`.
//!
//! It has the same settings as a URL, as separate members, and the location of large products. Its paths are relative
//! to its directory, so the whole directory can be moved. It never contains a password, only the path of a password
//! file.

use std::path::Path;
use std::sync::Arc;

use femtobarn_io::expand_home;
use femtobarn_io::units::parse_bytes;
use femtobarn_redis::Address;
use serde_json::{Map, Value};

use crate::backend::redis_settings::{NAMES, Settings, unknown};
use crate::connect::{StoreUrl, check_there, open, would_make, would_make_in};
use crate::{Backend, EventsError, Mode, RedisBackend};

/// Members for any store.
const OF_ALL: [&str; 4] = ["url", "objects", "objects_over", "comment"];
/// Members for Redis, in addition to settings of a URL.
const OF_REDIS: [&str; 2] = ["nodes", "tls"];
/// Members of `tls`.
const TLS: [&str; 3] = ["ca", "cert", "key"];

/// Members with the names of URL settings: all settings of a URL, except those with other members, and those that are
/// not allowed.
fn set() -> impl Iterator<Item = &'static str> {
    let names = NAMES.into_iter();
    names.filter(|name| *name != "password" && !TLS.contains(name))
}

/// A configuration.
#[derive(Debug)]
pub struct Config {
    place: Place,
    objects: Option<String>,
    objects_over: Option<u64>,
    /// The directory of its local cluster.
    cluster: Option<String>,
}

#[derive(Debug)]
enum Place {
    Redis(Box<Settings>),
    /// A URL of another backend.
    Url(String),
}

impl Config {
    /// Reads the configuration in a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is not JSON, or has unknown members.
    pub fn read(path: &Path) -> Result<Self, EventsError> {
        let shown = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => EventsError::NotFound {
                url: shown.clone(),
                what: "configuration".into(),
                hint: String::new(),
            },
            _ => EventsError::engine(&shown, "read the configuration", error),
        })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let config =
            Self::parse(&text, folder).map_err(|why| EventsError::Config { path: shown, why })?;
        Ok(Self {
            cluster: is_of_local_cluster(path).then(|| folder.display().to_string()),
            ..config
        })
    }

    /// Parses a string, relative to a directory; returns the error message.
    fn parse(text: &str, folder: &Path) -> Result<Self, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let Value::Object(all) = value else {
            return Err("expected a JSON object".into());
        };
        for name in all.keys() {
            if matches!(name.as_str(), "password" | "username") {
                return Err(format!(
                    "{name} is not allowed in this file: use user and password_file"
                ));
            }
            let known: Vec<_> = OF_ALL.into_iter().chain(OF_REDIS).chain(set()).collect();
            if !known.contains(&name.as_str()) {
                return Err(unknown(name, &known));
            }
        }
        let objects = text_of(&all, "objects")?.map(|url| within(folder, &url));
        let objects_over = all.get("objects_over").map(bytes).transpose()?;
        let url = text_of(&all, "url")?;
        let is_redis = |url: &String| url.contains("://");
        let place = match url.filter(|url| !is_redis(url)) {
            Some(url) => Place::Url(other(&all, url, folder)?),
            None => Place::Redis(Box::new(redis(&all, folder)?)),
        };
        Ok(Self {
            place,
            objects,
            objects_over,
            cluster: None,
        })
    }

    /// The location of large products, if they are stored as objects.
    pub fn objects(&self) -> Option<&str> {
        self.objects.as_deref()
    }

    /// Products with more bytes are stored as objects.
    pub fn objects_over(&self) -> Option<u64> {
        self.objects_over
    }

    /// The URL of the store.
    pub(crate) fn url(&self) -> &str {
        match &self.place {
            Place::Url(url) => url,
            Place::Redis(settings) => &settings.options.url,
        }
    }

    /// Whether connecting would create the store.
    pub(crate) fn would_make(&self) -> Result<bool, EventsError> {
        match &self.place {
            Place::Url(url) => would_make(url),
            Place::Redis(settings) => would_make_in(settings.as_ref().clone()),
        }
    }

    /// Fails if the store does not exist.
    pub(crate) fn check_there(self) -> Result<(), EventsError> {
        match &self.place {
            Place::Redis(_) => self.connect(Some(Mode::Read)).map(drop),
            Place::Url(url) => check_there(url),
        }
    }

    /// Connects to the backend, in the given mode if there is one.
    pub(crate) fn connect(self, wanted: Option<Mode>) -> Result<Arc<dyn Backend>, EventsError> {
        match self.place {
            Place::Redis(mut settings) => {
                settings.mode = wanted.unwrap_or(settings.mode);
                let connected = RedisBackend::connect_with(*settings);
                Ok(connected.map_err(|error| told_of_cluster(error, self.cluster.as_deref()))?)
            }
            Place::Url(url) => open(&url, wanted),
        }
    }
}

/// Adds advice to the error that the servers of a local cluster do not answer.
fn told_of_cluster(error: EventsError, cluster: Option<&str>) -> EventsError {
    match (error, cluster) {
        (EventsError::Unreachable { url, doing, said }, Some(folder)) => EventsError::Unreachable {
            url,
            doing,
            said: format!(
                "{said}; see `fb store status {folder}`, and start missing servers with `fb store up {folder}`"
            ),
        },
        (error, _) => error,
    }
}

/// A URL of a store that is not in a Redis; it allows no Redis settings.
fn other(all: &Map<String, Value>, url: String, folder: &Path) -> Result<String, String> {
    let mut of_redis = OF_REDIS.into_iter().chain(set());
    match of_redis.find(|name| all.contains_key(*name)) {
        Some(odd) => Err(format!("{odd} is a setting for Redis, but url is {url:?}")),
        None => match StoreUrl::parse(&url) {
            Some(StoreUrl::Config) => Err(format!(
                "url {url:?} is another configuration: give the URL of a store"
            )),
            Some(StoreUrl::Dir(path)) => Ok(format!(
                "dir:{}",
                folder.join(&*expand_home(path)).display()
            )),
            _ => Ok(url),
        },
    }
}

fn redis(all: &Map<String, Value>, folder: &Path) -> Result<Settings, String> {
    let nodes = nodes(all)?;
    let url = match (text_of(all, "url")?, nodes.first()) {
        (Some(url), _) => url,
        (None, Some(first)) => format!("redis://{first}"),
        (None, None) => return Err("url or nodes is missing".into()),
    };
    let mut settings = Settings::parse(&url).map_err(|error| error.to_string())?;
    for name in set() {
        let value = match all.get(name) {
            None => continue,
            Some(Value::String(text)) if name == "password_file" => within(folder, text),
            Some(Value::String(text)) => text.clone(),
            Some(Value::Number(number)) if name != "password_file" => number.to_string(),
            Some(value) => {
                return Err(format!(
                    "invalid {name} {value}: expected a string or a number"
                ));
            }
        };
        settings.set(name, &value)?;
    }
    match all.get("tls") {
        None | Some(Value::Bool(false)) => {}
        Some(Value::Bool(true)) => settings.options.has_tls = true,
        Some(Value::Object(tls)) => {
            settings.options.has_tls = true;
            if let Some(odd) = tls.keys().find(|name| !TLS.contains(&name.as_str())) {
                return Err(format!("in tls: {}", unknown(odd, &TLS)));
            }
            for name in TLS {
                if let Some(path) = text_of(tls, name)? {
                    settings.set(name, &within(folder, &path))?;
                }
            }
        }
        Some(value) => {
            return Err(format!(
                "invalid tls {value}: expected true, or an object with its settings"
            ));
        }
    }
    settings.add_seeds(nodes);
    Ok(settings)
}

fn nodes(all: &Map<String, Value>) -> Result<Vec<Address>, String> {
    let nodes = match all.get("nodes") {
        None => return Ok(Vec::new()),
        Some(Value::Array(nodes)) => nodes,
        Some(value) => {
            return Err(format!(
                "invalid nodes {value}: expected a list of host:port"
            ));
        }
    };
    let address = |node: &Value| {
        let found = node.as_str().and_then(Address::parse);
        found.ok_or_else(|| format!("invalid address {node} in nodes: expected \"host:port\""))
    };
    nodes.iter().map(address).collect()
}

fn bytes(value: &Value) -> Result<u64, String> {
    let found = match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => parse_bytes(text),
        _ => None,
    };
    found.ok_or_else(|| {
        format!("invalid objects_over {value}: expected bytes, e.g. 1048576 or \"1MiB\"")
    })
}

fn text_of(all: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match all.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(value) => Err(format!("invalid {name} {value}: expected a string")),
    }
}

/// Joins a path to a directory; URLs are returned unchanged.
fn within(folder: &Path, path: &str) -> String {
    match path.contains("://") {
        true => path.into(),
        false => folder.join(&*expand_home(path)).display().to_string(),
    }
}

/// Whether a configuration belongs to a local cluster in the same directory.
pub(crate) fn is_of_local_cluster(path: &Path) -> bool {
    path.is_file()
        && path.file_name() == Some("store.json".as_ref())
        && path.with_file_name("node-0").is_dir()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, String> {
        Config::parse(text, Path::new("/x"))
    }

    fn settings(text: &str) -> Settings {
        match parse(text).unwrap().place {
            Place::Redis(settings) => *settings,
            Place::Url(url) => panic!("{url}"),
        }
    }

    #[test]
    fn it_says_what_a_url_says_and_more() {
        let found = settings(
            r#"{"comment": "", "nodes": ["a:1", "b:2"], "tls": {"ca": "ca.pem"}, "user": "me", "prefix": "p:",
                "write_concern": "replicas:1", "timeout": 2.5, "objects": "s3://bucket", "objects_over": "1MiB"}"#,
        );
        assert_eq!(found.seeds(), ["a:1", "b:2"]);
        assert_eq!(found.options.url, "rediss://me@a:1,b:2/?prefix=p:");
        assert_eq!(
            (found.replicas, found.options.timeout.as_millis()),
            (1, 2500)
        );
        assert_eq!(found.options.ca.as_deref(), Some(Path::new("/x/ca.pem")));
        let found = settings(r#"{"url": "redis://c:3?prefix=q", "nodes": ["a:1", "c:3"]}"#);
        assert_eq!(
            (found.seeds(), found.prefix.as_str()),
            (vec!["c:3".into(), "a:1".into()], "q")
        );
        let other = r#"{"url": "dir:store", "objects": "large", "objects_over": 5}"#;
        let other = parse(other).unwrap();
        assert_eq!(other.objects(), Some("/x/large"));
        assert_eq!(other.objects_over(), Some(5));
        assert!(matches!(other.place, Place::Url(url) if url == "dir:/x/store"));
    }

    #[test]
    fn what_is_not_known_is_an_error_that_names_what_is() {
        for (text, why) in [
            ("[1]", "expected a JSON object"),
            ("{", "EOF"),
            ("{}", "url or nodes is missing"),
            (r#"{"nodess": []}"#, "did you mean \"nodes\""),
            (r#"{"nodes": "a:1"}"#, "list of host:port"),
            (r#"{"nodes": ["a:x"]}"#, "host:port"),
            (r#"{"nodes": ["a"], "tls": {"cat": "x"}}"#, "in tls"),
            (
                r#"{"nodes": ["a"], "timeout": "soon"}"#,
                "number of seconds",
            ),
            (
                r#"{"nodes": ["a"], "timeout": [1]}"#,
                "a string or a number",
            ),
            (r#"{"nodes": ["a"], "password": "hidden"}"#, "password_file"),
            (
                r#"{"nodes": ["a"], "password_file": "none"}"#,
                "cannot read password_file=/x/none",
            ),
            (
                r#"{"url": "dir:x", "objects_over": "much"}"#,
                "bytes, e.g. 1048576",
            ),
            (
                r#"{"url": "dir:x", "objects_ovr": 1}"#,
                "did you mean \"objects_over\"",
            ),
            (
                r#"{"url": "dir:x", "prefix": "y"}"#,
                "prefix is a setting for Redis",
            ),
            (r#"{"url": "c.json"}"#, "is another configuration"),
            (
                r#"{"url": "redis://u:hidden@a?x=1"}"#,
                "unknown setting \"x\"",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                error.contains(why) && !error.contains("hidden"),
                "{text}: {error}"
            );
        }
    }
}
