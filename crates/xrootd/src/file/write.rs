//! Writing.

use bytes::Bytes;
use futures_util::future::try_join_all;

use super::{File, Session};
use crate::XrootdError;
use crate::protocol::{self, Request};

/// Bytes of one write.
const WRITTEN: usize = 4 << 20;

impl File {
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
