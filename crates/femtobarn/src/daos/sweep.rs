//! Removing the values of ntuples: of replaced ones, and what killed writers have left.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use femtobarn_daos::mapping::{DaosAnchor, LISTS};
use femtobarn_daos::{Address, Container, DaosError, NTupleValues, names, remove_name};
use femtobarn_io::{IoError, Settings, is_daos};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use femtobarn_rntuple::write::ObjectsLeft;

use super::source::{number_of, open_values, set_base, set_name};
use super::writing::{BLOCK, behind, claims, existing, preview_name, read_claim};
use super::{requests_by, unopened, unread, unwritten};

/// The values of an existing ntuple.
#[derive(Debug)]
pub(super) struct Old {
    values: NTupleValues,
    /// Numbers of pages and page lists, and of claims.
    numbers: Vec<u64>,
    sets: Vec<Old>,
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
                sets.push(Self::of(values, &anchor, &set)?);
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

    /// Removes the values, but not header, footer and anchor, which another ntuple has by now.
    pub fn remove(&self) -> Result<(), DaosError> {
        for set in &self.sets {
            set.values.remove_envelopes()?;
            set.remove()?;
        }
        self.values.remove(self.numbers.iter().copied())
    }
}

/// Finds the objects that killed writers have left: at the base of a set, or in a container of DAOS, of the ntuples that it
/// lists, or of one name. Those whose writer has written nothing for this time are deleted.
///
/// # Errors
/// If they cannot be found or deleted, or an ntuple is damaged.
pub fn sweep_objects(
    url: &str,
    settings: &Settings,
    age: Duration,
    deletes: bool,
) -> Result<ObjectsLeft, RNTupleError> {
    if !is_daos(url) {
        return femtobarn_rntuple::write::sweep_objects(url, settings, age, deletes);
    }
    let (address, wanted) = Address::with_ntuple(url).map_err(|error| unopened(url, error))?;
    let container = Container::open(&address, requests_by(settings)?);
    let container = Arc::new(container.map_err(|error| unopened(url, error))?);
    let names = match wanted {
        Some(name) => vec![name.to_owned()],
        None => names(&container).map_err(|error| unread(url, error))?,
    };
    let mut all = ObjectsLeft::default();
    let url = address.to_string();
    for name in names {
        let place = (url.as_str(), name.as_str());
        sweep(&container, place, settings, (age, deletes), &mut all)?;
    }
    Ok(all)
}

fn sweep(
    container: &Arc<Container>,
    (url, name): (&str, &str),
    settings: &Settings,
    (age, deletes): (Duration, bool),
    all: &mut ObjectsLeft,
) -> Result<(), RNTupleError> {
    let failed = |error| -> IoError { unread(url, error) };
    let class = settings.text("object_class")?.unwrap_or_default();
    let own = NTupleValues::new(container.clone(), name, &class).map_err(failed)?;
    // listed before: what is written meanwhile is not removed
    let lists = own.lists().map_err(failed)?;
    let found = NTupleValues::find(container.clone(), name).map_err(failed)?;
    let used: BTreeSet<u64> = match &found {
        None => BTreeSet::new(),
        Some((values, anchor)) => {
            let reader = open_values(values.clone(), anchor, (url, name), settings)?;
            let old = Old::of(values.clone(), anchor, &reader)?;
            old.numbers.into_iter().collect()
        }
    };
    all.used += used.len() as u64;
    let mut is_young = false;
    for &claim in lists.iter().filter(|&&list| list % BLOCK == 0) {
        let (_, mark) = read_claim(&own, claim).map_err(failed)?;
        // a complete ntuple has only what it uses, unless it was written in steps
        if used.contains(&claim) && mark.is_none() {
            continue;
        }
        let [pages, _] = behind(&used, claim);
        let mut numbers: Vec<u64> = lists
            .iter()
            .copied()
            .filter(|list| claim == list / BLOCK * BLOCK && !used.contains(list))
            .collect();
        numbers.extend(existing(&own, [pages]).map_err(failed)?);
        // now: who resumes claims the block again
        let (written, _) = read_claim(&own, claim).map_err(failed)?;
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        if now.saturating_sub(written) < age {
            all.young += numbers.len() as u64;
            is_young = true;
            continue;
        }
        let sizes = own.sizes(&numbers).map_err(failed)?;
        all.bytes += sizes.into_iter().flatten().sum::<u64>();
        all.names
            .extend(numbers.iter().map(|number| format!("{name}: {number}")));
        if deletes {
            let failed = |error| unwritten(url, error);
            let index = own.places().values;
            let mut previews = vec![preview_name(index, claim - LISTS)];
            previews.extend(mark.map(|mark| preview_name(index, mark)));
            for name in previews {
                own.named(&name).remove_envelopes().map_err(failed)?;
            }
            own.remove(numbers).map_err(failed)?;
        }
    }
    if deletes && found.is_none() && !is_young {
        remove_name(container, name).map_err(|error| unwritten(url, error))?;
    }
    Ok(())
}
