//! Diagnosis: requests the first byte of a file, and two ranges.

use std::path::PathBuf;

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, RANGE, SERVER};

use super::answer;
use super::client::{Client, Limits};
use super::failure::HttpError;
use super::request::{Answer, Call, Question};
use super::target::{self, Target};
use crate::meter::TrafficCounters;
use crate::runtime::wait_for;
use crate::url::public;
use crate::{IoError, Settings};

/// The first server of a URL.
#[derive(Debug, Clone, Default)]
pub(crate) struct HttpStart {
    /// The URL for messages.
    pub url: String,
    pub host: String,
    pub port: u16,
    pub has_tls: bool,
    pub authorities: Option<PathBuf>,
}

/// The properties of a server, from its answers.
#[derive(Debug)]
pub(crate) struct HttpProbe {
    /// The HTTP version, and the name of the server software.
    pub protocol: String,
    /// The credentials that were sent.
    pub credentials: &'static str,
    /// The target of redirects.
    pub moved_to: Option<String>,
    pub gives_ranges: bool,
    /// Whether it supports several ranges per request.
    pub gives_many: bool,
}

/// The server of a URL.
pub(crate) fn start(url: &str, settings: &Settings) -> Result<HttpStart, IoError> {
    let limits = Limits::of(settings, target::is_dav(url))?;
    let target = Target::parse(url, settings)?;
    let place = target.place();
    Ok(HttpStart {
        host: place.host_str().unwrap_or_default().to_owned(),
        port: place.port_or_known_default().unwrap_or_default(),
        has_tls: place.scheme() == "https",
        authorities: limits.authorities,
        url: target.url,
    })
}

/// Requests a file's first byte, and two ranges of one byte.
pub(crate) fn probe(
    url: &str,
    settings: &Settings,
) -> Result<Result<HttpProbe, HttpError>, IoError> {
    let limits = Limits::of(settings, target::is_dav(url))?;
    let target = Target::parse(url, settings)?;
    let client = Client::shared(&limits, &target.url)?;
    let traffic = TrafficCounters::default();
    let call = Call {
        client: &client,
        target: &target,
        traffic: &traffic,
    };
    wait_for(&target.url, asked(call))
}

async fn asked(call: Call<'_>) -> Result<HttpProbe, HttpError> {
    let start = call.target.place();
    let one = ask(call, "bytes=0-0").await?;
    let many = ask(call, "bytes=0-0,2-2").await?;
    let software = answer::text(one.headers(), SERVER).map(|name| format!(", {name}"));
    let kind = answer::text(many.headers(), CONTENT_TYPE).unwrap_or_default();
    let place = one.place();
    Ok(HttpProbe {
        protocol: format!("{:?}{}", one.version(), software.unwrap_or_default()),
        credentials: match call.target.token(place) {
            Some(_) => "a bearer token was sent",
            None if !start.username().is_empty() => "user and password of the URL were sent",
            None => "not required",
        },
        moved_to: (*place != start).then(|| public(place.as_str())),
        gives_ranges: one.status() == 206,
        gives_many: many.status() == 206 && kind.starts_with("multipart/byteranges"),
    })
}

async fn ask(call: Call<'_>, range: &str) -> Result<Answer, HttpError> {
    let question = Question::new(Method::GET, "reading the first bytes".to_owned());
    call.insist(&question.with(RANGE, range)).await
}
