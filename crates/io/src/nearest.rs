//! Suggests similar names for misspelt ones.

/// Suffix of a message about an unknown name: `; did you mean a, b?`, or nothing.
pub fn did_you_mean<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<&str> = names.into_iter().collect();
    let mut near = nearest(name, names.iter().copied());
    if near.is_empty() {
        near = continued(name, names);
    }
    match near.as_slice() {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(", ")),
    }
}

/// Names that begin with a name and a separator, as `MET_pt` with `MET`: the shortest first.
fn continued(name: &str, mut names: Vec<&str>) -> Vec<String> {
    let prefix = name.to_lowercase();
    names.retain(|candidate| {
        let candidate = candidate.to_lowercase();
        let rest = candidate.strip_prefix(&prefix);
        !prefix.is_empty() && rest.is_some_and(|rest| rest.starts_with(['_', '.']))
    });
    names.sort_by_key(|name| (name.len(), *name));
    names.iter().take(5).map(|&name| name.to_owned()).collect()
}

/// The names most similar to a misspelt one, best first.
pub fn nearest<'a>(name: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let limit = match name.chars().count() {
        0 | 1 => 0,
        2 | 3 => 1,
        n => (n / 3).max(2),
    };
    nearest_within(limit, name, names)
}

/// The names most similar to a misspelt one that differ in at most `limit` characters, best first.
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

/// The most similar paths without a minimum similarity: compares the whole and the last part, ignoring case.
pub fn most_alike(
    path: &str,
    paths: impl IntoIterator<Item = String>,
    n_paths: usize,
) -> Vec<String> {
    let wanted = path.to_lowercase();
    let paths = paths.into_iter();
    let mut scored: Vec<(f64, String)> = paths
        .map(|path| (resemblance(&wanted, &path.to_lowercase()), path))
        .collect();
    scored.sort_by(|one, two| two.0.total_cmp(&one.0));
    let best = scored.into_iter().take(n_paths);
    best.map(|(_, path)| path).collect()
}

fn resemblance(wanted: &str, path: &str) -> f64 {
    let last = |path: &str| path.rsplit('/').next().map_or(String::new(), str::to_owned);
    let whole = strsim::normalized_damerau_levenshtein(wanted, path);
    let part = strsim::normalized_damerau_levenshtein(&last(wanted), &last(path));
    // for equal last parts, the whole decides
    whole.max(part * 0.9 + whole * 0.1)
}
