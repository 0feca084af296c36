//! Limits the size and the minimum speed of answers from object stores.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use object_store::client::{HttpError, HttpErrorKind, HttpResponse, HttpResponseBody};

use femtobarn_xrootd::{Pace, Rate};

/// Maximum size of a server's error text: codes and messages have some hundred bytes.
const LONGEST_ERROR: u64 = 64 << 10;

/// Maximum size of an answer that is not an object: a list of a thousand escaped keys of one kilobyte has less than a
/// tenth.
const LONGEST_LIST: u64 = 64 << 20;

/// A response body with limits.
struct Bounded {
    inner: Pin<Box<HttpResponseBody>>,
    pace: Pace,
    /// Number of bytes that may still follow.
    left: u64,
    /// Whether a body beyond the limits is truncated instead of failing: used for error texts.
    is_cut: bool,
}

/// Limits the body of an answer. `is_object` tells whether its length is unlimited.
pub(super) fn bounded(answer: HttpResponse, rate: Rate, is_object: bool) -> HttpResponse {
    let is_cut = !answer.status().is_success();
    let left = match (is_cut, is_object) {
        (true, _) => LONGEST_ERROR,
        (false, true) => u64::MAX,
        (false, false) => LONGEST_LIST,
    };
    answer.map(|body| {
        HttpResponseBody::new(Bounded {
            inner: Box::pin(body),
            pace: Pace::begin(rate),
            left,
            is_cut,
        })
    })
}

impl Bounded {
    /// Counts a received frame.
    fn check(&mut self, frame: Frame<Bytes>) -> Option<Result<Frame<Bytes>, HttpError>> {
        let Some(bytes) = frame.data_ref() else {
            return Some(Ok(frame));
        };
        let length = bytes.len() as u64;
        let paced = self.pace.came(bytes.len());
        let failed = match (paced, self.left.checked_sub(length)) {
            (Ok(()), Some(left)) => {
                self.left = left;
                return Some(Ok(frame));
            }
            (Err(slow), _) => HttpError::new(HttpErrorKind::Timeout, slow),
            (_, None) => {
                let what = std::io::Error::other("the answer is too long for a list");
                HttpError::new(HttpErrorKind::Decode, what)
            }
        };
        (!self.is_cut).then_some(Err(failed))
    }
}

impl Body for Bounded {
    type Data = Bytes;
    type Error = HttpError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, HttpError>>> {
        match self.inner.as_mut().poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => Poll::Ready(self.check(frame)),
            // the received part of an error text is reported, with the status
            Poll::Ready(Some(Err(_))) if self.is_cut => Poll::Ready(None),
            other => other,
        }
    }

    /// The size hint is hidden, so that no memory is reserved for error texts.
    fn size_hint(&self) -> SizeHint {
        match self.left {
            u64::MAX => self.inner.size_hint(),
            _ => SizeHint::default(),
        }
    }
}
