//! Errors of object stores: their meaning, and the parts of a server's answer that may be shown.

use std::collections::BTreeSet;
use std::error::Error;
use std::io;
use std::sync::{PoisonError, RwLock};

use super::Address;
use crate::IoError;

/// Advice for missing credentials.
pub(super) const NO_CREDENTIALS: &str = "no credentials found in settings, environment or files: set anonymous=true \
                                         for public data, or give keys";

/// The error for reading an object.
pub(crate) fn read(address: &Address, error: object_store::Error) -> IoError {
    known(address, error).unwrap_or_else(|(url, what)| IoError::Remote {
        url,
        source: what.into(),
    })
}

/// The error for creating an object.
pub(crate) fn created(address: &Address, error: object_store::Error) -> IoError {
    known(address, error).unwrap_or_else(|(url, what)| IoError::Create {
        url,
        source: io::Error::other(what),
    })
}

/// A known error, or the text and advice for another one.
fn known(address: &Address, error: object_store::Error) -> Result<IoError, (String, String)> {
    use object_store::Error as E;

    let url = address.url.clone();
    let what = said(&error);
    let is_no_bucket = ["NoSuchBucket", "ContainerNotFound"];
    let is_refusal = ["ExpiredToken", "InvalidToken", "TokenRefreshRequired"];
    let has = |words: &[&str]| words.iter().any(|word| what.contains(word));
    Ok(match error {
        // for lists, stores report it as a generic error
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
        // the metadata service is asked if no credentials are given
        _ if has(&["169.254.169.254", "metadata.google.internal"]) => IoError::Refused {
            url,
            why: format!("{NO_CREDENTIALS} (this machine has none: {what})"),
        },
        // for lists, stores report these as generic errors
        _ if has(&is_refusal) || has(&["status code: 403", "status code: 401"]) => {
            let why = answer(&what);
            IoError::Refused { url, why }
        }
        _ => return Err((url, what)),
    })
}

/// Whether a server reports that an object does not have the requested bytes. For an empty object, some servers send
/// the whole object.
pub(crate) fn is_unsatisfiable(error: &object_store::Error) -> bool {
    let what = said(error);
    what.contains("status code: 416") || what.contains("non-partial response")
}

/// The server's answer without parts of our request.
fn answer(what: &str) -> String {
    let mark = "status code: ";
    let found = what.rfind(mark).and_then(|at| what.get(at + mark.len()..));
    found
        .unwrap_or(what)
        .trim_end_matches([':', ' '])
        .to_owned()
}

/// Prefixes of secrets in answers that repeat the request.
const BEFORE_SECRETS: [&str; 7] = [
    "sig=",
    "Signature=",
    "Credential=",
    "Bearer ",
    "SharedKey ",
    "X-Amz-Security-Token=",
    "X-Amz-Signature=",
];

/// The secrets in requests, which answers may repeat.
static SECRETS: RwLock<BTreeSet<String>> = RwLock::new(BTreeSet::new());

/// Registers secrets that must not appear in errors.
pub(crate) fn hide<'a>(secrets: impl IntoIterator<Item = &'a str>) {
    // shorter ones would match any text
    let secrets = secrets.into_iter().filter(|secret| secret.len() >= 4);
    let mut hidden = SECRETS.write().unwrap_or_else(PoisonError::into_inner);
    hidden.extend(secrets.map(str::to_owned));
}

/// Removes possible secrets from a text.
fn without_secrets(text: &str) -> String {
    let mut out = text.to_owned();
    let secrets = SECRETS.read().unwrap_or_else(PoisonError::into_inner);
    for secret in secrets.iter() {
        out = out.replace(secret, "…");
    }
    for mark in BEFORE_SECRETS {
        let mut parts = out.split(mark);
        let mut clean = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let end = part.find(|c: char| c.is_whitespace() || "&,;\"'<>".contains(c));
            clean.push_str(mark);
            clean.push('…');
            clean.push_str(part.get(end.unwrap_or(part.len())..).unwrap_or_default());
        }
        out = clean;
    }
    out
}

/// The full text of an error: the requests, the number of attempts, and the answer. Of an XML answer, only code and
/// message are used, because the rest may contain parts of a signature.
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
    // the root cause, unless the text contains it
    if body.is_empty() && !out.contains(&last) {
        out.push_str(": ");
        out.push_str(&last);
    }
    // the first bytes of a server without TLS
    if last.contains("InvalidContentType") || out.contains("InvalidContentType") {
        out.push_str(
            ": the server does not use TLS there: use http:// instead of https:// in endpoint",
        );
    }
    without_secrets(&out)
}

/// The text content of an XML element.
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

    /// Some servers repeat the request.
    #[test]
    fn what_may_be_secret_is_not_told_again() {
        hide(["SEKRET-token", "no"]);
        let text = "Server returned non-2xx status code: 403 Forbidden: <Error><Code>Auth</Code><Message>bad /c?sv=1&sig=SEKRET%2F&se=2 AWS4-HMAC-SHA256 Credential=SEKRETID/2/s3, Signature=5EC7 SEKRET-token now</Message></Error>";
        let said = said(&error(text));
        assert!(!said.contains("SEKRET") && !said.contains("5EC7"), "{said}");
        assert!(
            said.contains("bad /c?sv=1&sig=…&se=2") && said.ends_with("… now"),
            "{said}"
        );
    }

    #[test]
    fn an_answer_without_a_body_ends_with_its_status() {
        let text = "Server returned non-2xx status code: 403 Forbidden: ";
        assert_eq!(answer(&said(&error(text))), "403 Forbidden");
        // regression: a listing reported it like this, and it was treated as a server failure
        let address = Address::parse("s3://b/k").unwrap();
        assert_eq!(read(&address, error(text)).kind(), "permission-denied");
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
