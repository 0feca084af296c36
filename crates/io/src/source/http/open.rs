//! Opens a file: two concurrent requests for its beginning and its end, which also return its size and version.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use futures_util::future::try_join;
use reqwest::Method;
use reqwest::header::RANGE;

use super::answer::{self, ContentRange, Version};
use super::client::server;
use super::failure::{Failure, HttpError, Why};
use super::request::{Answer, Call, Question};
use crate::layer::{Held, joined_ends};

/// Without support for ranges, a file up to this size is read whole.
const LARGEST_WHOLE: usize = 16 << 20;

/// Number of bytes to read at the beginning, at least one, and at the end.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub head: u64,
    pub tail: u64,
}

/// An opened file, with its received bytes.
#[derive(Debug)]
pub(super) struct Opened {
    pub version: Version,
    pub held: Vec<Held>,
    /// The received ranges, with duplicates.
    pub read: Vec<Range<u64>>,
}

impl Opened {
    fn with(version: Version, held: Vec<Held>) -> Self {
        let read = held.iter().map(|(range, _)| range.clone()).collect();
        Self {
            version,
            held,
            read,
        }
    }
}

/// Opens a file without `HEAD`, which not all servers support and which would cost a round trip.
pub(super) async fn open(call: Call<'_>, ends: Ends) -> Result<Opened, HttpError> {
    let host = call.client.host(&call.target.place());
    let head = head(call, ends.head);
    let (head, tail) = match host.suffixes.get() {
        _ if ends.tail == 0 => (head.await?, None),
        // the end is requested after the size is known
        Some(false) => (head.await?, None),
        _ => try_join(head, async { Ok(tail(call, ends.tail).await) }).await?,
    };
    let mut opened = head;
    let Some((version, range, bytes)) = tail else {
        return Ok(opened);
    };
    opened.read.push(range.clone());
    // another version came from another server, or the file was replaced: a later read reports this
    if version == opened.version {
        opened.held = match opened.held.pop() {
            Some(head) => joined_ends(head, (range, bytes)),
            None => vec![(range, bytes)],
        };
    }
    Ok(opened)
}

fn question(doing: String, range: &str) -> Question {
    Question::new(Method::GET, doing).with(RANGE, range)
}

async fn head(call: Call<'_>, length: u64) -> Result<Opened, HttpError> {
    let mut patience = call.patience();
    loop {
        match try_head(call, length.max(1)).await {
            Ok(opened) => return Ok(opened),
            Err(failure) => {
                patience.after(failure).await?;
                call.traffic.retry();
            }
        }
    }
}

async fn try_head(call: Call<'_>, length: u64) -> Result<Opened, Failure> {
    let host = call.client.host(&call.target.place());
    let _permit = host.permits.acquire().await;
    match part(call, length).await? {
        Head::Opened(opened) => Ok(opened),
        Head::Shorter(size) => match part(call, size).await? {
            Head::Opened(opened) => Ok(opened),
            Head::Shorter(_) => Err(shrunk(call)),
        },
    }
}

fn shrunk(call: Call<'_>) -> Failure {
    Failure {
        server: server(&call.target.place()),
        doing: "reading the first bytes".to_owned(),
        why: Why::Changed("it became shorter".to_owned()),
        wait: None,
    }
}

/// The beginning of a file, or its size for another request.
enum Head {
    Opened(Opened),
    Shorter(u64),
}

async fn part(call: Call<'_>, length: u64) -> Result<Head, Failure> {
    let first = 0..length;
    let doing = format!("reading the first {length} bytes");
    let mut answer = call
        .ask(&question(doing, &answer::ranges(&[first])))
        .await?;
    let said = ContentRange::of(answer.headers());
    let empty = |answer: &Answer| Opened::with(Version::of(0, answer.headers()), Vec::new());
    match (answer.status(), said) {
        (200, _) => whole(&mut answer).await.map(Head::Opened),
        // an empty file has no range to send
        (416, None | Some(ContentRange { total: Some(0), .. })) => Ok(Head::Opened(empty(&answer))),
        (206, Some(ContentRange { total: Some(0), .. })) => Ok(Head::Opened(empty(&answer))),
        (
            206,
            Some(ContentRange {
                range: Some(range),
                total,
            }),
        ) => {
            let total = match total {
                Some(total) => total,
                None => size(call).await?,
            };
            // XRootD's server repeats the requested range if it ends after the file, and then sends nothing
            if total < length && range == (0..length) {
                return Ok(Head::Shorter(total));
            }
            let expected = 0..length.min(total);
            if range != expected {
                return Err(answer.lied(format!("{range:?} of {total} instead of {expected:?}")));
            }
            let version = Version::of(total, answer.headers());
            let bytes = body(&mut answer, &expected).await?;
            let held = vec![(expected, bytes)];
            Ok(Head::Opened(Opened::with(version, held)))
        }
        _ => Err(answer.unexpected()),
    }
}

/// The version of a file as the server reports it without sending bytes.
pub(super) async fn version(call: Call<'_>) -> Option<Version> {
    let host = call.client.host(&call.target.place());
    let _permit = host.permits.acquire().await;
    let asked = Question::new(Method::HEAD, "reading the state (HEAD)".to_owned());
    let answer = call.ask(&asked).await.ok()?;
    let length = answer::length(answer.headers()).filter(|_| answer.status() == 200)?;
    Some(Version::of(length, answer.headers()))
}

/// Requests the size of a file from a server that does not send it with ranges.
async fn size(call: Call<'_>) -> Result<u64, Failure> {
    let asked = Question::new(Method::HEAD, "reading the size (HEAD)".to_owned());
    let answer = call.ask(&asked).await?;
    let length = answer::length(answer.headers()).filter(|_| answer.status() == 200);
    length.ok_or_else(|| answer.lied("the size of the file is missing"))
}

/// A file that is sent whole: a small one, or any file of a server without ranges.
async fn whole(answer: &mut Answer) -> Result<Opened, Failure> {
    let length = answer::length(answer.headers());
    let too_large = |size| Why::OnlyWhole(size);
    if length.is_some_and(|length| length > LARGEST_WHOLE as u64) {
        return Err(answer.failure(too_large(length)));
    }
    let Some(bytes) = answer.whole(LARGEST_WHOLE).await? else {
        return Err(answer.failure(too_large(None)));
    };
    let size = bytes.len() as u64;
    let version = Version::of(size, answer.headers());
    Ok(Opened::with(version, vec![(0..size, bytes)]))
}

/// The bytes of a range, which must not be longer than requested.
async fn body(answer: &mut Answer, range: &Range<u64>) -> Result<Bytes, Failure> {
    let expected = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let mut bytes = BytesMut::with_capacity(expected);
    answer.fill(&mut bytes, expected).await?;
    Ok(bytes.freeze())
}

/// The end of a file of unknown size, if the server can send it. Otherwise it is read later.
async fn tail(call: Call<'_>, length: u64) -> Option<(Version, Range<u64>, Bytes)> {
    let host = call.client.host(&call.target.place());
    let question = question(
        format!("reading the last {length} bytes"),
        &format!("bytes=-{length}"),
    );
    let _permit = host.permits.acquire().await;
    let mut answer = call.ask(&question).await.ok()?;
    let said = ContentRange::of(answer.headers());
    let can = match (answer.status(), said) {
        (
            206,
            Some(ContentRange {
                range: Some(range),
                total: Some(total),
            }),
        ) => {
            let expected = total.saturating_sub(length)..total;
            (range == expected).then_some((expected, total))
        }
        _ => None,
    };
    // some servers with ranges still send small files completely
    let small = answer::length(answer.headers()).filter(|size| *size <= length);
    if can.is_some() || small.is_none() {
        host.suffixes.set(can.is_some());
    }
    let whole = small.filter(|_| answer.status() == 200);
    let (range, total) = can.or_else(|| whole.map(|size| (0..size, size)))?;
    let bytes = body(&mut answer, &range).await.ok()?;
    Some((Version::of(total, answer.headers()), range, bytes))
}
