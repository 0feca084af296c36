//! Servers of every kind with a common interface for tests.

use std::sync::Arc;

use femtobarn_testkit::{Servers, can_start, can_start_nginx, can_store};

use crate::object::testing;
use crate::{ByteSource, IoError, Settings, open_remote};

/// A server with files.
pub(super) struct Place {
    kind: &'static str,
    pub server: Servers,
}

impl Place {
    /// None, with a message, if it cannot be started.
    pub fn start(kind: &'static str) -> Option<Self> {
        let is_there = match kind {
            "nginx" => can_start_nginx(),
            "minio" => can_store("minio"),
            "azurite" => can_store("azurite-blob"),
            "fake-gcs" => can_store("fake-gcs-server"),
            _ => can_start(),
        };
        is_there.then(|| Self {
            kind,
            server: Servers::start(kind),
        })
    }

    /// Creates or replaces a file.
    pub fn put(&mut self, name: &str, content: &[u8]) {
        match self.kind {
            "minio" | "fake-gcs" => self.server.store(&format!("private/{name}"), content),
            "azurite" => self.server.store(&format!("private/{name}"), content),
            _ => self.server.put(name, content),
        }
    }

    /// The URL of a file, through a proxy before the server.
    pub fn url(&self, way: u16, name: &str) -> String {
        match self.kind {
            "nginx" | "xrdhttp" => format!("http://127.0.0.1:{way}/{name}"),
            "minio" => format!("s3://private/{name}"),
            "azurite" => format!("az://private/{name}"),
            "fake-gcs" => format!("gs://private/{name}"),
            _ => format!("root://127.0.0.1:{way}//{name}"),
        }
    }

    /// Settings for a proxy before the server; `more` override them.
    pub fn settings(&self, way: u16, more: &[(&str, &str)]) -> Settings {
        let port = format!(":{}", self.server.port);
        let endpoint = self.server.endpoint.replace(&port, &format!(":{way}"));
        let mut given = match self.kind {
            "fake-gcs" => vec![("anonymous", "true"), ("endpoint", endpoint.as_str())],
            _ => vec![("endpoint", endpoint.as_str())],
        };
        // the usual number of retries, unless the test sets another
        given.push(("most_retries", "3"));
        given.extend(more);
        testing::settings(&self.server, &given)
    }

    /// Opens a file through a proxy before the server.
    pub fn open(
        &self,
        way: u16,
        name: &str,
        more: &[(&str, &str)],
    ) -> Result<Arc<dyn ByteSource>, IoError> {
        open_remote(&self.url(way, name), &self.settings(way, more))
    }
}
