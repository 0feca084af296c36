//! Hints for products that do not exist.

use std::collections::BTreeSet;

use femtobarn_rntuple::schema::DType;

use crate::transfer::{joined, quoted};

/// Maximum number of names in a message.
const SHOWN: usize = 5;

/// A hint for a missing product: other types, or similar labels. `who` is subject and verb ("it has", "they have");
/// `names` are the labels and types of the existing products.
pub fn hint(
    who: &str,
    label: &str,
    type_name: Option<&str>,
    names: &BTreeSet<(String, String)>,
) -> String {
    let more = |n: usize| if n > SHOWN { ", …" } else { "" };
    let same: Vec<&str> = names
        .iter()
        .filter(|(own, _)| own == label)
        .map(|(_, kind)| kind.as_str())
        .collect();
    if let (Some(first), Some(_)) = (same.first(), type_name) {
        let shown: Vec<&str> = same.iter().copied().take(SHOWN).collect();
        let own = quoted(label);
        return format!(
            "{who} {own} as {}{}: ask for ({own}, {})",
            shown.join(", "),
            more(same.len()),
            quoted(first)
        );
    }
    let shown = names
        .iter()
        .take(SHOWN)
        .map(|(name, kind)| format!("{} ({kind})", quoted(name)));
    let shown = match names.is_empty() {
        true => "none".to_owned(),
        false => format!("{}{}", joined(shown), more(names.len())),
    };
    let labels: BTreeSet<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    let near = femtobarn_io::nearest(label, labels);
    let near: Vec<String> = near.iter().take(3).map(|name| quoted(name)).collect();
    let meant = match near.is_empty() {
        true => String::new(),
        false => format!("did you mean {}? ", near.join(" or ")),
    };
    format!("{meant}{who} {shown}")
}

/// Whether hepnos.hpp may store values of a type with Boost: all except numbers and vectors of numbers.
pub fn may_be_of_boost(type_name: &str) -> bool {
    let item = type_name.strip_prefix("std::vector<").unwrap_or(type_name);
    let item = item.strip_suffix('>').unwrap_or(item);
    !DType::ALL.iter().any(|number| number.type_name() == item)
}
