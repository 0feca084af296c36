//! Redirects of object stores. Secrets are never sent to another server than the configured one.

use object_store::client::{HttpError, HttpErrorKind, HttpRequest, HttpResponse};
use reqwest::Url;
use reqwest::header::{
    ACCEPT, HeaderMap, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH, IF_UNMODIFIED_SINCE, LOCATION,
    RANGE,
};

use crate::redirect::{Refused, redirected};

/// Request headers that any server may see. All others may be credentials.
const PUBLIC: [reqwest::header::HeaderName; 6] = [
    ACCEPT,
    IF_MATCH,
    IF_MODIFIED_SINCE,
    IF_NONE_MATCH,
    IF_UNMODIFIED_SINCE,
    RANGE,
];

/// The target of a redirect; `None` for other answers. The crate `object_store` reports a redirect without a
/// target.
pub(super) fn place(answer: &HttpResponse) -> Option<&str> {
    let is_redirect = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
    let location = answer.headers().get(LOCATION).filter(|_| is_redirect)?;
    location.to_str().ok()
}

/// The request for the target of a redirect.
///
/// # Errors
/// If the request is not a read, or the redirect leaves TLS.
pub(super) fn next(asked: &HttpRequest, location: &str) -> Result<HttpRequest, HttpError> {
    let asked_of = Url::parse(&asked.uri().to_string()).map_err(|_| refused("nowhere", ""))?;
    let next = redirected(&asked_of, location).map_err(|why| match why {
        Refused::Nowhere => refused("nowhere", ""),
        Refused::LeavesTls(place) => refused(&server(&place), ", which does not use TLS"),
    })?;
    if !matches!(asked.method().as_str(), "GET" | "HEAD") {
        let why = "; only reads follow redirects: set endpoint to this server if it is right";
        return Err(refused(&server(&next), why));
    }
    let mut request = asked.clone();
    let uri = next.as_str().parse();
    *request.uri_mut() = uri.map_err(|_| refused(&server(&next), ""))?;
    if next.origin() != asked_of.origin() {
        let public = PUBLIC.iter().filter_map(|name| {
            let value = asked.headers().get(name)?;
            Some((name.clone(), value.clone()))
        });
        *request.headers_mut() = HeaderMap::from_iter(public);
    }
    Ok(request)
}

fn server(place: &Url) -> String {
    place.origin().ascii_serialization()
}

fn refused(server: &str, why: &str) -> HttpError {
    error(format!("the server redirects to {server}{why}"))
}

/// The error for too many redirects.
pub(super) fn too_many(most: usize) -> HttpError {
    error(format!("more than {most} redirects (most_redirects)"))
}

fn error(what: String) -> HttpError {
    HttpError::new(HttpErrorKind::Unknown, std::io::Error::other(what))
}

#[cfg(test)]
mod tests {
    use reqwest::header::{AUTHORIZATION, COOKIE, HeaderName, HeaderValue};

    use super::*;

    fn request(method: &str, url: &str) -> HttpRequest {
        let mut request = HttpRequest::new(bytes::Bytes::new().into());
        *request.method_mut() = method.parse().unwrap();
        *request.uri_mut() = url.parse().unwrap();
        for name in ["x-amz-security-token", "x-ms-version", "x-mine"] {
            let value = HeaderValue::from_static("secret");
            request
                .headers_mut()
                .insert(HeaderName::from_static(name), value);
        }
        for name in [AUTHORIZATION, COOKIE, RANGE] {
            let value = HeaderValue::from_static("bytes=0-1");
            request.headers_mut().insert(name, value);
        }
        request
    }

    #[test]
    fn what_may_be_secret_stays_with_its_server() {
        for (from, to, n_headers) in [
            ("https://h/b/k", "/b/l", 6),
            ("https://h/b/k", "https://h:443/l", 6),
            ("https://h/b/k", "https://h:444/l", 1),
            ("https://h/b/k", "https://g/l", 1),
            ("http://h/b/k", "https://h/l", 1),
        ] {
            let next = next(&request("GET", from), to).unwrap();
            assert_eq!(next.headers().len(), n_headers, "{from} {to}");
            assert_eq!(next.headers()[RANGE], "bytes=0-1");
        }
    }

    #[test]
    fn what_does_not_read_or_leaves_tls_is_not_redirected() {
        let https = request("GET", "https://h/k");
        assert!(next(&https, "http://h/k").is_err() && next(&https, "file:///k").is_err());
        for method in ["PUT", "POST", "DELETE"] {
            let asked = request(method, "https://h/k");
            assert!(next(&asked, "https://g/k").is_err(), "{method}");
        }
    }
}
