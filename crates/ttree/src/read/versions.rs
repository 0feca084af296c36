//! Which version of their class objects are of.

use femtobarn_rootfile::MEMBER_WISE;

use super::op::Op;
use crate::TreeError;
use crate::cursor::Cursor;
use crate::interp::RecordWire;

/// Whether what comes is the header of an object that fills the entry, and not that of its first member, which fills it,
/// too, if it is the only one.
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

/// The version of the items' class, in front of items that are stored member by member.
pub(super) fn class_version(item: &Op, version: u16, c: &mut Cursor<'_>) -> Result<(), TreeError> {
    // older versions wrote none
    if version < 9 {
        return Ok(());
    }
    let found = c.u16("version of a class")?;
    match version_of(item, found, c)? {
        None => Ok(()),
        Some(_) => Err(TreeError::Unsupported(
            "objects of several versions of a class, stored member by member".into(),
        )),
    }
}

/// Which version of its class an object is of: none for the one that is shown, or the position among the others.
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
            "{name} stored member by member"
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
            "an object of version {found} of {name}, which is not read where version {expected} is expected"
        )));
    }
    Err(TreeError::Undescribed(format!(
        "an object of version {found} of {name}, where version {expected} is described"
    )))
}
