//! URLs: `root://[user@]host[:port]//path[?opaque]`.

use std::fmt;
use std::net::Ipv6Addr;

use crate::XrootdError;

/// The default port.
const PORT: u16 = 1094;

/// A server, and the user who logs in.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Server {
    /// Name or address; IPv6 addresses without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The user name, if the URL has one.
    pub user: Option<String>,
    /// Whether the connection must use TLS (`roots://`).
    pub tls: bool,
    /// Whether it may get the user's token: a server that only a redirect names may not.
    pub may_have_token: bool,
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl Server {
    /// Parses the part of a URL between `//` and the path.
    pub(crate) fn parse(text: &str, tls: bool) -> Result<Self, &'static str> {
        let (user, address) = match text.rsplit_once('@') {
            Some((user, address)) => (Some(user.split(':').next().unwrap_or(user)), address),
            None => (None, text),
        };
        let (host, port) = match address.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or("the address lacks its ]")?;
                (host, rest.strip_prefix(':'))
            }
            None if address.matches(':').count() > 1 => (address, None),
            None => match address.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (address, None),
            },
        };
        if host.is_empty() {
            return Err("it has no server");
        }
        let port = port.filter(|port| !port.is_empty());
        let port = port.map_or(Ok(PORT), |port| {
            port.parse()
                .map_err(|_| "the port is not a number up to 65535")
        });
        Ok(Self {
            host: plain_address(host),
            port: port?,
            user: user.filter(|user| !user.is_empty()).map(str::to_owned),
            tls,
            may_have_token: true,
        })
    }
}

/// A host in a form that can be connected to: servers write IPv4 addresses as `::10.0.0.1` or `::ffff:10.0.0.1`.
fn plain_address(host: &str) -> String {
    let parsed: Option<Ipv6Addr> = host.parse().ok();
    let inner = parsed.filter(|address| address.to_bits() > 0xffff);
    match inner.and_then(|address| address.to_ipv4()) {
        Some(address) => address.to_string(),
        None => host.to_owned(),
    }
}

/// A URL without a password and without the query, which is meant for the server.
///
/// A `/`, `?` or `#` ends the server's name and must be encoded in a password. If it is not, the apparent port is not a
/// number, and everything up to an `@` is taken as the password, as otherwise a part of it would be shown.
#[must_use]
pub fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.split('?').next().unwrap_or_default().to_owned();
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (server, behind) = rest.split_at(end);
    let looks_like_password = |(host, port): (&str, &str)| {
        !host.starts_with('[') && (port.is_empty() || !port.bytes().all(|b| b.is_ascii_digit()))
    };
    let user_and_rest = match server.rsplit_once('@') {
        Some((user, host)) => Some((user, [host, behind].concat())),
        None if server.split_once(':').is_some_and(looks_like_password) => behind
            .split_once('@')
            .map(|(_, rest)| (server, rest.to_owned())),
        None => None,
    };
    let shown = match user_and_rest {
        Some((user, rest)) => format!(
            "{scheme}://{}@{rest}",
            user.split(':').next().unwrap_or(user)
        ),
        None => url.to_owned(),
    };
    shown.split('?').next().unwrap_or_default().to_owned()
}

/// A file or directory on a server.
#[derive(Clone, PartialEq, Eq)]
pub struct XrootdUrl {
    /// The server.
    pub server: Server,
    /// The path, which begins with a slash.
    pub path: String,
    /// The query, for the server; it may contain credentials.
    pub opaque: String,
}

impl fmt::Debug for XrootdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The URL without its query.
impl fmt::Display for XrootdUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.server.tls { "roots" } else { "root" };
        write!(f, "{scheme}://{}/{}", self.server, self.path)
    }
}

impl XrootdUrl {
    /// Parses a URL with scheme `root`, `xroot`, `roots` or `xroots`.
    ///
    /// # Errors
    /// If it has another scheme, no server or no path.
    pub fn parse(url: &str) -> Result<Self, XrootdError> {
        let wrong = |what: &str| XrootdError::Url {
            url: without_password(url),
            what: what.to_owned(),
        };
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| wrong("it has no scheme"))?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "root" | "xroot" => false,
            "roots" | "xroots" => true,
            _ => return Err(wrong("it has another scheme")),
        };
        let (rest, opaque) = rest.split_once('?').unwrap_or((rest, ""));
        let (server, path) = rest
            .split_once('/')
            .ok_or_else(|| wrong("it has no path"))?;
        // root://host//path has the path /path, and so has root://host/path
        let path = path.trim_start_matches('/');
        Ok(Self {
            server: Server::parse(server, tls).map_err(wrong)?,
            path: format!("/{path}"),
            opaque: opaque.to_owned(),
        })
    }

    /// The path with opaque data, its own and more, as requests contain it.
    pub(crate) fn with_opaque(&self, more: &[String]) -> String {
        let own = std::iter::once(self.opaque.as_str());
        let parts = own.chain(more.iter().map(String::as_str));
        let parts = parts.map(|part| part.trim_matches('&'));
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        match parts.is_empty() {
            true => self.path.clone(),
            false => format!("{}?{}", self.path, parts.join("&")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_server_path_and_opaque_data() {
        let url = XrootdUrl::parse("root://me@eos.cern.ch//eos/f.root?authz=secret&x=1").unwrap();
        assert_eq!(
            (url.server.host.as_str(), url.server.port),
            ("eos.cern.ch", 1094)
        );
        assert_eq!(url.server.user.as_deref(), Some("me"));
        assert_eq!(
            (url.path.as_str(), url.opaque.as_str()),
            ("/eos/f.root", "authz=secret&x=1")
        );
        assert_eq!(
            url.with_opaque(&["&tried=a".to_owned()]),
            "/eos/f.root?authz=secret&x=1&tried=a"
        );
        // secrets are in no message
        assert_eq!(format!("{url} {url:?}").matches("secret").count(), 0);
        let url = XrootdUrl::parse("roots://[::1]:2000/f").unwrap();
        assert!(url.server.tls);
        assert_eq!(
            (url.server.to_string().as_str(), url.path.as_str()),
            ("[::1]:2000", "/f")
        );
        assert_eq!(url.with_opaque(&[]), "/f");
        for (text, expected) in [
            ("[::127.0.0.1]:1", "127.0.0.1:1"),
            ("[::ffff:10.0.0.1]:1", "10.0.0.1:1"),
            ("[::1]:1", "[::1]:1"),
            ("[2001:db8::1]:1", "[2001:db8::1]:1"),
        ] {
            assert_eq!(Server::parse(text, false).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn what_is_no_url_is_told() {
        for url in [
            "root:/x",
            "http://h//f",
            "root://h",
            "root:///f",
            "root://h:x//f",
            "root://[::1//f",
        ] {
            assert!(
                matches!(XrootdUrl::parse(url), Err(XrootdError::Url { .. })),
                "{url}"
            );
        }
        let message = XrootdUrl::parse("root://h:99999//f?authz=secret")
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("the port is not a number") && !message.contains("secret"),
            "{message}"
        );
    }
}
