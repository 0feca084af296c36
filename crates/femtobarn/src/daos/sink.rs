//! Writing ntuples to a container.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_daos::mapping::{DaosAnchor, LISTS};
use femtobarn_daos::{
    Address, Container, DaosError, Existing as InContainer, NTupleValues, add_name, names,
    remove_name,
};
use femtobarn_io::{IoError, Settings};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::spec::{Anchor, PageAddress};
use femtobarn_rntuple::write::{
    Existing, ObjectSize, ObjectsWritten, PageSink, SinkPlace, WriteOptions,
};
use femtobarn_rootfile::{FileWriter, Uuid};

use super::claims::{Claim, Claims};
use super::source::open_values;
use super::sweep::Old;
use super::writing::{BLOCK, Preview, Writing, preview_name};
use super::{requests_by, unopened, unread, unwritten};

/// Ntuples that are written to a container. They appear when it is [finished](Self::finish).
#[derive(Debug)]
pub struct DaosSink {
    container: Arc<Container>,
    url: String,
    settings: Settings,
    replaces: bool,
    class: String,
    object_size: Option<ObjectSize>,
    ntuples: Vec<(Writing, Option<Replaced>)>,
    /// The ntuple that is being written.
    current: usize,
    pub(super) claims: Claims,
    /// What the ntuples are made from, if they are written in steps.
    mark: Option<Uuid>,
}

/// Ntuples that can be read until this is dropped, but are not visible yet.
#[derive(Debug)]
pub(crate) struct DaosPreview {
    url: String,
    _ntuples: Vec<Preview>,
}

impl DaosPreview {
    /// The URL where they can be read.
    pub fn url(&self) -> &str {
        &self.url
    }
}

/// An ntuple that will be replaced: its anchor, and its values.
#[derive(Debug)]
struct Replaced {
    anchor: DaosAnchor,
    old: Old,
}

impl DaosSink {
    /// Begins to write to `daos://POOL/CONTAINER`, which is created if it does not exist; `replaces` tells whether ntuples are
    /// replaced.
    ///
    /// # Errors
    /// If the URL or a setting is invalid, the library of DAOS is missing, or the container cannot be opened.
    pub fn create(url: &str, replaces: bool, settings: &Settings) -> Result<Self, RNTupleError> {
        let (address, name) = Address::with_ntuple(url).map_err(|error| unopened(url, error))?;
        if let Some(name) = name {
            return Err(IoError::NoUrl {
                url: url.to_owned(),
                what: format!(
                    "ntuples are written to {address}: give the name of the ntuple ({name}) apart from it"
                ),
            }
            .into());
        }
        let container = Container::create(&address, requests_by(settings)?);
        let container = Arc::new(container.map_err(|error| unopened(url, error))?);
        let url = address.to_string();
        let own = Self {
            object_size: ObjectSize::from_settings(settings, &url)?,
            container,
            url,
            settings: settings.clone(),
            replaces,
            class: settings.text("object_class")?.unwrap_or_default(),
            ntuples: Vec::new(),
            current: 0,
            claims: Claims::new(),
            mark: None,
        };
        own.values("")?;
        Ok(own)
    }

    /// Begins ntuples that are written in steps. The mark tells what they are made from.
    ///
    /// # Errors
    /// Those of [`create`](Self::create).
    pub fn in_steps(
        url: &str,
        replaces: bool,
        settings: &Settings,
        mark: Uuid,
    ) -> Result<Self, RNTupleError> {
        let mut created = Self::create(url, replaces, settings)?;
        created.mark = Some(mark);
        Ok(created)
    }

    /// Goes on with ntuples of this mark after the last [checkpoint](Self::checkpoint) of a writer that was killed, which can
    /// be read at the returned URL; none if there is none.
    ///
    /// # Errors
    /// Those of [`create`](Self::create), or if they cannot be read.
    pub fn resume(
        url: &str,
        replaces: bool,
        settings: &Settings,
        mark: Uuid,
    ) -> Result<Option<(Self, String)>, RNTupleError> {
        let mut own = Self::in_steps(url, replaces, settings, mark)?;
        let listed = names(&own.container).map_err(|error| unread(&own.url, error))?;
        let mut steps = Vec::new();
        for name in listed {
            let values = own.values(&name)?;
            let places = values.places();
            let (step, pages) = (preview_name(places.values, mark), places.pages);
            let published = own.find(&name)?;
            let is_complete = is_marked(published.as_ref(), mark);
            let is_complete = is_complete.map_err(|error| unread(url, error))?;
            let state = match is_complete {
                true => published,
                false => own.find(&step)?,
            };
            // DAOS may have resolved the class in another way since
            let Some((found, anchor)) = state.filter(|(found, _)| found.places().pages == pages)
            else {
                continue;
            };
            // a sweep may have removed it
            let opened = open_values(found.clone(), &anchor, (&own.url, &name), settings);
            let old = opened.and_then(|reader| Old::of(found.clone(), &anchor, &reader));
            let (Ok(old), Some(envelopes)) = (old, found.envelopes().cloned()) else {
                continue;
            };
            let numbers: BTreeSet<u64> = old.numbers().iter().copied().collect();
            let replaced = match is_complete {
                true => None,
                false => own.replaced(&name)?,
            };
            let mut writing = own.writing(&name, values, next_block(replaced.as_ref()));
            if !writing.resume(&anchor, envelopes, &numbers)? {
                continue;
            }
            if is_complete {
                writing.take_as_published();
            } else if own.find(&step)?.map(|(_, now)| now).as_ref() != Some(&anchor) {
                // a sweep removed it before the blocks were claimed again, or another writer goes on
                continue;
            }
            steps.push(writing.checkpoint()?);
            own.ntuples.push((writing, replaced));
        }
        let so_far = own.ntuple(&steps.join(","));
        Ok((!steps.is_empty()).then_some((own, so_far)))
    }

    /// Ends a step: what is written so far can be read at the returned URL, and continued even if this process is killed.
    ///
    /// # Errors
    /// If a value cannot be written.
    pub fn checkpoint(&mut self) -> Result<String, RNTupleError> {
        let mut steps = Vec::new();
        for (own, _) in &mut self.ntuples {
            steps.push(own.checkpoint()?);
        }
        Ok(self.ntuple(&steps.join(",")))
    }

    /// The URL of the container.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Bytes of the values.
    pub fn n_bytes(&self) -> u64 {
        self.ntuples.iter().map(|(own, _)| own.n_bytes()).sum()
    }

    /// The values of a new ntuple.
    fn values(&self, name: &str) -> Result<NTupleValues, RNTupleError> {
        let values = NTupleValues::new(self.container.clone(), name, &self.class);
        Ok(values.map_err(|error| unwritten(&self.url, error))?)
    }

    fn find(&self, name: &str) -> Result<Option<(NTupleValues, DaosAnchor)>, RNTupleError> {
        let found = NTupleValues::find(self.container.clone(), name);
        Ok(found.map_err(|error| unwritten(&self.ntuple(name), error))?)
    }

    fn ntuple(&self, name: &str) -> String {
        format!("{}:{name}", self.url)
    }

    /// What is known of an existing ntuple.
    fn replaced(&self, name: &str) -> Result<Option<Replaced>, RNTupleError> {
        let Some((values, anchor)) = self.find(name)? else {
            return Ok(None);
        };
        let url = self.ntuple(name);
        if !self.replaces {
            return Err(IoError::Exists { url }.into());
        }
        if !self.class.is_empty() {
            // header and anchor are not written as one then
            let why = "an existing ntuple cannot be replaced by one with an object class: write it without one, or \
                       under another name";
            return Err(IoError::NotWritten { url, why }.into());
        }
        let reader = open_values(values.clone(), &anchor, (&self.url, name), &self.settings)?;
        let old = Old::of(values, &anchor, &reader)?;
        Ok(Some(Replaced { anchor, old }))
    }

    /// What is written from now on belongs to the ntuple with this name.
    pub(crate) fn turn_to(&mut self, name: &str) {
        self.current = self.position(name).unwrap_or(self.current);
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.ntuples.iter().position(|(own, _)| own.name == name)
    }

    fn writing(&self, name: &str, values: NTupleValues, next_block: u64) -> Writing {
        let place = (self.url.as_str(), name);
        let (class, claims) = (&self.class, self.claims.clone());
        let mut new = Writing::new(place, values, class, self.object_size, next_block, claims);
        new.mark = self.mark;
        new
    }

    /// The ntuple that is being written.
    fn current(&mut self) -> Result<&mut Writing, RNTupleError> {
        let current = self.ntuples.get_mut(self.current).map(|(own, _)| own);
        current.ok_or_else(|| RNTupleError::internal("no ntuple was begun"))
    }

    /// Waits until all values exist. Only anchors are missing then.
    ///
    /// # Errors
    /// If a value cannot be written.
    pub fn complete(&mut self) -> Result<(), RNTupleError> {
        self.ntuples
            .iter_mut()
            .try_for_each(|(own, _)| own.complete())
    }

    /// Has the [complete](Self::complete) ntuples appear under other names, so that they can be read before they are visible.
    ///
    /// # Errors
    /// If an anchor cannot be written.
    pub(crate) fn preview(&mut self) -> Result<DaosPreview, RNTupleError> {
        let all = self.ntuples.iter_mut().map(|(own, _)| own.preview());
        let all: Vec<Preview> = all.collect::<Result<_, _>>()?;
        let names: Vec<&str> = all.iter().map(|own| own.name.as_str()).collect();
        Ok(DaosPreview {
            url: self.ntuple(&names.join(",")),
            _ntuples: all,
        })
    }

    /// Makes the ntuples visible, each with all of its entries, and removes the values of those that they replace.
    ///
    /// # Errors
    /// If a value cannot be written, or another writer was faster.
    pub fn finish(mut self) -> Result<ObjectsWritten, RNTupleError> {
        self.complete()?;
        let mut written = ObjectsWritten::default();
        for at in 0..self.ntuples.len() {
            let Some((own, replaced)) = self.ntuples.get(at) else {
                continue;
            };
            let name = own.name.clone();
            let existing = match replaced {
                None => InContainer::Refused,
                Some(replaced) => {
                    // DAOS has no condition on a value: a change in the next moment is not noticed
                    let now = self.find(&name)?.map(|(_, anchor)| anchor);
                    if now.as_ref() != Some(&replaced.anchor) {
                        let url = self.ntuple(&name);
                        return Err(IoError::Changed { url }.into());
                    }
                    InContainer::Replaced
                }
            };
            if let Some((own, replaced)) = self.ntuples.get_mut(at) {
                if !own.is_published() {
                    own.publish(existing)?;
                }
                own.keep();
                let values = own.written();
                written.objects += values.objects;
                written.bytes += values.bytes;
                if let Some(replaced) = replaced.take() {
                    // the ntuple is complete: what remains of the other one is found by a sweep
                    let _ = replaced.old.remove();
                }
            }
        }
        for (own, _) in &self.ntuples {
            // they are complete: what remains is found by a sweep
            let _ = own.remove_steps();
        }
        if self.ntuples.is_empty() {
            let why = "no ntuple was written to it";
            let url = self.url.clone();
            return Err(IoError::NotWritten { url, why }.into());
        }
        written.requests = self.container.n_requests();
        Ok(written)
    }
}

/// The block after those of a replaced ntuple: readers that have it open find no values of others under its numbers. ROOT
/// gives numbers from 0 on, without claims.
fn next_block(replaced: Option<&Replaced>) -> u64 {
    let numbers = replaced.map_or(&[][..], |replaced| replaced.old.numbers());
    let last = numbers.iter().map(|number| number % LISTS / BLOCK).max();
    last.map_or(0, |last| last + 1)
}

impl Drop for DaosSink {
    fn drop(&mut self) {
        for (own, _) in std::mem::take(&mut self.ntuples) {
            let (is_abandoned, name) = (own.is_abandoned(), own.name.clone());
            let (values, class) = (own.values().clone(), own.class());
            drop(own);
            if !is_abandoned {
                continue;
            }
            // the names of other writers stay
            let has_claims = || values.lists().is_ok_and(|lists| !lists.is_empty());
            let is_there = || has_claims() || self.find(&name).is_ok_and(|found| found.is_some());
            let container = &self.container;
            if !is_there() && remove_name(container, &name, class).is_ok() && is_there() {
                let _ = add_name(container, &name, class);
            }
        }
    }
}

/// Whether all of these ntuples are in a container, and were made from what a mark tells.
///
/// # Errors
/// If the container cannot be read.
pub(crate) fn has_marked<'n>(
    url: &str,
    ntuples: impl Iterator<Item = &'n str>,
    settings: &Settings,
    mark: Uuid,
) -> Result<bool, RNTupleError> {
    let (address, _) = Address::with_ntuple(url).map_err(|error| unopened(url, error))?;
    let container = match Container::open(&address, requests_by(settings)?) {
        Err(error) if error.is_missing() => return Ok(false),
        container => container.map_err(|error| unopened(url, error))?,
    };
    let container = Arc::new(container);
    for name in ntuples {
        let found = NTupleValues::find(container.clone(), name);
        let marked = found.and_then(|found| is_marked(found.as_ref(), mark));
        if !marked.map_err(|error| unread(url, error))? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether an ntuple was made from what a mark tells.
fn is_marked(found: Option<&(NTupleValues, DaosAnchor)>, mark: Uuid) -> Result<bool, DaosError> {
    let spliced = found.and_then(|(values, anchor)| Some((values, anchor.spliced?)));
    let Some((values, own)) = spliced else {
        return Ok(false);
    };
    let claim = Claim::read_one(values, LISTS + u64::from(own.block))?;
    Ok(claim.is_some_and(|claim| claim.mark == Some(mark)))
}

impl PageSink for DaosSink {
    fn check_place(&self, place: &SinkPlace<'_>) -> Result<(), RNTupleError> {
        let name = place.name;
        let what = if place.directory != 0 {
            "containers of DAOS have no directories: write the ntuple under another name"
        } else if place.existing == Existing::Continued {
            match self.position(name) {
                Some(_) => return Ok(()),
                None => "cannot add to an ntuple in DAOS: write a new one",
            }
        } else if self.position(name).is_some() {
            "it is being written already: give another name"
        } else {
            return Ok(());
        };
        Err(RNTupleError::Usage {
            what: format!("{}: {what}", self.ntuple(name)),
        })
    }

    fn begin(&mut self, place: &SinkPlace<'_>) -> Result<(), RNTupleError> {
        self.check_place(place)?;
        let replaced = self.replaced(place.name)?;
        let next = next_block(replaced.as_ref());
        let own = self.writing(place.name, self.values(place.name)?, next);
        let named = add_name(&self.container, place.name, own.class());
        named.map_err(|error| unwritten(&self.url, error))?;
        self.current = self.ntuples.len();
        self.ntuples.push((own, replaced));
        Ok(())
    }

    fn append_payload(
        &mut self,
        payload: &[u8],
        options: &WriteOptions,
    ) -> Result<PageAddress, RNTupleError> {
        self.current()?.append_payload(payload, options)
    }

    fn append_pages(
        &mut self,
        pages: &[Bytes],
        options: &WriteOptions,
    ) -> Result<Vec<PageAddress>, RNTupleError> {
        self.current()?.append_pages(pages, options)
    }

    fn joins_pages(&self) -> bool {
        true
    }

    fn publish(&mut self, place: &SinkPlace<'_>, anchor: &Anchor) -> Result<(), RNTupleError> {
        PageSink::publish(self.current()?, place, anchor)
    }

    fn attribute_set(&mut self, name: &str) -> Result<&mut dyn PageSink, RNTupleError> {
        self.current()?.attribute_set(name)
    }

    fn links_sets(&self) -> bool {
        false
    }

    fn file(&mut self) -> Option<&mut FileWriter> {
        None
    }
}
