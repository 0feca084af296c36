//! The body of the fuzz target, as a function so that tests can replay its corpus.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt;

use crate::connection::receive;
use crate::protocol::{self, Element, HEADER_LENGTH, Header};
use crate::streams::Streams;

/// The most bytes that the requests take which wait.
const MOST: usize = 1 << 16;

/// Reads bytes as every kind of answer, and as what a server sends to requests that wait.
pub fn answers(data: &[u8]) {
    if let Some(header) = data.first_chunk::<HEADER_LENGTH>() {
        let _ = Header::parse(header);
    }
    let body = Bytes::copy_from_slice(data);
    let _ = protocol::protocol(data);
    let _ = protocol::login(data);
    let _ = protocol::stat(data);
    let _ = protocol::opened(data);
    let _ = protocol::dir_entries(data);
    let _ = protocol::locations(data);
    let _ = protocol::error(data);
    let _ = protocol::redirect(data);
    let _ = protocol::wait(data);
    let _ = protocol::attention(&body);
    let _ = protocol::status_body(data);
    let _ = protocol::page_written(data);
    let _ = protocol::page_read(u64::from(data.first().copied().unwrap_or(0)) << 8, data);
    let element = |offset, length| Element {
        handle: [0; 4],
        offset,
        length,
    };
    let _ = protocol::readv(&body, &[element(0, 3), element(8, 0)]);
    let streams = Arc::new(Streams::default());
    let waiting: Vec<_> = (0..4)
        .filter_map(|_| streams.take(MOST, Instant::now()).ok())
        .collect();
    // all bytes are there, so that it ends at once
    let ended = receive(data, streams.clone()).now_or_never();
    assert!(ended.is_some() && streams.lost().is_some());
    drop(waiting);
}

#[cfg(test)]
mod tests {
    #[test]
    fn answers_of_all_kinds_and_none_are_read() {
        for data in [
            &b""[..],
            b"\0\0\0\0\0\0\0\x01x",
            b"\0\x01\x0f\xa3\0\0\0\x06\0\0\x0b\xbfno",
            b"\0\0\x0f\xa0\0\0\0\x02ab\0\0\0\0\0\0\0\x01c",
            b"\0\x02\0\0\x7f\xff\xff\xff",
            b"\0\x09\0\0\0\0\0\0",
        ] {
            super::answers(data);
        }
    }
}
