//! HTTP client for object stores, with our certificates and timeouts.

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
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
    HttpResponseBody, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions, Extensions};

use super::bounded::bounded;
use super::redirect;
use crate::meter::TrafficCounters;
use crate::progress::Progress;
use crate::settings::Limits;

/// Factor for the timeout of a `POST` with a body: the store then assembles an object from its parts, possibly without
/// sending anything meanwhile.
const PATIENCE: u32 = 10;

/// Timeout for the metadata server of a cloud, which provides credentials to machines: it answers quickly, or does not
/// exist.
const NEAR: Duration = Duration::from_secs(1);

/// The backoff step after a refused connection: with three more attempts, a restarting server has three seconds.
const STARTING: usize = 3;

/// Creates clients with the certificates that all our protocols trust. The crate `object_store` itself would need a
/// second cryptography library, or other certificates.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    pub limits: Limits,
    pub authorities: Option<PathBuf>,
}

impl Connector {
    /// The client options for stores.
    pub fn options(&self) -> ClientOptions {
        ClientOptions::new()
            .with_timeout_disabled()
            .with_connect_timeout(self.limits.connect_timeout)
            .with_read_timeout(self.limits.request_timeout)
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
        // a store changes the timeout only for the metadata server
        let is_near = timeout(options) != timeout(&self.options());
        let allows_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let mut limits = self.limits;
        if is_near {
            limits.connect_timeout = NEAR.min(limits.connect_timeout);
            limits.request_timeout = (NEAR * 5).min(limits.request_timeout);
        }
        let builder = || {
            reqwest::Client::builder()
                .tls_backend_preconfigured(tls.clone())
                .user_agent(concat!("femtobarn/", env!("CARGO_PKG_VERSION")))
                .connect_timeout(limits.connect_timeout)
                .https_only(allows_http.as_deref() != Some("true"))
                // each redirect is checked before it gets credentials
                .redirect(reqwest::redirect::Policy::none())
                .referer(false)
                .http1_only()
        };
        let asking = builder().read_timeout(limits.request_timeout);
        Ok(HttpClient::new(Counting {
            asking: asking.build().map_err(failed)?,
            sending: builder().build().map_err(failed)?,
            limits,
            was_there: AtomicBool::new(false),
        }))
    }
}

/// Counts a request and its repetitions, because stores retry by themselves.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    traffic: Arc<TrafficCounters>,
    /// Whether the request was sent before.
    is_again: Arc<AtomicBool>,
}

impl Counted {
    /// The request extension for counting.
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

/// Whether any attempt of a request has reached a server, so it may have been executed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reached(Arc<AtomicBool>);

impl Reached {
    /// The request extension that records this.
    pub fn by(&self) -> Extensions {
        let mut carried = Extensions::new();
        carried.insert(self.clone());
        carried
    }

    pub fn is_so(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Sends requests and counts those with a counter.
#[derive(Debug)]
struct Counting {
    asking: reqwest::Client,
    /// For requests with bodies: with the other client, the whole time of sending would count as silence.
    sending: reqwest::Client,
    limits: Limits,
    /// Whether the server has answered before.
    was_there: AtomicBool,
}

impl Counting {
    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_empty = request.body().content_length() == 0;
        match request.method().as_str() {
            "PUT" if !is_empty => self.put(request).await,
            "POST" if !is_empty => self.post(request).await,
            _ => self.follow(request).await,
        }
    }

    /// Follows redirects.
    async fn follow(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let is_object = is_of_object(&request);
        for _ in 0..=self.limits.most_redirects {
            let answer = self.asking.call(request.clone()).await?;
            let Some(location) = redirect::place(&answer) else {
                return Ok(bounded(answer, self.limits.rate(), is_object));
            };
            request = redirect::next(&request, location)?;
        }
        Err(redirect::too_many(self.limits.most_redirects))
    }

    /// Checks the final answer to a request without redirects to another server.
    fn received(
        &self,
        asked: &HttpRequest,
        answer: HttpResponse,
    ) -> Result<HttpResponse, HttpError> {
        match redirect::place(&answer) {
            Some(location) => Err(redirect::next(asked, location)
                .err()
                .unwrap_or_else(|| redirect::too_many(0))),
            None => Ok(bounded(answer, self.limits.rate(), false)),
        }
    }

    /// Sends a request. A server that worked before and refuses connections may be restarting. This takes longer than
    /// the pauses of stores between retries, which are for busy servers.
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
                if self.limits.most_retries > 0 && self.was_there.load(Relaxed) {
                    tokio::time::sleep(backoff(STARTING)).await;
                }
            }
            Err(_) => {}
        }
        answered
    }

    /// Sends a `PUT`, as long as it makes progress.
    async fn put(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let head = HttpRequest::from_parts(parts.clone(), Bytes::new().into());
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
            let answer = request.send().await.map_err(lost)?;
            let mut response = HttpResponse::new(Bytes::new().into());
            *response.status_mut() = answer.status();
            *response.headers_mut() = answer.headers().clone();
            let body = reqwest::Body::from(answer).map_err(lost);
            let answer = response.map(|_| HttpResponseBody::new(body));
            complete(self.received(&head, answer)?).await
        };
        let (patience, connecting) = (self.limits.request_timeout, self.limits.connect_timeout);
        let sent = progress.wait(size, patience, connecting, sending).await;
        sent.ok_or_else(|| silent(patience))?
    }

    /// Sends a `POST`, which may take the store some time.
    async fn post(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let patience = self.limits.request_timeout * PATIENCE;
        let work = async {
            let answer = self.sending.call(request.clone()).await?;
            complete(self.received(&request, answer)?).await
        };
        let done = tokio::time::timeout(patience, work).await;
        done.map_err(|_| silent(patience))?
    }
}

/// Whether the answer may have any length, because it is an object and not a list.
fn is_of_object(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let is_list = |pair: &str| pair.starts_with("list-type=") || pair == "comp=list";
    request.method() == "GET" && !query.split('&').any(is_list)
}

/// Receives the whole body of an answer.
async fn complete(answer: HttpResponse) -> Result<HttpResponse, HttpError> {
    let (parts, body) = answer.into_parts();
    let bytes: Bytes = body.bytes().await?;
    Ok(HttpResponse::from_parts(parts, bytes.into()))
}

fn silent(patience: Duration) -> HttpError {
    let what = format!("no data were sent or received for {patience:?} (request_timeout)");
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
