//! The address of a server.

use std::fmt;

/// The default port.
const PORT: u16 = 6379;

/// The address of a server.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// The host's name or IP address, without the brackets of IPv6.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Address {
    /// Parses `host:port`, or `host` alone.
    pub fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']')?;
                (host, port.strip_prefix(':'))
            }
            None => match text.rsplit_once(':') {
                Some((host, _)) if host.contains(':') => return None,
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let port = port.map_or(Some(PORT), |port| port.parse().ok());
        let host = (!host.is_empty()).then(|| host.to_owned());
        Some(Self {
            host: host?,
            port: port.filter(|&port| port != 0)?,
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["127.0.0.1:7000", "a.b:1", "[::1]:7000"] {
            assert_eq!(Address::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Address::parse("a").unwrap().to_string(), "a:6379");
        for text in ["::1", ":1", "a:0", "a:x"] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }
}
