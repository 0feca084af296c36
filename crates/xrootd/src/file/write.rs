//! Writing.

use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

use bytes::Bytes;
use futures_util::future::try_join_all;

use super::again::{Failures, Part, smaller};
use super::{File, Session};
use crate::XrootdError;
use crate::protocol::{self, FileHandle, Request};

/// Bytes per write request.
const WRITTEN: usize = 4 << 20;

impl File {
    /// Writes bytes at an offset, in pieces, all sent at once. Pieces whose connection was lost are
    /// written again.
    ///
    /// # Errors
    /// If the server does not accept the bytes. It is then unknown which of them it has written.
    pub async fn write(&self, offset: u64, bytes: Bytes) -> Result<(), XrootdError> {
        let end = offset.saturating_add(bytes.len() as u64);
        self.ends[1].fetch_max(end, Relaxed);
        let pieces = (0..bytes.len()).step_by(WRITTEN).map(|start| {
            let data = bytes.slice(start..bytes.len().min(start + WRITTEN));
            self.write_piece(offset + start as u64, data)
        });
        try_join_all(pieces).await.map(drop)
    }

    async fn write_piece(&self, at: u64, data: Bytes) -> Result<(), XrootdError> {
        let (session, mut failed) = (self.session().await?, self.no_failures());
        let whole = at..at.saturating_add(data.len() as u64);
        match self.write_once(&session, at, data.clone()).await {
            Ok(()) => Ok(()),
            Err(error) => {
                self.try_again(&session, &mut failed, error, "write")
                    .await?;
                let rest = VecDeque::from(smaller(vec![(0, whole)]));
                self.write_parts(at, &data, rest, failed).await
            }
        }
    }

    /// Writes part by part what could not be written at once.
    async fn write_parts(
        &self,
        at: u64,
        data: &Bytes,
        mut rest: VecDeque<Part>,
        mut failed: Failures,
    ) -> Result<(), XrootdError> {
        let place = |offset: u64| usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
        while let Some(part) = rest.pop_front() {
            let session = self.session().await?;
            for (_, range) in part {
                let bytes = data.slice(place(range.start)..place(range.end).min(data.len()));
                match self.write_once(&session, range.start, bytes).await {
                    Ok(()) => failed = self.no_failures(),
                    Err(error) => {
                        self.try_again(&session, &mut failed, error, "write")
                            .await?;
                        for part in smaller(vec![(0, range)]).into_iter().rev() {
                            rest.push_front(part);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    async fn write_once(&self, session: &Session, at: u64, data: Bytes) -> Result<(), XrootdError> {
        self.asked.fetch_add(1, Relaxed);
        let end = at.saturating_add(data.len() as u64);
        if self.client.options().checksums {
            self.write_pages(session, at, &data).await?;
        } else {
            let doing = format!("write of {} bytes at {at} of {}", data.len(), self.url.path);
            let request = Request::Write {
                handle: session.handle,
                offset: at,
                length: u32::try_from(data.len()).unwrap_or(u32::MAX),
            };
            session.connection.demand(&request, data, 0, &doing).await?;
        }
        self.ends[0].fetch_max(end, Relaxed);
        self.answered.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Repeats an idempotent request until a server has done it.
    async fn insist(
        &self,
        doing: &str,
        request: impl Fn(FileHandle) -> Request,
    ) -> Result<(), XrootdError> {
        let mut failed = self.no_failures();
        loop {
            let session = self.session().await?;
            let (connection, request) = (&session.connection, request(session.handle));
            let full = format!("{doing} of {}", self.url.path);
            match connection.demand(&request, Bytes::new(), 0, &full).await {
                Ok(_) => return Ok(()),
                Err(error) => {
                    self.try_again(&session, &mut failed, error, doing).await?;
                }
            }
        }
    }

    /// Writes a piece with a checksum for each page. Pages that arrived damaged are sent once more.
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

    /// Sends pages; returns the offsets of those that arrived damaged.
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
        // an offset for each page, after the fixed part of the answer
        let most = 64 + 8 * (data.len() / 4096 + 2);
        let body = connection.demand(&request, pages, most, doing).await?;
        let damaged = protocol::page_written(body.get(16..).unwrap_or_default());
        damaged.map_err(|source| connection.malformed(doing, source))
    }

    /// Waits until the server has written everything to its disk.
    ///
    /// # Errors
    /// If the server does not confirm it.
    pub async fn sync(&self) -> Result<(), XrootdError> {
        self.insist("sync", |handle| Request::Sync { handle }).await
    }

    /// Closes the file. Errors of earlier writes may be reported here.
    ///
    /// # Errors
    /// If the server does not confirm it.
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
