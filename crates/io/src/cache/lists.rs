//! Lists of servers' directories, for a time to live.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::about::{nanoseconds, quoted};
use super::room::{LISTS, age};
use super::segment::{make_folder, name, new_file};
use super::writer_id::random;
use super::{CacheFolder, about, endpoint, lasting};
use crate::settings::comparable;
use crate::{IoError, RemoteEntry, Settings, public};

/// The list of a directory: one that is not older than the setting `cache_list_ttl` says, or a new one by `list`.
pub(crate) fn listed(
    url: &str,
    settings: &Settings,
    list: impl FnOnce() -> Result<Vec<RemoteEntry>, IoError>,
) -> Result<Vec<RemoteEntry>, IoError> {
    let lasts = lasting(settings)?;
    let folder = CacheFolder::of(settings)?.filter(|_| !lasts.is_zero());
    let Some(folder) = folder else {
        return list();
    };
    let key = comparable(&public(url)) + &endpoint(url, settings)?;
    let path = folder.path.join(LISTS).join(about::hashed(&key));
    if let Some(found) = read(&path, &key, lasts) {
        return Ok(found);
    }
    let found = list()?;
    // without it, the server is asked again
    let _ = write(&path, &key, &found);
    Ok(found)
}

/// Whether a file was written within this time, by the clock of this machine.
pub(super) fn is_younger(path: &Path, lasts: Duration) -> bool {
    age(path).is_some_and(|age| age < lasts)
}

fn read(path: &PathBuf, key: &str, lasts: Duration) -> Option<Vec<RemoteEntry>> {
    if !is_younger(path, lasts) {
        return None;
    }
    let table: toml::Table = fs::read_to_string(path).ok()?.parse().ok()?;
    if table.get("key")?.as_str() != Some(key) {
        return None;
    }
    let entries = match table.get("entry") {
        Some(entries) => entries.as_array()?.as_slice(),
        None => &[],
    };
    entries.iter().map(parse).collect()
}

fn parse(entry: &toml::Value) -> Option<RemoteEntry> {
    let number = |name: &str| u64::try_from(entry.get(name)?.as_integer()?).ok();
    Some(RemoteEntry {
        name: entry.get("name")?.as_str()?.to_owned(),
        is_folder: entry.get("is_directory")?.as_bool()?,
        size: number("size"),
        modified: number("modified")
            .and_then(|time| UNIX_EPOCH.checked_add(Duration::from_nanos(time))),
    })
}

fn write(path: &Path, key: &str, entries: &[RemoteEntry]) -> std::io::Result<()> {
    let mut text = format!("key = {}\n", quoted(key));
    for entry in entries {
        let (name, is_folder) = (quoted(&entry.name), entry.is_folder);
        let _ = write!(
            text,
            "[[entry]]\nname = {name}\nis_directory = {is_folder}\n"
        );
        if let Some(size) = entry.size {
            let _ = writeln!(text, "size = {size}");
        }
        if let Some(time) = nanoseconds(entry.modified) {
            let _ = writeln!(text, "modified = {time}");
        }
    }
    let part = path.with_file_name(format!("{}.part", name(random())));
    make_folder(path.parent().unwrap_or(path))?;
    let mut file = new_file().open(&part)?;
    let written = file
        .write_all(text.as_bytes())
        .and_then(|()| file.set_modified(SystemTime::now()))
        .and_then(|()| fs::rename(&part, path));
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn lists_are_read_again_when_they_are_too_old() {
        let folder = tempfile::tempdir().unwrap();
        let entries = [("a\"\\b\n", true, None), ("ü.root", false, Some(7))];
        let entries = entries.map(|(name, is_folder, size)| RemoteEntry {
            name: name.to_owned(),
            is_folder,
            size,
            modified: size.map(|_| UNIX_EPOCH + Duration::from_nanos(1_234_567_890_123_456_789)),
        });
        let asked = Cell::new(0);
        let list = |url: &str, lasts: &str| {
            let cache = folder.path().join("c").to_string_lossy().into_owned();
            let given = [("cache", cache.as_str()), ("cache_list_ttl", lasts)];
            let settings = Settings::with(url, &given).unwrap();
            let ask = || {
                asked.set(asked.get() + 1);
                Ok(entries.to_vec())
            };
            assert_eq!(listed(url, &settings, ask).unwrap(), entries);
            asked.get()
        };
        let url = "https://h/d/?token=secret";
        assert_eq!(
            [
                list(url, "60"),
                list(url, "60"),
                list("https://H:443/d/", "60")
            ],
            [1; 3]
        );
        assert_eq!(
            [list("https://h/e/", "60"), list(url, "0"), list(url, "60")],
            [2, 3, 3]
        );
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(list(url, "0.01"), 4);
        // what is none is asked for
        for path in fs::read_dir(folder.path().join("c/lists")).unwrap() {
            fs::write(path.unwrap().path(), "\0").unwrap();
        }
        assert_eq!(list(url, "60"), 5);
    }
}
