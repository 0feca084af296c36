//! Where ntuples are written: the URL of an output, and the names that they get there.

use std::collections::HashSet;
use std::path::Path;

use femtobarn_io::{IoError, encoded, is_daos, is_foreign, is_object_set, is_remote, public};
use femtobarn_rntuple::RNTupleError;

use crate::convert::Format;
use crate::copy::{file_of, is_folder_name};
use crate::inputs::Input;
use crate::open::is_one_ntuple;
use crate::url::split_remote;

/// The names that ntuples get in an output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Naming {
    /// Their paths in the inputs.
    #[default]
    Paths,
    /// The last parts of these: containers have no directories.
    Leaves,
    /// There is one ntuple, with this name or else the last part of its path.
    One(Option<String>),
}

impl Naming {
    /// The name in the output of an ntuple with a path in an input.
    pub(crate) fn name_of<'p>(&'p self, path: &'p str) -> &'p str {
        match self {
            Self::Paths => path,
            Self::One(Some(name)) => name,
            Self::Leaves | Self::One(None) => path.rsplit('/').next().unwrap_or(path),
        }
    }

    /// Checks that a name which is given apart from the URL is not another one than that of the URL.
    ///
    /// # Errors
    /// If it is.
    pub fn check_given(&self, given: &str) -> Result<(), RNTupleError> {
        match self {
            Self::One(Some(own)) if own != given => Err(RNTupleError::Usage {
                what: format!(
                    "the output has the name {own:?} at its end, and another one is given ({given:?}): leave one out"
                ),
            }),
            _ => Ok(()),
        }
    }

    /// Checks that these ntuples can be in one output. `more` is advice for objects.
    ///
    /// # Errors
    /// If they cannot.
    pub(crate) fn check(&self, paths: &[&str], more: &str) -> Result<(), RNTupleError> {
        let n = paths.len();
        let what = match self {
            Self::One(Some(name)) if n > 1 => {
                format!("{n} ntuples cannot have the same name {name:?}: name one, as FILE:NAME")
            }
            Self::One(None) if n > 1 => format!(
                "objects hold one ntuple, but there are {n} ({}): name one, as FILE:NAME{more}",
                paths.join(", ")
            ),
            Self::Leaves => {
                let mut names = HashSet::new();
                let mut paths = paths.iter().map(|path| self.name_of(path));
                match paths.find(|name| !names.insert(*name)) {
                    None => return Ok(()),
                    Some(name) => format!(
                        "two ntuples would get the name {name:?} in the container: name one, as FILE:NAME, and give it \
                         another name by the destination, as daos://POOL/CONTAINER:NAME"
                    ),
                }
            }
            Self::Paths | Self::One(_) => return Ok(()),
        };
        Err(RNTupleError::Usage { what })
    }
}

/// An output.
#[derive(Debug, Clone)]
pub struct Destination {
    /// Its path or URL, without the name of an ntuple.
    pub url: String,
    /// The names of its ntuples.
    pub naming: Naming,
}

impl Destination {
    /// Splits `URL:NAME`, if the URL is that of objects or of a container of DAOS. Files hold several ntuples, which get their
    /// names in other ways.
    ///
    /// # Errors
    /// If its scheme is unknown, or it is a directory of objects.
    pub fn parse(text: &str) -> Result<Self, RNTupleError> {
        let (url, name) = Self::split(text)?;
        if is_folder_name(&url) && is_object_set(&url) && !is_daos(&url) {
            let shown = public(&url);
            let what = format!(
                "{shown} is a directory: give the URL of an ntuple in it, as {shown}Events"
            );
            return Err(RNTupleError::Usage { what });
        }
        let naming = match (name, is_object_set(&url)) {
            (None, false) => Naming::Paths,
            (None, true) if is_daos(&url) => Naming::Leaves,
            (name, _) => Naming::One(name),
        };
        Ok(Self { url, naming })
    }

    /// The URL, and the name that follows it.
    ///
    /// # Errors
    /// If its scheme is unknown.
    pub fn split(text: &str) -> Result<(String, Option<String>), RNTupleError> {
        if is_foreign(text) {
            let url = public(text);
            return Err(IoError::UnknownScheme { url }.into());
        }
        Ok(match is_object_set(text) {
            true => {
                let (url, name) = split_remote(text);
                (url, name.map(str::to_owned))
            }
            false => (text.to_owned(), None),
        })
    }

    /// The name that the URL gives to its ntuple.
    pub fn name(&self) -> Option<&str> {
        match &self.naming {
            Naming::One(name) => name.as_deref(),
            Naming::Paths | Naming::Leaves => None,
        }
    }
}

/// The URL of a directory of objects, or of a container, that gets an output for each ntuple.
///
/// # Errors
/// If it cannot be one.
pub(crate) fn folder_of(text: &str) -> Result<String, RNTupleError> {
    match Destination::split(text)? {
        (url, None) => Ok(url),
        (_, Some(_)) => Err(RNTupleError::Usage {
            what: format!(
                "{} has a colon, which precedes the name of an ntuple: write it as %3A",
                public(text)
            ),
        }),
    }
}

/// The names of outputs in a directory, without endings: those of the files. Of several ntuples in objects, which often have
/// the same name, the paths below what their URLs have in common.
pub(crate) fn stems(inputs: &[Input]) -> Vec<String> {
    let urls: Vec<String> = inputs.iter().map(Input::shown).collect();
    let urls: Vec<Vec<&str>> = urls
        .iter()
        .map(|url| url.trim_end_matches('/').split('/').collect())
        .collect();
    let mut objects = inputs.iter().zip(&urls);
    let mut objects = objects
        .by_ref()
        .filter(|(input, _)| is_one_ntuple(&input.url));
    let first = objects.next().map_or(&[][..], |(_, url)| url.as_slice());
    let common = objects.fold(first.len(), |common, (_, url)| {
        let same = first.iter().zip(url).take(common);
        same.take_while(|(one, other)| one == other).count()
    });
    let stem = |(input, url): (&Input, &Vec<&str>)| {
        if is_one_ntuple(&input.url) {
            let own = url.get(common.min(url.len().saturating_sub(1))..);
            return own.unwrap_or_default().join("/");
        }
        let name = url.last().copied().unwrap_or_default();
        let stem = match Format::of(Path::new(name)) {
            Format::Root => name.strip_suffix(".root"),
            _ => name.rsplit_once('.').map(|(stem, _)| stem),
        };
        stem.unwrap_or(name).to_owned()
    };
    inputs.iter().zip(&urls).map(stem).collect()
}

/// The output for an ntuple in such a directory or container: below it by its path, and with several inputs the stem of its
/// input before. Tables and ntuples in objects have no path, and get the stem.
///
/// # Errors
/// If the path cannot be part of a URL.
pub(crate) fn ntuple_of(
    folder: &str,
    (input, stem): (&Input, &str),
    path: Option<&str>,
    are_several: bool,
) -> Result<String, RNTupleError> {
    let url = input.shown();
    if is_daos(folder) {
        let stem = stem.replace('/', "_");
        let container = folder.trim_end_matches('/');
        let leaf = path.map(|path| Naming::Leaves.name_of(path));
        return Ok(match leaf {
            None => format!("{container}:{stem}"),
            Some(leaf) if are_several => format!("{container}:{stem}_{leaf}"),
            Some(leaf) => format!("{container}:{leaf}"),
        });
    }
    let stem = match is_remote(&url) {
        true => stem.to_owned(),
        false => encoded(stem),
    };
    let Some(path) = path else {
        return Ok(file_of(folder, &stem));
    };
    if path.split('/').any(|part| part == "." || part == "..") {
        return Err(RNTupleError::Usage {
            what: format!(
                "{path:?} of {url} cannot be part of a URL: name the ntuple, and give a URL for it alone"
            ),
        });
    }
    let path = encoded(path);
    Ok(match are_several {
        true => file_of(folder, &format!("{stem}/{path}")),
        false => file_of(folder, &path),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_url_gives_the_name() {
        for (text, url, name) in [
            ("a/b.root", "a/b.root", "d/Events"),
            ("s3://b/a.root", "s3://b/a.root", "d/Events"),
            ("ntpl+s3://b/a", "ntpl+s3://b/a", "Events"),
            ("ntpl+s3://b/a:Muons", "ntpl+s3://b/a", "Muons"),
            ("ntpl+s3://b/a%3Ab", "ntpl+s3://b/a%3Ab", "Events"),
            ("ntpl+s3+http://h:9/b/a:M", "ntpl+s3+http://h:9/b/a", "M"),
            ("daos://p/c", "daos://p/c", "Events"),
            ("daos://p/c/", "daos://p/c/", "Events"),
            ("daos://p:1/c:M", "daos://p:1/c", "M"),
        ] {
            let found = Destination::parse(text).unwrap();
            let given = (found.url.as_str(), found.naming.name_of("d/Events"));
            assert_eq!(given, (url, name), "{text}");
        }
        for (text, kind) in [
            ("ntpl+s3://b/a/", "usage"),
            ("ntpl://b/a", "unsupported-url"),
            ("s3+ntpl://b/a", "unsupported-url"),
        ] {
            assert_eq!(Destination::parse(text).unwrap_err().kind(), kind, "{text}");
        }
    }

    #[test]
    fn two_ntuples_do_not_get_one_name() {
        let check = |text: &str, paths: &[&str]| {
            let found = Destination::parse(text).unwrap().naming;
            found.check(paths, "").is_ok()
        };
        assert!(check("a.root", &["d/E", "e/E"]));
        assert!(check("daos://p/c", &["d/E", "e/F"]) && !check("daos://p/c", &["d/E", "e/E"]));
        assert!(check("ntpl+s3://b/a", &["d/E"]) && !check("ntpl+s3://b/a", &["d/E", "F"]));
        assert!(!check("daos://p/c:N", &["d/E", "F"]));
    }
}
