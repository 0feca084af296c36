//! Copies a complete source to a sink.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use super::checksum::has_checksum;
use super::{ByteSink, Transferred};
use crate::usage::note_used;
use crate::{ByteSource, IoError, on_threads, pieces};

/// Number of bytes that one thread copies at a time.
pub(super) const PIECE: u64 = 16 << 20;

/// Number of pieces that are copied concurrently.
const AT_ONCE: usize = 8;

/// Called with the number of finished bytes; `false` stops the work.
pub type OnBytes<'a> = &'a (dyn Fn(u64) -> bool + Sync);

/// The result of sending, with the method of comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// How the bytes were copied.
    pub transferred: Transferred,
    /// The kind of the server's checksum, if it provides one; sizes are compared in any case.
    pub checksum: Option<String>,
}

/// Copies a complete source to a sink, and commits it. If the server provides a checksum, it must match.
///
/// # Errors
/// If not all bytes could be read and written, the server has other data, or `tick` has stopped it. Then nothing has
/// appeared.
pub fn send(
    source: &Arc<dyn ByteSource>,
    sink: &dyn ByteSink,
    tick: OnBytes<'_>,
) -> Result<Sent, IoError> {
    let transferred = sink.bring(source, tick)?;
    sink.sync()?;
    let mut checksum = None;
    if let Some((kind, digits)) = sink.checksum()? {
        match has_checksum(&**source, &kind, &digits)? {
            Some(true) => checksum = Some(kind),
            Some(false) => {
                return Err(IoError::NotSent {
                    url: sink.url().to_owned(),
                    expected: format!("the {kind} of the sent data"),
                    found: format!("the server has {digits}"),
                });
            }
            None => {}
        }
        // `tick` was not called while the checksum was computed
        if !tick(source.meta().size) {
            return Err(interrupted(&**source));
        }
    }
    sink.commit()?;
    Ok(Sent {
        transferred,
        checksum,
    })
}

/// Copies a source in concurrent pieces.
pub(super) fn in_pieces<S: ByteSink + ?Sized>(
    sink: &S,
    source: &dyn ByteSource,
    piece: u64,
    tick: OnBytes<'_>,
) -> Result<Transferred, IoError> {
    let (done, goes_on) = (AtomicU64::new(0), AtomicBool::new(true));
    let share = sink.share_block(source).is_some();
    let mut threads = vec![(); AT_ONCE];
    let moved = on_threads(
        &mut threads,
        pieces(source.meta().size, piece).collect(),
        |(), range| {
            if !goes_on.load(Relaxed) {
                return Err(interrupted(source));
            }
            let moved = sink.transfer(source, &range, range.start, share)?;
            note_used(source, moved.through_memory);
            let length = range.end - range.start;
            goes_on.fetch_and(tick(done.fetch_add(length, Relaxed) + length), Relaxed);
            Ok(moved)
        },
    )?;
    match goes_on.into_inner() {
        true => Ok(moved
            .into_iter()
            .fold(Transferred::default(), Transferred::and)),
        false => Err(interrupted(source)),
    }
}

pub(super) fn interrupted(source: &dyn ByteSource) -> IoError {
    let url = source.url().to_owned();
    IoError::Interrupted { url }
}
