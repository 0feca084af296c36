//! Limits and settings of a client.

use std::path::PathBuf;
use std::time::Duration;

use crate::{Rate, Token};

/// Limits and settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How long a connection may take, with login.
    pub connect_timeout: Duration,
    /// How long nothing may come of an answer.
    pub request_timeout: Duration,
    /// Bytes a second that must come of an answer, once it has begun; counted over `request_timeout`.
    pub least_rate: u64,
    /// The longest that a server may make us wait, all in all, for one request.
    pub longest_wait: Duration,
    /// The most redirects of one request.
    pub most_redirects: usize,
    /// The most servers that are asked for one request after the first has failed.
    pub most_retries: usize,
    /// The most files that are open to be read at once; of more, those that were opened first are closed, and opened again when
    /// they are read.
    pub most_open: usize,
    /// The name that is said at logins; none for that of the process's user.
    pub user: Option<String>,
    /// Certificates of authorities, in a file or a folder; none for those of the system and of the grid.
    pub authorities: Option<PathBuf>,
    /// A bearer token; none for the one that is found as WLCG's profile says.
    pub token: Option<Token>,
    /// The key table of `sss`; none for that of the user.
    pub sss_keytab: Option<PathBuf>,
    /// Whether bytes are read and written with checksums (`pgread`, `pgwrite`).
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
    /// How fast answers must come.
    #[must_use]
    pub fn rate(&self) -> Rate {
        Rate {
            least: self.least_rate,
            window: self.request_timeout,
        }
    }

    /// The defaults, with what the official client's variables say: `X509_CERT_DIR` and `XrdSecSSSKT`.
    pub fn from_environment() -> Self {
        let path = |name| std::env::var_os(name).map(PathBuf::from);
        Self {
            authorities: path("X509_CERT_DIR"),
            sss_keytab: path("XrdSecSSSKT"),
            ..Self::default()
        }
    }
}
