//! Reads ranges: one request per range, concurrently, or one for many if the server supports it.

use std::ops::Range;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures_util::future::{BoxFuture, FutureExt, try_join_all};
use reqwest::Method;
use reqwest::header::{IF_MATCH, RANGE};

use super::answer::{self, ContentRange, Version};
use super::client::Host;
use super::failure::{Failure, HttpError, Why};
use super::multipart;
use super::plan::{Piece, Plan, groups};
use super::request::{Answer, Call, Question};

/// A file that is being read.
#[derive(Clone, Copy)]
pub(super) struct Reading<'a> {
    pub call: Call<'a>,
    pub version: &'a Version,
}

impl<'a> Reading<'a> {
    /// Reads non-empty disjoint pieces.
    pub async fn pieces(self, pieces: Vec<Piece>) -> Result<Vec<(Piece, Bytes)>, HttpError> {
        let host = self.call.client.host(&self.call.target.place());
        let at_once = self.call.client.limits.concurrency;
        let mut left = pieces;
        let mut found = Vec::new();
        // Requests that depend on the answer to the first shared one follow it.
        while !left.is_empty() {
            let mut plan = groups(left, at_once, host.many.get());
            left = std::mem::take(&mut plan.later);
            found.extend(self.planned(&host, plan).await?);
        }
        Ok(found)
    }

    async fn planned(self, host: &Host, plan: Plan) -> Result<Vec<(Piece, Bytes)>, HttpError> {
        let single = plan
            .single
            .into_iter()
            .map(|piece| self.alone(host, piece).boxed());
        let many = plan
            .many
            .into_iter()
            .map(|group| self.group(host, group).boxed());
        let jobs: Vec<BoxFuture<'_, _>> = many.chain(single).collect();
        Ok(try_join_all(jobs).await?.into_iter().flatten().collect())
    }

    async fn alone(self, host: &Host, piece: Piece) -> Result<Vec<(Piece, Bytes)>, HttpError> {
        let bytes = self.range(host, &piece).await?;
        Ok(vec![(piece, bytes)])
    }

    fn question(self, ranges: &[Range<u64>]) -> Question {
        let doing = match ranges {
            [one] => format!(
                "reading {} bytes at {}",
                one.end.saturating_sub(one.start),
                one.start
            ),
            many => format!("reading {} ranges", many.len()),
        };
        let question = Question::new(Method::GET, doing).with(RANGE, &answer::ranges(ranges));
        match self.version.strong_etag() {
            Some(etag) => question.with(IF_MATCH, etag),
            None => question,
        }
    }

    /// Reads a range. Bytes received before a failure are kept, and attempts with progress do not count.
    async fn range(self, host: &Host, range: &Range<u64>) -> Result<Bytes, HttpError> {
        let mut bytes = BytesMut::new();
        let mut patience = self.call.patience_with_known();
        loop {
            let (before, start) = (bytes.len(), Instant::now());
            match self.try_range(host, range, &mut bytes).await {
                Ok(()) => return Ok(bytes.freeze()),
                Err(failure) => {
                    patience.progress(bytes.len() - before, start.elapsed());
                    patience.after(failure).await?;
                    self.call.traffic.retry();
                }
            }
        }
    }

    async fn try_range(
        self,
        host: &Host,
        range: &Range<u64>,
        bytes: &mut BytesMut,
    ) -> Result<(), Failure> {
        let rest = range.start + bytes.len() as u64..range.end;
        let _permit = host.permits.acquire().await;
        let question = self.question(std::slice::from_ref(&rest));
        let mut answer = self.call.ask(&question).await?;
        let is_sized = self.check_range(&answer, &rest)?;
        let expected = usize::try_from(rest.end - rest.start).unwrap_or(usize::MAX);
        bytes.reserve(expected);
        let all = bytes.len().saturating_add(expected);
        answer.fill(bytes, all).await?;
        // without a length, the end of the body shows whether it has the right size
        if !is_sized && answer.next().await?.is_some() {
            return Err(answer.lied(format!("more than {expected} bytes")));
        }
        Ok(())
    }

    /// Checks that an answer has exactly a range; returns whether its length is given.
    fn check_range(self, answer: &Answer, range: &Range<u64>) -> Result<bool, Failure> {
        let said = ContentRange::of(answer.headers());
        let total = said.as_ref().and_then(|said| said.total);
        self.check_version(answer, total)?;
        match (answer.status(), said.and_then(|said| said.range)) {
            (206, Some(found)) if found == *range => {}
            (206, Some(found)) => {
                return Err(answer.lied(format!("bytes {found:?} instead of {range:?}")));
            }
            // the range is inside the opened file: only an equal size shows that it was not truncated
            (416, _) if total.is_none() => {
                let what = "it does not have these bytes".to_owned();
                return Err(answer.failure(Why::Changed(what)));
            }
            _ => return Err(answer.unexpected()),
        }
        let expected = range.end - range.start;
        let length = answer::length(answer.headers());
        match length.filter(|length| *length != expected) {
            Some(length) => Err(answer.lied(format!("{length} bytes instead of {expected}"))),
            None => Ok(length.is_some()),
        }
    }

    /// Checks that an answer belongs to the opened version. An error page has its own tag and time.
    fn check_version(self, answer: &Answer, total: Option<u64>) -> Result<(), Failure> {
        let is_same = match answer.status() {
            416 => total.is_none_or(|total| total == self.version.size),
            _ => self.version.agrees(total, answer.headers()),
        };
        match is_same {
            true => Ok(()),
            false => {
                let what = "another size, tag or modification time".to_owned();
                Err(answer.failure(Why::Changed(what)))
            }
        }
    }

    /// Reads several pieces with one request; missing ranges are requested separately.
    async fn group(self, host: &Host, group: Vec<Piece>) -> Result<Vec<(Piece, Bytes)>, HttpError> {
        let parts = match self.try_group(host, &group).await {
            Ok(parts) => parts,
            Err(failure) if matches!(failure.why, Why::Changed(_)) => return Err(failure.into()),
            // the separate requests have their own retries
            Err(_) => Vec::new(),
        };
        let mut found = Vec::with_capacity(group.len());
        let mut missing = Vec::new();
        for piece in group {
            let part = parts.iter().find(|(range, ..)| *range == piece);
            match part {
                Some((_, _, bytes)) => found.push((piece, bytes.clone())),
                None => missing.push(piece),
            }
        }
        let missing = missing.into_iter().map(|piece| self.alone(host, piece));
        found.extend(try_join_all(missing).await?.into_iter().flatten());
        Ok(found)
    }

    async fn try_group(
        self,
        host: &Host,
        group: &[Piece],
    ) -> Result<Vec<multipart::Part>, Failure> {
        let _permit = host.permits.acquire().await;
        let mut answer = self.call.ask(&self.question(group)).await?;
        let said = ContentRange::of(answer.headers()).and_then(|said| said.total);
        self.check_version(&answer, said)?;
        let boundary = answer::boundary(answer.headers());
        let Some(boundary) = boundary.filter(|_| answer.status() == 206) else {
            // the whole file, or one range that covers all: dropped before its body arrives
            host.many.set(false);
            return Ok(Vec::new());
        };
        let (parts, is_whole) = self.parts(&mut answer, &boundary, group).await?;
        let is_other =
            |(_, total, _): &multipart::Part| total.is_some_and(|t| t != self.version.size);
        if parts.iter().any(is_other) {
            return Err(answer.failure(Why::Changed("another size".to_owned())));
        }
        // a truncated body says nothing about the server's support
        if is_whole {
            host.many.set(parts.len() == group.len());
        }
        Ok(parts)
    }

    /// The parts of an answer, and whether it is complete; `None` if it is longer than possible for the request.
    async fn parts(
        self,
        answer: &mut Answer,
        boundary: &str,
        group: &[Piece],
    ) -> Result<(Vec<multipart::Part>, bool), Failure> {
        let lengths = group
            .iter()
            .map(|piece| piece.end - piece.start + multipart::MOST_AROUND);
        let most = usize::try_from(lengths.sum::<u64>() + multipart::MOST_AROUND);
        let mut body = BytesMut::new();
        loop {
            match answer.next().await {
                Ok(Some(chunk)) if body.len() + chunk.len() > most.unwrap_or(usize::MAX) => {
                    return Ok((Vec::new(), true));
                }
                Ok(Some(chunk)) => body.extend_from_slice(&chunk),
                // the complete parts of a truncated body are used
                Ok(None) => return Ok((multipart::parts(&body.freeze(), boundary), true)),
                Err(_) => return Ok((multipart::parts(&body.freeze(), boundary), false)),
            }
        }
    }
}
