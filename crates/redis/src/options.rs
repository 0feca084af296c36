//! How to connect to servers.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Address;

/// A password, which is in no message.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl Secret {
    /// Reads a password from a file, without line ends.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn of_file(path: &Path) -> io::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        Ok(Self(text.trim_end_matches(['\r', '\n']).into()))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// How to connect to servers.
#[derive(Clone, Debug)]
pub struct Options {
    /// The URL in error messages, without a password.
    pub url: String,
    /// The servers to connect to first.
    pub seeds: Vec<Address>,
    /// Whether connections use TLS.
    pub has_tls: bool,
    /// The user of the server's ACL; none for the default user.
    pub user: Option<String>,
    /// The user's password.
    pub password: Option<Secret>,
    /// The time limit for opening a connection.
    pub connect_timeout: Duration,
    /// The time limit for an answer.
    pub timeout: Duration,
    /// How long to wait for a cluster that repairs itself.
    pub failover: Duration,
    /// The number of idle connections that are kept for each server.
    pub connections: usize,
    /// The file of trusted certificates; the system's certificates if none.
    pub ca: Option<PathBuf>,
    /// The files of the client's certificate and of its key.
    pub identity: (Option<PathBuf>, Option<PathBuf>),
}

impl Options {
    /// The default options, for a URL in error messages and the servers to connect to first.
    pub fn new(url: impl Into<String>, seeds: Vec<Address>) -> Self {
        Self {
            url: url.into(),
            seeds,
            has_tls: false,
            user: None,
            password: None,
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(60),
            failover: Duration::from_secs(30),
            connections: 16,
            ca: None,
            identity: (None, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_read_from_a_file_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        std::fs::write(&file, "hid den\r\n").unwrap();
        let mut options = Options::new("redis://a", Vec::new());
        options.password = Some(Secret::of_file(&file).unwrap());
        assert_eq!(options.password, Some(Secret("hid den".into())));
        assert!(!format!("{options:?}").contains("hid"));
        assert!(Secret::of_file(&folder.path().join("none")).is_err());
    }
}
