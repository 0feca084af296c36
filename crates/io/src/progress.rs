//! Progress of sending: how long a server may take nothing of it.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};

/// Bytes of a piece. They are small, so that something moves on slow ways, too.
const PIECE: usize = 64 << 10;

/// How often it is looked whether something moves, in each time that nothing may.
const LOOKS: u32 = 8;

/// How much of a body was handed to the system.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    /// Bytes that were handed on.
    pub fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// It is sent again, from its beginning.
    pub fn restart(&self) {
        self.0.store(0, Relaxed);
    }

    /// Bytes in pieces, each of which is counted when it is sent.
    pub fn pieces(&self, mut bytes: Bytes) -> impl Iterator<Item = Bytes> + use<> {
        let own = self.clone();
        std::iter::from_fn(move || {
            let piece = bytes.split_to(PIECE.min(bytes.len()));
            own.0.fetch_add(piece.len() as u64, Relaxed);
            (!piece.is_empty()).then_some(piece)
        })
    }

    /// Waits for the answer to a body of `size` bytes. None if nothing moves for `patience`; until the first byte does, for
    /// `connecting` more. The system holds the last bytes for a while after it was handed them: for these, and for what the
    /// server does with the whole, there is as much time more as sending has taken.
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
