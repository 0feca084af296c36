//! Names of fields, derived from names of branches and columns.

/// The name of a branch or a column without dimensions, and without what ROOT does not take in names of fields.
pub(super) fn plain_name(branch: &str) -> String {
    let name = branch.trim_end_matches('.').split('[').next();
    let is_bad =
        |c: char| matches!(c, '.' | '/' | '\\' | '"') || c.is_control() || c.is_whitespace();
    let plain: String = name
        .unwrap_or(branch)
        .chars()
        .map(|c| if is_bad(c) { '_' } else { c })
        .collect();
    if plain.is_empty() {
        "_".to_owned()
    } else {
        plain
    }
}

/// The name of a tree without characters that ntuple names cannot have; a slash separates directories.
pub(super) fn plain_ntuple_name(tree: &str) -> String {
    let is_bad = |c: char| matches!(c, '.' | '\\' | ' ') || c.is_ascii_control();
    let plain = tree.chars().map(|c| if is_bad(c) { '_' } else { c });
    plain.collect()
}

/// What names have in common, up to an underscore.
pub(super) fn common_beginning<'n>(names: &[&'n str]) -> &'n str {
    let Some((first, rest)) = names.split_first() else {
        return "";
    };
    let mut cut = first.len();
    for name in rest {
        let same = first
            .bytes()
            .zip(name.bytes())
            .take_while(|(a, b)| a == b)
            .count();
        cut = cut.min(same);
    }
    let common = first.get(..cut).unwrap_or_default();
    let end = common.rfind('_').map_or(0, |at| at + 1);
    let prefix = first.get(..end).unwrap_or_default();
    // something must be left of each name
    if names.iter().any(|name| name.len() == prefix.len()) {
        ""
    } else {
        prefix
    }
}
