//! What a page that a server made of a folder leads to: nginx's, Apache's and others'. Pure.

use std::collections::BTreeMap;

use reqwest::Url;

use crate::RemoteEntry;

use super::propfind::{named, segments};

/// Words of such pages, also of those of empty folders.
const WORDS: [&str; 3] = ["index of", "directory listing", "listing of"];

/// What the links of a page lead to that is directly in its folder. None if it is no page of a folder.
pub(super) fn entries(page: &str, place: &Url) -> Option<Vec<RemoteEntry>> {
    let lower = page.to_ascii_lowercase();
    let folder = segments(place.path());
    let mut found = BTreeMap::new();
    for link in links(page, &lower) {
        let Some(url) = place
            .join(&link)
            .ok()
            .filter(|url| url.origin() == place.origin())
        else {
            continue;
        };
        let path = segments(url.path());
        if let Some((name, parent)) = path.split_last()
            && parent == folder
            && url.query().is_none()
        {
            found.insert(name.clone(), url.path().ends_with('/'));
        }
    }
    if found.is_empty() && !WORDS.iter().any(|word| lower.contains(word)) {
        return None;
    }
    let entry = |(name, is_folder)| RemoteEntry {
        name,
        is_folder,
        size: None,
        modified: None,
    };
    Some(found.into_iter().map(entry).collect())
}

/// Where the links of a page lead to. `lower` is the page in small letters, in which places are the same.
fn links(page: &str, lower: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut place = 0;
    while let Some(found) = lower.get(place..).and_then(|rest| rest.find("<a ")) {
        place += found + 3;
        let tag = lower.get(place..).and_then(|rest| rest.split('>').next());
        let value = tag
            .and_then(|tag| tag.find("href="))
            .map(|at| place + at + 5);
        let rest = value
            .and_then(|value| page.get(value..))
            .unwrap_or_default();
        let quote = rest.chars().next().filter(|first| "\"'".contains(*first));
        if let Some(quote) = quote
            && let Some(link) = rest.get(1..).and_then(|rest| rest.split_once(quote))
        {
            out.push(plain(link.0));
        }
    }
    out
}

/// Text without names of characters.
fn plain(text: &str) -> String {
    let mut parts = text.split('&');
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part
            .split_once(';')
            .and_then(|(name, rest)| Some((named(name)?, rest)))
        {
            Some((character, rest)) => {
                out.push(character);
                out.push_str(rest);
            }
            None => {
                out.push('&');
                out.push_str(part);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(page: &str) -> Option<Vec<(String, bool)>> {
        let place = Url::parse("http://h/data/run%201/").unwrap();
        let all = entries(page, &place)?;
        Some(
            all.into_iter()
                .map(|entry| (entry.name, entry.is_folder))
                .collect(),
        )
    }

    #[test]
    fn links_into_the_folder_are_what_is_in_it() {
        let page = r#"<html><A class=x HREF="?C=N;O=D">Name</A><a href="../">..</a><a href="/data/">up</a>
            <a href="a%20b.root">a</a><a href='x&amp;y.root'>x</a><a href="/data/run%201/sub/">s</a>
            <a href="http://other/data/run%201/z">z</a><a href="deep/er">d</a><a href="a.root?x">q</a><a name="n">n</a>"#;
        let names = [("a b.root", false), ("sub", true), ("x&y.root", false)];
        let names: Vec<_> = names.map(|(name, is)| (name.to_owned(), is)).into();
        assert_eq!(found(page), Some(names));
    }

    #[test]
    fn pages_of_empty_folders_differ_from_others() {
        assert_eq!(
            found("<h1>Index of /data/</h1><a href=\"../\">../</a>"),
            Some(vec![])
        );
        assert_eq!(found("<h1>Welcome</h1><a href=\"/\">home</a>"), None);
        assert_eq!(found("<a href=\"cut"), None);
    }
}
