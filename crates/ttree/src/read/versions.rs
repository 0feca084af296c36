//! The class versions of objects.

use femtobarn_rootfile::MEMBER_WISE;

use super::op::Op;
use crate::TreeError;
use crate::cursor::Cursor;
use crate::interp::RecordWire;

/// Whether the next header is that of an object that fills the entry, rather than that of its first member. A single
/// member fills the entry as well.
pub(super) fn is_own_header(c: &Cursor<'_>, first: Option<&Op>) -> bool {
    let mut ahead = c.clone();
    let mut has_end = || {
        let header = ahead.header("object").ok()?;
        if header.version == 0 {
            ahead.skip(4, "checksum of a class").ok()?;
        }
        header.end
    };
    has_end() == Some(c.end())
        && (!first.is_some_and(Op::begins_with_header) || has_end().is_some())
}

/// Reads the version of the items' class before items that are stored member-wise.
pub(super) fn class_version(item: &Op, version: u16, c: &mut Cursor<'_>) -> Result<(), TreeError> {
    // older versions have none
    if version < 9 {
        return Ok(());
    }
    let found = c.u16("version of a class")?;
    match version_of(item, found, c)? {
        None => Ok(()),
        Some(_) => Err(TreeError::Unsupported(
            "member-wise objects of several class versions".into(),
        )),
    }
}

/// Determines the version of an object: none for the presented one, or the index among the others.
pub(super) fn version_of(
    record: &Op,
    found: u16,
    c: &mut Cursor<'_>,
) -> Result<Option<usize>, TreeError> {
    let checksum_found = match found {
        0 => Some(c.u32("checksum of a class")?),
        _ => None,
    };
    let Op::Record {
        wire: RecordWire::Headed { version, checksum } | RecordWire::Maybe { version, checksum },
        name,
        others,
        described,
        ..
    } = record
    else {
        return Ok(None);
    };
    if found & MEMBER_WISE != 0 {
        return Err(TreeError::Undescribed(format!(
            "member-wise objects of class {name}"
        )));
    }
    // classes without a version have a checksum instead
    let is_it = |version: i32, checksum: u32| match checksum_found {
        Some(found) => found == checksum,
        None => i32::from(found) == version,
    };
    if is_it(*version, *checksum) || (checksum_found.is_some() && *checksum == 0) {
        return Ok(None);
    }
    let other = others
        .iter()
        .position(|other| is_it(other.version, other.checksum));
    if other.is_some() {
        return Ok(other);
    }
    let (found, expected) = match checksum_found {
        Some(found) => (format!("{found:#x}"), format!("checksum {checksum:#x}")),
        None => (found.to_string(), version.to_string()),
    };
    if described
        .iter()
        .any(|&(version, checksum)| is_it(version, checksum))
    {
        return Err(TreeError::Unsupported(format!(
            "an object of version {found} of {name} where version {expected} is expected, which is not supported"
        )));
    }
    Err(TreeError::Undescribed(format!(
        "an object of version {found} of {name}, but the file only describes version {expected}"
    )))
}
