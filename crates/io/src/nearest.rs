//! The names nearest to a misspelt one, for messages.

/// Suffix of a message about an unknown name: `; did you mean a, b?`, or nothing.
pub fn did_you_mean<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(name, names).as_slice() {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(", ")),
    }
}

/// The names nearest to a misspelt one, best first.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let limit = match name.chars().count() {
        0 | 1 => 0,
        2 | 3 => 1,
        n => (n / 3).max(2),
    };
    nearest_within(limit, name, names)
}

/// The names nearest to a misspelt one, best first, that differ from it in no more than `limit` characters.
pub fn nearest_within<'a>(
    limit: usize,
    name: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> Vec<String> {
    let wanted = name.to_lowercase();
    let mut found: Vec<(usize, &str)> = names
        .into_iter()
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&wanted, &candidate.to_lowercase()),
                candidate,
            )
        })
        .filter(|(distance, _)| *distance <= limit)
        .collect();
    found.sort_unstable();
    found
        .into_iter()
        .take(5)
        .map(|(_, candidate)| candidate.to_owned())
        .collect()
}
