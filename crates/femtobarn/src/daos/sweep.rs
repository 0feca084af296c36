//! Removing the values of ntuples: of replaced ones, and what killed writers have left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use femtobarn_daos::mapping::{DaosAnchor, LISTS, ntuple_index};
use femtobarn_daos::{
    Address, Container, DaosError, NTupleValues, ObjectClass, names, names_and_classes, remove_name,
};
use femtobarn_io::{IoError, Settings};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::write::ObjectsLeft;
use femtobarn_rootfile::RootFileError;

use super::claims::{Claim, is_claim, now, remove_values};
use super::source::{number_of, open_values, owner_of, set_base, set_name};
use super::writing::{BLOCK, behind, claims, existing, preview_name};
use super::{requests_by, unopened, unread, unwritten};

/// The values of an existing ntuple.
#[derive(Debug)]
pub(super) struct Old {
    values: NTupleValues,
    /// Numbers of pages and page lists, and of claims.
    numbers: Vec<u64>,
    /// Attribute sets, by the names of their ntuples.
    sets: Vec<(String, Old)>,
}

impl Old {
    /// Of an ntuple, by its page lists.
    pub fn of(
        values: NTupleValues,
        anchor: &DaosAnchor,
        reader: &Reader,
    ) -> Result<Self, RNTupleError> {
        let mut numbers = BTreeSet::new();
        for (_, list) in reader.page_lists(0..reader.n_entries())? {
            let pages = list.all_pages().iter();
            numbers.extend(pages.filter_map(|page| number_of(page.body.address)));
        }
        let lists = reader.descriptor().cluster_groups.iter();
        numbers.extend(lists.filter_map(|group| number_of(group.page_list.stored.address)));
        let mut numbers: Vec<u64> = numbers.into_iter().collect();
        let block = anchor.spliced.map(|own| u64::from(own.block));
        if let Some(block) = block {
            numbers.push(block);
            let claims = claims(&numbers);
            numbers.pop();
            numbers.extend(claims);
        }
        let mut sets = Vec::new();
        for link in &reader.descriptor().attribute_sets {
            let set = reader.attribute_set(link)?;
            let base = set_base(&link.name);
            let name = set_name(values.places().values, block.unwrap_or(0), &base);
            let found = NTupleValues::find(values.container().clone(), &name);
            let found = found.map_err(|error| unread(reader.url(), error))?;
            if let Some((values, anchor)) = found {
                sets.push((name, Self::of(values, &anchor, &set)?));
            }
        }
        Ok(Self {
            values,
            numbers,
            sets,
        })
    }

    pub fn numbers(&self) -> &[u64] {
        &self.numbers
    }

    /// Adds its values, and those of attribute sets.
    fn add_to(&self, name: &str, all: &mut ObjectsLeft) -> Result<(), DaosError> {
        let sizes = self.values.sizes(&self.numbers)?;
        all.bytes += sizes.into_iter().flatten().sum::<u64>();
        let numbers = self.numbers.iter();
        all.names
            .extend(numbers.map(|number| format!("{name}: {number}")));
        let mut sets = self.sets.iter();
        sets.try_for_each(|(name, set)| set.add_to(name, all))
    }

    /// Removes the values, but not header, footer and anchor, which another ntuple has by now.
    pub fn remove(&self) -> Result<(), DaosError> {
        for (name, set) in &self.sets {
            set.values.remove_envelopes()?;
            set.remove()?;
            remove_name(set.values.container(), name, set.values.places().pages)?;
        }
        for &number in self.numbers.iter().filter(|number| is_claim(number)) {
            // a writer that was killed after it had published may have left its steps
            let claim = Claim::read_one(&self.values, number)?;
            if let Some(claim) = claim.filter(|claim| claim.mark.is_some()) {
                remove_previews(&self.values, (number, claim))?;
            }
        }
        remove_values(&self.values, self.numbers.iter().copied())
    }
}

/// Deletes an ntuple of a container: its anchor first, then its values, its attribute sets, and its name, unless there are
/// values of other writers under it. Its name can be left out if it is the only one.
///
/// # Errors
/// If the container does not have this ntuple, or has several and none is named; if the ntuple is damaged, or another program
/// replaces it meanwhile; or if a value cannot be removed.
pub fn delete_ntuple(url: &str, settings: &Settings) -> Result<ObjectsLeft, RNTupleError> {
    let (address, wanted) = Address::with_ntuple(url).map_err(|error| unopened(url, error))?;
    let container = Container::open(&address, requests_by(settings)?);
    let container = Arc::new(container.map_err(|error| unopened(url, error))?);
    let url = &address.to_string();
    let find = |name: &str| {
        let found = NTupleValues::find(container.clone(), name);
        found.map_err(|error| unread(&format!("{url}:{name}"), error))
    };
    let complete = || -> Result<Vec<String>, IoError> {
        let listed = names(&container).map_err(|error| unread(url, error))?;
        let is_there = |name: &String| !matches!(find(name), Ok(None));
        Ok(listed.into_iter().filter(is_there).collect())
    };
    let name = match wanted {
        Some(name) => name.to_owned(),
        None => match <[String; 1]>::try_from(complete()?) {
            Ok([only]) => only,
            Err(names) => return Err(unnamed(url, &names)),
        },
    };
    let Some((values, anchor)) = find(&name)? else {
        let (url, nearest) = (url.clone(), complete()?);
        let path = name;
        return Err(RootFileError::KeyNotFound { url, path, nearest }.into());
    };
    let reader = open_values(values.clone(), &anchor, (url, &name), settings)?;
    let old = Old::of(values.clone(), &anchor, &reader)?;
    let mut deleted = ObjectsLeft::default();
    let failed = |error| unread(url, error);
    old.add_to(&name, &mut deleted).map_err(failed)?;
    if find(&name)?.map(|(_, now)| now) != Some(anchor) {
        let url = format!("{url}:{name}");
        return Err(IoError::Changed { url }.into());
    }
    let failed = |error| unwritten(url, error);
    values.remove_envelopes().map_err(failed)?;
    old.remove().map_err(failed)?;
    // a sweep finds by the name what killed writers have left
    if values.lists().map_err(failed)?.is_empty() {
        remove_name(&container, &name, values.places().pages).map_err(failed)?;
    }
    Ok(deleted)
}

/// The error for a container that has not one ntuple.
fn unnamed(url: &str, names: &[String]) -> RNTupleError {
    let hint = match names {
        [] => String::new(),
        [first, ..] => format!(
            "; name one of them: {} (e.g. {url}:{first})",
            names.join(", ")
        ),
    };
    RNTupleError::AmbiguousNTuple {
        url: url.to_owned(),
        count: names.len(),
        kind: "RNTuples",
        hint,
    }
}

/// Removes the anchors, headers and footers by which the steps of a writer with this claim are found.
fn remove_previews(own: &NTupleValues, (number, claim): (u64, Claim)) -> Result<(), DaosError> {
    let index = own.places().values;
    let mark = claim.mark.map(|mark| preview_name(index, mark));
    for name in std::iter::once(preview_name(index, number - LISTS)).chain(mark) {
        own.named(&name).remove_envelopes()?;
    }
    Ok(())
}

/// Finds the values that killed writers have left in a container: of the ntuples that it lists, or of one name. Those whose
/// writer has written nothing for this time are deleted.
///
/// # Errors
/// If they cannot be found or deleted, or an ntuple is damaged.
pub fn sweep(
    url: &str,
    settings: &Settings,
    age: Duration,
    deletes: bool,
) -> Result<ObjectsLeft, RNTupleError> {
    let (address, wanted) = Address::with_ntuple(url).map_err(|error| unopened(url, error))?;
    let container = Container::open(&address, requests_by(settings)?);
    let container = Arc::new(container.map_err(|error| unopened(url, error))?);
    let failed = |error| unread(url, error);
    let mut names = names_and_classes(&container).map_err(failed)?;
    if let Some(wanted) = wanted {
        let index = ntuple_index(wanted);
        names.retain(|(name, _)| name == wanted || owner_of(name).is_some_and(|it| it.0 == index));
        let usual = (wanted.to_owned(), container.class("").map_err(failed)?);
        if !names.contains(&usual) {
            names.push(usual);
        }
    }
    // sets are left if the claims of their ntuples are
    names.sort_by_key(|(name, _)| owner_of(name).is_some());
    let mut sweep = Sweep {
        container,
        url: &address.to_string(),
        settings,
        age,
        deletes,
        all: ObjectsLeft::default(),
        claims: BTreeSet::new(),
    };
    for (name, class) in names {
        sweep.name(&name, class)?;
    }
    Ok(sweep.all)
}

struct Sweep<'a> {
    container: Arc<Container>,
    url: &'a str,
    settings: &'a Settings,
    age: Duration,
    deletes: bool,
    all: ObjectsLeft,
    /// The claims that were found to be left, by index and first number.
    claims: BTreeSet<(u32, u64)>,
}

impl Sweep<'_> {
    /// Removes what is left of one name.
    fn name(&mut self, name: &str, class: ObjectClass) -> Result<(), RNTupleError> {
        let url = self.url;
        let failed = |error| -> IoError { unread(url, error) };
        let own = NTupleValues::in_class(self.container.clone(), name, class).map_err(failed)?;
        // listed before: what is written meanwhile is not removed
        let lists = own.lists().map_err(failed)?;
        let owner = owner_of(name).map(|(index, block)| (index, LISTS + block));
        let found = match owner {
            Some((index, claim)) => {
                // only the writer of the ntuple renews its claim
                let claims = own.of_index(index).sizes(&[claim]).map_err(failed)?;
                let is_owned = claims.iter().any(Option::is_some);
                if is_owned && !self.claims.contains(&(index, claim)) {
                    return Ok(());
                }
                None
            }
            None => NTupleValues::find(self.container.clone(), name).map_err(failed)?,
        };
        let used: BTreeSet<u64> = match &found {
            Some((values, anchor)) if values.places().pages == class => {
                let reader = open_values(values.clone(), anchor, (url, name), self.settings)?;
                let old = Old::of(values.clone(), anchor, &reader)?;
                old.numbers.into_iter().collect()
            }
            _ => BTreeSet::new(),
        };
        self.all.used += used.len() as u64;
        let index = own.places().values;
        let mut is_young = false;
        for &claim in lists.iter().filter(|&&list| list % BLOCK == 0) {
            let Some(held) = Claim::read_one(&own, claim).map_err(failed)? else {
                continue;
            };
            // a complete ntuple has only what it uses, unless it was written in steps
            if used.contains(&claim) && held.mark.is_none() {
                continue;
            }
            let [pages, _] = behind(&used, claim);
            let mut numbers: Vec<u64> = lists
                .iter()
                .copied()
                .filter(|list| claim == list / BLOCK * BLOCK && !used.contains(list))
                .collect();
            numbers.extend(existing(&own, [pages]).map_err(failed)?);
            let sizes = own.sizes(&numbers).map_err(failed)?;
            // now: who resumes claims the block again
            let Some(held) = Claim::read_one(&own, claim).map_err(failed)? else {
                continue;
            };
            let is_old = now().saturating_sub(held.time) >= self.age;
            if !is_old || self.deletes && !self.delete(&own, (claim, held), &numbers)? {
                self.all.young += numbers.len() as u64;
                is_young = true;
                continue;
            }
            if !used.contains(&claim) {
                self.claims.insert((index, claim));
            }
            self.all.bytes += sizes.into_iter().flatten().sum::<u64>();
            let names = numbers.iter().map(|number| format!("{name}: {number}"));
            self.all.names.extend(names);
        }
        if self.deletes && found.is_none() && !is_young {
            let failed = |error| unwritten(url, error);
            if owner.is_some() {
                own.remove_envelopes().map_err(failed)?;
            }
            remove_name(&self.container, name, class).map_err(failed)?;
        }
        Ok(())
    }

    /// Deletes what is left in a block; returns false if a writer has claimed it meanwhile.
    fn delete(
        &self,
        own: &NTupleValues,
        (number, claim): (u64, Claim),
        numbers: &[u64],
    ) -> Result<bool, RNTupleError> {
        let failed = |error| -> IoError { unwritten(self.url, error) };
        let taken = claim.sweep(own, number).map_err(failed)?;
        remove_previews(own, (number, claim)).map_err(failed)?;
        // who resumes claims the block before it asks whether there is a preview
        if Claim::read_one(own, number).map_err(failed)? != Some(taken) {
            return Ok(false);
        }
        remove_values(own, numbers.iter().copied()).map_err(failed)?;
        Ok(true)
    }
}
