//! Request bodies: a source that is read while it is sent.

use std::future::Future;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};
use reqwest::header::CONTENT_LENGTH;
use reqwest::{RequestBuilder, Response};
use tokio::task::spawn_blocking;

use crate::progress::Progress;
use crate::{ByteSource, IoError, pieces};

/// Size of reads, and number of reads ahead of sending.
const CHUNK: u64 = 4 << 20;
const AHEAD: usize = 4;

/// A source that is being sent; repeating the request starts at its beginning.
#[derive(Debug, Clone)]
pub(super) struct Body {
    source: Arc<dyn ByteSource>,
    sent: Progress,
    is_ended: Arc<AtomicBool>,
    failure: Arc<Mutex<Option<IoError>>>,
}

impl Body {
    pub fn new(source: Arc<dyn ByteSource>) -> Self {
        Self {
            source,
            sent: Progress::default(),
            is_ended: Arc::default(),
            failure: Arc::default(),
        }
    }

    /// Number of sent bytes.
    pub fn sent(&self) -> u64 {
        self.sent.bytes()
    }

    /// Stops the body: connections may still send an abandoned one.
    pub fn end(&self) {
        self.is_ended.store(true, Relaxed);
    }

    /// The error of reading the source, if any.
    pub fn failure(&self) -> Option<IoError> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take()
    }

    /// Sends a request with this body; `None` if nothing was sent or received for `patience`, with `connecting` added
    /// for the connection.
    pub async fn send(
        &self,
        request: RequestBuilder,
        patience: Duration,
        connecting: Duration,
    ) -> Option<Result<Response, reqwest::Error>> {
        self.sent.restart();
        let size = self.source.meta().size;
        let request = request.header(CONTENT_LENGTH, size).body(self.stream());
        let sending = request.send();
        self.sent.wait(size, patience, connecting, sending).await
    }

    fn stream(&self) -> reqwest::Body {
        let ranges = pieces(self.source.meta().size, CHUNK);
        let own = self.clone();
        let reads = stream::iter(ranges)
            .map(move |range| own.read(range))
            .buffered(AHEAD);
        let (sent, is_ended) = (self.sent.clone(), self.is_ended.clone());
        let pieces = reads.map_ok(move |bytes| stream::iter(sent.pieces(bytes).map(Ok)));
        let counted = pieces.try_flatten().map(move |piece| {
            if is_ended.load(Relaxed) {
                return Err(std::io::Error::other("the connection was closed"));
            }
            piece
        });
        reqwest::Body::wrap_stream(counted)
    }

    /// Reads a range on a blocking thread.
    fn read(
        &self,
        range: Range<u64>,
    ) -> impl Future<Output = Result<Bytes, std::io::Error>> + use<> {
        let (source, failure) = (self.source.clone(), self.failure.clone());
        async move {
            let read = spawn_blocking(move || {
                let found = source.read_ranges(&[range])?;
                Ok::<_, IoError>(found.into_iter().next().unwrap_or_default())
            });
            read.await.map_err(std::io::Error::other)?.map_err(|error| {
                let text = error.to_string();
                let mut failure = failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(error);
                std::io::Error::other(text)
            })
        }
    }
}
