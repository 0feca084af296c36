//! Limits and settings of a client.

use std::path::PathBuf;
use std::time::Duration;

/// Limits and settings, each also by an environment variable (see [`Options::from_environment`]).
#[derive(Debug, Clone)]
pub struct Options {
    /// How long a connection may take, with login.
    pub connect_timeout: Duration,
    /// How long nothing may come of an answer.
    pub request_timeout: Duration,
    /// The longest that a server may make us wait, all in all, for one request.
    pub longest_wait: Duration,
    /// The most redirects of one request.
    pub most_redirects: usize,
    /// The most servers that are asked for one request after the first has failed.
    pub most_retries: usize,
    /// The name that is said at logins; none for that of the process's user.
    pub user: Option<String>,
    /// Certificates of authorities, in a file or a folder; none for those of the system and of the grid.
    pub authorities: Option<PathBuf>,
    /// The key table of `sss`; none for that of the user.
    pub sss_keytab: Option<PathBuf>,
    /// Whether bytes are read with checksums (`pgread`), where the server can.
    pub checksums: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(60),
            longest_wait: Duration::from_secs(600),
            most_redirects: 16,
            most_retries: 3,
            user: None,
            authorities: None,
            sss_keytab: None,
            checksums: false,
        }
    }
}

impl Options {
    /// The defaults, with what environment variables say: `FEMTOBARN_XROOTD_CONNECT_TIMEOUT`, `…_REQUEST_TIMEOUT` and
    /// `…_LONGEST_WAIT` in seconds, `…_MOST_REDIRECTS`, `…_MOST_RETRIES`, `…_USER`, `…_CHECKSUMS` (0 or 1), and as of the
    /// official client `X509_CERT_DIR` and `XrdSecSSSKT`.
    pub fn from_environment() -> Self {
        Self::from_variables(|name| std::env::var(name).ok())
    }

    fn from_variables(variable: impl Fn(&str) -> Option<String>) -> Self {
        let own = |name: &str| variable(&format!("FEMTOBARN_XROOTD_{name}"));
        let seconds = |name: &str, default: Duration| {
            let found = own(name).and_then(|text| text.parse().ok());
            found
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                .unwrap_or(default)
        };
        let number = |name: &str, default: usize| {
            own(name)
                .and_then(|text| text.parse().ok())
                .unwrap_or(default)
        };
        let default = Self::default();
        Self {
            connect_timeout: seconds("CONNECT_TIMEOUT", default.connect_timeout),
            request_timeout: seconds("REQUEST_TIMEOUT", default.request_timeout),
            longest_wait: seconds("LONGEST_WAIT", default.longest_wait),
            most_redirects: number("MOST_REDIRECTS", default.most_redirects),
            most_retries: number("MOST_RETRIES", default.most_retries),
            user: own("USER"),
            authorities: variable("X509_CERT_DIR").map(PathBuf::from),
            sss_keytab: variable("XrdSecSSSKT").map(PathBuf::from),
            checksums: own("CHECKSUMS").is_some_and(|text| text != "0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_say_limits_and_nonsense_is_no_limit() {
        let options = Options::from_variables(|name| match name {
            "FEMTOBARN_XROOTD_CONNECT_TIMEOUT" => Some("2.5".to_owned()),
            "FEMTOBARN_XROOTD_REQUEST_TIMEOUT" => Some("soon".to_owned()),
            "FEMTOBARN_XROOTD_MOST_REDIRECTS" => Some("3".to_owned()),
            "X509_CERT_DIR" => Some("/certificates".to_owned()),
            _ => None,
        });
        assert_eq!(options.connect_timeout, Duration::from_millis(2500));
        assert_eq!(options.request_timeout, Duration::from_secs(60));
        assert_eq!(options.most_redirects, 3);
        assert_eq!(options.authorities, Some(PathBuf::from("/certificates")));
    }
}
