//! Shared state of all HTTP sources of a process: connections, and knowledge about servers.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use femtobarn_xrootd::tls_config;
use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue};
use reqwest::{Url, redirect};
use tokio::sync::Semaphore;

use crate::runtime::PerSettings;
use crate::{IoError, Settings};

/// Maximum number of concurrent requests per server.
const CONCURRENCY: usize = 16;

/// Time that an idle connection is kept. Servers keep connections for 60 s or more; closing early is cheaper than
/// finding a closed connection.
const IDLE: Duration = Duration::from_secs(50);

/// HTTP/2 windows: for one answer, and for a whole connection. 64 MiB saturate 5 Gbit/s with a round trip of 100 ms.
/// An answer never has more than the requested bytes.
const STREAM_WINDOW: u32 = 8 << 20;
const CONNECTION_WINDOW: u32 = 64 << 20;

/// The clients of the process, one per set of limits.
static CLIENTS: PerSettings<Limits, Arc<Client>> = PerSettings::new();

/// The settings for requests to servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limits {
    usual: crate::settings::Limits,
    pub concurrency: usize,
    pub authorities: Option<PathBuf>,
}

impl Limits {
    pub fn of(settings: &Settings, is_of_the_grid: bool) -> Result<Self, IoError> {
        let (usual, concurrency) = (settings.limits()?, settings.number("requests_at_once")?);
        let named = settings.text("authorities")?.map(PathBuf::from);
        // the certificates of the grid do not cover other servers
        let grid = || std::env::var_os("X509_CERT_DIR").map(PathBuf::from);
        Ok(Self {
            usual,
            concurrency: concurrency.unwrap_or(CONCURRENCY).min(1024),
            authorities: named.or_else(|| is_of_the_grid.then(grid).flatten()),
        })
    }
}

impl Deref for Limits {
    type Target = crate::settings::Limits;

    fn deref(&self) -> &Self::Target {
        &self.usual
    }
}

/// Connections to servers, and knowledge about them.
pub(super) struct Client {
    pub limits: Limits,
    pub http: reqwest::Client,
    hosts: Mutex<BTreeMap<String, Arc<Host>>>,
}

impl Client {
    /// The client of this process for these limits.
    pub fn shared(limits: &Limits, url: &str) -> Result<Arc<Self>, IoError> {
        CLIENTS.get(limits, || match Self::new(limits.clone()) {
            Ok(client) => Ok(Arc::new(client)),
            Err(what) => Err(IoError::Setting {
                url: url.to_owned(),
                what,
            }),
        })
    }

    fn new(limits: Limits) -> Result<Self, String> {
        let mut tls = tls_config(limits.authorities.as_deref())?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // ranges must refer to the file itself, not to a compressed form
        let plain = (ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            // each redirect is checked before it gets credentials
            .redirect(redirect::Policy::none())
            .referer(false)
            // XRootD's server requires "Range" and "Depth" with capitals
            .http1_title_case_headers()
            .user_agent(concat!("femtobarn/", env!("CARGO_PKG_VERSION")))
            .default_headers(HeaderMap::from_iter([plain]))
            .connect_timeout(limits.connect_timeout)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(limits.concurrency)
            .http2_initial_stream_window_size(STREAM_WINDOW)
            .http2_initial_connection_window_size(CONNECTION_WINDOW)
            .build();
        Ok(Self {
            http: http.map_err(|error| error.without_url().to_string())?,
            limits,
            hosts: Mutex::default(),
        })
    }

    /// Knowledge about the server of a URL.
    pub fn host(&self, url: &Url) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        let host = hosts
            .entry(server(url))
            .or_insert_with(|| Arc::new(Host::new(self.limits.concurrency)));
        Arc::clone(host)
    }
}

/// The server of a URL, for errors.
pub(super) fn server(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    }
}

/// A server.
pub(super) struct Host {
    /// Limits concurrent requests.
    pub permits: Semaphore,
    /// Whether it can send the end of a file of unknown size.
    pub suffixes: Learned,
    /// Whether it answers a request for many ranges with these ranges.
    pub many: Learned,
}

impl Host {
    fn new(concurrency: usize) -> Self {
        Self {
            permits: Semaphore::new(concurrency),
            suffixes: Learned::default(),
            many: Learned::default(),
        }
    }
}

/// A capability of a server, which is learned at its first use.
#[derive(Debug, Default)]
pub(super) struct Learned(AtomicU8);

impl Learned {
    /// `None` if it was not used yet.
    pub fn get(&self) -> Option<bool> {
        match self.0.load(Ordering::Relaxed) {
            0 => None,
            said => Some(said == 1),
        }
    }

    pub fn set(&self, can: bool) {
        self.0.store(if can { 1 } else { 2 }, Ordering::Relaxed);
    }
}
