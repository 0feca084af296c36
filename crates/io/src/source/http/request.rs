//! Sends one request to a server: redirects, credentials, and checks of the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime};

use bytes::{Bytes, BytesMut};
use reqwest::header::{CONTENT_RANGE, HeaderMap, HeaderName, HeaderValue, IF_MATCH, LOCATION};
use reqwest::{Method, Response, StatusCode, Url};
use tokio::time::timeout;

use super::answer;
use super::body::Body;
use super::client::{Client, server};
use super::failure::{Failure, HttpError, Patience, Why};
use super::target::{NOWHERE, Target};
use crate::meter::TrafficCounters;
use femtobarn_xrootd::Pace;

/// A request to a server.
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub method: Method,
    pub headers: HeaderMap,
    /// A description for errors.
    pub doing: String,
    /// The body of the request.
    pub body: Option<Body>,
}

impl Question {
    pub fn new(method: Method, doing: String) -> Self {
        let headers = HeaderMap::new();
        Self {
            method,
            headers,
            doing,
            body: None,
        }
    }

    pub fn with(mut self, name: HeaderName, value: &str) -> Self {
        // header names may have any case
        if let Ok(value) = HeaderValue::from_bytes(value.as_bytes()) {
            self.headers.insert(name, value);
        }
        self
    }
}

/// An answer with a received head; its body follows.
pub(super) struct Answer {
    response: Response,
    server: String,
    doing: String,
    patience: Duration,
    pace: Pace,
    /// Counts the bytes that arrive.
    received: Arc<AtomicU64>,
}

impl Answer {
    pub fn status(&self) -> u16 {
        self.response.status().as_u16()
    }

    /// The version of HTTP.
    pub fn version(&self) -> reqwest::Version {
        self.response.version()
    }

    pub fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// The URL of the answer, after redirects.
    pub fn place(&self) -> &Url {
        self.response.url()
    }

    pub fn failure(&self, why: Why) -> Failure {
        Failure {
            server: self.server.clone(),
            doing: self.doing.clone(),
            why,
            wait: None,
        }
    }

    pub fn lied(&self, what: impl Into<String>) -> Failure {
        self.failure(Why::Lied(what.into()))
    }

    /// The error for an answer that does not match the request.
    pub fn unexpected(&self) -> Failure {
        let range = answer::text(self.headers(), CONTENT_RANGE).map(|range| format!(" ({range})"));
        let status = self.response.status();
        self.lied(format!("{status}{}", range.unwrap_or_default()))
    }

    /// The next bytes of the body.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        match timeout(self.patience, self.response.chunk()).await {
            Ok(Ok(Some(chunk))) => {
                self.received.fetch_add(chunk.len() as u64, Relaxed);
                match self.pace.came(chunk.len()) {
                    Ok(()) => Ok(Some(chunk)),
                    Err(slow) => Err(self.failure(Why::Slow(slow))),
                }
            }
            Ok(Ok(None)) => Ok(None),
            Ok(Err(error)) => Err(self.failure(Why::Lost(cause(error)))),
            Err(_) => Err(self.failure(Why::Silent(self.patience))),
        }
    }

    /// Appends bytes of the body to `buffer`, up to `expected` bytes in total. On an error, `buffer` has the received
    /// bytes.
    pub async fn fill(&mut self, buffer: &mut BytesMut, expected: usize) -> Result<(), Failure> {
        while buffer.len() < expected {
            let Some(chunk) = self.next().await? else {
                let why = format!("received {} bytes instead of {expected}", buffer.len());
                return Err(self.failure(Why::Lost(why)));
            };
            let wanted = chunk.len().min(expected - buffer.len());
            buffer.extend_from_slice(chunk.get(..wanted).unwrap_or_default());
            if wanted < chunk.len() {
                return Err(self.lied(format!("more than the {expected} requested bytes")));
            }
        }
        Ok(())
    }

    /// The whole body, if it has at most `most` bytes.
    pub async fn whole(&mut self, most: usize) -> Result<Option<Bytes>, Failure> {
        let mut out = BytesMut::new();
        while let Some(chunk) = self.next().await? {
            if out.len() + chunk.len() > most {
                return Ok(None);
            }
            out.extend_from_slice(&chunk);
        }
        Ok(Some(out.freeze()))
    }
}

/// The context of a request: a file on a server.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub client: &'a Client,
    pub target: &'a Target,
    pub traffic: &'a TrafficCounters,
}

impl<'a> Call<'a> {
    pub fn patience(&self) -> Patience<'a> {
        Patience::new(&self.client.limits)
    }

    /// The retry state for a server that has answered before.
    pub fn patience_with_known(&self) -> Patience<'a> {
        Patience::of_known_server(&self.client.limits)
    }

    /// Sends a request with retries.
    pub async fn insist(&self, question: &Question) -> Result<Answer, HttpError> {
        let mut patience = self.patience();
        loop {
            match self.ask(question).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => {
                    patience.after(failure).await?;
                    self.traffic.retry();
                }
            }
        }
    }

    /// Sends a request once. If the remembered redirect target fails, the URL itself is used again. If a server
    /// requires a token, the request is repeated with one.
    pub async fn ask(&self, question: &Question) -> Result<Answer, Failure> {
        let mut place = self.target.place();
        loop {
            let has_sent_token = self.target.token(&place).is_some();
            let (last, found) = self.follow(place.clone(), question).await;
            let failure = match found {
                Ok(answer) => {
                    self.target.remember(&last);
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let status = match failure.why {
                Why::Status(status) => status.as_u16(),
                _ => 0,
            };
            let is_lost = matches!(status, 400 | 401 | 403 | 404 | 410)
                || matches!(failure.why, Why::Unreachable(_) | Why::NoTrust(_));
            let is_back = is_lost && self.target.forget(&place);
            let is_refused =
                matches!(status, 401 | 403) && !has_sent_token && self.target.refused(&last);
            if !is_back && !is_refused {
                return Err(failure);
            }
            place = self.target.place();
        }
    }

    /// Sends a request to a URL and follows redirects; also returns the final URL.
    async fn follow(&self, start: Url, question: &Question) -> (Url, Result<Answer, Failure>) {
        let mut place = start;
        for _ in 0..=self.client.limits.most_redirects {
            let answer = match self.send(&place, question).await {
                Ok(answer) => answer,
                Err(failure) => return (place, Err(failure)),
            };
            if !matches!(answer.status(), 301 | 302 | 303 | 307 | 308) {
                return (place, judged(answer, question));
            }
            let location = answer::text(answer.headers(), LOCATION);
            let next = match location {
                Some(location) => self.target.next(&place, location),
                None => Err(NOWHERE),
            };
            let next = match next {
                Ok(next) => next,
                Err(why) => return (place, Err(answer.lied(why))),
            };
            if next.path().strip_suffix('/') == Some(place.path()) && !self.target.is_folder() {
                return (place, Err(answer.failure(Why::Folder)));
            }
            place = next;
        }
        let why = Why::Redirects(self.client.limits.most_redirects);
        let failure = failure(&place, question, why);
        (place, Err(failure))
    }

    async fn send(&self, place: &Url, question: &Question) -> Result<Answer, Failure> {
        let request = self
            .client
            .http
            .request(question.method.clone(), place.clone());
        let mut request = request.headers(question.headers.clone());
        if let Some(token) = self.target.token(place) {
            request = request.bearer_auth(token.secret());
        }
        let limits = &self.client.limits;
        self.traffic.ask();
        let sent = match &question.body {
            // connecting has its own time limit
            None => {
                let patience = limits.request_timeout + limits.connect_timeout;
                timeout(patience, request.send()).await.ok()
            }
            Some(body) => {
                body.send(request, limits.request_timeout, limits.connect_timeout)
                    .await
            }
        };
        let response = match sent {
            Some(Ok(response)) => response,
            Some(Err(error)) => return Err(failure(place, question, unsent(error))),
            None => {
                return Err(failure(
                    place,
                    question,
                    Why::Silent(limits.request_timeout),
                ));
            }
        };
        Ok(Answer {
            response,
            server: server(place),
            doing: question.doing.clone(),
            patience: limits.request_timeout,
            pace: Pace::begin(limits.rate()),
            received: self.traffic.received(),
        })
    }
}

fn failure(place: &Url, question: &Question, why: Why) -> Failure {
    Failure {
        server: server(place),
        doing: question.doing.clone(),
        why,
        wait: None,
    }
}

/// Checks that an answer matches the request.
fn judged(answer: Answer, question: &Question) -> Result<Answer, Failure> {
    let status = answer.response.status();
    let insists = question.headers.contains_key(IF_MATCH);
    if status == StatusCode::PRECONDITION_FAILED && insists {
        let what = "it has another tag".to_owned();
        return Err(answer.failure(Why::Changed(what)));
    }
    if !status.is_success() && status != StatusCode::RANGE_NOT_SATISFIABLE {
        let wait = answer::retry_after(answer.headers(), SystemTime::now());
        return Err(Failure {
            wait,
            ..answer.failure(Why::Status(status))
        });
    }
    match answer::packing(answer.headers()) {
        Some(packing) => Err(answer.lied(format!(
            "it is compressed ({packing}), although this was not requested"
        ))),
        None => Ok(answer),
    }
}

/// The reason why the server sent no answer.
fn unsent(error: reqwest::Error) -> Why {
    let is_connect = error.is_connect();
    if is_connect && is_of_tls(&error) {
        let why = cause(error);
        return Why::NoTrust(format!("{why}: {}", femtobarn_xrootd::tls_advice(&why)));
    }
    if is_connect {
        return Why::Unreachable(cause(error));
    }
    Why::Lost(cause(error))
}

fn is_of_tls(error: &(dyn std::error::Error + 'static)) -> bool {
    // the source of a system error hides its details
    let io = error.downcast_ref::<std::io::Error>();
    let inner = io.and_then(std::io::Error::get_ref);
    error.is::<rustls::Error>()
        || inner.is_some_and(|inner| is_of_tls(inner))
        || error.source().is_some_and(is_of_tls)
}

/// The root cause of an error; the errors above it only repeat the URL and the failure.
fn cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut last: &dyn std::error::Error = &error;
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}
