//! Settings in a Redis URL and in environment variables.
//!
//! `redis://[user[:password]@]host[:port][,host[:port]…]/[?name=value&…]`, or `rediss://` for TLS. Each setting is also
//! an environment variable, `FEMTOBARN_STORE_` and its name in capitals. The URL takes precedence.

use std::path::{Path, PathBuf};
use std::time::Duration;

use femtobarn_io::nearest;
use femtobarn_redis::{Address, Options, Secret};

use crate::{EventsError, Mode};

/// All settings, with their meaning.
pub const NAMES: [&str; 13] = [
    "prefix",
    "user",
    "password",
    "password_file",
    "connect_timeout",
    "timeout",
    "failover",
    "write_concern",
    "connections",
    "ca",
    "cert",
    "key",
    "mode",
];

/// The settings of a Redis store.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Options of the client.
    pub options: Options,
    /// Common prefix of all keys.
    pub prefix: String,
    /// Number of replicas that must confirm a write.
    pub replicas: usize,
    /// Whether the store may be written.
    pub mode: Mode,
}

impl Settings {
    /// Parses a URL and the environment.
    ///
    /// # Errors
    ///
    /// If the URL is invalid, or has unknown settings.
    pub fn parse(url: &str) -> Result<Self, EventsError> {
        Self::parse_with(url, &|name| {
            std::env::var(format!("FEMTOBARN_STORE_{}", name.to_uppercase())).ok()
        })
    }

    fn parse_with(
        url: &str,
        variable: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, EventsError> {
        let mut settings = Self::new(url);
        let shown = settings.options.url.clone();
        let bad = |why: String| EventsError::Url {
            url: shown.clone(),
            why,
        };
        let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
        settings.options.has_tls = has_tls(scheme)
            .ok_or_else(|| bad("the URL must begin with redis:// or rediss://".into()))?;
        for name in NAMES {
            if let Some(value) = variable(name) {
                let said = settings.set(name, &value);
                said.map_err(|why| bad(format!("FEMTOBARN_STORE_{}: {why}", name.to_uppercase())))?;
            }
        }
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.contains('@') || query.contains('@') {
            return Err(bad(
                "unexpected @ after the hosts: in a password, write / as %2F, ? as %3F, @ as %40"
                    .into(),
            ));
        }
        if !path.is_empty() {
            return Err(bad(format!(
                "unexpected path /{path}: use ?prefix=… for several stores in one Redis"
            )));
        }
        let hosts = match authority.rsplit_once('@') {
            Some((who, hosts)) => {
                settings.set_who(who).map_err(&bad)?;
                hosts
            }
            None => authority,
        };
        for host in hosts.split(',') {
            let seed = Address::parse(host);
            settings.options.seeds.push(
                seed.ok_or_else(|| bad(format!("invalid host {host:?}: expected host:port")))?,
            );
        }
        for part in query.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value = decoded(value)
                .ok_or_else(|| bad(format!("the value of {name} is wrongly percent-encoded")))?;
            settings.set(name, &value).map_err(&bad)?;
        }
        Ok(settings)
    }

    fn new(url: &str) -> Self {
        Self {
            options: Options::new(shown(url), Vec::new()),
            prefix: String::new(),
            replicas: 0,
            mode: Mode::Append,
        }
    }

    fn set_who(&mut self, who: &str) -> Result<(), String> {
        let (user, password) = match who.split_once(':') {
            Some((user, password)) => (user, Some(password)),
            None => (who, None),
        };
        let decode =
            |text: &str| decoded(text).ok_or("the user or password is wrongly percent-encoded");
        if !user.is_empty() {
            self.options.user = Some(decode(user)?);
        }
        if let Some(password) = password {
            self.options.password = Some(Secret(decode(password)?));
        }
        Ok(())
    }

    /// Adds servers, also to the URL; for a configuration with a list of servers.
    pub fn add_seeds(&mut self, seeds: Vec<Address>) {
        for seed in seeds {
            if !self.options.seeds.contains(&seed) {
                self.options.seeds.push(seed);
            }
        }
        let scheme = if self.options.has_tls {
            "rediss"
        } else {
            "redis"
        };
        let user = self.options.user.iter().map(|user| format!("{user}@"));
        let prefix = match self.prefix.as_str() {
            "" => String::new(),
            prefix => format!("?prefix={prefix}"),
        };
        let user: String = user.collect();
        self.options.url = format!("{scheme}://{user}{}/{prefix}", self.seeds().join(","));
    }

    /// The first servers to connect to, as `host:port`.
    pub fn seeds(&self) -> Vec<String> {
        self.options.seeds.iter().map(ToString::to_string).collect()
    }

    /// Sets one of [`NAMES`]; returns the error message.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let path = || Some(PathBuf::from(value));
        match name {
            "prefix" => self.prefix = prefix(value)?,
            "user" => self.options.user = Some(value.into()),
            "password" => self.options.password = Some(Secret(value.into())),
            "password_file" => self.options.password = Some(password_of(value)?),
            "connect_timeout" => self.options.connect_timeout = seconds(name, value)?,
            "timeout" => self.options.timeout = seconds(name, value)?,
            "failover" => self.options.failover = seconds(name, value)?,
            "write_concern" => self.replicas = replicas(value)?,
            "connections" => {
                let n = value.parse();
                self.options.connections =
                    n.map_err(|_| format!("invalid {name}={value}: expected an integer"))?;
            }
            "ca" => self.options.ca = path(),
            "cert" => self.options.identity.0 = path(),
            "key" => self.options.identity.1 = path(),
            "mode" => {
                self.mode = match value {
                    "r" => Mode::Read,
                    "a" => Mode::Append,
                    _ => return Err(format!("invalid mode={value}: expected r or a")),
                }
            }
            _ => return Err(unknown(name, &NAMES)),
        }
        Ok(())
    }
}

/// The error for an unknown setting, with a suggestion.
pub fn unknown(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()).first() {
        Some(near) => format!("unknown setting {name:?}; did you mean {near:?}?"),
        None => format!("unknown setting {name:?}; known: {}", known.join(", ")),
    }
}

/// Whether connections of a scheme use TLS; `None` if it is not a Redis scheme.
pub fn has_tls(scheme: &str) -> Option<bool> {
    match scheme {
        "redis" | "valkey" => Some(false),
        "rediss" | "valkeys" => Some(true),
        _ => None,
    }
}

/// A URL for messages. Removes the part between the user name and the hosts, and a password in the settings.
pub fn shown(url: &str) -> String {
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    let (before, query) = rest.split_once('?').unwrap_or((rest, ""));
    // An unencoded slash is invalid in a password, but must not be shown either.
    let (who, hosts) = match before.rsplit_once('@') {
        Some((who, hosts)) => {
            let user = who.split(':').next().unwrap_or_default();
            let user = if user.is_empty() {
                String::new()
            } else {
                format!("{user}@")
            };
            (user, hosts)
        }
        None => (String::new(), before),
    };
    let is_open = |part: &&str| !part.starts_with("password=");
    let query: Vec<&str> = query.split('&').filter(is_open).collect();
    let query = query.join("&");
    let mark = if query.is_empty() { "" } else { "?" };
    // The password contains a slash or a question mark: the rest cannot be parsed reliably.
    let is_odd = query.contains('@') || who.contains('/');
    match is_odd {
        true => format!("{scheme}…"),
        false => format!("{scheme}{who}{hosts}{mark}{query}"),
    }
}

fn prefix(value: &str) -> Result<String, String> {
    match value.contains(['{', '}']) || value.len() > 200 {
        true => Err(format!(
            "invalid prefix={value}: it must not contain braces, which are reserved for cluster slots, and have at \
             most 200 bytes"
        )),
        false => Ok(value.into()),
    }
}

fn password_of(path: &str) -> Result<Secret, String> {
    Secret::of_file(Path::new(path))
        .map_err(|error| format!("cannot read password_file={path}: {error}"))
}

fn seconds(name: &str, value: &str) -> Result<Duration, String> {
    let seconds = value.trim_end_matches('s').parse().ok();
    let seconds = seconds.filter(|seconds: &f64| *seconds > 0.0 && *seconds <= 1e6);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("invalid {name}={value}: expected a number of seconds"))
}

/// `none`, or `replicas:N`.
fn replicas(value: &str) -> Result<usize, String> {
    let n = match value {
        "none" => Some(0),
        _ => value.strip_prefix("replicas:").and_then(|n| n.parse().ok()),
    };
    n.ok_or_else(|| format!("invalid write_concern={value}: expected none or replicas:N"))
}

fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let [high, low] =
                    [rest.next()?, rest.next()?].map(|digit| char::from(digit).to_digit(16));
                u8::try_from(high? * 16 + low?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Settings, EventsError> {
        Settings::parse_with(url, &|_| None)
    }

    #[test]
    fn a_url_says_where_and_how() {
        let settings = parse(
            "rediss://me:p%40ss@a,b:7000,[::1]:7001/?prefix=x:&timeout=2.5s&write_concern=replicas:2&mode=r",
        )
        .unwrap();
        assert_eq!(settings.seeds(), ["a:6379", "b:7000", "[::1]:7001"]);
        assert!(settings.options.has_tls && settings.mode == Mode::Read);
        assert_eq!(settings.options.user.as_deref(), Some("me"));
        assert_eq!(settings.options.password, Some(Secret("p@ss".into())));
        assert_eq!((settings.prefix.as_str(), settings.replicas), ("x:", 2));
        assert_eq!(settings.options.timeout, Duration::from_millis(2500));
    }

    #[test]
    fn a_variable_counts_where_the_url_says_nothing() {
        let variable = |name: &str| match name {
            "timeout" => Some("7".into()),
            "password" => Some("secret".into()),
            _ => None,
        };
        let settings = Settings::parse_with("redis://a/?timeout=8", &variable).unwrap();
        assert_eq!(settings.options.timeout, Duration::from_secs(8));
        assert_eq!(settings.options.password, Some(Secret("secret".into())));
    }

    #[test]
    fn what_is_wrong_is_said_without_the_password() {
        for (url, why) in [
            ("http://a", "must begin with redis:// or rediss://"),
            ("redis://u:hidden@", "expected host:port"),
            ("redis://u:hidden@a:0", "expected host:port"),
            ("redis://u:hidden@a:x", "expected host:port"),
            ("redis://u:hidden@a/3", "?prefix="),
            ("redis://u:hidden@a/?prefx=3", "did you mean \"prefix\""),
            ("redis://u:hidden@a/?whatever=3", "known: prefix, user"),
            (
                "redis://a/?password=hidden&timeout=soon",
                "expected a number of seconds",
            ),
            ("redis://a/?prefix={x}", "brace"),
            ("redis://a/?write_concern=2", "replicas:N"),
            ("redis://u:hid%zzden@a/", "percent"),
            ("redis://u:hidden/hidden?hidden@a", "%2F"),
            ("redis://u:hidden/hidden@a", "%2F"),
        ] {
            let error = parse(url).unwrap_err().to_string();
            assert!(error.contains(why) && !error.contains("hidden"), "{error}");
        }
        let debug = format!("{:?}", parse("redis://u:hidden@a").unwrap());
        assert!(!debug.contains("hidden"), "{debug}");
    }
}
