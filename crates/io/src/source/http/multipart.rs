//! Parses answers with several ranges (`multipart/byteranges`, RFC 9110, 14.6). Pure.

use std::ops::Range;

use bytes::Bytes;

use super::answer::ContentRange;

/// Maximum size of what precedes a part: a boundary of 70 characters, and some headers.
pub(super) const MOST_AROUND: u64 = 1024;

/// A part: its byte range, the file size if known, and the bytes.
pub(super) type Part = (Range<u64>, Option<u64>, Bytes);

/// The parts of a body, up to the first that is incomplete or invalid. Nothing is copied.
pub(super) fn parts(body: &Bytes, boundary: &str) -> Vec<Part> {
    let delimiter = format!("--{boundary}");
    let mut out = Vec::new();
    let mut rest = body.clone();
    while let Some((part, behind)) = next(&rest, delimiter.as_bytes()) {
        out.push(part);
        rest = behind;
    }
    out
}

/// The first part, and the rest.
fn next(body: &Bytes, delimiter: &[u8]) -> Option<(Part, Bytes)> {
    // only line ends may precede a delimiter
    let begins = body.iter().position(|byte| !b"\r\n".contains(byte))?;
    let head = body.get(begins..)?.strip_prefix(delimiter)?;
    let head = head.get(..head.len().min(usize::try_from(MOST_AROUND).ok()?))?;
    let length = head.windows(4).position(|end| end == b"\r\n\r\n")?;
    let lines = std::str::from_utf8(head.get(..length)?).ok()?.lines();
    let mut values = lines.filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim()
            .eq_ignore_ascii_case("content-range")
            .then_some(value)
    });
    let said = ContentRange::parse(values.next()?)?;
    let range = said.range?;
    let start = begins + delimiter.len() + length + 4;
    let end = start.checked_add(usize::try_from(range.end - range.start).ok()?)?;
    (end <= body.len()).then(|| {
        (
            (range, said.total, body.slice(start..end)),
            body.slice(end..),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = "\r\n--B\r\nContent-Type: x\r\nContent-Range: bytes 0-2/9\r\n\r\n--B\
        \r\n--B\r\ncontent-range: bytes 7-8/9\r\n\r\nyz\r\n--B--\r\n";

    #[test]
    fn parts_are_found_whatever_is_in_them() {
        let found = parts(&Bytes::from_static(BODY.as_bytes()), "B");
        assert_eq!(
            found,
            [
                (0..3, Some(9), Bytes::from_static(b"--B")),
                (7..9, Some(9), Bytes::from_static(b"yz"))
            ]
        );
    }

    #[test]
    fn what_is_cut_gives_the_parts_before() {
        for length in 0..BODY.len() {
            let found = parts(&Bytes::from_static(&BODY.as_bytes()[..length]), "B");
            let ends = [
                BODY.find("\r\n--B\r\ncontent").unwrap(),
                BODY.find("\r\n--B--").unwrap(),
            ];
            assert_eq!(
                found.len(),
                ends.iter().filter(|end| **end <= length).count(),
                "{length}"
            );
        }
    }

    #[test]
    fn nonsense_gives_nothing() {
        for body in [
            "",
            "--B--",
            "--B\r\n\r\nx",
            "x--B\r\nContent-Range: bytes 0-0/1\r\n\r\nx",
            "--B\r\nContent-Range: bytes 0-18446744073709551614/1\r\n\r\nx",
        ] {
            assert!(
                parts(&Bytes::from_static(body.as_bytes()), "B").is_empty(),
                "{body}"
            );
        }
    }
}
