//! Metalink files, which list where files can be read: of version 4 (RFC 5854), as Rucio writes them, and of version 3.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use crate::source::read_one;
use crate::url::{is_foreign, join_sources, local_path, public, scheme};
use crate::{ByteSource, IoError, LocalSource, Settings, is_remote, open_remote};

/// The largest Metalink file that is read.
const LARGEST: u64 = 16 << 20;

/// Whether a path or URL names a Metalink file.
#[must_use]
pub fn is_metalink(url: &str) -> bool {
    let end = if scheme(url).is_some() {
        url.find('?')
    } else {
        None
    };
    let path = url.get(..end.unwrap_or(url.len())).unwrap_or_default();
    let path = path.to_ascii_lowercase();
    path.ends_with(".meta4") || path.ends_with(".metalink")
}

/// The files that a Metalink file lists: the name of each has all of its URLs, and its size.
///
/// # Errors
/// If it cannot be read, is not a Metalink file, or lists no URL that can be read.
pub fn read_metalink(url: &str, settings: &Settings) -> Result<Vec<String>, IoError> {
    let source: Arc<dyn ByteSource> = match is_remote(url) {
        true => open_remote(url, settings)?,
        false => LocalSource::open(Path::new(&*local_path(url)))?,
    };
    let failed = |why: String| IoError::Unsupported {
        url: public(url),
        why,
        is_missing: false,
    };
    let size = source.meta().size;
    if size > LARGEST {
        return Err(failed(format!(
            "{size} bytes are too many for a Metalink file"
        )));
    }
    let whole = Range {
        start: 0,
        end: size,
    };
    let text = match whole.is_empty() {
        true => Vec::new(),
        false => read_one(&*source, whole)?.to_vec(),
    };
    let text = String::from_utf8(text).map_err(|_| failed("not a Metalink file".to_owned()))?;
    let files = parse(&text).map_err(|why| failed(format!("invalid Metalink file: {why}")))?;
    let names = files.into_iter().filter_map(|mut file| {
        file.urls
            .retain(|(_, url)| is_remote(url) || !is_foreign(url));
        file.urls.sort_by_key(|(rank, _)| *rank);
        let urls: Vec<String> = file.urls.into_iter().map(|(_, url)| url).collect();
        (!urls.is_empty()).then(|| join_sources(&urls, file.size))
    });
    let names: Vec<String> = names.collect();
    match names.is_empty() {
        true => Err(failed(
            "the Metalink file lists no URL that can be read".to_owned(),
        )),
        false => Ok(names),
    }
}

/// One file of a Metalink.
#[derive(Debug, Default, PartialEq, Eq)]
struct Listed {
    size: Option<u64>,
    /// With their rank: the lowest is preferred.
    urls: Vec<(i64, String)>,
}

fn parse(text: &str) -> Result<Vec<Listed>, String> {
    let mut reader = Reader::from_str(text);
    let (mut out, mut now, mut text) = (Vec::new(), Listed::default(), String::new());
    let (mut is_metalink, mut rank) = (false, 0);
    loop {
        match reader.read_event().map_err(|error| error.to_string())? {
            Event::Start(start) => {
                text.clear();
                match start.local_name().as_ref() {
                    b"metalink" => is_metalink = true,
                    b"file" => now = Listed::default(),
                    b"url" => rank = rank_of(&start),
                    _ => {}
                }
            }
            Event::Text(part) => text.push_str(&part.decode().map_err(|e| e.to_string())?),
            Event::CData(part) => text.push_str(&part.decode().map_err(|e| e.to_string())?),
            Event::GeneralRef(name) => text.extend(character(&name)),
            Event::End(end) => match end.local_name().as_ref() {
                b"size" => now.size = text.trim().parse().ok().or(now.size),
                b"url" => now.urls.push((rank, text.trim().to_owned())),
                b"file" => out.push(std::mem::take(&mut now)),
                _ => {}
            },
            Event::Eof if is_metalink => return Ok(out),
            Event::Eof => return Err("it has no element metalink".to_owned()),
            _ => {}
        }
    }
}

/// The rank of a URL: `priority` counts from 1, the best; of `preference`, 100 is the best.
fn rank_of(start: &BytesStart<'_>) -> i64 {
    let number = |name: &str| {
        let value = start.try_get_attribute(name).ok()??.value;
        std::str::from_utf8(&value).ok()?.trim().parse::<i32>().ok()
    };
    let preferred = || number("preference").map(|preference| -preference);
    number("priority")
        .or_else(preferred)
        .map_or(i64::MAX, i64::from)
}

fn character(name: &BytesRef<'_>) -> Option<char> {
    if let Ok(Some(character)) = name.resolve_char_ref() {
        return Some(character);
    }
    resolve_xml_entity(&name.decode().ok()?)?.chars().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUCIO: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<metalink xmlns="urn:ietf:params:xml:ns:metalink">
 <file name="nano.root">
  <identity>cms:nano.root</identity>
  <hash type="adler32">0a1b2c3d</hash>
  <size>1234</size>
  <glfn name="/cms/nano.root"></glfn>
  <url location="B" domain="wan" priority="2">https://b:443/nano.root?a=1&amp;b=2</url>
  <url location="A" domain="wan" priority="1">root://a:1094//nano.root</url>
  <url>gopher://c/nano.root</url>
 </file>
 <file name="other.root"><url> s3://bucket/other.root </url></file>
</metalink>"#;

    fn read(text: &str) -> Result<Vec<String>, IoError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("list.meta4");
        std::fs::write(&path, text).unwrap();
        read_metalink(path.to_str().unwrap(), &Settings::default())
    }

    #[test]
    fn files_have_all_urls_the_preferred_first() {
        let found = read(RUCIO).unwrap();
        let first = "root://a:1094//nano.root|https://b:443/nano.root?a=1&b=2|size=1234";
        assert_eq!(found, [first, "s3://bucket/other.root"]);
        let old = r#"<metalink version="3.0" xmlns="http://www.metalinker.org/"><files><file name="f"><resources>
            <url type="http" preference="10">http://b/f</url><url preference="100">http://a/f</url>
            </resources></file></files></metalink>"#;
        assert_eq!(read(old).unwrap(), ["http://a/f|http://b/f"]);
    }

    #[test]
    fn what_is_no_metalink_is_an_error_that_names_it() {
        let nothing = "<metalink><file><url>gopher://c/f</url></file></metalink>";
        for text in [
            "",
            "root",
            "<html></html>",
            "<metalink><file>",
            "<metalink/>",
            nothing,
        ] {
            let error = read(text).unwrap_err();
            assert!(error.url().ends_with("list.meta4"), "{error}");
        }
        assert!(is_metalink("https://h/f.META4?x") && is_metalink("a?b.metalink"));
        assert!(!is_metalink("https://h/f?x.meta4") && !is_metalink("f.root"));
    }
}
