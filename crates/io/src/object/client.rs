//! The HTTP of object stores: our certificates, our patience.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions, Extensions};

use crate::meter::TrafficCounters;

/// How long a server of a cloud that gives credentials to its machines may take: it is near, or not there at all.
const NEAR: Duration = Duration::from_secs(1);

/// Makes connections with the certificates that all of our protocols trust; those of the crate `object_store` would bring a
/// second library of cryptography, or other certificates.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    pub connect_timeout: Duration,
    pub request_timeout: Duration,
    pub authorities: Option<PathBuf>,
}

impl Connector {
    /// What stores are told of it.
    pub fn options(&self) -> ClientOptions {
        ClientOptions::new()
            .with_timeout_disabled()
            .with_connect_timeout(self.connect_timeout)
            .with_read_timeout(self.request_timeout)
    }
}

fn failed(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> object_store::Error {
    object_store::Error::Generic {
        store: "HTTP",
        source: source.into(),
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let tls = femtobarn_xrootd::tls_config(self.authorities.as_deref()).map_err(failed)?;
        let timeout =
            |options: &ClientOptions| options.get_config_value(&ClientConfigKey::ConnectTimeout);
        // a store changes it for one purpose only
        let is_near = timeout(options) != timeout(&self.options());
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let client = reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .user_agent(concat!("femtobarn/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(match is_near {
                true => NEAR.min(self.connect_timeout),
                false => self.connect_timeout,
            })
            .read_timeout(match is_near {
                true => (NEAR * 5).min(self.request_timeout),
                false => self.request_timeout,
            })
            .https_only(allows_http.as_deref() != Some("true"))
            .http1_only()
            .build()
            .map_err(failed)?;
        Ok(HttpClient::new(Counting(client)))
    }
}

/// By which a request is counted, as often as it is made: stores try again by themselves.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    traffic: Arc<TrafficCounters>,
    /// Whether it was made before.
    is_again: Arc<AtomicBool>,
}

impl Counted {
    /// What a request carries to be counted.
    pub fn by(traffic: &Arc<TrafficCounters>) -> Extensions {
        let mut carried = Extensions::new();
        carried.insert(Self {
            traffic: traffic.clone(),
            is_again: Arc::default(),
        });
        carried
    }

    fn note(&self) {
        self.traffic.ask();
        if self.is_again.swap(true, Relaxed) {
            self.traffic.retry();
        }
    }
}

/// Makes requests, and counts those that are to be counted.
#[derive(Debug)]
struct Counting(reqwest::Client);

impl HttpService for Counting {
    fn call<'a, 'b>(
        &'a self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'b>>
    where
        'a: 'b,
        Self: 'b,
    {
        if let Some(counted) = request.extensions().get::<Counted>() {
            counted.note();
        }
        self.0.call(request)
    }
}
