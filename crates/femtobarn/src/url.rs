//! URLs of files that are not on this machine.

use std::collections::BTreeMap;

use femtobarn_io::{IoError, RemoteEntry, Settings, list_folder};
pub use femtobarn_io::{is_remote, scheme};
use glob::Pattern;

use crate::Error;

/// A URL, and what is for the server, with its question mark.
pub(crate) fn split_query(url: &str) -> (&str, &str) {
    url.split_at(url.find('?').unwrap_or(url.len()))
}

/// A URL in its parts: the server with its scheme, the path, and what is for the server, with its question mark.
fn parts(url: &str) -> (&str, &str, &str) {
    let (text, query) = split_query(url);
    let start = text.find("://").map_or(0, |at| at + 3);
    let path = text.get(start..).and_then(|rest| rest.find('/'));
    let (server, path) = text.split_at(path.map_or(text.len(), |at| start + at));
    (server, path, query)
}

/// Splits `URL:NAME`: the name follows `.root:`, or else the last colon behind the server. Colons of the server and of what
/// follows a question mark stay in the URL.
pub fn split_remote(text: &str) -> (String, Option<&str>) {
    let (server, path, query) = parts(text);
    let below = path.to_ascii_lowercase();
    let colon = match below.rfind(".root:") {
        Some(at) => Some(at + 5),
        None if below.ends_with(".root") => None,
        None => below.rfind(':'),
    };
    let parts = colon.and_then(|at| Some((path.get(..at)?, path.get(at + 1..)?)));
    let (path, name) = parts.unwrap_or((path, ""));
    let name = name.trim_matches('/');
    (
        format!("{server}{path}{query}"),
        (!name.is_empty()).then_some(name),
    )
}

/// Whether a URL is that of a folder of a server: with a slash at the end of its path.
pub fn is_folder(url: &str) -> bool {
    let (_, path, _) = parts(url);
    is_remote(url) && path.ends_with('/')
}

/// Whether a path or a name has a pattern in it (`*`, `[]`, `**`). A question mark begins what is for the server.
fn is_pattern(text: &str) -> bool {
    text.contains(['*', '['])
}

/// The files that a URL stands for: itself, or where there is a pattern in its path, those that fit, in the order of their names:
/// `*` and `[]` stand for parts of a name, `**` for any folders.
///
/// # Errors
/// If a pattern is none, or a folder cannot be listed. That nothing fits is none.
pub fn expand(url: &str) -> Result<Vec<String>, Error> {
    expand_with(url, BTreeMap::new())
}

/// The same, of a server that is asked as these settings say.
///
/// # Errors
/// As [`expand`], and if a setting is none.
pub fn expand_with(url: &str, settings: BTreeMap<String, String>) -> Result<Vec<String>, Error> {
    let settings = Settings::new(url, settings)?;
    let (server, path, query) = parts(url);
    if !is_pattern(path) {
        return Ok(vec![url.to_owned()]);
    }
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let mut found = Vec::new();
    let place = Place {
        folder: format!("{server}/"),
        query,
        settings: &settings,
    };
    place.add(&names, &mut found)?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// A folder in which names are looked for.
struct Place<'q> {
    /// Its URL, without a slash at the end that is not the server's.
    folder: String,
    query: &'q str,
    settings: &'q Settings,
}

impl Place<'_> {
    fn below(&self, name: &str) -> Self {
        Place {
            folder: format!("{}/{name}", self.folder),
            query: self.query,
            settings: self.settings,
        }
    }

    /// The name of something that was listed, as it stands in URLs of the server.
    fn encoded(&self, name: &str) -> String {
        let is_http =
            scheme(&self.folder).is_some_and(|s| s.starts_with("http") || s.starts_with("dav"));
        match is_http {
            true => name
                .replace('%', "%25")
                .replace('#', "%23")
                .replace('?', "%3F"),
            false => name.to_owned(),
        }
    }

    fn url(&self) -> String {
        format!("{}{}", self.folder, self.query)
    }

    fn list(&self) -> Result<Vec<RemoteEntry>, Error> {
        match list_folder(&self.url(), self.settings) {
            // in a folder that is not there is nothing
            Err(IoError::NotFound { .. }) => Ok(Vec::new()),
            found => Ok(found?),
        }
    }

    fn add(&self, names: &[&str], found: &mut Vec<String>) -> Result<(), Error> {
        // names that stand for themselves need no list, up to the last pattern
        match names {
            [name, rest @ ..] if !is_pattern(name) && rest.iter().any(|name| is_pattern(name)) => {
                self.below(name).add(rest, found)
            }
            names => self.add_of(&self.list()?, names, found),
        }
    }

    /// The same, of what is in it.
    fn add_of(
        &self,
        entries: &[RemoteEntry],
        names: &[&str],
        found: &mut Vec<String>,
    ) -> Result<(), Error> {
        let Some((&name, rest)) = names.split_first() else {
            return Ok(());
        };
        if name == "**" {
            self.add_of(entries, rest, found)?;
            for entry in entries.iter().filter(|entry| entry.is_folder) {
                let below = self.below(&self.encoded(&entry.name));
                below.add(names, found)?;
            }
            return Ok(());
        }
        let pattern = Pattern::new(name).map_err(|error| Error::Usage {
            what: format!("{}/{name} is no pattern: {error}", self.folder),
        })?;
        for entry in entries.iter().filter(|entry| pattern.matches(&entry.name)) {
            let below = self.below(&self.encoded(&entry.name));
            match rest {
                [] if !entry.is_folder => found.push(below.url()),
                [] => {}
                rest if entry.is_folder => below.add(rest, found)?,
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_be_read_is_remote() {
        assert!(is_remote("root://h//f") && is_remote("ROOTS://h//f"));
        assert!(!is_remote("/root://h") && !is_remote("file:///f") && !is_remote("gopher://h/f"));
        assert_eq!(scheme("https://h/f").as_deref(), Some("https"));
        assert_eq!(scheme("a b://h"), None);
    }

    #[test]
    fn what_is_for_the_server_is_no_pattern() {
        let is_pattern = |url| is_pattern(parts(url).1);
        assert!(is_pattern("root://h//store/*.root") && is_pattern("root://h//run[0-9]/a.root"));
        assert!(!is_pattern("root://h//a.root?authz=*") && !is_pattern("root://h//a.root"));
    }

    #[test]
    fn a_name_follows_the_file_and_no_port() {
        let split = |text: &str| {
            let (url, name) = split_remote(text);
            (url, name.map(str::to_owned))
        };
        let expected = |url: &str, name: Option<&str>| (url.to_owned(), name.map(str::to_owned));
        let url = "root://h:1094//store/a.root";
        assert_eq!(split(url), expected(url, None));
        assert_eq!(
            split(&format!("{url}:dir/Events")),
            expected(url, Some("dir/Events"))
        );
        assert_eq!(split(&format!("{url}:")), expected(url, None));
        assert_eq!(split("root://h//f:t"), expected("root://h//f", Some("t")));
        assert_eq!(split("root://h:1094"), expected("root://h:1094", None));
        assert!(
            is_folder("root://h//f/?a=b") && !is_folder("root://h//f?a=b/") && !is_folder("/f/")
        );
        assert_eq!(
            split("root://h//a.root:E?authz=x:y"),
            expected("root://h//a.root?authz=x:y", Some("E"))
        );
    }
}
