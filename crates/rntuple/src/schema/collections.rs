//! Numbered collections: ROOT's importer calls the collections of a file `_collection0`, `_collection1` and so on, and
//! projects named fields from them (`nMuon`, `Muon_pt`). Two files can give one number to different collections, so that
//! only the names of the projected fields tell which collections are the same.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;

/// The beginning of the names of numbered collections.
pub(crate) const NUMBERED: &str = "_collection";

/// Pairs the numbered collections of two ntuples, given by their projected fields. A collection of `theirs` is paired with
/// the collection of `ours` that has the most projected fields of the same names. No collection is paired twice. Returns
/// the collections of `ours` by those of `theirs`.
pub fn same_collections<'a, K: Copy + Ord + Hash>(
    ours: impl Iterator<Item = (&'a str, K)>,
    theirs: impl Iterator<Item = (&'a str, K)>,
) -> HashMap<K, K> {
    let ours: HashMap<&str, K> = ours.collect();
    let mut n_common: HashMap<(K, K), usize> = HashMap::new();
    for (name, their) in theirs {
        if let Some(&own) = ours.get(name) {
            *n_common.entry((their, own)).or_default() += 1;
        }
    }
    let mut pairs: Vec<((K, K), usize)> = n_common.into_iter().collect();
    pairs.sort_unstable_by_key(|&(pair, n)| (Reverse(n), pair));
    let (mut out, mut given) = (HashMap::new(), HashSet::new());
    for ((their, own), _) in pairs {
        if !out.contains_key(&their) && given.insert(own) {
            out.insert(their, own);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collections_are_the_same_if_most_of_their_fields_are() {
        let ours = [("nMuon", 7), ("Muon_pt", 7), ("nJet", 8), ("Jet_pt", 8)];
        let theirs = [
            ("nTau", 3),
            ("Tau_pt", 3),
            ("nMuon", 4),
            ("Muon_eta", 4),
            ("Jet_pt", 5),
            ("nJet", 6),
            ("Muon_pt", 4),
        ];
        let found = same_collections(ours.into_iter(), theirs.into_iter());
        // of two that could be Jet, the first is it
        assert_eq!(found, HashMap::from([(4, 7), (5, 8)]));
    }
}
