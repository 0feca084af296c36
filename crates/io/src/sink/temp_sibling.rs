//! Files with temporary names in the directory of their final names, renamed when they are complete.

use std::borrow::Cow;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::IoError;

/// The part of the temporary name between the final name and numbers.
const MARK: &str = ".partial-";

/// The longest file name, and the maximum length of the mark, the numbers and the dot.
const LONGEST: usize = 255;
const MOST_ADDED: usize = 1 + MARK.len() + 21;

/// A new file in the directory of its final name, as `.NAME.partial-PID-N`, until it [appears](Self::appear). If the
/// name would be too long, its end is replaced by a hash and its extension. Dropping it before removes it. The file of
/// a killed process is removed by the next process that writes a file with this name.
///
/// A lock (advisory, if the file system supports it) shows that it is still being written.
#[derive(Debug)]
pub struct TempSibling {
    url: String,
    path: PathBuf,
    wanted: PathBuf,
    file: File,
    replaces: bool,
    has_appeared: bool,
    /// Whether the file stays when this is dropped, although it has not appeared.
    is_kept: bool,
    /// The process that writes it; a forked child has a copy of this object.
    process: u32,
}

/// The names of a file to be written.
struct Place {
    url: String,
    /// The final path.
    wanted: PathBuf,
    /// The final name as the temporary one contains it.
    name: String,
}

impl Place {
    /// Checks a final name.
    fn of(path: &Path, replaces: bool) -> Result<Self, IoError> {
        let url = path.to_string_lossy().into_owned();
        if !replaces && fs::metadata(path).is_ok() {
            return Err(IoError::Exists { url });
        }
        if let Ok(there) = fs::metadata(path)
            && !there.is_file()
        {
            let found = if there.is_dir() {
                "a directory"
            } else {
                "something else"
            };
            return Err(IoError::NotAFile { url, found });
        }
        let name = path.file_name().map(|name| name.to_string_lossy());
        let name = name.as_deref().map(shortened).map(Cow::into_owned);
        let mut place = Self {
            url,
            wanted: path.to_owned(),
            name: name.unwrap_or_default(),
        };
        if place.name.is_empty() {
            return Err(place.failed(ErrorKind::InvalidFilename.into()));
        }
        place.wanted = followed(path).map_err(|error| place.refused(error))?;
        place.check_folder()?;
        check_free(&place.wanted, &place.url)?;
        Ok(place)
    }

    /// A name for data that are sent elsewhere.
    fn spooled(folder: &Path, name: &str) -> Result<Self, IoError> {
        let wanted = folder.join(name);
        let place = Self {
            url: wanted.to_string_lossy().into_owned(),
            wanted,
            name: shortened(name).into_owned(),
        };
        place.check_folder()?;
        Ok(place)
    }

    fn check_folder(&self) -> Result<(), IoError> {
        let folder = folder_of(&self.wanted);
        if folder.is_dir() {
            return Ok(());
        }
        let folder = folder.to_string_lossy().into_owned();
        let url = self.url.clone();
        Err(IoError::NoFolder { url, folder })
    }

    fn failed(&self, source: io::Error) -> IoError {
        let url = self.url.clone();
        IoError::Create { url, source }
    }

    /// The error if nothing can be created in the directory.
    fn refused(&self, source: io::Error) -> IoError {
        match source.kind() {
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
                let folder = folder_of(&self.wanted).to_string_lossy().into_owned();
                let url = self.url.clone();
                IoError::FolderReadOnly { url, folder }
            }
            _ => self.failed(source),
        }
    }

    /// Makes a locked file the one that is written. As if it had been overwritten, a replaced file's permissions are kept.
    fn sibling(self, path: PathBuf, file: File, replaces: bool) -> Result<TempSibling, IoError> {
        let replaced = replaces.then(|| fs::metadata(&self.wanted).ok()).flatten();
        let sibling = TempSibling {
            url: self.url.clone(),
            path,
            wanted: self.wanted.clone(),
            file,
            replaces,
            has_appeared: false,
            is_kept: false,
            process: std::process::id(),
        };
        if let Some(replaced) = replaced {
            let same = sibling.file.set_permissions(replaced.permissions());
            same.map_err(|error| self.failed(error))?;
        }
        Ok(sibling)
    }
}

impl TempSibling {
    /// Creates a file. With `replaces`, it may replace an existing file when it appears; otherwise an existing file is
    /// an error.
    ///
    /// A symbolic link is kept: its target is replaced. A dangling link is an error, as for `cp`: another user could
    /// have created it to choose the location of the file.
    ///
    /// # Errors
    /// If the file cannot be created in that directory, or the name exists and is not a file, or must not be replaced.
    pub fn create(path: &Path, replaces: bool) -> Result<Self, IoError> {
        let place = Place::of(path, replaces)?;
        removed(abandoned(folder_of(&place.wanted), |other| {
            other == place.name
        }));
        let made = new_file(&place.wanted, &place.name);
        let (path, file) = made.map_err(|error| place.refused(error))?;
        place.sibling(path, file, replaces)
    }

    /// Goes on with a file that a killed process has left for this name, if `is_own` recognizes it by its contents. It is
    /// not removed then.
    ///
    /// # Errors
    /// Those of [`create`](Self::create).
    pub fn resume(
        path: &Path,
        replaces: bool,
        is_own: &dyn Fn(&Path) -> bool,
    ) -> Result<Option<Self>, IoError> {
        let place = Place::of(path, replaces)?;
        let found = abandoned(folder_of(&place.wanted), |other| other == place.name)
            .find(|(path, _)| is_own(path));
        let resumed = found.map(|(path, file)| place.sibling(path, file, replaces));
        resumed.transpose()
    }

    /// Creates a file that never appears, for data that are sent elsewhere: in this directory, only readable by this
    /// user. It is removed when it is dropped. The file of a killed process is removed by the next process that uses
    /// this name.
    ///
    /// # Errors
    /// If the file cannot be created in that directory.
    pub fn spool(folder: &Path, name: &str) -> Result<Self, IoError> {
        let place = Place::spooled(folder, name)?;
        removed(abandoned(folder, |other| other == place.name));
        let made = new_file(&place.wanted, &place.name).and_then(|(path, file)| {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
            Ok((path, file))
        });
        let (path, file) = made.map_err(|error| place.failed(error))?;
        place.sibling(path, file, false)
    }

    /// Goes on with a file that a killed process has left, as [`resume`](Self::resume) does, for data that are sent
    /// elsewhere.
    ///
    /// # Errors
    /// If the directory does not exist.
    pub fn resume_spool(
        folder: &Path,
        name: &str,
        is_own: &dyn Fn(&Path) -> bool,
    ) -> Result<Option<Self>, IoError> {
        let place = Place::spooled(folder, name)?;
        let found = abandoned(folder, |other| other == place.name).find(|(path, _)| is_own(path));
        let resumed = found.map(|(path, file)| place.sibling(path, file, false));
        resumed.transpose()
    }

    /// The final name as given.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The path of the temporary file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, opened for writing.
    ///
    /// # Errors
    /// If the process has too many open files.
    pub fn file(&self) -> Result<File, IoError> {
        self.file.try_clone().map_err(|source| IoError::Create {
            url: self.url.clone(),
            source,
        })
    }

    /// Leaves the file when this is dropped, so that it can be [resumed](Self::resume).
    pub fn keep(&mut self) {
        self.is_kept = true;
    }

    /// Gives the file its final name. Written data must be synced before.
    ///
    /// # Errors
    /// If this fails, or the name exists and must not be replaced; then nothing has appeared.
    pub fn appear(&mut self) -> Result<(), IoError> {
        if self.has_appeared {
            return Ok(());
        }
        check_free(&self.wanted, &self.url)?;
        let named = if self.replaces {
            fs::rename(&self.path, &self.wanted)
        } else {
            name_new(&self.path, &self.wanted)
        };
        named.map_err(|source| {
            let url = self.url.clone();
            match source.kind() {
                ErrorKind::AlreadyExists if !self.replaces => IoError::Exists { url },
                _ => IoError::Create { url, source },
            }
        })?;
        self.has_appeared = true;
        // it is complete, so other writers need not wait any longer
        let _ = self.file.unlock();
        // makes the name durable, too; some file systems cannot sync a directory
        let _unsupported = File::open(folder_of(&self.wanted)).and_then(|folder| folder.sync_all());
        Ok(())
    }
}

impl Drop for TempSibling {
    fn drop(&mut self) {
        if !(self.has_appeared || self.is_kept) && self.process == std::process::id() {
            // no caller is left for the error
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// The final name of an incomplete file; other names are returned unchanged.
pub fn wanted_name(name: &str) -> &str {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let inner = name.strip_prefix('.').and_then(|rest| {
        let (inner, numbers) = rest.rsplit_once(MARK)?;
        let (process, number) = numbers.split_once('-')?;
        (is_number(process) && is_number(number)).then_some(inner)
    });
    inner.unwrap_or(name)
}

/// Refuses to replace a file to which another writer is appending: the appended data would be lost.
fn check_free(wanted: &Path, url: &str) -> Result<(), IoError> {
    let there = File::open(wanted);
    if there.is_ok_and(|there| matches!(there.try_lock_shared(), Err(TryLockError::WouldBlock))) {
        return Err(IoError::Busy {
            url: url.to_owned(),
        });
    }
    Ok(())
}

/// The final name as it appears in the temporary name: unchanged or, if it is too long, its beginning with a hash and
/// its extension. The result is always the same.
fn shortened(name: &str) -> Cow<'_, str> {
    let room = LONGEST - MOST_ADDED;
    if name.len() <= room {
        return name.into();
    }
    // FNV-1a
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
    let end = match extension.len() {
        1..=16 => format!("~{hash:016x}.{extension}"),
        _ => format!("~{hash:016x}"),
    };
    let start = name.floor_char_boundary(room - end.len());
    format!("{}{end}", name.get(..start).unwrap_or_default()).into()
}

/// Resolves symbolic links; returns the path itself if it does not exist.
fn followed(path: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => match fs::read_link(path) {
            Ok(leads) => Err(io::Error::new(
                ErrorKind::NotFound,
                format!(
                    "it is a symbolic link to {}, which does not exist: remove the link, or write to its target",
                    leads.display()
                ),
            )),
            Err(_) => Ok(path.to_owned()),
        },
        found => found,
    }
}

fn folder_of(path: &Path) -> &Path {
    let folder = path.parent();
    let named = folder.filter(|folder| !folder.as_os_str().is_empty());
    named.unwrap_or(Path::new("."))
}

/// Creates and locks a new file.
fn new_file(wanted: &Path, name: &str) -> io::Result<(PathBuf, File)> {
    static COUNTER: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = wanted.with_file_name(format!(".{name}{MARK}{process}-{number}"));
        let made = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path);
        let file = match made {
            // left by a process with the same number
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            made => made?,
        };
        // without locks, other processes cannot remove the file as abandoned, either
        let _ = file.lock();
        // another process may have removed it as abandoned before it was locked
        if file.metadata()?.nlink() > 0 {
            return Ok((path, file));
        }
    }
}

/// Finds incomplete files of dead processes in a directory, and removes them if told so; returns their names.
///
/// A writer holds a lock on its file. If the file system has no locks, nothing is removed.
///
/// # Errors
/// If the directory cannot be listed.
pub fn sweep(folder: &Path, removes: bool) -> Result<Vec<PathBuf>, IoError> {
    if let Err(error) = fs::read_dir(folder) {
        return Err(IoError::from_open(&folder.to_string_lossy(), error));
    }
    let found = abandoned(folder, |_| true);
    let mut found = match removes {
        true => removed(found),
        false => found.map(|(path, _)| path).collect(),
    };
    found.sort();
    Ok(found)
}

/// Removes files; returns the names of those that could be.
fn removed(files: impl Iterator<Item = (PathBuf, File)>) -> Vec<PathBuf> {
    let removed = files.filter(|(path, _)| fs::remove_file(path).is_ok());
    removed.map(|(path, _)| path).collect()
}

/// The incomplete files of dead processes for the names that a function selects, each opened and locked. Files that cannot
/// be checked are left out.
fn abandoned(
    folder: &Path,
    is_meant: impl Fn(&str) -> bool,
) -> impl Iterator<Item = (PathBuf, File)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let other = entry.file_name().to_string_lossy().into_owned();
        let wanted = wanted_name(&other);
        // links are not written files, and opening a pipe would wait
        if other == wanted || !is_meant(wanted) || !entry.file_type().ok()?.is_file() {
            return None;
        }
        let path = entry.path();
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let file = opened.or_else(|_| File::open(&path)).ok()?;
        file.try_lock().ok()?;
        let id = |found: fs::Metadata| (found.dev(), found.ino());
        let locked = file.metadata().map(id).ok()?;
        // it may have been renamed meanwhile
        let is_same = fs::metadata(&path).map(id).is_ok_and(|now| now == locked);
        is_same.then_some((path, file))
    })
}

/// Gives a file a free name; of several concurrent calls, one succeeds.
fn name_new(path: &Path, wanted: &Path) -> io::Result<()> {
    match fs::hard_link(path, wanted) {
        Ok(()) => {
            // both names exist if this fails
            let _ = fs::remove_file(path);
            return Ok(());
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
        // file systems without links
        Err(_) => {}
    }
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(wanted)?;
    fs::rename(path, wanted).inspect_err(|_| {
        let _ = fs::remove_file(wanted);
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn names_that_are_not_complete_yet_are_told_from_others() {
        for (name, wanted) in [
            (".a.root.partial-12-0", "a.root"),
            (".a.partial-1-2.partial-12-0", "a.partial-1-2"),
            ("a.root.partial-12-0", "a.root.partial-12-0"),
            (".a.root.partial-x-0", ".a.root.partial-x-0"),
            (".a.root.partial-1", ".a.root.partial-1"),
            ("a.root", "a.root"),
        ] {
            assert_eq!(wanted_name(name), wanted);
        }
    }

    #[test]
    fn what_nobody_writes_any_more_is_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in [".a.partial-1-7", ".b.partial-1-7", ".a.partial-x", "b"] {
            fs::write(at(name), "").unwrap();
        }
        let living = TempSibling::create(&at("a"), true).unwrap();
        let other = TempSibling::create(&at("a"), true).unwrap();
        assert!(!at(".a.partial-1-7").exists());
        assert!(living.path().exists() && other.path().exists());
        drop((living, other));
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, [".a.partial-x", ".b.partial-1-7", "b"]);
    }

    /// Regression: names of maximum length could not be written, because the temporary name was too long.
    #[test]
    fn the_longest_names_are_written_and_what_is_left_of_them_removed() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["n".repeat(250) + ".root", "ü".repeat(127), "n".repeat(225)] {
            let path = folder.path().join(&name);
            let mut sibling = TempSibling::create(&path, true).unwrap();
            let short = sibling
                .path()
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned();
            let extension = |name: &str| name.rsplit_once('.').map(|(_, found)| found.to_owned());
            assert_eq!(extension(wanted_name(&short)), extension(&name));
            sibling.appear().unwrap();
            assert!(path.is_file());
            // like those of a dead process
            let inner = wanted_name(&short);
            let left = folder
                .path()
                .join(format!(".{inner}{MARK}4294967295-4294967295"));
            fs::write(&left, "").unwrap();
            drop(TempSibling::create(&path, true).unwrap());
            assert!(!left.exists());
            assert!(path.is_file());
        }
        let other = folder.path().join("n".repeat(249) + "m.root");
        drop(TempSibling::create(&other, true).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn new_files_may_be_read_by_whom_any_new_file_may() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let mode = |name: &str| fs::metadata(at(name)).unwrap().permissions().mode();
        let make = |name: &str, replaces| {
            let mut sibling = TempSibling::create(&at(name), replaces).unwrap();
            sibling.appear().unwrap();
        };
        File::create(at("usual")).unwrap();
        for (name, replaces) in [("new", false), ("other", true)] {
            make(name, replaces);
            assert_eq!(mode(name), mode("usual"));
        }
        // a replaced file passes its permissions on
        fs::set_permissions(at("usual"), fs::Permissions::from_mode(0o640)).unwrap();
        make("usual", true);
        assert_eq!(mode("usual") & 0o777, 0o640);
    }

    #[test]
    fn what_a_killed_process_left_is_resumed_by_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        for (name, content) in [(".a.partial-1-7", "other"), (".a.partial-1-8", "own")] {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let is_own = |path: &Path| fs::read(path).unwrap() == b"own";
        let mut resumed = TempSibling::resume(&path, false, &is_own).unwrap().unwrap();
        resumed.file().unwrap().write_all(b"...").unwrap();
        assert!(
            TempSibling::resume(&path, false, &is_own)
                .unwrap()
                .is_none()
        );
        // one that failed is kept only if that is wanted
        resumed.keep();
        drop(resumed);
        let is_own = |path: &Path| fs::read(path).unwrap() == b"...";
        let mut again = TempSibling::resume(&path, false, &is_own).unwrap().unwrap();
        again.appear().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"...");
        assert!(folder.path().join(".a.partial-1-7").exists());
    }

    /// Regression: a file that another program had created meanwhile was replaced although `replaces` was false.
    #[test]
    fn what_another_made_in_the_meantime_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["file", "other"] {
            let mut sibling = TempSibling::create(&at(name), false).unwrap();
            fs::write(at(name), "another's").unwrap();
            assert!(matches!(sibling.appear(), Err(IoError::Exists { .. })));
            drop(sibling);
            assert_eq!(fs::read(at(name)).unwrap(), b"another's");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn links_are_followed_to_what_is_there_only() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("inner")).unwrap();
        std::os::unix::fs::symlink("inner/second", at("first")).unwrap();
        std::os::unix::fs::symlink("../target", at("inner/second")).unwrap();
        // another user may have created it to choose the location of the file
        for replaces in [false, true] {
            let lost = TempSibling::create(&at("first"), replaces).err().unwrap();
            let told = femtobarn_xrootd::with_causes(&lost);
            assert!(told.contains("symbolic link to inner/second"), "{told}");
            assert!(!at("target").exists());
        }
        fs::write(at("target"), "old").unwrap();
        assert!(matches!(
            TempSibling::create(&at("first"), false),
            Err(IoError::Exists { .. })
        ));
        let mut sibling = TempSibling::create(&at("first"), true).unwrap();
        sibling.file().unwrap().write_all(b"new").unwrap();
        sibling.appear().unwrap();
        assert!(at("first").is_symlink() && at("inner/second").is_symlink());
        assert_eq!(fs::read(at("target")).unwrap(), b"new");
        std::os::unix::fs::symlink("circle", at("circle")).unwrap();
        for replaces in [false, true] {
            assert!(matches!(
                TempSibling::create(&at("circle"), replaces),
                Err(IoError::Create { .. })
            ));
        }
    }

    #[test]
    fn a_sweep_removes_what_no_process_writes() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let kept = TempSibling::create(&at("kept"), true).unwrap();
        for name in [".a.partial-1-7", ".b.root.partial-2-0", ".c.partial-x", "d"] {
            fs::write(at(name), "left").unwrap();
        }
        std::os::unix::fs::symlink("d", at(".link.partial-1-0")).unwrap();
        fs::create_dir(at(".folder.partial-1-0")).unwrap();
        let expected = [at(".a.partial-1-7"), at(".b.root.partial-2-0")];
        assert_eq!(sweep(folder.path(), false).unwrap(), expected);
        assert_eq!(sweep(folder.path(), true).unwrap(), expected);
        let mut left: Vec<_> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        left.sort();
        let mut expected = [
            at(".c.partial-x"),
            at(".folder.partial-1-0"),
            at(".link.partial-1-0"),
            at("d"),
            kept.path().to_owned(),
        ];
        expected.sort();
        assert_eq!(left, expected);
        assert!(sweep(&at("missing"), true).is_err());
    }

    #[test]
    fn of_two_that_make_a_new_file_one_wins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        let mut both = [
            TempSibling::create(&path, false).unwrap(),
            TempSibling::create(&path, false).unwrap(),
        ];
        assert!(both[1].appear().is_ok());
        assert!(matches!(both[0].appear(), Err(IoError::Exists { .. })));
        assert!(matches!(
            TempSibling::create(&path, false),
            Err(IoError::Exists { .. })
        ));
        drop(both);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
