//! `FILE:NAME`.

use std::fmt;
use std::path::Path;

use femtobarn::Error;
use femtobarn::io::nearest_within;
use femtobarn::io::{IoError, is_foreign, public};
use femtobarn::url::{expand, is_remote, split_remote};

use crate::failure::{Failure, code};

/// Whether this is the URL of an event store.
fn is_store(text: &str) -> bool {
    ["redis", "rediss", "valkey", "valkeys"]
        .iter()
        .any(|scheme| {
            text.strip_prefix(scheme)
                .is_some_and(|rest| rest.starts_with("://"))
        })
        || text.starts_with("dir:")
        || text.starts_with("memory:") && !text.starts_with("memory://")
}

/// A file, and the path of an object in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub file: String,
    pub name: Option<String>,
}

impl Target {
    /// Splits `FILE:NAME`. Both may hold colons: the file is the longest part in front of one that exists, and the whole
    /// if that does; if nothing exists, the last colon splits.
    pub fn parse(text: &str) -> Result<Self, Failure> {
        let file = |file: &str| Self {
            file: file.into(),
            name: None,
        };
        if is_remote(text) {
            let (file, name) = split_remote(text);
            let name = name.map(str::to_owned);
            return Ok(Self { file, name });
        }
        if is_store(text) && !Path::new(text).exists() {
            let message = format!("{}: this is an event store, and no file", public(text));
            return Err(Failure {
                next: Some("`fb store ls STORE` lists what is in one".into()),
                ..Failure::new(code::USAGE, "usage", message)
            });
        }
        if is_foreign(text) {
            let url = public(text);
            let error = Error::from(IoError::UnknownScheme { url });
            return Err(error.into());
        }
        let (_, rest) = split_scheme(text);
        if Path::new(rest).exists() {
            return Ok(file(text));
        }
        let start = text.len() - rest.len();
        let colons: Vec<usize> = rest.match_indices(':').map(|(at, _)| start + at).collect();
        let found = colons.iter().rev().find(|&&at| exists(text, at));
        let Some((path, name)) = found.or(colons.last()).and_then(|&at| split(text, at)) else {
            return Ok(file(text));
        };
        Ok(Self {
            file: path.into(),
            name: (!name.is_empty()).then(|| name.into()),
        })
    }

    /// What a name stands for: the files that fit, if there is a pattern in it (`*`, `?`, `[]`, `**`) and no file is called so.
    /// None if no file fits.
    pub fn parse_pattern(text: &str) -> Result<Vec<Self>, Failure> {
        let target = Self::parse(text)?;
        if is_remote(&target.file) {
            let found = expand(&target.file)?.into_iter().map(|file| Self {
                file,
                name: target.name.clone(),
            });
            return Ok(found.collect());
        }
        if !target.file.contains(['*', '?', '[']) || target.exists() {
            return Ok(vec![target]);
        }
        let bad = |error: String| {
            let message = format!("{}: {error}", target.file);
            Failure::new(code::USAGE, "usage", message)
        };
        let found = glob::glob(target.path().to_str().unwrap_or_default());
        found
            .map_err(|error| bad(error.to_string()))?
            .map(|file| {
                let file = file.map_err(|error| bad(error.to_string()))?;
                Ok(Self {
                    file: file.to_string_lossy().into_owned(),
                    name: target.name.clone(),
                })
            })
            .collect()
    }

    /// All of it as the path or URL of a file, with what is for the server.
    pub fn whole(&self) -> String {
        let query = self.file.find('?').filter(|_| is_remote(&self.file));
        let (path, query) = self.file.split_at(query.unwrap_or(self.file.len()));
        match &self.name {
            Some(name) => format!("{path}:{name}{query}"),
            None => self.file.clone(),
        }
    }

    /// The file as people see it.
    pub fn shown(&self) -> String {
        public(&self.file)
    }

    fn path(&self) -> &Path {
        Path::new(split_scheme(&self.file).1)
    }

    /// Whether there is such a file.
    pub fn exists(&self) -> bool {
        is_remote(&self.file) || self.path().exists()
    }

    /// A file beside the missing one with nearly its name, and of a kind that can be read.
    pub fn similar_file(&self) -> Option<String> {
        let path = self.path();
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
        let wanted = path.file_name()?.to_str()?;
        let is_readable = |name: &String| {
            let same_ending = Path::new(name).extension() == Path::new(wanted).extension();
            same_ending || name.to_lowercase().contains(".root")
        };
        let names: Vec<String> = std::fs::read_dir(folder.unwrap_or(Path::new(".")))
            .ok()?
            .flatten()
            .filter(|entry| entry.path().is_file())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(is_readable)
            .collect();
        // what all names have, their endings, makes none of them near
        let stem = |name: &str| {
            name.split('.')
                .next()
                .map_or(0, |stem| stem.chars().count())
        };
        let limit = (stem(wanted) / 3).max(1);
        let best = nearest_within(limit, wanted, names.iter().map(String::as_str));
        let best = best.into_iter().next()?;
        Some(match folder {
            Some(folder) => folder.join(best).to_string_lossy().into_owned(),
            None => best,
        })
    }
}

/// As people see it, without what may be secret in a URL: it is for messages, and not what is opened.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())?;
        self.name.iter().try_for_each(|name| write!(f, ":{name}"))
    }
}

/// The scheme of a URL, and what follows it.
fn split_scheme(text: &str) -> (Option<&str>, &str) {
    match text.split_once("://") {
        Some((scheme, rest)) if scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            (Some(scheme), rest)
        }
        _ => (None, text),
    }
}

/// Both sides of the colon at `at`.
fn split(text: &str, at: usize) -> Option<(&str, &str)> {
    Some((text.get(..at)?, text.get(at + 1..)?))
}

fn exists(text: &str, at: usize) -> bool {
    split(text, at).is_some_and(|(file, _)| Path::new(split_scheme(file).1).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, Option<String>) {
        let target = Target::parse(text).unwrap();
        assert!(target.to_string().len() + 1 >= text.len());
        (target.file, target.name)
    }

    #[test]
    fn the_longest_part_that_exists_is_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
        let (plain, colon) = (path("a.root"), path("a.root:b"));
        std::fs::write(&plain, "").unwrap();
        assert_eq!(parsed(&plain), (plain.clone(), None));
        assert_eq!(parsed(&format!("{plain}:")), (plain.clone(), None));
        assert_eq!(
            parsed(&format!("{plain}:x:y")),
            (plain.clone(), Some("x:y".into()))
        );
        assert_eq!(
            parsed(&format!("{plain}:b")),
            (plain.clone(), Some("b".into()))
        );
        let dir = format!("{plain}:dir/Events;2");
        assert_eq!(parsed(&dir), (plain.clone(), Some("dir/Events;2".into())));
        let url = format!("file://{plain}");
        assert_eq!(parsed(&url), (url.clone(), None));
        assert_eq!(parsed(&format!("{url}:E")), (url, Some("E".into())));
        std::fs::write(&colon, "").unwrap();
        assert_eq!(parsed(&format!("{plain}:b")), (colon.clone(), None));
        assert_eq!(parsed(&format!("{plain}:b:c")), (colon, Some("c".into())));
    }

    #[test]
    fn of_what_does_not_exist_the_last_colon_splits() {
        assert_eq!(parsed("no.root:E"), ("no.root".into(), Some("E".into())));
        assert_eq!(parsed("no.root"), ("no.root".into(), None));
    }

    #[test]
    fn other_schemes_are_refused_by_name() {
        let failure = Target::parse("gopher://host/data.root:Events").unwrap_err();
        assert_eq!((failure.code, &*failure.kind), (3, "unsupported-url"));
        assert!(failure.message.contains("gopher://"), "{}", failure.message);
        let remote = parsed("root://host//data.root:Events");
        assert_eq!(
            remote,
            ("root://host//data.root".into(), Some("Events".into()))
        );
    }

    #[test]
    fn a_name_stands_in_front_of_what_is_for_the_server_which_nobody_sees() {
        // `fb info 'http://h/a.root:E?s=1'` asked the server for `a.root?s=1:E`
        for (text, file, name, shown) in [
            (
                "http://me:s@h/a.root:E?s=1",
                "http://me:s@h/a.root?s=1",
                Some("E"),
                "http://me@h/a.root:E",
            ),
            (
                "https://h/a:b?s=1",
                "https://h/a?s=1",
                Some("b"),
                "https://h/a:b",
            ),
            (
                "root://h//a.root?s=x:y",
                "root://h//a.root?s=x:y",
                None,
                "root://h//a.root",
            ),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!((target.file.as_str(), target.name.as_deref()), (file, name));
            assert_eq!(
                (target.to_string().as_str(), target.whole().as_str()),
                (shown, text)
            );
        }
        let path = Target::parse("what?.root:E").unwrap();
        assert_eq!(path.to_string(), "what?.root:E");
        assert_eq!(path.whole(), "what?.root:E");
    }

    #[test]
    fn a_misspelt_file_has_a_neighbour() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("events.root"), "").unwrap();
        let file = folder
            .path()
            .join("event.root")
            .to_string_lossy()
            .into_owned();
        let similar = Target { file, name: None }.similar_file().unwrap();
        assert!(similar.ends_with("/events.root"), "{similar}");
        // of two short names with the same ending, one is not the other misspelt
        std::fs::write(folder.path().join("big.root"), "").unwrap();
        let similar = |name: &str| {
            let file = folder.path().join(name).to_string_lossy().into_owned();
            Target { file, name: None }.similar_file()
        };
        assert_eq!(similar("nix.root"), None);
        assert!(similar("bog.root").is_some() && similar("big.rot").is_some());
    }
}
