//! What errors of object stores mean, and how much of what a server said may be told.

use std::error::Error;
use std::io;

use super::Address;
use crate::IoError;

/// What to do where there are no credentials.
pub(super) const NO_CREDENTIALS: &str = "no credentials were found, neither in settings, nor in the environment, nor in files: set anonymous=true for public data, or give keys";

/// The error of reading an object.
pub(crate) fn read(address: &Address, error: object_store::Error) -> IoError {
    known(address, error).unwrap_or_else(|(url, what)| IoError::Remote {
        url,
        source: what.into(),
    })
}

/// The error of making an object.
pub(crate) fn created(address: &Address, error: object_store::Error) -> IoError {
    known(address, error).unwrap_or_else(|(url, what)| IoError::Create {
        url,
        source: io::Error::other(what),
    })
}

/// An error of which it is known what it means, or what to say of another one.
fn known(address: &Address, error: object_store::Error) -> Result<IoError, (String, String)> {
    use object_store::Error as E;

    let url = address.url.clone();
    let what = said(&error);
    let is_no_bucket = ["NoSuchBucket", "ContainerNotFound"];
    let is_refusal = ["ExpiredToken", "InvalidToken", "TokenRefreshRequired"];
    let has = |words: &[&str]| words.iter().any(|word| what.contains(word));
    Ok(match error {
        // of lists, stores say it as of any other error
        _ if has(&is_no_bucket) => {
            let bucket = address.bucket.clone();
            IoError::NoBucket { url, bucket }
        }
        E::NotFound { .. } => IoError::NotFound { url },
        E::AlreadyExists { .. } => IoError::Exists { url },
        E::Precondition { .. } | E::NotModified { .. } => IoError::Changed { url },
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => IoError::Refused {
            url,
            why: answer(&what),
        },
        // it is what a store asks where nobody has given credentials
        _ if has(&["169.254.169.254", "metadata.google.internal"]) => IoError::Refused {
            url,
            why: format!("{NO_CREDENTIALS} (this machine has none: {what})"),
        },
        _ if has(&is_refusal) => IoError::Refused {
            url,
            why: answer(&what),
        },
        _ => return Err((url, what)),
    })
}

/// Whether a server said that an object does not have the bytes that were asked for: that of an empty object are such, of
/// which some servers send the whole.
pub(crate) fn is_unsatisfiable(error: &object_store::Error) -> bool {
    let what = said(error);
    what.contains("status code: 416") || what.contains("non-partial response")
}

/// What the server said, without what we had asked it.
fn answer(what: &str) -> String {
    let mark = "status code: ";
    let found = what.rfind(mark).and_then(|at| what.get(at + mark.len()..));
    found.unwrap_or(what).to_owned()
}

/// All that an error says: what was asked how often, and what was answered. Of an answer in XML only code and message: the
/// rest may be parts of a signature.
fn said(error: &object_store::Error) -> String {
    let inner = error.source();
    let text = inner.map_or_else(|| error.to_string(), ToString::to_string);
    let (head, body) = match text.find('<') {
        Some(at) => text.split_at(at),
        None => (text.as_str(), ""),
    };
    let mut out = head
        .trim_start_matches('\u{feff}')
        .trim_end_matches([':', ' '])
        .to_owned();
    for element in ["Code", "Message"] {
        if let Some(value) = content(body, element) {
            out.push_str(": ");
            out.push_str(value.lines().next().unwrap_or_default().trim());
        }
    }
    let mut cause = inner;
    while let Some(next) = cause.and_then(Error::source) {
        cause = Some(next);
    }
    let last = cause.map(ToString::to_string).unwrap_or_default();
    // the last cause of all, which those above do not repeat
    if body.is_empty() && !out.contains(&last) {
        out.push_str(": ");
        out.push_str(&last);
    }
    out
}

/// What is in an element of XML, if it is text.
fn content<'a>(xml: &'a str, element: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{element}>"))?;
    let (value, _) = rest.split_once('<')?;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> object_store::Error {
        object_store::Error::Generic {
            store: "S3",
            source: text.into(),
        }
    }

    #[test]
    fn of_an_answer_only_code_and_message_are_told() {
        let text = "Error performing GET http://h/b/k in 3ms - Server returned non-2xx status code: 403 Forbidden: <?xml version=\"1.0\"?>\n<Error><Code>SignatureDoesNotMatch</Code><Message>It does not match.\nReally.</Message><AWSAccessKeyId>AKIA</AWSAccessKeyId><StringToSign>hidden</StringToSign></Error>";
        assert_eq!(
            said(&error(text)),
            "Error performing GET http://h/b/k in 3ms - Server returned non-2xx status code: 403 Forbidden: SignatureDoesNotMatch: It does not match."
        );
        assert_eq!(
            answer(&said(&error(text))),
            "403 Forbidden: SignatureDoesNotMatch: It does not match."
        );
    }

    #[test]
    fn ranges_that_an_object_does_not_have_are_known() {
        assert!(is_unsatisfiable(&error(
            "Server returned non-2xx status code: 416 Range Not Satisfiable: x"
        )));
        assert!(!is_unsatisfiable(&error(
            "Server returned non-2xx status code: 500 x: 416"
        )));
    }
}
