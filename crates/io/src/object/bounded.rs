//! Answers of object stores, as long as they may be and as slow as they may come.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use object_store::client::{HttpError, HttpErrorKind, HttpResponse, HttpResponseBody};

use femtobarn_xrootd::{Pace, Rate};

/// Maximum size of the error text of a server: codes and messages have some hundred.
const LONGEST_ERROR: u64 = 64 << 10;

/// Bytes of an answer that is not an object: a list of a thousand keys of a kilobyte, escaped, has less than a tenth.
const LONGEST_LIST: u64 = 64 << 20;

/// The body of an answer that ends in time.
struct Bounded {
    inner: Pin<Box<HttpResponseBody>>,
    pace: Pace,
    /// How many bytes more may come.
    left: u64,
    /// Whether it just ends where it is too long or too slow: that of an error is for people.
    is_cut: bool,
}

/// The same answer, with a limited body. `is_object` tells whether it may have any length.
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
    /// Counts what came.
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
            // the part of an error body that came is reported, with the status
            Poll::Ready(Some(Err(_))) if self.is_cut => Poll::Ready(None),
            other => other,
        }
    }

    /// No memory is reserved for error texts of a server.
    fn size_hint(&self) -> SizeHint {
        match self.left {
            u64::MAX => self.inner.size_hint(),
            _ => SizeHint::default(),
        }
    }
}
