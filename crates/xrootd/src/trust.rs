//! Checks who could have written files that decide what is done in the user's name.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, open};
use rustix::io::Errno;

/// Opens a file that runs as code or holds an identity. It must be a regular file of this user or of root that nobody
/// else can write. The open file is checked, so that nobody can replace it in between. Links are not followed.
///
/// # Errors
/// If it is not such a file (the message belongs after the file's name), or cannot be opened.
pub fn open_own(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file: File = match open(path, flags, Mode::empty()) {
        Err(Errno::LOOP) => {
            return Err(refused(
                "it is a symbolic link: use the path of its target".to_owned(),
            ));
        }
        opened => opened?.into(),
    };
    let stat = fstat(&file)?;
    let own = rustix::process::geteuid().as_raw();
    let checked = regular(&stat).and_then(|()| foreign(&stat, own));
    refuse_unless(checked.and_then(|()| writers(&stat)))?;
    Ok(file)
}

/// Reads a file that no other user can write, for example a file of settings.
///
/// # Errors
/// If other users can write it (the message belongs after the file's name), or it cannot be read.
pub fn read_unwritable(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    refuse_unless(writers(&fstat(&file)?))?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

fn refuse_unless(checked: Result<(), String>) -> io::Result<()> {
    checked.map_err(refused)
}

fn refused(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

fn regular(stat: &Stat) -> Result<(), String> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        _ => Err("it is not a regular file: use another path".to_owned()),
    }
}

fn foreign(stat: &Stat, own: u32) -> Result<(), String> {
    match stat.st_uid == own || stat.st_uid == 0 {
        true => Ok(()),
        false => Err(format!(
            "the file belongs to user {}, not to you (user {own}): remove it, or use another path",
            stat.st_uid
        )),
    }
}

fn writers(stat: &Stat) -> Result<(), String> {
    // devices like /dev/null and pipes are what the user named
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(());
    }
    // a group with the same number as the owner is the owner's private group
    let others = match stat.st_gid == stat.st_uid {
        true => 0o002,
        false => 0o022,
    };
    match stat.st_mode & others {
        0 => Ok(()),
        _ => Err(format!(
            "other users can write to it (mode {:04o}): check its content, then run chmod go-w",
            stat.st_mode & 0o7777
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path, mode: u32) {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn files_that_others_can_write_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "x").unwrap();
        for (allowed, is_good) in [(0o600, true), (0o644, true), (0o666, false), (0o602, false)] {
            mode(&path, allowed);
            assert_eq!(read_unwritable(&path).is_ok(), is_good, "{allowed:o}");
        }
        let error = read_unwritable(&path).unwrap_err().to_string();
        assert!(
            error.contains("(mode 0602)") && error.contains("chmod go-w"),
            "{error}"
        );
        assert!(open_own(&path).is_err());
        mode(&path, 0o644);
        open_own(&path).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let said = |path: &Path| open_own(path).unwrap_err().to_string();
        assert!(said(&link).contains("symbolic link"));
        assert!(said(folder.path()).contains("regular file"));
        assert_eq!(read_unwritable(Path::new("/dev/null")).unwrap(), "");
    }

    #[test]
    fn a_group_counts_unless_it_is_the_owners_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        std::fs::write(&path, "x").unwrap();
        mode(&path, 0o664);
        let mut stat = fstat(File::open(&path).unwrap()).unwrap();
        (stat.st_uid, stat.st_gid) = (1000, 1000);
        assert_eq!(writers(&stat), Ok(()));
        stat.st_gid = 1399;
        assert!(writers(&stat).is_err());
        assert!(foreign(&stat, 1000).is_ok());
        assert!(
            foreign(&stat, 1001)
                .unwrap_err()
                .contains("belongs to user 1000")
        );
        stat.st_uid = 0;
        assert!(foreign(&stat, 1001).is_ok());
    }
}
