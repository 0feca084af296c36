//! Parses the head of an answer. Pure.

use std::ops::Range;
use std::time::{Duration, SystemTime};

use reqwest::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderMap, HeaderName,
    LAST_MODIFIED, RETRY_AFTER,
};

/// Identity of a version of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Version {
    pub size: u64,
    pub etag: Option<String>,
    pub modified: Option<String>,
}

impl Version {
    pub fn of(size: u64, headers: &HeaderMap) -> Self {
        let text = |name| text(headers, name).map(str::to_owned);
        Self {
            size,
            etag: text(ETAG),
            modified: text(LAST_MODIFIED),
        }
    }

    /// Whether an answer may belong to this version.
    pub fn agrees(&self, total: Option<u64>, headers: &HeaderMap) -> bool {
        let same = |known: &Option<String>, name| match (known, text(headers, name)) {
            (Some(known), Some(found)) => known == found,
            _ => true,
        };
        total.is_none_or(|total| total == self.size)
            && same(&self.etag, ETAG)
            && same(&self.modified, LAST_MODIFIED)
    }

    /// The tag with which a server can refuse to send another version. A weak tag does not guarantee equal bytes.
    pub fn strong_etag(&self) -> Option<&str> {
        let etag = self.etag.as_deref()?;
        etag.starts_with('"').then_some(etag)
    }

    pub fn modified(&self) -> Option<SystemTime> {
        httpdate::parse_http_date(self.modified.as_deref()?).ok()
    }
}

/// The value of a header, if it is a string.
pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// A parsed `Content-Range`: the range, if any, and the size of the file, if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentRange {
    pub range: Option<Range<u64>>,
    pub total: Option<u64>,
}

impl ContentRange {
    pub fn of(headers: &HeaderMap) -> Option<Self> {
        Self::parse(text(headers, CONTENT_RANGE)?)
    }

    pub fn parse(text: &str) -> Option<Self> {
        let (unit, rest) = text.trim().split_once(' ')?;
        let (range, total) = rest.trim().split_once('/')?;
        let total = match total {
            "*" => None,
            total => Some(total.parse().ok()?),
        };
        let range = match range {
            "*" => None,
            range => {
                let (first, last) = range.split_once('-')?;
                let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
                Some(first..last.checked_add(1).filter(|end| first < *end)?)
            }
        };
        unit.eq_ignore_ascii_case("bytes")
            .then_some(Self { range, total })
    }
}

/// The length of the body, if given.
pub(super) fn length(headers: &HeaderMap) -> Option<u64> {
    text(headers, CONTENT_LENGTH)?.trim().parse().ok()
}

/// The content encoding, if the body is encoded.
pub(super) fn packing(headers: &HeaderMap) -> Option<&str> {
    text(headers, CONTENT_ENCODING).filter(|name| !name.eq_ignore_ascii_case("identity"))
}

/// The delimiter between the parts of an answer with several ranges.
pub(super) fn boundary(headers: &HeaderMap) -> Option<String> {
    let mut parts = text(headers, CONTENT_TYPE)?.split(';').map(str::trim);
    if !parts.next()?.eq_ignore_ascii_case("multipart/byteranges") {
        return None;
    }
    let named = parts.filter_map(|part| part.split_once('='));
    let (_, value) = named
        .into_iter()
        .find(|(name, _)| name.eq_ignore_ascii_case("boundary"))?;
    let value = value.trim_matches('"');
    (!value.is_empty()).then(|| value.to_owned())
}

/// The delay that the server requests.
pub(super) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let said = text(headers, RETRY_AFTER)?.trim();
    if let Ok(seconds) = said.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let then = httpdate::parse_http_date(said).ok()?;
    Some(then.duration_since(now).unwrap_or_default())
}

/// Ranges in the form of a request header.
pub(super) fn ranges(ranges: &[Range<u64>]) -> String {
    let one = |range: &Range<u64>| format!("{}-{}", range.start, range.end.saturating_sub(1));
    let all: Vec<String> = ranges.iter().map(one).collect();
    format!("bytes={}", all.join(","))
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    fn headers(all: &[(HeaderName, &'static str)]) -> HeaderMap {
        let pairs = all.iter().cloned();
        pairs
            .map(|(name, value)| (name, HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn content_ranges_are_read() {
        let parsed = |text| ContentRange::parse(text).map(|found| (found.range, found.total));
        assert_eq!(parsed("bytes 0-9/10"), Some((Some(0..10), Some(10))));
        assert_eq!(parsed("Bytes 5-5/*"), Some((Some(5..6), None)));
        assert_eq!(parsed("bytes */0"), Some((None, Some(0))));
        for text in [
            "",
            "bytes",
            "bytes 1-0/9",
            "bytes 0-18446744073709551615/9",
            "items 0-1/2",
            "bytes -1/2",
            "bytes 0-1/x",
        ] {
            assert_eq!(parsed(text), None, "{text}");
        }
    }

    #[test]
    fn another_version_is_told_by_anything_that_differs() {
        let known = headers(&[
            (ETAG, "\"a\""),
            (LAST_MODIFIED, "Sun, 06 Nov 1994 08:49:37 GMT"),
        ]);
        let version = Version::of(10, &known);
        assert!(version.agrees(Some(10), &known) && version.agrees(None, &HeaderMap::new()));
        assert!(!version.agrees(Some(11), &known));
        assert!(!version.agrees(Some(10), &headers(&[(ETAG, "\"b\"")])));
        assert!(!version.agrees(Some(10), &headers(&[(LAST_MODIFIED, "yesterday")])));
        assert_eq!(version.strong_etag(), Some("\"a\""));
        assert_eq!(
            Version::of(1, &headers(&[(ETAG, "W/\"a\"")])).strong_etag(),
            None
        );
        assert_eq!(
            version.modified(),
            Some(SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777))
        );
    }

    #[test]
    fn waiting_is_asked_for_in_two_ways() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_770);
        let wait = |said| retry_after(&headers(&[(RETRY_AFTER, said)]), now);
        assert_eq!(wait("120"), Some(Duration::from_secs(120)));
        assert_eq!(
            wait("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(Duration::from_secs(7))
        );
        assert_eq!(wait("Sun, 06 Nov 1994 08:49:07 GMT"), Some(Duration::ZERO));
        assert_eq!(wait("soon"), None);
    }

    #[test]
    fn boundaries_are_found() {
        let found = |said| boundary(&headers(&[(CONTENT_TYPE, said)]));
        assert_eq!(
            found("multipart/byteranges; boundary=12 "),
            Some("12".to_owned())
        );
        assert_eq!(
            found("Multipart/ByteRanges; x=y; Boundary=\"a b\""),
            Some("a b".to_owned())
        );
        assert_eq!(found("text/plain; boundary=12"), None);
        assert_eq!(found("multipart/byteranges; boundary="), None);
    }
}
