//! The traffic of a connection: sends requests, receives answers, and delivers each to its request.

use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::{MOST_ANSWER, Outgoing};
use crate::protocol::{self, HEADER_LENGTH, Header, Malformed, Status};
use crate::streams::Streams;
use crate::{Pace, Rate, TooSlow};

/// Sending is recorded after each part of this size.
const SENT: usize = 256 << 10;

/// Sends the queued requests, each completely.
pub(super) async fn send(
    mut writing: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Outgoing>,
    streams: Arc<Streams>,
) {
    while let Some(outgoing) = queue.recv().await {
        let mut written = writing.write_all(&outgoing.request).await;
        for part in outgoing.data.chunks(SENT) {
            if written.is_ok() {
                written = writing.write_all(part).await;
                streams.sending();
            }
        }
        streams.sent(outgoing.stream);
        if written.is_ok() && queue.is_empty() {
            written = writing.flush().await;
        }
        if let Err(error) = written {
            return streams.lose(&error.to_string(), None);
        }
    }
}

/// Why receiving ended.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
enum End {
    Io(#[from] std::io::Error),
    Malformed(#[from] Malformed),
    Slow(#[from] TooSlow),
}

/// The most bytes of an answer without data: an error, a redirect or a wait.
const MOST_TOLD: usize = 64 << 10;

/// Receives answers and delivers them to their requests, until the connection ends.
pub(crate) async fn receive(
    mut reading: impl AsyncRead + Unpin,
    streams: Arc<Streams>,
    rate: Rate,
) {
    loop {
        match receive_one(&mut reading, &streams, rate).await {
            Ok(()) => {}
            Err(End::Slow(slow)) => return streams.lose(&slow.to_string(), None),
            Err(End::Io(error)) => {
                let why = match error.kind() {
                    std::io::ErrorKind::UnexpectedEof => {
                        "the server closed the connection".to_owned()
                    }
                    _ => error.to_string(),
                };
                return streams.lose(&why, None);
            }
            Err(End::Malformed(malformed)) => {
                return streams.lose(&malformed.to_string(), Some(&malformed));
            }
        }
    }
}

async fn receive_one(
    reading: &mut (impl AsyncRead + Unpin),
    streams: &Streams,
    rate: Rate,
) -> Result<(), End> {
    let mut header = [0; HEADER_LENGTH];
    reading.read_exact(&mut header).await?;
    let header = Header::parse(&header)?;
    let id = u16::from_be_bytes(header.stream);
    if header.status == Status::Attention {
        let mut body = BytesMut::new();
        fill(
            reading,
            &mut body,
            header.length,
            MOST_ANSWER,
            (rate, || {}),
        )
        .await?;
        let Some((header, body)) = protocol::attention(&body.freeze())? else {
            return Ok(());
        };
        let id = u16::from_be_bytes(header.stream);
        streams.answer(id, header.status, body);
        return Ok(());
    }
    let Some((mut body, left)) = streams.body(id) else {
        return Err(Malformed {
            what: "stream",
            expected: "a stream with a pending request".to_owned(),
            found: id.to_string(),
        }
        .into());
    };
    let progress = (rate, || streams.progress(id));
    match header.status {
        Status::WaitForResponse => {
            let mut told = BytesMut::new();
            fill(reading, &mut told, header.length, MOST_TOLD, progress).await?;
            let wait = protocol::wait(&told)?;
            streams.put(id, body);
            streams.postpone(id, Duration::from_secs(u64::from(wait.seconds)));
        }
        Status::OkSoFar => {
            fill(reading, &mut body, header.length, left, progress).await?;
            streams.put(id, body);
        }
        Status::Ok => {
            fill(reading, &mut body, header.length, left, progress).await?;
            streams.answer(id, Status::Ok, body.freeze());
        }
        Status::Status => {
            let mut told = BytesMut::new();
            fill(reading, &mut told, header.length, MOST_TOLD, progress).await?;
            let told = protocol::status_body(&told)?;
            // data, in parts that each begin with offset and length
            let whole = told.n_data + 16;
            if whole > left {
                return Err(too_long(whole, left).into());
            }
            body.extend_from_slice(&told.offset.to_be_bytes());
            body.extend_from_slice(&(told.n_data as u64).to_be_bytes());
            fill(reading, &mut body, told.n_data, left, progress).await?;
            match told.is_partial {
                true => streams.put(id, body),
                false => streams.answer(id, Status::Status, body.freeze()),
            }
        }
        Status::Error | Status::Redirect | Status::Wait | Status::AuthMore | Status::Attention => {
            let mut told = BytesMut::new();
            fill(reading, &mut told, header.length, MOST_TOLD, progress).await?;
            streams.answer(id, header.status, told.freeze());
        }
    }
    Ok(())
}

fn too_long(found: usize, most: usize) -> Malformed {
    Malformed {
        what: "length of an answer",
        expected: format!("at most {most} bytes"),
        found: found.to_string(),
    }
}

/// Receives so many more bytes into a buffer, if they do not exceed its limit.
async fn fill(
    reading: &mut (impl AsyncRead + Unpin),
    body: &mut BytesMut,
    length: usize,
    most: usize,
    (rate, progress): (Rate, impl Fn()),
) -> Result<(), End> {
    if length > most {
        return Err(too_long(length, most).into());
    }
    let end = body.len() + length;
    body.reserve(length);
    let mut pace = Pace::begin(rate);
    while body.len() < end {
        let left = end - body.len();
        let mut part = bytes::BufMut::limit(&mut *body, left);
        let came = reading.read_buf(&mut part).await?;
        if came == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        progress();
        pace.came(came)?;
    }
    Ok(())
}
