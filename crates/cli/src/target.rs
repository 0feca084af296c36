//! Suggestions for misspelt file names.

use std::path::Path;

use femtobarn::Target;
use femtobarn::io::{is_remote, nearest_within};

/// Whether the file exists; files on servers are not checked.
pub fn exists(target: &Target) -> bool {
    is_remote(&target.file) || Path::new(&target.file).exists()
}

/// A file in the same directory with a similar name and a supported format.
pub fn similar_file(target: &Target) -> Option<String> {
    let path = Path::new(&target.file);
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
    // the ending, which all names share, does not make them similar
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_file_has_a_neighbour() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("events.root"), "").unwrap();
        let file = folder
            .path()
            .join("event.root")
            .to_string_lossy()
            .into_owned();
        let similar = similar_file(&Target { file, name: None }).unwrap();
        assert!(similar.ends_with("/events.root"), "{similar}");
        // of two short names with the same ending, one is not the other misspelt
        std::fs::write(folder.path().join("big.root"), "").unwrap();
        let similar = |name: &str| {
            let file = folder.path().join(name).to_string_lossy().into_owned();
            similar_file(&Target { file, name: None })
        };
        assert_eq!(similar("nix.root"), None);
        assert!(similar("bog.root").is_some() && similar("big.rot").is_some());
    }
}
