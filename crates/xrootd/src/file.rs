//! An open file: vector reads and writes, on whichever server has it.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use bytes::{Bytes, BytesMut};
use futures_util::future::try_join_all;
use tokio::sync::Mutex;

use crate::client::{Client, Tried};
use crate::protocol::{
    self, Element, LARGEST_ELEMENT, MOST_ELEMENTS, Mode, OpenFlags, PAGE, Request, Stat,
};
use crate::{XrootdError, XrootdUrl};

mod again;
mod session;

use session::Session;
pub(crate) use session::{Kept, Place, Slot};

/// Ranges up to this size are read together in vector reads; longer ones by reads of their own, which servers send as they
/// read them.
const LARGE: u64 = 1 << 20;

/// Bytes of one read of a long range.
const PIECE: u64 = 8 << 20;

/// The most bytes of a vector read: so many are in memory of the server until it has sent them.
const MOST_BYTES: u64 = 64 << 20;

/// Bytes of one write.
const WRITTEN: usize = 4 << 20;

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenOptions {
    /// To read it.
    Read,
    /// To read and write what is there.
    Update,
    /// To write a file that is not there, in folders that are made where they are missing.
    CreateNew,
    /// The same, in place of what is there.
    Replace,
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
            Self::Replace => OpenFlags::UPDATE
                .and(OpenFlags::DELETE)
                .and(OpenFlags::MAKE_PATH),
        }
    }
}

/// What a server takes in one vector read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most elements.
    pub most_elements: usize,
    /// The most bytes of one.
    pub largest_element: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            most_elements: MOST_ELEMENTS,
            largest_element: LARGEST_ELEMENT,
        }
    }
}

impl Limits {
    /// By what the server says of its configuration.
    pub(crate) fn parse(lines: &[String]) -> Self {
        let number = |at: usize| {
            lines
                .get(at)
                .and_then(|line| line.trim().parse::<u64>().ok())
        };
        let default = Self::default();
        let most = number(0).and_then(|most| usize::try_from(most).ok());
        Self {
            most_elements: most
                .filter(|&most| most > 0)
                .unwrap_or(default.most_elements),
            largest_element: number(1)
                .filter(|&most| most > 0)
                .unwrap_or(default.largest_element),
        }
    }
}

/// An open file. It is opened again, on another server if there is one, when its connection is lost or its server fails.
#[derive(Debug)]
pub struct File {
    client: Client,
    url: XrootdUrl,
    options: OpenOptions,
    stat: Stat,
    has_time: bool,
    session: Slot,
    /// Those that the last read went by.
    known_limits: OnceLock<Limits>,
    asked: AtomicU64,
    asked_again: AtomicU64,
    /// Reads that were answered.
    answered: AtomicU64,
}

/// What is asked in one request.
enum Read {
    One(Range<u64>),
    Several(Vec<Range<u64>>),
}

impl Read {
    fn of(ranges: Vec<Range<u64>>) -> Self {
        match <[Range<u64>; 1]>::try_from(ranges) {
            Ok([one]) => Self::One(one),
            Err(several) => Self::Several(several),
        }
    }

    fn ranges(&self) -> &[Range<u64>] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Several(several) => several,
        }
    }
}

impl File {
    /// Opens a file.
    ///
    /// # Errors
    /// If there is none, it may not be opened so, or nobody answers.
    pub async fn open(
        client: &Client,
        url: XrootdUrl,
        options: OpenOptions,
    ) -> Result<Self, XrootdError> {
        let (session, stat) = open(client, &url, options, &mut Tried::default(), 0).await?;
        let stat = match stat {
            Some(stat) => stat,
            None => stat_open(&session, &url).await?,
        };
        let has_time = session.has_time();
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
        })
    }

    /// Its URL.
    pub fn url(&self) -> &XrootdUrl {
        &self.url
    }

    /// What was said of it when it was opened.
    pub fn stat(&self) -> &Stat {
        &self.stat
    }

    /// Whether the time in [`File::stat`] is that of the file. A proxy says that of its copy, which is another one after the
    /// file was read.
    pub fn has_time(&self) -> bool {
        self.has_time
    }

    /// The server that has it open, or had it when it was opened.
    pub async fn server(&self) -> String {
        let session = self.session.lock().await;
        let connection = session.here.as_ref().map(|session| &session.connection);
        connection
            .map_or(&self.url.server, |connection| &connection.server)
            .to_string()
    }

    /// Reads ranges, in as few requests as the server allows, all at once.
    ///
    /// # Errors
    /// If a range is not in the file, or no server gives its bytes.
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

    /// How many requests a read of these ranges is.
    pub fn n_requests(&self, ranges: &[Range<u64>]) -> usize {
        let limits = self.known_limits.get().copied();
        reads(ranges, limits.unwrap_or_default()).len()
    }

    /// How many requests for bytes there were, and how many of them were made again after a failure.
    pub fn asked(&self) -> (u64, u64) {
        (self.asked.load(Relaxed), self.asked_again.load(Relaxed))
    }

    /// What the server takes in one vector read.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn limits(&self) -> Result<Limits, XrootdError> {
        match self.session().await?.connection.limits().await {
            Ok(limits) => Ok(limits),
            // the reads will say what is wrong, and go to another server
            Err(error) if error.is_of_the_server() => Ok(Limits::default()),
            Err(error) => Err(error),
        }
    }

    /// Where it is open; it is opened again if others were opened since and it had to be closed.
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
        let (session, mut trouble) = (self.session().await?, self.no_trouble());
        match self.read_once(&session, read).await {
            Ok(bytes) => Ok(bytes),
            Err(error) => {
                self.try_again(&session, &mut trouble, error).await?;
                self.read_parts(read, trouble).await
            }
        }
    }

    /// Opens the file again, unless somebody else has done so since that generation.
    async fn reopen(&self, generation: usize, tried: &mut Tried) -> Result<(), XrootdError> {
        let mut place = self.session.lock().await;
        if place.generation != generation {
            return Ok(());
        }
        self.open_again(&mut place, tried).await.map(drop)
    }

    /// Opens the file once more, and insists that it is what it was.
    async fn open_again(
        &self,
        place: &mut Place,
        tried: &mut Tried,
    ) -> Result<Arc<Session>, XrootdError> {
        let generation = place.generation + 1;
        let opened = open(&self.client, &self.url, self.options, tried, generation).await;
        let (new, stat) = opened?;
        let stat = match stat {
            Some(stat) => stat,
            None => stat_open(&new, &self.url).await?,
        };
        // copies on other servers may have other times
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
                    path_id: 0,
                };
                let most = usize::try_from(expected).unwrap_or(usize::MAX);
                let body = connection
                    .demand(&request, Bytes::new(), most, &doing)
                    .await?;
                self.whole(range, body.len())?;
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
                    path_id: 0,
                };
                let body = connection
                    .demand(&request, Bytes::new(), most, &doing)
                    .await?;
                let found = protocol::readv(&body, &elements);
                found.map_err(|source| connection.malformed(&doing, source))
            }
        }
    }

    /// Insists that as many bytes came as there should be.
    fn whole(&self, range: &Range<u64>, found: usize) -> Result<(), XrootdError> {
        let expected = range.end - range.start;
        if found as u64 == expected {
            return Ok(());
        }
        Err(XrootdError::Changed {
            url: self.url.to_string(),
            expected: format!("{expected} bytes at {}", range.start),
            found: format!("{found}"),
        })
    }

    /// Reads a range whose pages come with checksums; those that are damaged are asked for once more.
    async fn read_pages(
        &self,
        session: &Session,
        range: &Range<u64>,
    ) -> Result<Bytes, XrootdError> {
        let doing = format!("pgread at {} of {}", range.start, self.url.path);
        let (mut bytes, damaged) = self.pages(session, range, false, &doing).await?;
        for (offset, length) in damaged {
            let page = offset..offset + length as u64;
            let (again, damaged) = self.pages(session, &page, true, &doing).await?;
            if !damaged.is_empty() {
                return Err(XrootdError::Checksum {
                    server: session.connection.server.to_string(),
                    doing,
                    offset,
                });
            }
            let start = usize::try_from(offset - range.start).unwrap_or(usize::MAX);
            if let Some(place) = bytes.get_mut(start..start.saturating_add(length)) {
                place.copy_from_slice(&again);
            }
        }
        Ok(bytes.into())
    }

    async fn pages(
        &self,
        session: &Session,
        range: &Range<u64>,
        is_retry: bool,
        doing: &str,
    ) -> Result<(Vec<u8>, Vec<(u64, usize)>), XrootdError> {
        let connection = &session.connection;
        let expected = range.end - range.start;
        let request = Request::PgRead {
            handle: session.handle,
            offset: range.start,
            length: length_of(range)?,
            is_retry,
        };
        // a checksum for each page, and where each part belongs
        let pages = expected / PAGE + 2;
        let most = expected + pages * 4 + (pages + 1) * 16;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let body = connection
            .demand(&request, Bytes::new(), most, doing)
            .await?;
        let nonsense = |source| connection.malformed(doing, source);
        let (mut bytes, mut damaged) = (Vec::new(), Vec::new());
        let mut rest = &body[..];
        while let Some((head, data)) = rest.split_first_chunk::<16>() {
            let (offset, length) = head.split_at(8);
            let number = |bytes: &[u8]| {
                bytes
                    .iter()
                    .fold(0_u64, |n, &byte| n << 8 | u64::from(byte))
            };
            let (offset, length) = (number(offset), number(length));
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let Some((data, more)) = data.split_at_checked(length) else {
                break;
            };
            if offset != range.start + bytes.len() as u64 {
                break;
            }
            let found = protocol::page_read(offset, data).map_err(nonsense)?;
            bytes.extend_from_slice(&found.bytes);
            damaged.extend(found.damaged);
            rest = more;
        }
        self.whole(range, bytes.len())?;
        Ok((bytes, damaged))
    }

    /// Writes bytes at a place, in pieces, all at once.
    ///
    /// # Errors
    /// If the server does not take them. What it has taken of them nobody knows.
    pub async fn write(&self, offset: u64, bytes: Bytes) -> Result<(), XrootdError> {
        let session = self.session().await?;
        let pieces = (0..bytes.len()).step_by(WRITTEN).map(|start| {
            let data = bytes.slice(start..bytes.len().min(start + WRITTEN));
            let (session, at) = (session.clone(), offset + start as u64);
            async move {
                if self.client.options().checksums {
                    return self.write_pages(&session, at, &data).await;
                }
                let doing = format!("write of {} bytes at {at} of {}", data.len(), self.url.path);
                let request = Request::Write {
                    handle: session.handle,
                    offset: at,
                    length: u32::try_from(data.len()).unwrap_or(u32::MAX),
                };
                let written = session.connection.demand(&request, data, 0, &doing);
                written.await.map(drop)
            }
        });
        try_join_all(pieces).await.map(drop)
    }

    /// Writes a piece whose pages go with checksums; those that came damaged are sent once more.
    async fn write_pages(
        &self,
        session: &Session,
        at: u64,
        data: &Bytes,
    ) -> Result<(), XrootdError> {
        let doing = format!(
            "pgwrite of {} bytes at {at} of {}",
            data.len(),
            self.url.path
        );
        for offset in self.send_pages(session, at, data, false, &doing).await? {
            let start = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
            let left = data.len().saturating_sub(start);
            let page = data
                .slice(data.len() - left..data.len() - left + protocol::page_length(offset, left));
            let again = self
                .send_pages(session, offset, &page, true, &doing)
                .await?;
            if !again.is_empty() || page.is_empty() {
                return Err(XrootdError::Checksum {
                    server: session.connection.server.to_string(),
                    doing,
                    offset,
                });
            }
        }
        Ok(())
    }

    /// Where the pages are that came damaged.
    async fn send_pages(
        &self,
        session: &Session,
        offset: u64,
        data: &[u8],
        is_retry: bool,
        doing: &str,
    ) -> Result<Vec<u64>, XrootdError> {
        let connection = &session.connection;
        let pages = Bytes::from(protocol::page_write(offset, data));
        let request = Request::PgWrite {
            handle: session.handle,
            offset,
            length: u32::try_from(pages.len()).unwrap_or(u32::MAX),
            is_retry,
        };
        // a place for each page, behind what the answer says of itself
        let most = 64 + 8 * (data.len() / 4096 + 2);
        let body = connection.demand(&request, pages, most, doing).await?;
        let damaged = protocol::page_written(body.get(16..).unwrap_or_default());
        damaged.map_err(|source| connection.malformed(doing, source))
    }

    /// Waits until what was written is on the server's disk.
    ///
    /// # Errors
    /// If the server does not say so.
    pub async fn sync(&self) -> Result<(), XrootdError> {
        let session = self.session().await?;
        let doing = format!("sync of {}", self.url.path);
        let request = Request::Sync {
            handle: session.handle,
        };
        session
            .connection
            .demand(&request, Bytes::new(), 0, &doing)
            .await
            .map(drop)
    }

    /// Gives the file another size.
    ///
    /// # Errors
    /// If the server will not.
    pub async fn truncate(&self, size: u64) -> Result<(), XrootdError> {
        let session = self.session().await?;
        let doing = format!("truncate of {} to {size}", self.url.path);
        let request = Request::TruncateOpen {
            handle: session.handle,
            size,
        };
        session
            .connection
            .demand(&request, Bytes::new(), 0, &doing)
            .await
            .map(drop)
    }

    /// Closes the file; of one that was written, errors that come late are told here.
    ///
    /// # Errors
    /// If the server does not say that all is well.
    pub async fn close(self) -> Result<(), XrootdError> {
        let Some(session) = self.session.lock().await.here.take() else {
            return Ok(());
        };
        let doing = format!("close of {}", self.url.path);
        let request = session.closing();
        let closed = session.connection.demand(&request, Bytes::new(), 0, &doing);
        closed.await.map(drop)
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
        what: format!("{range:?} is no range that one request could read"),
    })
}

/// Cuts ranges into requests, with the numbers of the ranges that their parts belong to. Empty ranges need none.
fn reads(ranges: &[Range<u64>], limits: Limits) -> Vec<(Read, Vec<usize>)> {
    let mut out = Vec::new();
    let mut together: (Vec<Range<u64>>, Vec<usize>, u64) = Default::default();
    let small = LARGE.min(limits.largest_element);
    for (at, range) in ranges
        .iter()
        .enumerate()
        .filter(|(_, range)| !range.is_empty())
    {
        let n_bytes = range.end - range.start;
        if n_bytes > small {
            let mut start = range.start;
            while start < range.end {
                let end = range.end.min(start + PIECE);
                out.push((Read::One(start..end), vec![at]));
                start = end;
            }
            continue;
        }
        let is_full = together.0.len() >= limits.most_elements || together.2 + n_bytes > MOST_BYTES;
        if is_full {
            out.push(request(std::mem::take(&mut together)));
        }
        together.0.push(range.clone());
        together.1.push(at);
        together.2 += n_bytes;
    }
    if !together.0.is_empty() {
        out.push(request(together));
    }
    out
}

fn request((ranges, owners, _): (Vec<Range<u64>>, Vec<usize>, u64)) -> (Read, Vec<usize>) {
    (Read::of(ranges), owners)
}

fn joined(parts: Vec<Bytes>) -> Bytes {
    let mut parts = parts.into_iter();
    match (parts.next(), parts.len()) {
        (None, _) => Bytes::new(),
        (Some(only), 0) => only,
        (Some(first), _) => {
            let mut all = BytesMut::from(first);
            parts.for_each(|part| all.extend_from_slice(&part));
            all.freeze()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_ranges_go_together_and_long_ones_in_pieces() {
        let limits = Limits {
            most_elements: 2,
            largest_element: 1 << 21,
        };
        let long = 5..5 + (PIECE + 10);
        let ranges = [0..10, 10..10, long, 20..30, 40..50];
        let found = reads(&ranges, limits);
        let shape: Vec<(usize, Vec<usize>)> = found
            .iter()
            .map(|(read, owners)| match read {
                Read::One(_) => (1, owners.clone()),
                Read::Several(ranges) => (ranges.len(), owners.clone()),
            })
            .collect();
        assert_eq!(
            shape,
            [(1, vec![2]), (1, vec![2]), (2, vec![0, 3]), (1, vec![4])]
        );
        let bytes: u64 = found
            .iter()
            .map(|(read, _)| match read {
                Read::One(range) => range.end - range.start,
                Read::Several(ranges) => ranges.iter().map(|range| range.end - range.start).sum(),
            })
            .sum();
        assert_eq!(bytes, 30 + PIECE + 10);
    }

    #[test]
    fn limits_are_those_that_the_server_says() {
        let lines = |lines: &[&str]| {
            lines
                .iter()
                .map(|&line| line.to_owned())
                .collect::<Vec<_>>()
        };
        let found = Limits::parse(&lines(&["512", "100000"]));
        assert_eq!((found.most_elements, found.largest_element), (512, 100_000));
        // who does not know a name repeats it
        assert_eq!(
            Limits::parse(&lines(&["readv_iov_max", "0"])),
            Limits::default()
        );
        assert_eq!(Limits::parse(&[]), Limits::default());
    }
}
