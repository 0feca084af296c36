//! Reading with a checksum for each page.

use std::ops::Range;

use bytes::Bytes;

use super::{File, Session, length_of};
use crate::XrootdError;
use crate::protocol::{self, PAGE, Request};

impl File {
    /// Reads a range whose pages have checksums. Damaged pages are requested once more.
    pub(super) async fn read_pages(
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
        // a checksum for each page, and offset and length of each part
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
        self.whole(session, range, bytes.len(), doing).await?;
        Ok((bytes, damaged))
    }
}
