//! The HTTP of object stores: our certificates, our patience.

use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use femtobarn_xrootd::backoff;
use futures_util::{TryStreamExt, stream};
use http_body_util::BodyExt;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions, Extensions};

use crate::meter::TrafficCounters;
use crate::progress::Progress;

/// How much longer than any other answer that to a `POST` with a body may take: a store then puts an object together of its
/// parts, and need not say anything meanwhile.
const PATIENCE: u32 = 10;

/// How long a server of a cloud that gives credentials to its machines may take: it is near, or not there at all.
const NEAR: Duration = Duration::from_secs(1);

/// The pause after a connection that was refused: with three tries more, such a server has three seconds.
const STARTING: usize = 3;

/// Makes connections with the certificates that all of our protocols trust; those of the crate `object_store` would bring a
/// second library of cryptography, or other certificates.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    pub connect_timeout: Duration,
    pub request_timeout: Duration,
    pub authorities: Option<PathBuf>,
    /// How often the store tries again.
    pub most_retries: usize,
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
        let (connect_timeout, request_timeout) = match is_near {
            true => (
                NEAR.min(self.connect_timeout),
                (NEAR * 5).min(self.request_timeout),
            ),
            false => (self.connect_timeout, self.request_timeout),
        };
        let builder = || {
            reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .user_agent(concat!("femtobarn/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(connect_timeout)
                .https_only(allows_http.as_deref() != Some("true"))
                .http1_only()
        };
        let asking = builder().read_timeout(request_timeout);
        Ok(HttpClient::new(Counting {
            asking: asking.build().map_err(failed)?,
            sending: builder().build().map_err(failed)?,
            connect_timeout,
            request_timeout,
            is_tried_again: self.most_retries > 0,
            was_there: AtomicBool::new(false),
        }))
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

/// Whether a request has reached a server in one of its tries: then it may have been done.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reached(Arc<AtomicBool>);

impl Reached {
    /// What a request carries to tell it.
    pub fn by(&self) -> Extensions {
        let mut carried = Extensions::new();
        carried.insert(self.clone());
        carried
    }

    pub fn is_so(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Makes requests, and counts those that are to be counted.
#[derive(Debug)]
struct Counting {
    asking: reqwest::Client,
    /// For requests with bodies: to the other one, all of the time that sending takes would be silence.
    sending: reqwest::Client,
    connect_timeout: Duration,
    request_timeout: Duration,
    /// Whether anybody makes requests again that fail.
    is_tried_again: bool,
    /// Whether the server has answered before.
    was_there: AtomicBool,
}

impl Counting {
    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_empty = request.body().content_length() == 0;
        match request.method().as_str() {
            "PUT" if !is_empty => self.put(request).await,
            "POST" if !is_empty => self.post(request).await,
            _ => self.asking.call(request).await,
        }
    }

    /// Asks once. A server that was there and accepts no connections may be starting again: that takes longer than the
    /// pauses of stores between their tries, which are for servers that are busy.
    async fn ask_patiently(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let reached = request.extensions().get::<Reached>().cloned();
        let answered = self.ask(request).await;
        let is_unreached = answered
            .as_ref()
            .is_err_and(|error| error.kind() == HttpErrorKind::Connect);
        if let Some(Reached(reached)) = reached.filter(|_| !is_unreached) {
            reached.store(true, Relaxed);
        }
        match &answered {
            Ok(_) => self.was_there.store(true, Relaxed),
            Err(error) if error.kind() == HttpErrorKind::Connect => {
                if self.is_tried_again && self.was_there.load(Relaxed) {
                    tokio::time::sleep(backoff(STARTING)).await;
                }
            }
            Err(_) => {}
        }
        answered
    }

    /// Puts something, as long as something of it moves.
    async fn put(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let size = body.content_length() as u64;
        let progress = Progress::default();
        let own = progress.clone();
        let body = body.into_data_stream();
        let pieces =
            body.map_ok(move |bytes| stream::iter(own.pieces(bytes).map(Ok::<_, HttpError>)));
        let request = self
            .sending
            .request(parts.method, parts.uri.to_string())
            .headers(parts.headers)
            .body(reqwest::Body::wrap_stream(pieces.try_flatten()));
        let sending = async {
            let answer = request.send().await?;
            let (status, headers) = (answer.status(), answer.headers().clone());
            Ok((status, headers, answer.bytes().await?))
        };
        let (patience, connecting) = (self.request_timeout, self.connect_timeout);
        let sent = progress.wait(size, patience, connecting, sending).await;
        let (status, headers, bytes) = sent.ok_or_else(|| silent(patience))?.map_err(lost)?;
        let mut response = HttpResponse::new(bytes.into());
        *response.status_mut() = status;
        *response.headers_mut() = headers;
        Ok(response)
    }

    /// Has a store do something that takes a while.
    async fn post(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let patience = self.request_timeout * PATIENCE;
        let work = async {
            let (parts, body) = self.sending.call(request).await?.into_parts();
            let bytes: Bytes = body.bytes().await?;
            Ok(HttpResponse::from_parts(parts, bytes.into()))
        };
        let done = tokio::time::timeout(patience, work).await;
        done.map_err(|_| silent(patience))?
    }
}

fn silent(patience: Duration) -> HttpError {
    let what = format!("nothing was sent and nothing came for {patience:?}");
    let error = std::io::Error::new(std::io::ErrorKind::TimedOut, what);
    HttpError::new(HttpErrorKind::Timeout, error)
}

fn lost(error: reqwest::Error) -> HttpError {
    let kind = match error.is_connect() {
        true => HttpErrorKind::Connect,
        false => HttpErrorKind::Interrupted,
    };
    HttpError::new(kind, error.without_url())
}

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
        Box::pin(self.ask_patiently(request))
    }
}
