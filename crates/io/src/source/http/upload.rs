//! Creates files on HTTP servers: with a temporary name, and then renamed, on servers with WebDAV (RFC 4918); directly
//! on others.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use reqwest::Method;
use reqwest::header::{ALLOW, CONTENT_LENGTH, HeaderName, IF_NONE_MATCH};
use tokio::time::interval;

use super::answer;
use super::body::Body;
use super::client::{Client, Limits};
use super::failure::{Failure, HttpError, Why};
use super::request::{Answer, Call, Question};
use super::target::{self, Target};
use crate::meter::TrafficCounters;
use crate::runtime::{clear_up, process, wait_for};
use crate::sink::OnBytes;
use crate::url::decoded;
use crate::{ByteSource, IoError, Settings};

const DAV: HeaderName = HeaderName::from_static("dav");
const DESTINATION: HeaderName = HeaderName::from_static("destination");
const OVERWRITE: HeaderName = HeaderName::from_static("overwrite");

/// Interval of progress reports.
const PULSE: Duration = Duration::from_millis(100);

/// Number of attempts to remove an incomplete file.
const REMOVALS: usize = 20;

/// The server's support for `MOVE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moving {
    /// Not supported.
    Unknown,
    /// Supported, with WebDAV status codes.
    Known,
    /// Supported, but names in `Destination` are not decoded: XRootD's server, which supports WebDAV without listing
    /// `MOVE`.
    ToPlainNames,
}

/// A new file on a server.
#[derive(Debug)]
pub(crate) struct HttpUpload {
    target: Target,
    /// The temporary name, on servers that can rename it.
    sibling: Option<Target>,
    moving: Moving,
    limits: Limits,
    replaces: bool,
    /// Whether sending has started.
    is_begun: AtomicBool,
    /// Whether the result of sending is unknown: the server may still create the file when no client waits.
    is_uncertain: AtomicBool,
    traffic: TrafficCounters,
}

impl HttpUpload {
    /// Checks that the name is free or may be replaced; creates nothing yet.
    ///
    /// # Errors
    /// If the URL is invalid, the file exists and must not be replaced, or no server answers.
    pub fn begin(url: &str, replaces: bool, settings: &Settings) -> Result<Self, IoError> {
        let is_dav = target::is_dav(url);
        let target = Target::parse(url, settings)?;
        if target.is_folder() {
            let (url, found) = (target.url, "a directory");
            return Err(IoError::NotAFile { url, found });
        }
        let mut upload = Self {
            limits: Limits::of(settings, is_dav)?,
            sibling: None,
            moving: Moving::Unknown,
            target,
            replaces,
            is_begun: AtomicBool::new(false),
            is_uncertain: AtomicBool::new(false),
            traffic: TrafficCounters::default(),
        };
        upload.moving = upload.wait(async |upload, client| {
            upload.check_free(client).await?;
            Ok(upload.moving(client, is_dav).await)
        })?;
        if upload.moving != Moving::Unknown {
            let path = beside(upload.target.path(), getrandom::u32().unwrap_or_default());
            upload.sibling = Some(upload.target.with_path(&path));
        }
        Ok(upload)
    }

    /// The URL for messages, without secrets.
    pub fn url(&self) -> &str {
        &self.target.url
    }

    /// Sends a complete source. If the server cannot rename files, the file then has its final name.
    ///
    /// # Errors
    /// If the source cannot be read, the server refuses it, or `tick` has stopped it.
    pub fn put(&self, source: &Arc<dyn ByteSource>, tick: OnBytes<'_>) -> Result<(), IoError> {
        let body = Body::new(source.clone());
        let is_done = self.wait(async |upload, client| {
            let mut work = pin!(upload.send(client, &body));
            let mut pulse = interval(PULSE);
            loop {
                tokio::select! {
                    // with a final name, it is too late to stop
                    sent = &mut work => return sent.map(|()| {
                        tick(body.sent()) || upload.sibling.is_none()
                    }),
                    _ = pulse.tick() => if !tick(body.sent()) {
                        return Ok(false);
                    }
                }
            }
        });
        body.end();
        match (body.failure(), is_done?) {
            (Some(error), _) => Err(error),
            (None, true) => Ok(()),
            (None, false) => {
                let url = self.target.url.clone();
                Err(IoError::Interrupted { url })
            }
        }
    }

    /// Checks that the server has all bytes, and renames the file.
    ///
    /// # Errors
    /// If bytes are missing, another file has the name, or the server refuses.
    pub fn appear(&self, size: u64) -> Result<(), IoError> {
        let there = self.sibling.as_ref().unwrap_or(&self.target);
        let found = self.wait(async |upload, client| upload.size(client, there).await)?;
        if let Some(found) = found.filter(|found| *found != size) {
            return Err(IoError::NotSent {
                url: self.target.url.clone(),
                expected: format!("{size} bytes"),
                found: format!("the server has {found}"),
            });
        }
        let Some(sibling) = &self.sibling else {
            return Ok(());
        };
        self.wait(async |upload, client| {
            upload.check_free(client).await?;
            let overwrite = if upload.replaces { "T" } else { "F" };
            let destination = upload.target.destination();
            let destination = match upload.moving {
                Moving::ToPlainNames => decoded(&destination),
                _ => destination,
            };
            let question = question("MOVE", "renaming (MOVE)")
                .with(DESTINATION, &destination)
                .with(OVERWRITE, overwrite);
            upload.call(client, sibling).insist(&question).await?;
            // in case the server has used another name
            upload.head(client, &upload.target).await.map(drop)
        })
    }

    /// Removes the temporary file, if anything was sent.
    pub fn remove(&self) {
        let Some(sibling) = self
            .sibling
            .as_ref()
            .filter(|_| self.is_begun.load(Relaxed))
        else {
            return;
        };
        let Ok(client) = Client::shared(&self.limits, &self.target.url) else {
            return;
        };
        clear_up(async {
            let question = question("DELETE", "removing the incomplete file");
            for _ in 0..REMOVALS {
                // no caller is left for the error
                let removed = self.call(&client, sibling).ask(&question).await;
                let is_missing = matches!(
                    removed,
                    Err(Failure { why: Why::Status(status), .. }) if status.as_u16() == 404
                );
                if !is_missing || !self.is_uncertain.load(Relaxed) {
                    break;
                }
                tokio::time::sleep(PULSE).await;
            }
        });
    }

    fn wait<T>(
        &self,
        work: impl AsyncFnOnce(&Self, &Client) -> Result<T, HttpError>,
    ) -> Result<T, IoError> {
        let client = Client::shared(&self.limits, &self.target.url)?;
        let done = wait_for(&self.target.url, work(self, &client))?;
        done.map_err(|error| error.of_sink(&self.target))
    }

    fn call<'a>(&'a self, client: &'a Client, target: &'a Target) -> Call<'a> {
        let traffic = &self.traffic;
        Call {
            client,
            target,
            traffic,
        }
    }

    async fn head(&self, client: &Client, target: &Target) -> Result<Answer, HttpError> {
        let question = question("HEAD", "checking whether it exists (HEAD)");
        self.call(client, target).insist(&question).await
    }

    /// Checks that the name is free if it must not be replaced. A user who may replace the file need not be able to
    /// read it.
    async fn check_free(&self, client: &Client) -> Result<(), HttpError> {
        match self.head(client, &self.target).await {
            Ok(answer) if !self.replaces => Err(answer.failure(Why::Taken).into()),
            Ok(_) => Ok(()),
            Err(error) => match error.status() {
                Some(404 | 410) => Ok(()),
                Some(_) if self.replaces => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// The server's support for `MOVE`.
    async fn moving(&self, client: &Client, is_dav: bool) -> Moving {
        let question = question("OPTIONS", "asking for supported methods (OPTIONS)");
        let asked = self.call(client, &self.target).ask(&question).await;
        let (mut is_allowed, mut has_dav) = (false, false);
        if let Ok(answer) = asked {
            let allowed = answer::text(answer.headers(), ALLOW).unwrap_or_default();
            is_allowed = allowed.contains("MOVE");
            has_dav = answer.headers().contains_key(DAV);
        }
        match (is_allowed, has_dav, is_dav) {
            (false, true, _) => Moving::ToPlainNames,
            (true, ..) | (.., true) => Moving::Known,
            // without an answer, only plain sending is possible
            _ => Moving::Unknown,
        }
    }

    /// The size of the existing file, if the server reports it.
    async fn size(&self, client: &Client, target: &Target) -> Result<Option<u64>, HttpError> {
        let answer = self.head(client, target).await?;
        let length = answer::text(answer.headers(), CONTENT_LENGTH);
        Ok(length.and_then(|length| length.parse().ok()))
    }

    async fn send(&self, client: &Client, body: &Body) -> Result<(), HttpError> {
        let target = self.sibling.as_ref().unwrap_or(&self.target);
        let mut question = question("PUT", "sending (PUT)");
        question.body = Some(body.clone());
        if self.sibling.is_none() {
            self.check_free(client).await?;
            if !self.replaces {
                question = question.with(IF_NONE_MATCH, "*");
            }
        }
        if self.sibling.is_some() {
            self.make_folders(client).await?;
        }
        self.is_begun.store(true, Relaxed);
        self.is_uncertain.store(true, Relaxed);
        let sent = self.call(client, target).insist(&question).await;
        let is_answered = sent
            .as_ref()
            .map_or_else(|error| error.status().is_some(), |_| true);
        self.is_uncertain.store(!is_answered, Relaxed);
        sent.map(drop)
    }

    /// Creates missing parent directories. A server that does not report missing ones would not explain a failure of
    /// the upload either.
    async fn make_folders(&self, client: &Client) -> Result<(), HttpError> {
        let path = self.target.path();
        let folders: Vec<&str> = path
            .match_indices('/')
            .skip(1)
            .filter_map(|(end, _)| path.get(..=end))
            .collect();
        let Some(own) = folders.last() else {
            return Ok(());
        };
        match self.head(client, &self.target.with_path(own)).await {
            Err(error) if matches!(error.status(), Some(404 | 410)) => {}
            Err(error) if error.is_of_the_way() => return Err(error),
            _ => return Ok(()),
        }
        for folder in folders {
            let folder = self.target.with_path(folder);
            let question = question("MKCOL", "creating its directory (MKCOL)");
            // creating an existing directory fails; only the upload shows whether the directory can be used
            let _ = self.call(client, &folder).ask(&question).await;
        }
        Ok(())
    }
}

fn question(method: &'static str, doing: &str) -> Question {
    // all method names in use are valid
    let method = Method::from_bytes(method.as_bytes()).unwrap_or_default();
    Question::new(method, doing.to_owned())
}

/// The temporary path of a file.
fn beside(path: &str, number: u32) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    format!("{folder}/.{name}.partial-{}-{number}", process())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_complete_stands_beside_the_name() {
        let name = beside("/a/b%20c.root", 7);
        assert_eq!(name, format!("/a/.b%20c.root.partial-{}-7", process()));
    }
}
