//! URLs of remote files.

use femtobarn_daos::Address;
use femtobarn_io::{
    IoError, RemoteEntry, Settings, encoded, foreign_for, is_daos, is_foreign, list_folder, notice,
};
pub use femtobarn_io::{is_remote, scheme};
use glob::Pattern;

use crate::Error;

/// Splits a URL into its path and its query, including the question mark.
pub(crate) fn split_query(url: &str) -> (&str, &str) {
    url.split_at(url.find('?').unwrap_or(url.len()))
}

/// Splits a URL into server with scheme, path, and query with its question mark.
fn parts(url: &str) -> (&str, &str, &str) {
    let (text, query) = split_query(url);
    let start = text.find("://").map_or(0, |at| at + 3);
    let path = text.get(start..).and_then(|rest| rest.find('/'));
    let (server, path) = text.split_at(path.map_or(text.len(), |at| start + at));
    (server, path, query)
}

/// Splits `URL:NAME`. The name follows `.root:`, or else the last colon after the server. Colons of the server and of
/// the query stay in the URL. In a chain (`zip://a.root::https://…`), the name follows `.root:` in any part.
pub fn split_remote(text: &str) -> (String, Option<&str>) {
    let (url, name) = match is_foreign(text) {
        true => split_chain(text),
        false if is_daos(text) => {
            let (container, name) = Address::split(text);
            (container.to_owned(), name.unwrap_or_default())
        }
        false => split_one(text),
    };
    let name = name.trim_matches('/');
    (url, (!name.is_empty()).then_some(name))
}

/// Splits `URL:NAME` for a single URL; the name may be empty.
fn split_one(text: &str) -> (String, &str) {
    let (server, path, query) = parts(text);
    let colon = match after_root(path) {
        None if path.to_ascii_lowercase().ends_with(".root") => None,
        None => path.rfind(':'),
        found => found,
    };
    let split = colon.and_then(|at| Some((path.get(..at)?, path.get(at + 1..)?)));
    let (path, name) = split.unwrap_or((path, ""));
    (format!("{server}{path}{query}"), name)
}

/// Splits `URL:NAME` for a chain.
fn split_chain(text: &str) -> (String, &str) {
    let links: Vec<&str> = text.split("::").collect();
    for (i, link) in links.iter().enumerate().rev() {
        let (path, query) = split_query(link);
        let split = after_root(path).and_then(|at| Some((path.get(..at)?, path.get(at + 1..)?)));
        if let Some((path, name)) = split {
            let mut links: Vec<String> = links.iter().map(|&link| link.to_owned()).collect();
            if let Some(link) = links.get_mut(i) {
                *link = format!("{path}{query}");
            }
            return (links.join("::"), name);
        }
    }
    // otherwise the last colon of the last part splits
    let (others, last) = match text.rsplit_once("::") {
        Some((others, last)) => (format!("{others}::"), last),
        None => (String::new(), text),
    };
    let (last, name) = match last.contains("://") {
        true => split_one(last),
        false => {
            let (path, name) = last.rsplit_once(':').unwrap_or((last, ""));
            (path.to_owned(), name)
        }
    };
    (format!("{others}{last}"), name)
}

/// The position of the colon after the name of a ROOT file, as in `a.root:` or `a.root.1:`.
pub(crate) fn after_root(path: &str) -> Option<usize> {
    let below = path.to_ascii_lowercase();
    let mut ends = below.rmatch_indices(".root").map(|(at, _)| at + 5);
    ends.find_map(|end| {
        let rest = below.get(end..)?;
        let number = rest.strip_prefix('.').map_or("", |rest| {
            let digits = rest.find(|c: char| !c.is_ascii_digit());
            rest.get(..digits.unwrap_or(rest.len())).unwrap_or_default()
        });
        let end = match number.is_empty() {
            true => end,
            false => end + 1 + number.len(),
        };
        below.get(end..)?.starts_with(':').then_some(end)
    })
}

/// Whether a URL is a directory on a server, with a slash at the end of its path.
pub fn is_folder(url: &str) -> bool {
    let (_, path, _) = parts(url);
    is_remote(url) && path.ends_with('/')
}

/// Whether a path or name is a pattern (`*`, `[]`, `**`). A question mark starts the query.
fn is_pattern(text: &str) -> bool {
    text.contains(['*', '['])
}

/// Whether the query looks like the rest of a pattern in which `?` was meant as a wildcard.
pub(crate) fn has_pattern_for_query(url: &str) -> bool {
    let (_, _, query) = parts(url);
    let lower = query.to_ascii_lowercase();
    !query.contains('=') && (is_pattern(query) || lower.ends_with(".root"))
}

/// The files of a URL: itself, or if its path is a pattern, the matching files, sorted by name. `*` and `[]` match
/// within a name, `**` matches any directories. If a file or directory is literally named like the pattern, it is
/// used.
///
/// # Errors
/// If a pattern is invalid, or a directory cannot be listed. No match is not an error.
pub fn expand(url: &str) -> Result<Vec<String>, Error> {
    expand_with(url, &Settings::of(url))
}

/// Like [`expand`], with settings.
///
/// # Errors
/// Errors of [`expand`].
pub fn expand_with(url: &str, settings: &Settings) -> Result<Vec<String>, Error> {
    let (server, path, query) = parts(url);
    // for fsspec protocols, the part after `://` may be a path without a server
    let has_pattern = is_pattern(path) || is_foreign(url) && is_pattern(split_query(url).0);
    if !has_pattern {
        return Ok(vec![url.to_owned()]);
    }
    if let Some(others) = foreign_for(url, settings)? {
        let mut found = (others.find)(url, settings)?;
        found.sort_unstable();
        return Ok(found);
    }
    let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
    let mut found = Vec::new();
    // a path of XRootD begins with a slash, which is separate from the one after the server
    let is_xrootd = scheme(url).is_some_and(|scheme| scheme.starts_with(['r', 'x']));
    let place = Place {
        folder: format!("{server}{}", if is_xrootd { "/" } else { "" }),
        query,
        settings,
    };
    place.add(&names, &mut found)?;
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// A directory to list.
struct Place<'q> {
    /// Its URL, without a slash at the end.
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

    /// A listed name, encoded for URLs of the server.
    fn encoded(&self, name: &str) -> String {
        match scheme(&self.folder) {
            Some(scheme) if scheme == "ntpl+file" => encoded(name),
            Some(scheme) if scheme.starts_with("http") || scheme.starts_with("dav") => name
                .replace('%', "%25")
                .replace('#', "%23")
                .replace('?', "%3F")
                .replace('\\', "%5C"),
            _ => name.to_owned(),
        }
    }

    /// Whether a listed name can be part of a URL: a question mark starts the query.
    fn has_url(&self, name: &str) -> bool {
        !self.encoded(name).contains('?')
    }

    fn url(&self) -> String {
        format!("{}{}", self.folder, self.query)
    }

    fn list(&self) -> Result<Vec<RemoteEntry>, Error> {
        match list_folder(&format!("{}/{}", self.folder, self.query), self.settings) {
            // a missing directory has no entries
            Err(IoError::NotFound { .. }) => Ok(Vec::new()),
            found => Ok(found?),
        }
    }

    fn add(&self, names: &[&str], found: &mut Vec<String>) -> Result<(), Error> {
        // leading names without patterns need no listing
        match names {
            [name, rest @ ..] if !is_pattern(name) && rest.iter().any(|name| is_pattern(name)) => {
                self.below(name).add(rest, found)
            }
            names => self.add_of(&self.list()?, names, found),
        }
    }

    /// Adds the contents of a directory.
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
            what: format!("invalid pattern {}/{name}: {error}", self.folder),
        })?;
        // as for local files, a name that equals the pattern is used
        let is_called_so = entries.iter().any(|entry| entry.name == name);
        let fits = |entry: &&RemoteEntry| match is_called_so {
            true => entry.name == name,
            false => pattern.matches(&entry.name),
        };
        for entry in entries.iter().filter(fits) {
            if !self.has_url(&entry.name) {
                let (folder, name) = (&self.folder, &entry.name);
                let text = format!(
                    "{folder}/{name} is left out: its name cannot be in a URL, e.g. because of '?'"
                );
                notice(&format!("{folder}/{name}"), &text);
                continue;
            }
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

    fn entry(name: &str) -> RemoteEntry {
        RemoteEntry {
            name: name.to_owned(),
            is_folder: false,
            size: None,
            modified: None,
        }
    }

    #[test]
    fn names_that_were_listed_are_named_or_left_out() {
        let entries = ["a.root", "a?b.root", "a\\b.root", "[a].root", "{b}.root"].map(entry);
        let found = |folder: &str, pattern: &str| {
            let place = Place {
                folder: folder.to_owned(),
                query: "",
                settings: &Settings::default(),
            };
            let mut found = Vec::new();
            place.add_of(&entries, &[pattern], &mut found).unwrap();
            found
        };
        assert_eq!(
            found("http://h", "a*.root"),
            [
                "http://h/a.root",
                "http://h/a%3Fb.root",
                "http://h/a%5Cb.root"
            ]
        );
        // a name that cannot be in a URL must not make the whole pattern fail
        assert_eq!(
            found("root://h/", "a*.root"),
            ["root://h//a.root", "root://h//a\\b.root"]
        );
        // a name that is equal to the pattern is used, as for local files
        assert_eq!(found("root://h/", "[a].root"), ["root://h//[a].root"]);
        assert_eq!(found("root://h/", "[b].root"), [""; 0]);
        let others = [entry("[a].root"), entry("b.root")];
        let settings = Settings::default();
        let place = Place {
            folder: "root://h/".to_owned(),
            query: "",
            settings: &settings,
        };
        let mut names = Vec::new();
        place.add_of(&others, &["[a].root"], &mut names).unwrap();
        assert_eq!(names, ["root://h//[a].root"]);
    }

    #[test]
    fn paths_in_urls_of_objects_are_read_back() {
        let path = "d/a:b#c?d%3A[e]{f,g}|h\\ö*@";
        let url = format!("ntpl+file:///x/{}", encoded(path));
        assert_eq!(
            url,
            "ntpl+file:///x/d/a%3Ab%23c%3Fd%253A%5Be%5D%7Bf,g%7D%7Ch%5C%C3%B6%2A%40"
        );
        assert_eq!(split_remote(&url), (url.clone(), None));
        assert_eq!(expand(&url).unwrap(), [url]);
    }

    #[test]
    fn names_in_containers_have_any_characters() {
        for name in ["Events", "d/Events", "a:b", "a?b#c", "a.root:b"] {
            for end in [":", "/:"] {
                let text = format!("daos://p:1/c{end}{name}");
                let (url, found) = split_remote(&text);
                assert_eq!(
                    (url.trim_end_matches('/'), found),
                    ("daos://p:1/c", Some(name))
                );
            }
        }
        assert_eq!(split_remote("daos://p:1/c:").1, None);
    }

    #[test]
    fn what_is_for_the_server_is_no_pattern() {
        let is_pattern = |url| is_pattern(parts(url).1);
        assert!(is_pattern("root://h//store/*.root") && is_pattern("root://h//run[0-9]/a.root"));
        assert!(!is_pattern("root://h//a.root?authz=*") && !is_pattern("root://h//a.root"));
    }

    #[test]
    fn a_question_mark_that_was_meant_for_any_character_is_noticed() {
        for url in [
            "root://h//rn_?.root",
            "http://h/rn_?*",
            "s3://b/run?/a.root",
        ] {
            assert!(has_pattern_for_query(url), "{url}");
        }
        for url in [
            "root://h//a.root",
            "http://h/a.root?sig=*.root",
            "http://h/a.root?download",
        ] {
            assert!(!has_pattern_for_query(url), "{url}");
        }
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
        assert_eq!(split("root://h//a.root.1:t").1, Some("t".to_owned()));
        assert!(
            is_folder("root://h//f/?a=b") && !is_folder("root://h//f?a=b/") && !is_folder("/f/")
        );
        assert_eq!(
            split("root://h//a.root:E?authz=x:y"),
            expected("root://h//a.root?authz=x:y", Some("E"))
        );
    }

    #[test]
    fn a_name_follows_the_file_in_any_part_of_a_chain() {
        for (text, url, name) in [
            ("zip://a.root:E::f.zip", "zip://a.root::f.zip", "E"),
            (
                "zip://d/a.root:d/E::https://h:80/f.zip?x:y",
                "zip://d/a.root::https://h:80/f.zip?x:y",
                "d/E",
            ),
            (
                "simplecache::https://h/a.root:E?x:y",
                "simplecache::https://h/a.root?x:y",
                "E",
            ),
            ("memory://a.root:E", "memory://a.root", "E"),
            ("sftp://h:22/d/f:E", "sftp://h:22/d/f", "E"),
            ("zip://d/a.root::f.zip", "zip://d/a.root::f.zip", ""),
            ("zip://d/a.root::f.zip:E", "zip://d/a.root::f.zip", "E"),
            (
                "zip://a.root::https://h:80/f.zip:E",
                "zip://a.root::https://h:80/f.zip",
                "E",
            ),
        ] {
            let expected = (url.to_owned(), Some(name).filter(|name| !name.is_empty()));
            assert_eq!(split_remote(text), expected);
        }
    }
}
