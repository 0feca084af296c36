//! Parses the listing of a directory by a WebDAV server (RFC 4918, 9.1). Pure.

use std::time::SystemTime;

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, Event};

use crate::url::{RemoteEntry, decoded};

/// A listed resource: its path and kind.
#[derive(Debug, Default)]
struct Resource {
    path: Vec<String>,
    is_folder: bool,
    size: Option<u64>,
    modified: Option<SystemTime>,
}

/// The entries of a directory with the given path.
///
/// # Errors
/// If it is not a directory, or the answer is invalid; the error is a message.
pub(super) fn entries(body: &str, folder: &str) -> Result<Vec<RemoteEntry>, String> {
    let all = resources(body)?;
    let asked = segments(folder);
    // behind a proxy, paths may have another prefix; then the directory comes first
    let itself = all.iter().find(|found| found.path == asked).or(all.first());
    let itself = itself.ok_or("an empty list without the directory itself")?;
    if !itself.is_folder {
        return Err("it is not a directory".to_owned());
    }
    let child = |found: &Resource| {
        let (name, parent) = found.path.split_last()?;
        (parent == itself.path).then(|| RemoteEntry {
            name: name.clone(),
            is_folder: found.is_folder,
            size: found.size.filter(|_| !found.is_folder),
            modified: found.modified,
        })
    };
    Ok(all.iter().filter_map(child).collect())
}

fn resources(body: &str) -> Result<Vec<Resource>, String> {
    let mut reader = Reader::from_str(body);
    let (mut out, mut now, mut text) = (Vec::new(), Resource::default(), String::new());
    loop {
        let event = reader.read_event().map_err(|error| error.to_string())?;
        match event {
            Event::Start(start) => {
                text.clear();
                match start.local_name().as_ref() {
                    b"response" => now = Resource::default(),
                    b"collection" => now.is_folder = true,
                    _ => {}
                }
            }
            Event::Empty(empty) if empty.local_name().as_ref() == b"collection" => {
                now.is_folder = true;
            }
            Event::Text(part) => text.push_str(&part.decode().map_err(|e| e.to_string())?),
            Event::CData(part) => text.push_str(&part.decode().map_err(|e| e.to_string())?),
            Event::GeneralRef(name) => text.extend(character(&name)),
            Event::End(end) => match end.local_name().as_ref() {
                b"href" if now.path.is_empty() => now.path = segments(text.trim()),
                b"getcontentlength" => now.size = text.trim().parse().ok().or(now.size),
                b"getlastmodified" => {
                    now.modified = httpdate::parse_http_date(text.trim()).ok().or(now.modified);
                }
                b"response" => out.push(std::mem::take(&mut now)),
                _ => {}
            },
            Event::Eof => return Ok(out),
            _ => {}
        }
    }
}

fn character(name: &BytesRef<'_>) -> Option<char> {
    if let Ok(Some(character)) = name.resolve_char_ref() {
        return Some(character);
    }
    resolve_xml_entity(&name.decode().ok()?)?.chars().next()
}

/// The decoded parts of a path, or of a URL's path.
pub(super) fn segments(path: &str) -> Vec<String> {
    let path = match path.split_once("://") {
        Some((_, rest)) => rest.split_once('/').map_or("", |(_, path)| path),
        None => path,
    };
    let names = path.split('/').filter(|name| !name.is_empty());
    names.map(decoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BODY: &str = r#"<?xml version="1.0"?><D:multistatus xmlns:D="DAV:" xmlns:x="DAV:">
<D:response><D:href>http://h/a/b/</D:href><D:propstat><D:prop><D:resourcetype><D:collection/></D:resourcetype></D:prop></D:propstat></D:response>
<D:response><D:href>/a/b/c%20&amp;d%2.root</D:href><D:propstat><D:prop><x:getcontentlength>12</x:getcontentlength>
<D:getlastmodified>Sun, 06 Nov 1994 08:49:37 GMT</D:getlastmodified><D:resourcetype/></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>
<D:propstat><D:prop><D:getcontentlength/></D:prop><D:status>HTTP/1.1 404 Not Found</D:status></D:propstat></D:response>
<D:response><D:href>/a/b/sub/</D:href><D:propstat><D:prop><D:getcontentlength>4096</D:getcontentlength><D:resourcetype><D:collection></D:collection></D:resourcetype></D:prop></D:propstat></D:response>
<D:response><D:href>/a/b/sub/deep</D:href></D:response>
</D:multistatus>"#;

    #[test]
    fn what_is_in_a_folder_is_found() {
        for folder in ["/a/b/", "/a//b", "/other/"] {
            let found = entries(BODY, folder).unwrap();
            let shown: Vec<_> = found
                .iter()
                .map(|e| (e.name.as_str(), e.is_folder, e.size))
                .collect();
            assert_eq!(
                shown,
                [("c &d%2.root", false, Some(12)), ("sub", true, None)]
            );
            assert!(found[0].modified.is_some() && found[1].modified.is_none());
        }
    }

    #[test]
    fn what_is_no_list_is_told() {
        let file = "<m><response><href>/f</href></response></m>";
        assert_eq!(entries(file, "/f").unwrap_err(), "it is not a directory");
        for body in ["", "<html>", "<a></b>", "<m/>"] {
            assert!(entries(body, "/").is_err(), "{body}");
        }
    }
}
