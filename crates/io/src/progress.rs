//! Progress of uploads: how long a server may receive nothing.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};

/// Size of a piece in bytes. Pieces are small, so that slow connections show progress, too.
const PIECE: usize = 64 << 10;

/// Number of progress checks per allowed silence.
const LOOKS: u32 = 8;

/// The progress of sending a body.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Number of sent bytes.
    pub fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Restarts the count, because the body is sent again.
    pub fn restart(&self) {
        self.0.store(0, Relaxed);
    }

    /// Splits a body into pieces. Each piece is counted when it is sent.
    pub fn pieces(&self, mut bytes: Bytes) -> impl Iterator<Item = Bytes> + use<> {
        let own = self.clone();
        std::iter::from_fn(move || {
            let piece = bytes.split_to(PIECE.min(bytes.len()));
            own.0.fetch_add(piece.len() as u64, Relaxed);
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Waits for the answer to a body of `size` bytes. `None` if nothing is sent for `patience`; until the first byte,
    /// `connecting` is added. The system buffers the last bytes for a while, and the server needs time to process the
    /// whole body, so the wait after the last byte is extended by the duration of sending.
    pub async fn wait<T>(
        &self,
        size: u64,
        patience: Duration,
        connecting: Duration,
        sending: impl Future<Output = T>,
    ) -> Option<T> {
        let mut sending = pin!(sending);
        let start = Instant::now();
        let (mut seen, mut last) = (0, start);
        loop {
            if let Ok(done) = timeout(patience / LOOKS, &mut sending).await {
                return Some(done);
            }
            let now = self.bytes();
            if now != seen {
                (seen, last) = (now, Instant::now());
            }
            let more = match seen {
                0 => connecting,
                seen if seen >= size => last.duration_since(start),
                _ => Duration::ZERO,
            };
            if last.elapsed() >= patience + more {
                return None;
            }
        }
    }
}
