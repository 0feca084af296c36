//! Parses file arguments: `FILE:NAME`, URLs, patterns and braces. Used by `fb` and Python.

use std::fmt;
use std::path::Path;

use femtobarn_events::StoreUrl;
use femtobarn_io::{
    IoError, Settings, expand_home, is_foreign, is_metalink, is_remote, join_sources, local_path,
    public, read_metalink, split_sources,
};
use glob::{MatchOptions, PatternError};

use crate::Error;
use crate::pattern::is_pattern;
use crate::url::{after_root, expand_with, split_remote};

/// As in shells: `*` does not match a slash or a leading dot.
const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// Whether a string is the URL of an event store.
///
/// ```
/// use femtobarn::is_store;
/// assert!(is_store("dir:/data/store") && is_store("redis://host") && !is_store("memory://a.root"));
/// ```
pub fn is_store(text: &str) -> bool {
    matches!(StoreUrl::parse(text), Some(url) if url != StoreUrl::Config)
}

/// A file and the path of an object in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A path or a URL.
    pub file: String,
    /// The path of the object, which may end with `;` and a cycle.
    pub name: Option<String>,
}

impl Target {
    /// Splits `FILE:NAME`.
    ///
    /// An existing path is a file. Otherwise the longest existing file before a colon is the file. If there is none,
    /// the name follows `.root:`, or else the last colon. Port, query and colons in the path of a URL are parts of the
    /// URL.
    ///
    /// ```
    /// use femtobarn::Target;
    /// let target = Target::parse("root://host:1094//store/a.root:folder/Events").unwrap();
    /// assert_eq!(target.file, "root://host:1094//store/a.root");
    /// assert_eq!(target.name.as_deref(), Some("folder/Events"));
    /// ```
    ///
    /// # Errors
    /// If it is the URL of an event store, or has an unsupported scheme.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if is_store(text) && std::fs::symlink_metadata(text).is_err() {
            let what = format!(
                "{} is an event store, not a file: `fb store ls` lists it, DataStore.connect opens it",
                public(text)
            );
            return Err(Error::Usage { what });
        }
        let (sources, size) = split_sources(text);
        if sources.len() > 1 {
            return Self::parse_sources(&sources, size);
        }
        if is_remote(text) {
            let (file, name) = split_remote(text);
            return Ok(Self::new(&file, name));
        }
        if is_foreign(text) {
            let url = public(text);
            return Err(IoError::UnknownScheme { url }.into());
        }
        let path = local_path(text);
        let colon = match exists(&path) {
            true => None,
            false => colon(&path),
        };
        let split = colon.and_then(|at| Some((path.get(..at)?, path.get(at + 1..)?)));
        Ok(match split {
            Some((file, name)) => Self::new(file, Some(name)),
            None => Self::new(&path, None),
        })
    }

    /// The file that several URLs name. Each URL may end with the name of the object.
    fn parse_sources(sources: &[&str], size: Option<u64>) -> Result<Self, Error> {
        let targets = sources.iter().map(|source| Self::parse(source));
        let targets: Vec<Self> = targets.collect::<Result<_, _>>()?;
        let mut names = targets.iter().filter_map(|target| target.name.as_deref());
        let name = names.next();
        if let Some(other) = names.find(|other| Some(*other) != name) {
            let name = name.unwrap_or_default();
            let what =
                format!("several URLs of one file name different objects: {name} and {other}");
            return Err(Error::Usage { what });
        }
        let files: Vec<&str> = targets.iter().map(|target| target.file.as_str()).collect();
        Ok(Self::new(&join_sources(&files, size), name))
    }

    fn new(file: &str, name: Option<&str>) -> Self {
        Self {
            file: file.to_owned(),
            name: name.and_then(plain_name),
        }
    }

    /// The files of a `FILE:NAME` argument, sorted by name: see [`expand`](Self::expand).
    ///
    /// # Errors
    /// Errors of [`parse`](Self::parse) and [`expand`](Self::expand).
    pub fn find(text: &str, settings: Option<&Settings>) -> Result<Vec<Self>, Error> {
        Self::parse(text)?.expand(settings)
    }

    /// The matching files: the file itself, or the files that match its pattern (`*`, `?`, `[]`, `**`, and `{a,b}`),
    /// sorted by name for each alternative in braces. `~` is the home directory. If a file is literally named like the
    /// pattern, that file is used. In URLs `?` starts the query. A Metalink file stands for the files that it lists.
    ///
    /// # Errors
    /// If no file matches, the pattern is invalid, a directory of a server cannot be listed, or a Metalink file cannot
    /// be read.
    pub fn expand(&self, settings: Option<&Settings>) -> Result<Vec<Self>, Error> {
        let files = match is_remote(&self.file) {
            true if split_sources(&self.file).0.len() > 1 => vec![self.file.clone()],
            true => expand_remote(&self.file, settings)?,
            false => expand_local(&self.file)?,
        };
        let listed = |file: String| match is_metalink(&file) {
            true => read_metalink(&file, settings.unwrap_or(&Settings::of(&file))),
            false => Ok(vec![file]),
        };
        let files = files
            .into_iter()
            .map(listed)
            .collect::<Result<Vec<_>, _>>()?;
        let targets = files.into_iter().flatten().map(|file| Self {
            file,
            name: self.name.clone(),
        });
        Ok(targets.collect())
    }

    /// The whole string as the path or URL of a file, including the query.
    pub fn whole(&self) -> String {
        let query = self.file.find('?').filter(|_| is_remote(&self.file));
        let (path, query) = self.file.split_at(query.unwrap_or(self.file.len()));
        match &self.name {
            Some(name) => format!("{path}:{name}{query}"),
            None => self.file.clone(),
        }
    }

    /// The file, for messages.
    pub fn shown(&self) -> String {
        public(&self.file)
    }
}

/// The form for messages, without secrets in URLs.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())?;
        self.name.iter().try_for_each(|name| write!(f, ":{name}"))
    }
}

/// The path of an object without empty parts; `None` if nothing is left.
pub fn plain_name(name: &str) -> Option<String> {
    let parts = name.trim().split('/').filter(|part| !part.is_empty());
    let name = parts.collect::<Vec<_>>().join("/");
    (!name.is_empty()).then_some(name)
}

fn exists(path: &str) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// The position of the colon between file and name in a path that does not exist.
fn colon(path: &str) -> Option<usize> {
    let mut colons = path.rmatch_indices(':').map(|(at, _)| at);
    let is_file = |at: &usize| {
        path.get(..*at)
            .is_some_and(|file| Path::new(file).is_file())
    };
    colons
        .find(is_file)
        .or_else(|| after_root(path))
        .or_else(|| match path.to_ascii_lowercase().ends_with(".root") {
            true => None,
            false => path.rfind(':').filter(|&at| at > 0),
        })
}

fn expand_remote(url: &str, settings: Option<&Settings>) -> Result<Vec<String>, Error> {
    let (text, query) = crate::url::split_query(url);
    let mut found = Vec::new();
    for choice in braces(text) {
        let choice = format!("{choice}{query}");
        let matching = match settings {
            Some(settings) => expand_with(&choice, settings),
            None => crate::url::expand(&choice),
        };
        found.extend(matching?);
    }
    distinct(found).ok_or_else(|| no_match(url, String::new()))
}

fn expand_local(path: &str) -> Result<Vec<String>, Error> {
    let path = expand_home(path).into_owned();
    let choices = braces(&path);
    if exists(&path) || choices.len() == 1 && !is_pattern(&path) {
        return Ok(vec![path]);
    }
    let mut found = Vec::new();
    for choice in choices {
        if !is_pattern(&choice) {
            found.push(choice);
            continue;
        }
        let failed = |error: PatternError| Error::Usage {
            what: format!("invalid pattern {choice:?}: {error}"),
        };
        let matching = glob::glob_with(&choice, MATCHING).map_err(failed)?;
        let mut matching: Vec<String> = matching
            .filter_map(Result::ok)
            .map(|file| file.to_string_lossy().into_owned())
            .collect();
        matching.sort_unstable();
        found.extend(matching);
    }
    distinct(found).ok_or_else(|| {
        let plain = path.find(['*', '?', '[', '{']).unwrap_or(path.len());
        let folder = path.get(..plain).and_then(|text| text.rfind('/'));
        let folder = folder.and_then(|at| path.get(..at)).unwrap_or(".");
        let why = match folder.is_empty() || Path::new(folder).is_dir() {
            true => String::new(),
            false => format!(": directory {folder:?} does not exist"),
        };
        no_match(&path, why)
    })
}

fn no_match(pattern: &str, why: String) -> Error {
    let pattern = public(pattern);
    IoError::NoMatch { pattern, why }.into()
}

/// The files in order without duplicates; `None` if there are none.
fn distinct(files: Vec<String>) -> Option<Vec<String>> {
    let mut seen = std::collections::HashSet::new();
    let files: Vec<String> = files
        .into_iter()
        .filter(|file| seen.insert(file.clone()))
        .collect();
    (!files.is_empty()).then_some(files)
}

/// All alternatives of the braces `{a,b}` in a string; the first braces vary slowest. Braces without a comma are
/// literal.
fn braces(text: &str) -> Vec<String> {
    let open = text.match_indices('{').map(|(at, _)| at);
    let group = open.filter_map(|open| {
        let inside = text.get(open + 1..)?;
        let close = inside.find(['{', '}'])?;
        let inside = inside.get(..close)?;
        let is_group = text.get(open + 1 + close..)?.starts_with('}') && inside.contains(',');
        is_group.then_some((open, inside))
    });
    let Some((open, inside)) = group.into_iter().next() else {
        return vec![text.to_owned()];
    };
    let before = text.get(..open).unwrap_or_default();
    let after = text.get(open + inside.len() + 2..).unwrap_or_default();
    let rest = braces(after);
    inside
        .split(',')
        .flat_map(|choice| {
            rest.iter()
                .map(move |rest| format!("{before}{choice}{rest}"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, Option<String>) {
        let target = Target::parse(text).unwrap();
        (target.file, target.name)
    }

    fn named(file: &str, name: &str) -> (String, Option<String>) {
        (file.to_owned(), Some(name.to_owned()))
    }

    #[test]
    fn the_longest_part_that_is_a_file_is_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (plain, colon) = (path("a.root"), path("a.root:b"));
        std::fs::write(&plain, "").unwrap();
        assert_eq!(parsed(&plain), (plain.clone(), None));
        assert_eq!(parsed(&format!(" {plain}: ")), (plain.clone(), None));
        assert_eq!(parsed(&format!("{plain}:x:y")), named(&plain, "x:y"));
        assert_eq!(parsed(&format!("{plain}:b")), named(&plain, "b"));
        assert_eq!(
            parsed(&format!("{plain}:/dir//Events;2/")),
            named(&plain, "dir/Events;2")
        );
        assert_eq!(parsed(&format!("file://{plain}:E")), named(&plain, "E"));
        std::fs::write(&colon, "").unwrap();
        assert_eq!(parsed(&format!("{plain}:b")), (colon.clone(), None));
        assert_eq!(parsed(&format!("{plain}:b:c")), named(&colon, "c"));
        let spaced = path("a b%2.root");
        std::fs::write(&spaced, "").unwrap();
        let url = format!("file://{}", spaced.replace(' ', "%20"));
        assert_eq!(parsed(&url), (spaced, None));
    }

    #[test]
    fn the_name_follows_root_or_the_last_colon() {
        for (text, file, name) in [
            ("no.root:b:c", "no.root", Some("b:c")),
            ("no.root.1:E", "no.root.1", Some("E")),
            ("a.root:b.root:c", "a.root:b.root", Some("c")),
            ("a:b.root", "a:b.root", None),
            ("no.root", "no.root", None),
            ("no:a:E", "no:a", Some("E")),
            ("what?.root:E", "what?.root", Some("E")),
            (
                "root://h:1094//a.root:d/E",
                "root://h:1094//a.root",
                Some("d/E"),
            ),
            (
                "https://h:8443/a.root?t=x:y",
                "https://h:8443/a.root?t=x:y",
                None,
            ),
            (
                "http://me:s@h/a.root:E?s=1",
                "http://me:s@h/a.root?s=1",
                Some("E"),
            ),
        ] {
            assert_eq!(
                parsed(text),
                (file.to_owned(), name.map(str::to_owned)),
                "{text}"
            );
        }
        let target = Target::parse("http://me:s@h/a.root:E?s=1").unwrap();
        assert_eq!(target.whole(), "http://me:s@h/a.root:E?s=1");
        assert_eq!(target.to_string(), "http://me@h/a.root:E");
    }

    #[test]
    fn stores_and_unknown_schemes_are_refused() {
        for text in ["dir:/a", "memory:", "redis://h", "valkeys://h:1"] {
            assert_eq!(Target::parse(text).unwrap_err().kind(), "usage", "{text}");
        }
        let error = Target::parse("gopher://host/data.root:Events").unwrap_err();
        assert_eq!(error.kind(), "unsupported-url");
    }

    #[test]
    fn patterns_and_braces_stand_for_files() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        std::fs::create_dir_all(folder.path().join("x/y")).unwrap();
        for name in [
            "b.root",
            "a.root",
            ".hidden.root",
            "x/c.root",
            "x/y/d.root",
            "[a].root",
        ] {
            std::fs::write(path(name), "").unwrap();
        }
        let found = |text: &str| {
            let found = Target::find(&path(text), None)?.into_iter();
            let short = |target: Target| {
                assert_eq!(target.name.as_deref(), Some("E"));
                target.file.replace(&path(""), "")
            };
            Ok::<Vec<String>, Error>(found.map(short).collect())
        };
        assert_eq!(found("*.root:E").unwrap(), ["[a].root", "a.root", "b.root"]);
        assert_eq!(found("?.root:E").unwrap(), ["a.root", "b.root"]);
        assert_eq!(found("[a].root:E").unwrap(), ["[a].root"]);
        assert_eq!(found("{b,a,b}.root:E").unwrap(), ["b.root", "a.root"]);
        assert_eq!(
            found("**/*.root:E").unwrap(),
            ["[a].root", "a.root", "b.root", "x/c.root", "x/y/d.root"]
        );
        assert_eq!(found("{missing}.root:E").unwrap(), ["{missing}.root"]);
        let error = found("z*.root:E").unwrap_err();
        assert_eq!(error.kind(), "file-not-found");
        let error = found("missing/*.root:E").unwrap_err().to_string();
        assert!(error.contains("does not exist"), "{error}");
        assert_eq!(found("[.root:E").unwrap_err().kind(), "usage");
        assert_eq!(
            braces("{a,b}x{1,2}{c}"),
            ["ax1{c}", "ax2{c}", "bx1{c}", "bx2{c}"]
        );
    }

    #[test]
    fn several_urls_of_a_file_are_one_file() {
        for (text, file, name) in [
            (
                "root://h:1//a.root:E|https://h/a.root?x:y|s3://b/a.root:/E",
                "root://h:1//a.root|https://h/a.root?x:y|s3://b/a.root",
                Some("E"),
            ),
            (
                "file:///no%20a.root|http://h/a.root:d/E",
                "file:///no a.root|http://h/a.root",
                Some("d/E"),
            ),
            (
                "http://h/a.root|http://g/a.root|size=12",
                "http://h/a.root|http://g/a.root|size=12",
                None,
            ),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!((target.file.as_str(), target.name.as_deref()), (file, name));
            assert_eq!(target.expand(None).unwrap(), [target]);
        }
        for text in [
            "http://h/a.root:E|http://g/a.root:F",
            "http://h/a.root|gopher://g/a.root",
        ] {
            assert!(Target::parse(text).is_err());
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.meta4");
        let text = "<metalink><file><url>http://h/a.root</url><url>http://g/a.root</url></file></metalink>";
        std::fs::write(&path, text).unwrap();
        let found = Target::find(&format!("{}:E", path.display()), None).unwrap();
        assert_eq!(found[0].file, "http://h/a.root|http://g/a.root");
        assert_eq!(found[0].name.as_deref(), Some("E"));
    }
}
