//! An open file: vector reads, and writes, on any server that has it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use futures_util::future::try_join_all;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::client::{Client, Tried};
use crate::protocol::{self, Element, Mode, OpenFlags, Request, Stat};
use crate::{Server, XrootdError, XrootdUrl, with_causes};

mod again;
mod cut;
mod pages;
mod resume;
mod session;
mod write;

pub use cut::Limits;
use cut::{Read, joined, reads};
use session::Session;
pub(crate) use session::{Kept, Place, Slot};

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenOptions {
    /// Open it for reading.
    Read,
    /// Open an existing file for reading and writing.
    Update,
    /// Create a file that must not exist, with its parent directories.
    CreateNew,
}

impl OpenOptions {
    fn flags(self) -> OpenFlags {
        match self {
            Self::Read => OpenFlags::READ
                .and(OpenFlags::RETURN_STAT)
                .and(OpenFlags::ASYNC),
            Self::Update => OpenFlags::UPDATE.and(OpenFlags::RETURN_STAT),
            Self::CreateNew => OpenFlags::UPDATE
                .and(OpenFlags::NEW)
                .and(OpenFlags::MAKE_PATH),
        }
    }
}

/// An open file. If its connection is lost or its server fails, it is opened again, on another server if there is one.
#[derive(Debug)]
pub struct File {
    client: Client,
    url: XrootdUrl,
    options: OpenOptions,
    stat: Stat,
    has_time: bool,
    session: Slot,
    /// The limits that the last read used.
    known_limits: OnceLock<Limits>,
    asked: AtomicU64,
    asked_again: AtomicU64,
    /// Number of reads and writes that were answered.
    answered: AtomicU64,
    /// The smallest and largest end that the file may have: one past the last byte that the server confirmed, and one
    /// past the last byte that was sent.
    ends: [AtomicU64; 2],
}

impl File {
    /// Opens a file.
    ///
    /// # Errors
    /// If it does not exist, cannot be opened in this way, or no server answers.
    pub async fn open(
        client: &Client,
        url: XrootdUrl,
        options: OpenOptions,
    ) -> Result<Self, XrootdError> {
        Self::open_elsewhere(client, url, options, &[]).await
    }

    /// Opens a file, on none of these servers if the redirector knows others. Not all redirectors heed that.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub async fn open_elsewhere(
        client: &Client,
        url: XrootdUrl,
        options: OpenOptions,
        avoided: &[String],
    ) -> Result<Self, XrootdError> {
        let mut tried = Tried::avoiding(avoided);
        let (session, stat) = open(client, &url, options, &mut tried, 0).await?;
        let stat = match stat {
            Some(stat) => stat,
            None => stat_open(&session, &url).await?,
        };
        let has_time = session.has_time();
        let ends = [stat.size.into(), stat.size.into()];
        let session = Arc::new(Mutex::new(Place::of(Arc::new(session))));
        if options == OpenOptions::Read {
            client.keep(&session);
        }
        Ok(Self {
            client: client.clone(),
            url,
            options,
            stat,
            has_time,
            session,
            known_limits: OnceLock::new(),
            asked: AtomicU64::new(0),
            asked_again: AtomicU64::new(0),
            answered: AtomicU64::new(0),
            ends,
        })
    }

    /// The URL.
    pub fn url(&self) -> &XrootdUrl {
        &self.url
    }

    /// The server to which a redirector has sent us; none if the URL names the server, or if the file is being opened.
    pub fn redirected_to(&self) -> Option<String> {
        let place = self.session.try_lock().ok()?;
        let at = |server: &Server| (server.host.clone(), server.port);
        (at(&place.server) != at(&self.url.server)).then(|| place.server.to_string())
    }

    /// A number that changes when bytes of answers arrive; none while the file is being opened again.
    pub fn progress(&self) -> Option<u64> {
        let place = self.session.try_lock().ok()?;
        Some(place.here.as_ref()?.connection.n_received())
    }

    /// The status when the file was opened.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Whether the time in [`File::stat`] is that of the file. A proxy reports the time of its cached copy, which changes
    /// when the file is read.
    pub fn has_time(&self) -> bool {
        self.has_time
    }

    /// The server on which the file is open, or was opened last.
    pub async fn server(&self) -> String {
        let session = self.session.lock().await;
        let connection = session.here.as_ref().map(|session| &session.connection);
        connection
            .map_or(&self.url.server, |connection| &connection.server)
            .to_string()
    }

    /// Reads ranges in as few requests as the server allows, all sent at once.
    ///
    /// # Errors
    /// If a range is outside the file, or no server returns its bytes.
    pub async fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, XrootdError> {
        let limits = self.limits().await?;
        let _ = self.known_limits.set(limits);
        let reads = reads(ranges, limits);
        let parts = reads.iter().map(|(read, _)| self.read(read));
        let parts = try_join_all(parts).await?;
        let mut out: Vec<Vec<Bytes>> = vec![Vec::new(); ranges.len()];
        for ((_, owners), bytes) in reads.iter().zip(parts) {
            for (owner, bytes) in owners.iter().zip(bytes) {
                if let Some(place) = out.get_mut(*owner) {
                    place.push(bytes);
                }
            }
        }
        Ok(out.into_iter().map(joined).collect())
    }

    /// Number of requests that a read of these ranges takes.
    pub fn n_requests(&self, ranges: &[Range<u64>]) -> usize {
        let limits = self.known_limits.get().copied();
        reads(ranges, limits.unwrap_or_default()).len()
    }

    /// Number of read requests, and how many of them were retries.
    pub fn asked(&self) -> (u64, u64) {
        (self.asked.load(Relaxed), self.asked_again.load(Relaxed))
    }

    /// The server's limits on vector reads.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn limits(&self) -> Result<Limits, XrootdError> {
        match self.session().await?.connection.limits().await {
            Ok(limits) => Ok(limits),
            // the reads will report the failure, or go to another server
            Err(error) if error.is_of_the_server() => Ok(Limits::default()),
            Err(error) => Err(error),
        }
    }

    /// The session in which the file is open. The file is opened again if it was closed in favour of others.
    async fn session(&self) -> Result<Arc<Session>, XrootdError> {
        let mut place = self.session.lock().await;
        if let Some(session) = &place.here {
            return Ok(session.clone());
        }
        let mut tried = Tried::default();
        let session = self.open_again(&mut place, &mut tried).await?;
        drop(place);
        self.client.keep(&self.session);
        Ok(session)
    }

    async fn read(&self, read: &Read) -> Result<Vec<Bytes>, XrootdError> {
        let (session, mut failed) = (self.session().await?, self.no_failures());
        match self.read_once(&session, read).await {
            Ok(bytes) => Ok(bytes),
            Err(error) => {
                self.try_again(&session, &mut failed, error, "read").await?;
                self.read_parts(read, failed).await
            }
        }
    }

    /// Opens the file again, unless another caller has done so since this generation.
    async fn reopen(&self, generation: usize, tried: &mut Tried) -> Result<(), XrootdError> {
        let asked = Instant::now();
        let mut place = self.session.lock().await;
        if place.generation != generation {
            return Ok(());
        }
        // those that waited while another one tried in vain fail together
        if let Some((at, why)) = &place.failed
            && *at > asked
        {
            return Err(XrootdError::Lost {
                server: place.server.to_string(),
                doing: format!("open {}", self.url.path),
                why: why.clone(),
            });
        }
        let opened = self.open_again(&mut place, tried).await;
        if let Err(error) = &opened {
            place.failed = Some((Instant::now(), with_causes(error)));
        }
        opened.map(drop)
    }

    /// Opens the file again, and checks that it has not changed.
    async fn open_again(
        &self,
        place: &mut Place,
        tried: &mut Tried,
    ) -> Result<Arc<Session>, XrootdError> {
        if self.options != OpenOptions::Read {
            return self.resume(place, tried).await;
        }
        let generation = place.generation + 1;
        let opened = open(&self.client, &self.url, self.options, tried, generation).await;
        let (new, stat) = opened?;
        let stat = match stat {
            Some(stat) => stat,
            None => stat_open(&new, &self.url).await?,
        };
        // replicas on other servers may have other times
        let is_same_server = new.connection.server == place.server;
        let is_comparable = is_same_server && new.has_time() && self.has_time;
        let is_same_time = stat.modified == self.stat.modified || !is_comparable;
        if stat.size != self.stat.size || !is_same_time {
            let describe = |stat: &Stat| format!("{} bytes of time {}", stat.size, stat.modified);
            return Err(XrootdError::Changed {
                url: self.url.to_string(),
                expected: describe(&self.stat),
                found: describe(&stat),
            });
        }
        let session = Arc::new(new);
        *place = Place::of(session.clone());
        Ok(session)
    }

    async fn read_once(&self, session: &Session, read: &Read) -> Result<Vec<Bytes>, XrootdError> {
        self.asked.fetch_add(1, Relaxed);
        let answered = self.ask_once(session, read).await;
        self.answered
            .fetch_add(u64::from(answered.is_ok()), Relaxed);
        answered
    }

    async fn ask_once(&self, session: &Session, read: &Read) -> Result<Vec<Bytes>, XrootdError> {
        let (connection, handle) = (&session.connection, &session.handle);
        match read {
            Read::One(range) if self.client.options().checksums => self
                .read_pages(session, range)
                .await
                .map(|bytes| vec![bytes]),
            Read::One(range) => {
                let expected = range.end - range.start;
                let doing = format!(
                    "read of {expected} bytes at {} of {}",
                    range.start, self.url.path
                );
                let request = Request::Read {
                    handle: *handle,
                    offset: range.start,
                    length: length_of(range)?,
                };
                let most = usize::try_from(expected).unwrap_or(usize::MAX);
                let body = connection
                    .demand(&request, Bytes::new(), most, &doing)
                    .await?;
                self.whole(session, range, body.len(), &doing).await?;
                Ok(vec![body])
            }
            Read::Several(ranges) => {
                let doing = format!("readv of {} ranges of {}", ranges.len(), self.url.path);
                let element = |range: &Range<u64>| {
                    Ok(Element {
                        handle: *handle,
                        offset: range.start,
                        length: length_of(range)?,
                    })
                };
                let elements = ranges.iter().map(element);
                let elements = elements.collect::<Result<Vec<_>, XrootdError>>()?;
                let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
                let most = bytes.saturating_add(16 * ranges.len() as u64);
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                let request = Request::ReadV {
                    elements: elements.clone(),
                };
                let body = connection
                    .demand(&request, Bytes::new(), most, &doing)
                    .await?;
                let found = protocol::readv(&body, &elements);
                found.map_err(|source| connection.malformed(&doing, source))
            }
        }
    }

    /// Checks that all bytes were returned. If not, checks whether the file was truncated.
    async fn whole(
        &self,
        session: &Session,
        range: &Range<u64>,
        found: usize,
        doing: &str,
    ) -> Result<(), XrootdError> {
        let (expected, found) = (range.end - range.start, found as u64);
        if found == expected {
            return Ok(());
        }
        if stat_open(session, &self.url).await?.size != self.stat.size {
            return Err(XrootdError::Changed {
                url: self.url.to_string(),
                expected: format!("{expected} bytes at {}", range.start),
                found: format!("{found}"),
            });
        }
        Err(XrootdError::Short {
            server: session.connection.server.to_string(),
            doing: doing.to_owned(),
            expected,
            found,
        })
    }
}

async fn open(
    client: &Client,
    url: &XrootdUrl,
    options: OpenOptions,
    tried: &mut Tried,
    generation: usize,
) -> Result<(Session, Option<Stat>), XrootdError> {
    let doing = format!("open {}", url.path);
    let request = |path| Request::Open {
        path,
        flags: options.flags(),
        mode: Mode::FILE,
    };
    let answered = client.ask(url, &doing, tried, request).await?;
    let opened = protocol::opened(&answered.body);
    let opened = opened.map_err(|source| answered.connection.malformed(&doing, source))?;
    let session = Session::new(answered.connection, opened.handle, generation);
    Ok((session, opened.stat))
}

async fn stat_open(session: &Session, url: &XrootdUrl) -> Result<Stat, XrootdError> {
    let doing = format!("stat of the open {}", url.path);
    let request = Request::StatOpen {
        handle: session.handle,
    };
    let connection = &session.connection;
    let body = connection
        .demand(&request, Bytes::new(), 4096, &doing)
        .await?;
    protocol::stat(&body).map_err(|source| connection.malformed(&doing, source))
}

fn length_of(range: &Range<u64>) -> Result<u32, XrootdError> {
    let length = range.end.checked_sub(range.start);
    let length = length.and_then(|length| i32::try_from(length).ok());
    let length = length.and_then(|length| u32::try_from(length).ok());
    length.ok_or_else(|| XrootdError::Usage {
        what: format!("invalid range {range:?}: one request cannot read it"),
    })
}
