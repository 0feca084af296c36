//! Writes pages and envelopes as the objects of a set, and the anchor last.
//!
//! Numbers are given in the order of writing, in blocks. Whoever creates the first object of a block owns the block, so
//! that writers at one base never write the same object.

use std::collections::BTreeMap;
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use femtobarn_io::{
    IoError, LARGEST_OBJECT, OBJECT_TEMPLATE, ObjectSet, Settings, SourceMeta, Uploads,
    begins_as_anchor,
};
use femtobarn_rootfile::FileWriter;

use super::anchor_envelopes::AnchorEnvelopes;
use super::model::unwritable;
use super::object_sweep::{CLONES, PREVIEWS, delete_old, found_from, number, other_ntuples};
use super::options::{ObjectSize, WriteOptions};
use super::sink::{Existing, PageSink, Renumbered, SinkPlace};
use crate::RNTupleError;
use crate::read::PageStore;
use crate::spec::{Anchor, MadeObjects, ObjectAnchor, OtherBase, PageAddress};

/// Number of objects in a block.
pub(super) const BLOCK: u64 = 1 << 20;

/// The number of the first object of another set. Below are own numbers; all of them fit locators of ranges in objects.
pub(super) const OTHERS: u64 = 1 << 31;

/// How long a writer writes without asking whether its objects are still there. Sweeps delete older ones.
pub(super) const CHECK_AFTER: Duration = Duration::from_secs(60);

/// Blocks of own numbers.
pub(super) const BLOCKS: u64 = OTHERS / BLOCK;

/// The objects of one ntuple. They are deleted when it is dropped before it is [finished](Self::finish).
#[derive(Debug)]
pub struct ObjectSink {
    uploads: Uploads,
    settings: Settings,
    /// Numbers of the current block that are left.
    left: Range<u64>,
    /// The first and the last number of each block.
    blocks: Vec<[u64; 2]>,
    /// The next block to try.
    next_block: u64,
    /// Objects that are being filled: the number, and the bytes.
    open: Option<Filling>,
    is_packed: bool,
    /// The size of objects that the settings ask for, unless options say another.
    object_size: Option<ObjectSize>,
    n_bytes: u64,
    /// The anchor that will be replaced, and its state.
    replaced: Option<(SourceMeta, Option<ObjectAnchor>)>,
    /// The anchor to be written.
    anchor: Option<Anchor>,
    /// Objects of other sets that belong to this one, and their numbers here by the URLs of the sets.
    bases: Vec<OtherBase>,
    added: BTreeMap<String, Renumbered>,
    /// Who made objects that this writer has not made.
    makers: Vec<MadeObjects>,
    /// Objects that the server has copied.
    n_copies: u64,
    /// Attribute sets by name, and what was written for those that are complete.
    sets: BTreeMap<String, ObjectSink>,
    of_sets: ObjectsWritten,
    set_names: Vec<String>,
    /// Template of the bases of attribute sets.
    clone_template: String,
    /// What the anchor will have, too.
    envelopes: AnchorEnvelopes,
    /// What the ntuple is made from, if it is written in steps.
    mark: Option<String>,
    pub(super) created: SystemTime,
    /// After the first step: what its killed writers may have left.
    begun: Option<Begun>,
}

/// An object that is being filled.
#[derive(Debug)]
struct Filling {
    id: u64,
    pages: Vec<Bytes>,
    n_bytes: u64,
}

/// An ntuple that is written in steps, and can be continued after each.
#[derive(Debug, Default)]
struct Begun {
    /// The anchor of the last checkpoint, which only this writer has written.
    checkpoint: Bytes,
    /// The number of objects that this process wrote in earlier steps.
    n_objects: u64,
    /// The numbers of the footers of all checkpoints.
    footers: Vec<u64>,
    /// The number of blocks of killed writers. What follows in them after the last number does not belong to the ntuple.
    n_taken_over: usize,
}

impl Begun {
    /// The state of the last checkpoint; an error if another writer goes on with it.
    fn state(&self, checkpoints: &ObjectSet) -> Result<SourceMeta, IoError> {
        match checkpoints.anchor()? {
            Some((state, anchor)) if anchor == self.checkpoint => Ok(state),
            _ => Err(IoError::Overtaken {
                url: checkpoints.url().to_owned(),
            }),
        }
    }
}

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectsWritten {
    /// Objects, with envelopes and without anchors.
    pub objects: u64,
    /// Requests for these objects and for anchors.
    pub requests: u64,
    /// Size of the objects.
    pub bytes: u64,
    /// How many of them the server has copied.
    pub server_copies: u64,
}

impl ObjectSink {
    /// Begins an ntuple at a base; `replaces` tells whether an existing one is replaced when this is finished.
    ///
    /// # Errors
    /// If the URL or a setting is invalid, an ntuple exists and must not be replaced, or no server answers.
    pub fn create(url: &str, replaces: bool, settings: &Settings) -> Result<Self, RNTupleError> {
        let set = ObjectSet::open(url, settings)?;
        let replaced = match set.anchor()? {
            Some(_) if !replaces => {
                let url = set.url().to_owned();
                return Err(IoError::Exists { url }.into());
            }
            Some((_, found)) if is_numbered(set.url()) && !begins_as_anchor(&found) => {
                let why = "an object is there that is not the anchor of an ntuple; it may belong to the ntuple above it";
                let url = set.url().to_owned();
                return Err(IoError::NotWritten { url, why }.into());
            }
            // what is damaged can be replaced, too
            Some((state, anchor)) => Some((state, ObjectAnchor::parse(&anchor).ok())),
            None => None,
        };
        Self::of_set(set, replaced, settings)
    }

    fn of_set(
        set: ObjectSet,
        replaced: Option<(SourceMeta, Option<ObjectAnchor>)>,
        settings: &Settings,
    ) -> Result<Self, RNTupleError> {
        // readers that have the replaced ntuple open find no objects of others under its numbers
        let old = replaced.as_ref().and_then(|(_, old)| old.as_ref());
        let last = old.map(|old| number(old.anchor.header).max(number(old.anchor.footer)));
        let next_block = last.map_or(0, |last| last / BLOCK + 1);
        Ok(Self {
            object_size: ObjectSize::from_settings(settings, set.url())?,
            n_bytes: 0,
            uploads: Uploads::new(Arc::new(set), settings)?,
            settings: settings.clone(),
            left: 0..0,
            blocks: Vec::new(),
            next_block,
            open: None,
            is_packed: false,
            replaced,
            anchor: None,
            bases: Vec::new(),
            added: BTreeMap::new(),
            makers: Vec::new(),
            n_copies: 0,
            sets: BTreeMap::new(),
            of_sets: ObjectsWritten::default(),
            set_names: Vec::new(),
            clone_template: String::new(),
            mark: None,
            begun: None,
            created: SystemTime::now(),
            envelopes: AnchorEnvelopes::default(),
        })
    }

    /// Begins an ntuple that is written in steps. The mark tells what it is made from.
    ///
    /// # Errors
    /// Those of [`create`](Self::create).
    pub fn in_steps(
        url: &str,
        replaces: bool,
        settings: &Settings,
        mark: &str,
    ) -> Result<Self, RNTupleError> {
        let created = Self::create(url, replaces, settings)?;
        Ok(Self {
            mark: Some(mark.to_owned()),
            ..created
        })
    }

    /// Goes on with an ntuple of this mark after the last [checkpoint](Self::checkpoint) of a writer that was killed, which
    /// can be read at the returned URL; none if there is none. If that writer is not dead, it can neither end another step
    /// nor publish the ntuple from now on.
    ///
    /// # Errors
    /// Those of [`create`](Self::create); as overtaken, if another writer does the same.
    pub fn resume(
        url: &str,
        replaces: bool,
        settings: &Settings,
        mark: &str,
    ) -> Result<Option<(Self, String)>, RNTupleError> {
        let created = Self::in_steps(url, replaces, settings, mark)?;
        let below = created.checkpoints(mark)?;
        let Some((state, found)) = below.anchor()? else {
            return Ok(None);
        };
        let Ok(found) = ObjectAnchor::parse(&found) else {
            return Ok(None);
        };
        let (Some(maker), Some([first, _])) = (&found.maker, found.blocks.first().copied()) else {
            return Ok(None);
        };
        let set = ObjectSet::open(url, settings)?.in_place_of(maker);
        let found = ObjectAnchor {
            maker: Some(set.writer().to_owned()),
            ..found
        };
        let checkpoint = Bytes::from(found.to_json());
        below.publish(checkpoint.clone(), Some(&state))?;
        let end = number(found.anchor.footer);
        let sink = Self {
            uploads: Uploads::new(Arc::new(set), settings)?,
            next_block: end / BLOCK + 1,
            is_packed: found.is_packed,
            makers: found.makers,
            anchor: Some(found.anchor),
            clone_template: clone_template(first),
            begun: Some(Begun {
                checkpoint,
                n_objects: 0,
                footers: vec![end],
                n_taken_over: found.blocks.len(),
            }),
            blocks: found.blocks,
            envelopes: AnchorEnvelopes::of_others(),
            ..created
        };
        Ok(Some((sink, below.url().to_owned())))
    }

    /// The base of checkpoints with a mark.
    fn checkpoints(&self, mark: &str) -> Result<ObjectSet, IoError> {
        let below = format!("{PREVIEWS}{mark}");
        self.uploads.set().below(&below, &self.settings)
    }

    /// Ends a step: the ntuple so far can be read at the returned URL, and continued even if this process is killed. Its
    /// objects stay when this is dropped.
    ///
    /// # Errors
    /// If an object or the anchor cannot be written.
    pub fn checkpoint(&mut self) -> Result<String, RNTupleError> {
        self.complete()?;
        let Some(mark) = self.mark.clone() else {
            return Err(RNTupleError::internal("an ntuple in steps has no mark"));
        };
        let set = self.checkpoints(&mark)?;
        let anchor = ObjectAnchor {
            blocks: self.blocks.clone(),
            maker: Some(self.uploads.set().writer().to_owned()),
            ..self.anchor_below()?
        };
        let stale = match &self.begun {
            Some(begun) => Some(begun.state(&set)?),
            None => set.anchor()?.map(|(state, _)| state),
        };
        let checkpoint = Bytes::from(anchor.to_json());
        set.publish(checkpoint.clone(), stale.as_ref())?;
        let begun = self.begun.get_or_insert_default();
        begun.checkpoint = checkpoint;
        begun.n_objects += self.uploads.numbers().len() as u64;
        begun.footers.push(number(anchor.anchor.footer));
        self.envelopes.end_step();
        self.uploads.keep();
        Ok(set.url().to_owned())
    }

    /// What the steps have left that does not belong to the ntuple: the footers of checkpoints, and objects that a killed
    /// writer wrote after the last one.
    fn left_by_steps(&self, begun: &Begun) -> Result<Vec<String>, RNTupleError> {
        let last = self.anchor.map(|anchor| number(anchor.footer));
        let footers = begun.footers.iter().copied();
        let mut left: Vec<u64> = footers.filter(|&id| Some(id) != last).collect();
        if begun.n_taken_over > 0 {
            let set = self.uploads.set();
            let mut found = set.list()?;
            let taken_over = self.blocks.iter().take(begun.n_taken_over);
            let ends: Vec<Range<u64>> = taken_over
                .map(|[first, last]| last + 1..first + BLOCK)
                .collect();
            if found.is_empty() {
                // they are asked for where they are not listed
                for end in &ends {
                    found.extend(found_from(set, end.clone())?);
                }
            }
            found.retain(|object| {
                let id = object.name.parse().ok();
                id.is_some_and(|id| ends.iter().any(|end| end.contains(&id)))
            });
            let others = other_ntuples(set, &self.settings, &found)?;
            let ids = found.iter().filter(|object| !others.contains(&object.name));
            left.extend(ids.filter_map(|object| object.name.parse::<u64>().ok()));
        }
        Ok(left.iter().map(u64::to_string).collect())
    }

    /// Checks that no sweep has taken this writer for dead. Sweeps delete nothing that is younger.
    fn check_blocks(&self, begun: Option<&Begun>) -> Result<(), IoError> {
        let set = self.uploads.set();
        if self
            .created
            .elapsed()
            .is_ok_and(|since| since < CHECK_AFTER)
        {
            return Ok(());
        }
        let own = begun.map_or(0, |begun| begun.n_taken_over);
        for [first, _] in self.blocks.iter().skip(own) {
            if !set.has_made(*first)? {
                return Err(IoError::Swept {
                    url: set.url_of(*first),
                });
            }
        }
        Ok(())
    }

    /// The URL of the base.
    pub fn url(&self) -> &str {
        self.uploads.set().url()
    }

    /// Adds the objects of another set, which stay where they are; returns their numbers here.
    fn add(&mut self, url: &str, other: &ObjectAnchor) -> Option<Renumbered> {
        let set = self.uploads.set();
        let [header, footer] = [other.anchor.header, other.anchor.footer].map(number);
        let own = OtherBase {
            first: 0,
            count: header.max(footer).checked_add(1)?,
            base: String::new(),
        };
        let last = self.bases.last();
        let mut next = last.map_or(OTHERS, |base| base.first + base.count);
        let (mut bases, mut numbers, mut makers) = (Vec::new(), Vec::new(), Vec::new());
        for base in std::iter::once(&own).chain(&other.bases) {
            let end = next.checked_add(base.count)?;
            if end > LARGEST_OBJECT {
                return None;
            }
            numbers.push((base.first, next));
            let made = other.made(base.first..base.first.saturating_add(base.count));
            makers.extend(made.into_iter().map(|made| MadeObjects {
                first: made.first - base.first + next,
                ..made
            }));
            bases.push(OtherBase {
                first: next,
                count: base.count,
                base: set.sees(url, &base.base, &self.settings)?,
            });
            next = end;
        }
        self.bases.append(&mut bases);
        self.makers.append(&mut makers);
        let numbers = Renumbered::new(numbers);
        self.added.insert(url.to_owned(), numbers.clone());
        Some(numbers)
    }

    /// Notes who made a copied object, together with those before it if they were made one after another.
    fn note_made(&mut self, made: MadeObjects) {
        match self.makers.last_mut() {
            Some(last)
                if last.maker == made.maker
                    && last.first + last.count == made.first
                    && (last.maker.is_none() || last.number + last.count == made.number) =>
            {
                last.count += made.count;
            }
            _ => self.makers.push(made),
        }
    }

    /// Begins a block of numbers; its first object has these bytes, or none.
    fn begin_block(&mut self, bytes: Bytes) -> Result<u64, RNTupleError> {
        for _ in 0..BLOCKS {
            let first = self.next_block % BLOCKS * BLOCK;
            self.next_block += 1;
            if self.uploads.claim(first, bytes.clone())? {
                if self.blocks.is_empty() {
                    self.clone_template = clone_template(first);
                }
                self.blocks.push([first, first]);
                self.left = first + 1..(first + BLOCK).min(LARGEST_OBJECT + 1);
                return Ok(first);
            }
        }
        let why =
            "no numbers of objects are left: `fb sweep` deletes what killed writers have left";
        let url = self.url().to_owned();
        Err(IoError::NotWritten { url, why }.into())
    }

    /// The number of the next object.
    fn number(&mut self) -> Result<u64, RNTupleError> {
        if let Some(number) = self.next() {
            return Ok(number);
        }
        // a packed object is not complete when it gets its number
        self.begin_block(Bytes::new())?;
        Ok(self.next().unwrap_or_default())
    }

    /// The next number of the current block.
    fn next(&mut self) -> Option<u64> {
        let number = self.left.next()?;
        if let Some([_, last]) = self.blocks.last_mut() {
            *last = number;
        }
        Some(number)
    }

    /// Creates an object.
    fn put(&mut self, bytes: Bytes) -> Result<PageAddress, RNTupleError> {
        self.n_bytes += bytes.len() as u64;
        let id = match self.next() {
            Some(id) => {
                self.uploads.send(id, vec![bytes])?;
                id
            }
            None => self.begin_block(bytes)?,
        };
        Ok(PageAddress::Object { id, offset: 0 })
    }

    /// Sends the object that is being filled.
    fn flush(&mut self) -> Result<(), RNTupleError> {
        if let Some(Filling { id, pages, n_bytes }) = self.open.take() {
            self.n_bytes += n_bytes;
            self.uploads.send(id, pages)?;
        }
        Ok(())
    }

    /// Adds a page to the object that is being filled, if it fits.
    fn pack(&mut self, page: &Bytes, size: ObjectSize) -> Result<PageAddress, RNTupleError> {
        let more = page.len() as u64;
        let is_full = |open: &Filling| !size.has_room(open.n_bytes, more);
        if self.open.as_ref().is_some_and(is_full) {
            self.flush()?;
        }
        let open = match self.open.take() {
            Some(open) => open,
            None => Filling {
                id: self.number()?,
                pages: Vec::new(),
                n_bytes: 0,
            },
        };
        let open = self.open.insert(open);
        let (id, offset) = (open.id, u32::try_from(open.n_bytes).unwrap_or(u32::MAX));
        open.pages.push(page.clone());
        open.n_bytes += more;
        self.is_packed |= offset > 0;
        Ok(PageAddress::Object { id, offset })
    }

    /// Size of the objects.
    pub fn n_bytes(&self) -> u64 {
        self.n_bytes
    }

    /// Waits until all objects exist. Only the anchor is missing then.
    ///
    /// # Errors
    /// If an object cannot be written.
    pub fn complete(&mut self) -> Result<(), RNTupleError> {
        self.flush()?;
        self.uploads.wait()?;
        // their names belong to this writer, and only its anchor tells them
        for (name, set) in mem::take(&mut self.sets) {
            let own = set.finish()?;
            self.set_names.push(name);
            self.of_sets.objects += own.objects;
            self.of_sets.requests += own.requests;
            self.of_sets.bytes += own.bytes;
            self.of_sets.server_copies += own.server_copies;
        }
        Ok(())
    }

    /// The anchor to be written.
    fn anchor(&self) -> Result<ObjectAnchor, RNTupleError> {
        let Some(anchor) = self.anchor else {
            let why = "no ntuple was written to it";
            let url = self.url().to_owned();
            return Err(IoError::NotWritten { url, why }.into());
        };
        let mut makers = self.makers.clone();
        makers.sort_by_key(|made| made.first);
        Ok(ObjectAnchor {
            clone_template: self.clone_template.clone(),
            bases: self.bases.clone(),
            is_packed: self.is_packed,
            blocks: match self.blocks.as_slice() {
                [_] => Vec::new(),
                blocks => blocks.to_vec(),
            },
            sets: self.set_names.clone(),
            maker: Some(self.uploads.set().maker().to_owned()),
            makers,
            mark: self.mark.clone(),
            envelopes: self.envelopes.for_anchor(self.is_packed),
            ..ObjectAnchor::new(anchor)
        })
    }

    /// Has the [complete](Self::complete) ntuple appear at another base, below its own, so that it can be read before it
    /// is visible.
    ///
    /// # Errors
    /// If its anchor cannot be written.
    pub fn preview(&self) -> Result<Preview, RNTupleError> {
        let anchor = self.anchor_below()?;
        // no other writer has this block
        let [block, _] = self.blocks.first().copied().unwrap_or_default();
        let below = format!("{PREVIEWS}{block}");
        let preview = Preview(self.uploads.set().below(&below, &self.settings)?);
        replace_anchor(&preview.0, &anchor)?;
        Ok(preview)
    }

    /// The anchor as it is two levels below the base.
    fn anchor_below(&self) -> Result<ObjectAnchor, RNTupleError> {
        let own = self.anchor()?;
        let up = |base: &str| match base.starts_with('/') {
            true => base.to_owned(),
            false => format!("../../{base}"),
        };
        let first = OtherBase {
            first: 0,
            count: OTHERS,
            base: up(""),
        };
        let others = own.bases.iter().map(|other| OtherBase {
            base: up(&other.base),
            ..other.clone()
        });
        Ok(ObjectAnchor {
            clone_template: own
                .clone_template
                .replacen("${baseurl}", "${baseurl}/../..", 1),
            bases: std::iter::once(first).chain(others).collect(),
            blocks: Vec::new(),
            ..own
        })
    }

    /// Makes the ntuple visible, and deletes the objects of the one that it replaces.
    ///
    /// # Errors
    /// If an object or the anchor cannot be written, or another writer has written an anchor in the meantime: nothing of
    /// this ntuple is visible then.
    pub fn finish(mut self) -> Result<ObjectsWritten, RNTupleError> {
        self.complete()?;
        let anchor = self.anchor()?;
        let mut written = self.of_sets;
        let state = self.replaced.as_ref().map(|(state, _)| state);
        let set = self.uploads.set().clone();
        // found before there is an anchor: some stores do not list what is below an object
        let begun = self.begun.take();
        let left = match (&begun, &self.mark) {
            (Some(begun), Some(mark)) => {
                begun.state(&self.checkpoints(mark)?)?;
                self.left_by_steps(begun)?
            }
            _ => Vec::new(),
        };
        self.check_blocks(begun.as_ref())?;
        set.publish(anchor.to_json().into(), state)?;
        // a writer that goes on although it was taken for dead cannot publish its anchor any more
        if !left.is_empty() {
            let _ = set.delete(&left);
            let _ = set.remove_partial();
        }
        if let (Some(begun), Some(mark)) = (begun, &self.mark) {
            // of its own checkpoints, the footers are deleted
            let n_footers = begun.footers.len() - usize::from(begun.n_taken_over > 0);
            written.objects += begun.n_objects.saturating_sub(n_footers as u64);
            let _ = self.checkpoints(mark).and_then(|set| set.delete_anchor());
        }
        written.objects += self.uploads.numbers().len() as u64;
        written.requests += set.traffic().requests;
        written.bytes += self.n_bytes;
        written.server_copies += self.n_copies;
        self.uploads.keep();
        if let Some((_, Some(old))) = &self.replaced {
            // the ntuple is complete: what remains of the other one is found by a sweep
            let _ = delete_old(&set, old, Some(&anchor), &self.settings);
        }
        Ok(written)
    }
}

/// An ntuple in objects that can be read, but does not exist yet at its own base.
#[derive(Debug)]
pub struct Preview(ObjectSet);

impl Preview {
    /// The URL where it can be read.
    pub fn url(&self) -> &str {
        self.0.url()
    }
}

impl Drop for Preview {
    fn drop(&mut self) {
        // one that remains is found by a sweep
        let _ = self.0.delete_anchor();
    }
}

/// Whether the last part of a URL is a number, as the name of an object.
fn is_numbered(url: &str) -> bool {
    let name = url.rsplit('/').next();
    name.is_some_and(|name| name.parse::<u64>().is_ok())
}

/// Writes an anchor, whether there is one or not.
fn replace_anchor(set: &ObjectSet, anchor: &ObjectAnchor) -> Result<(), IoError> {
    let stale = set.anchor()?.map(|(state, _)| state);
    set.publish(anchor.to_json().into(), stale.as_ref())
}

/// The template of the bases of attribute sets, for a writer whose first block this is.
fn clone_template(first: u64) -> String {
    match first {
        0 => format!("${{baseurl}}/{CLONES}${{name}}"),
        first => format!("${{baseurl}}/{CLONES}{first}/${{name}}"),
    }
}

impl PageSink for ObjectSink {
    fn check_place(&self, place: &SinkPlace<'_>) -> Result<(), RNTupleError> {
        let is_continued = place.existing == Existing::Continued;
        let reason = if is_continued && self.begun.is_some() {
            return Ok(());
        } else if self.anchor.is_some() {
            "objects hold one ntuple, and this one is complete: write others to other URLs"
        } else if place.directory != 0 {
            "objects have no directories: write it to another URL"
        } else if is_continued {
            "cannot add to an ntuple in objects: write a new one"
        } else {
            return Ok(());
        };
        Err(unwritable(place.name, reason))
    }

    fn append_payload(
        &mut self,
        payload: &[u8],
        _options: &WriteOptions,
    ) -> Result<PageAddress, RNTupleError> {
        self.flush()?;
        let bytes = Bytes::copy_from_slice(payload);
        let address = self.put(bytes.clone())?;
        if let PageAddress::Object { id, .. } = address {
            self.envelopes.add(id, bytes);
        }
        Ok(address)
    }

    fn append_pages(
        &mut self,
        pages: &[Bytes],
        options: &WriteOptions,
    ) -> Result<Vec<PageAddress>, RNTupleError> {
        let size = options.object_size.or(self.object_size);
        let append = |page: &Bytes| match size.unwrap_or(ObjectSize::USUAL) {
            ObjectSize::Page => self.put(page.clone()),
            size => self.pack(page, size),
        };
        pages.iter().map(append).collect()
    }

    fn end_cluster(&mut self) -> Result<(), RNTupleError> {
        self.flush()
    }

    fn publish(&mut self, place: &SinkPlace<'_>, anchor: &Anchor) -> Result<(), RNTupleError> {
        self.check_place(place)?;
        self.flush()?;
        self.anchor = Some(*anchor);
        Ok(())
    }

    fn file(&mut self) -> Option<&mut FileWriter> {
        None
    }

    fn attribute_set(&mut self, name: &str) -> Result<&mut dyn PageSink, RNTupleError> {
        if !self.sets.contains_key(name) {
            let base = ObjectAnchor {
                clone_template: self.clone_template.clone(),
                ..ObjectAnchor::new(Anchor::default())
            };
            let base = base.attribute_base(name).unwrap_or_default();
            let set = self.uploads.set().below(&base, &self.settings)?;
            // an anchor that a killed writer has left there
            let replaced = set.anchor()?.map(|(state, _)| (state, None));
            let sink = Self::of_set(set, replaced, &self.settings)?;
            self.sets.insert(name.to_owned(), sink);
        }
        match self.sets.get_mut(name) {
            Some(sink) => Ok(sink),
            None => Err(RNTupleError::internal("an attribute set is missing")),
        }
    }

    fn links_sets(&self) -> bool {
        false
    }

    fn shares(&mut self, store: &dyn PageStore) -> Option<Renumbered> {
        let anchor = store.objects()?;
        let url = store.info().url.to_owned();
        match self.added.get(&url) {
            Some(known) => Some(known.clone()),
            None => self.add(&url, anchor),
        }
    }

    fn copies(
        &mut self,
        store: &dyn PageStore,
        objects: &BTreeMap<u64, u64>,
        options: &WriteOptions,
    ) -> Result<Option<Renumbered>, RNTupleError> {
        let set = self.uploads.set().clone();
        let Some(anchor) = store.objects().filter(|_| set.copies()) else {
            return Ok(None);
        };
        let is_right_size = match options.object_size.or(self.object_size) {
            None => true,
            Some(size) => size == ObjectSize::Page && !anchor.is_packed,
        };
        let own = OtherBase {
            first: 0,
            count: OTHERS,
            base: String::new(),
        };
        if !is_right_size || anchor.url_template != OBJECT_TEMPLATE {
            return Ok(None);
        }
        // where the objects are: in the set itself, or in those that it refers to
        let url = store.info().url;
        let bases = std::iter::once(&own).chain(&anchor.bases);
        let bases: Option<Vec<(u64, String)>> = bases
            .map(|base| Some((base.first, set.sees(url, &base.base, &self.settings)?)))
            .collect();
        let Some(bases) = bases else {
            return Ok(None);
        };
        self.flush()?;
        let mut numbers: Vec<(u64, u64)> = Vec::with_capacity(objects.len());
        for (&id, size) in objects {
            let after = bases.partition_point(|(first, _)| *first <= id);
            let Some((first, base)) = after.checked_sub(1).and_then(|at| bases.get(at)) else {
                return Err(RNTupleError::internal("an object of no base"));
            };
            let number = self.number()?;
            self.uploads.copy(number, base, id - first)?;
            for made in anchor.made(id..id + 1) {
                self.note_made(MadeObjects {
                    first: number,
                    ..made
                });
            }
            numbers.push((id, number));
            self.n_bytes += size;
            self.n_copies += 1;
        }
        self.is_packed |= anchor.is_packed;
        Ok(Some(Renumbered::new(numbers)))
    }
}
