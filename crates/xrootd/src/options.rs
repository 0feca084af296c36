//! Limits and settings of a client.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Rate, Token};

/// Limits and settings of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Time limit for connecting, including login.
    pub connect_timeout: Duration,
    /// Time limit while nothing of an answer arrives.
    pub request_timeout: Duration,
    /// Minimum rate in bytes per second at which an answer must arrive once it has begun, measured over
    /// `request_timeout`.
    pub least_rate: u64,
    /// The most time that a server may make one request wait, in total.
    pub longest_wait: Duration,
    /// The most redirects of one request.
    pub most_redirects: usize,
    /// The most servers that are tried for one request after the first has failed.
    pub most_retries: usize,
    /// The most files that are open for reading at once. If there are more, the oldest are closed, and opened again when
    /// they are read.
    pub most_open: usize,
    /// The user name sent at login; by default that of the process's user.
    pub user: Option<String>,
    /// Certificates of authorities, a file or a directory; by default those of the system and of the grid.
    pub authorities: Option<PathBuf>,
    /// A bearer token; by default the one found by the rules of the WLCG profile.
    pub token: Option<Token>,
    /// The key table of `sss`; by default that of the user.
    pub sss_keytab: Option<PathBuf>,
    /// Whether data are read and written with checksums (`pgread`, `pgwrite`).
    pub checksums: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(60),
            least_rate: 100,
            longest_wait: Duration::from_secs(600),
            most_redirects: 16,
            most_retries: 3,
            most_open: 256,
            user: None,
            authorities: None,
            token: None,
            sss_keytab: None,
            checksums: false,
        }
    }
}

impl Options {
    /// The minimum rate of answers.
    #[must_use]
    pub fn rate(&self) -> Rate {
        Rate {
            least: self.least_rate,
            window: self.request_timeout,
        }
    }

    /// The defaults, with the environment variables of the official client: `X509_CERT_DIR` and `XrdSecSSSKT`.
    pub fn from_environment() -> Self {
        let path = |name| std::env::var_os(name).map(PathBuf::from);
        Self {
            authorities: path("X509_CERT_DIR"),
            sss_keytab: path("XrdSecSSSKT"),
            ..Self::default()
        }
    }
}
