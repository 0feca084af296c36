//! Targets of redirects: one rule for HTTP servers and object stores.

use reqwest::Url;

/// The reason why a redirect is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Its target is not an HTTP URL.
    Nowhere,
    /// It leads from https to http, to this URL.
    LeavesTls(Url),
}

/// The target of a redirect, without user and password.
///
/// # Errors
/// If the location is not a valid URL, or the redirect leads from https to http.
pub(crate) fn redirected(from: &Url, location: &str) -> Result<Url, Refused> {
    let mut next = from.join(location).map_err(|_| Refused::Nowhere)?;
    if !matches!(next.scheme(), "http" | "https") || !next.has_host() {
        return Err(Refused::Nowhere);
    }
    next.set_fragment(None);
    let cleared = next.set_username("").and(next.set_password(None));
    cleared.map_err(|()| Refused::Nowhere)?;
    if from.scheme() == "https" && next.scheme() == "http" {
        return Err(Refused::LeavesTls(next));
    }
    Ok(next)
}
