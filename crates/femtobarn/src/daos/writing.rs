//! Writing one ntuple: numbers of values, joining of pages, and requests in the background.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::mem;
use std::ops::Range;
use std::process;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use femtobarn_daos::mapping::{
    DaosAnchor, FOOTER, HEADER, LISTS, Piece, SPLICE_BYTES, Spliced, splice,
};
use femtobarn_daos::{
    Container, DaosError, Envelopes, Existing, NTupleValues, ObjectClass, add_name, remove_name,
};
use femtobarn_io::IoError;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::spec::{Anchor, EnvelopeLink, PageAddress};
use femtobarn_rntuple::write::{ObjectSize, ObjectsWritten, PageSink, SinkPlace, WriteOptions};
use femtobarn_rootfile::{FileWriter, Uuid};

use super::claims::{Claims, Owner, is_claim, remove_values};
use super::source::{PREVIEW, presented, set_base, set_name};
use super::unwritten;

/// Numbers of pages in a block, and of page lists.
pub(super) const BLOCK: u64 = 1 << 20;
/// Blocks of an ntuple.
const BLOCKS: u64 = LISTS / BLOCK;
/// Bytes that are written together. At most three times as many are in memory.
pub(super) const BATCH: u64 = 16 << 20;
/// Number of values that are looked for at once.
const AT_ONCE: u64 = 1024;

/// Values, as the pieces that they are joined of.
type Batch = Vec<(u64, Vec<Bytes>)>;

/// An ntuple that is being written. If it is dropped before it is [kept](Self::keep), its values are removed.
#[derive(Debug)]
pub(super) struct Writing {
    url: String,
    pub name: String,
    values: NTupleValues,
    /// The object class as it was given.
    class: String,
    /// The size of values with pages, unless options say another.
    object_size: Option<ObjectSize>,
    blocks: Vec<Block>,
    next_block: u64,
    claims: Claims,
    pending: Batch,
    pending_bytes: u64,
    writes: Writes,
    /// The first payload, which is the header, and the last one, which is the footer in the end.
    first: Option<(u64, Bytes)>,
    last: Option<(u64, Bytes)>,
    largest_value: u64,
    anchor: Option<Anchor>,
    sets: BTreeMap<String, Writing>,
    written: ObjectsWritten,
    /// What the ntuple is made from, if it is written in steps.
    pub mark: Option<Uuid>,
    resumed: Option<Resumed>,
    is_published: bool,
    /// Whether a killed writer has made it visible.
    was_published: bool,
    is_kept: bool,
}

/// What a killed writer has written of an ntuple.
#[derive(Debug)]
struct Resumed {
    /// The first number of its first block.
    block: u64,
    /// What may be left in these blocks of what it wrote after its last step.
    left: Vec<Range<u64>>,
}

/// Numbers that belong to this writer, as it has written the first number of page lists: pages from `first` on, and page lists
/// from `LISTS + first` on.
#[derive(Debug)]
struct Block {
    first: u64,
    n_pages: u64,
    n_lists: u64,
    /// Numbers of pages and of page lists in steps, which stay when the writer fails.
    kept: (u64, u64),
}

impl Block {
    fn numbers(&self) -> [Range<u64>; 2] {
        let Self {
            first,
            n_pages,
            n_lists,
            kept: (pages, lists),
        } = self;
        let list = LISTS + first;
        [first + pages..first + n_pages, list + lists..list + n_lists]
    }
}

/// The name of an ntuple that is read before it is visible: by the block of its writer, or by the mark of its steps.
pub(super) fn preview_name(index: u32, of: impl Display) -> String {
    format!("{index:08x}/{of}{PREVIEW}")
}

/// The numbers in ranges that have values. It ends in each where [`AT_ONCE`] numbers have none.
pub(super) fn existing(
    values: &NTupleValues,
    ranges: impl IntoIterator<Item = Range<u64>>,
) -> Result<Vec<u64>, DaosError> {
    let mut found = Vec::new();
    for Range { mut start, end } in ranges {
        while start < end {
            let some: Vec<u64> = (start..end.min(start + AT_ONCE)).collect();
            let sizes = values.sizes(&some)?;
            let before = found.len();
            let there = some.iter().zip(sizes);
            found.extend(there.filter_map(|(number, size)| size.map(|_| *number)));
            if found.len() == before {
                break;
            }
            start += AT_ONCE;
        }
    }
    Ok(found)
}

/// What follows the last of these numbers in the block of a claim: pages, and page lists.
pub(super) fn behind(numbers: &BTreeSet<u64>, claim: u64) -> [Range<u64>; 2] {
    let rest = |first: u64| {
        let end = first.saturating_add(BLOCK).min(HEADER);
        let last = numbers.range(first..end).next_back();
        last.map_or(first, |last| last + 1)..end
    };
    [rest(claim - LISTS), rest(claim)]
}

/// The claims of blocks that numbers belong to.
pub(super) fn claims(numbers: &[u64]) -> Vec<u64> {
    let first = |number: &u64| LISTS + (number % LISTS) / BLOCK * BLOCK;
    let mut claims: Vec<u64> = numbers.iter().map(first).collect();
    claims.sort_unstable();
    claims.dedup();
    claims
}

impl Writing {
    /// Begins an ntuple, with numbers from a block on. Its claims are added to those of the writer.
    pub fn new(
        (url, name): (&str, &str),
        values: NTupleValues,
        class: &str,
        object_size: Option<ObjectSize>,
        next_block: u64,
        claims: Claims,
    ) -> Self {
        Self {
            url: url.to_owned(),
            name: name.to_owned(),
            writes: Writes::new(values.clone(), claims.clone()),
            values,
            class: class.to_owned(),
            object_size,
            blocks: Vec::new(),
            next_block,
            claims,
            pending: Vec::new(),
            pending_bytes: 0,
            first: None,
            last: None,
            largest_value: 0,
            anchor: None,
            sets: BTreeMap::new(),
            written: ObjectsWritten::default(),
            mark: None,
            resumed: None,
            is_published: false,
            was_published: false,
            is_kept: false,
        }
    }

    /// Goes on with what a killed writer has made in steps: its anchor, header and footer, and the numbers of its values. The
    /// blocks of that writer are claimed on; false if a sweep has removed a claim.
    ///
    /// # Errors
    /// If they cannot be claimed.
    pub fn resume(
        &mut self,
        anchor: &DaosAnchor,
        envelopes: Envelopes,
        numbers: &BTreeSet<u64>,
    ) -> Result<bool, RNTupleError> {
        let claims: Vec<u64> = numbers.iter().copied().filter(is_claim).collect();
        let left = claims.iter().flat_map(|claim| behind(numbers, *claim));
        let left = left.collect();
        self.has_so_far(envelopes, anchor);
        if let Some(spliced) = anchor.spliced {
            self.largest_value = spliced.largest_value.into();
            self.resumed = Some(Resumed {
                block: spliced.block.into(),
                left,
            });
        }
        let (values, mark) = (&self.values, self.mark);
        let taken = self.claims.take_over(&self.ntuple(), values, &claims, mark);
        taken.map_err(|error| self.failed(error))
    }

    /// Takes it as complete: a killed writer has made it visible.
    pub fn take_as_published(&mut self) {
        self.was_published = true;
        self.is_published = true;
        self.is_kept = true;
    }

    /// The first number of the first block.
    fn first_block(&self) -> u64 {
        let own = || self.blocks.first().map_or(0, |block| block.first);
        self.resumed
            .as_ref()
            .map_or_else(own, |resumed| resumed.block)
    }

    /// Whether nothing of it remains when it is dropped.
    pub fn is_abandoned(&self) -> bool {
        let has_steps = self.blocks.iter().any(|block| block.kept != (0, 0));
        !self.is_kept && !has_steps && self.resumed.is_none() && self.writes.is_own()
    }

    pub fn is_published(&self) -> bool {
        self.is_published
    }

    pub fn values(&self) -> &NTupleValues {
        &self.values
    }

    /// The class of the values.
    pub fn class(&self) -> ObjectClass {
        self.values.places().pages
    }

    /// Takes header and footer for those of the ntuple so far: by the numbers that readers give them, whose descriptors are
    /// written on.
    fn has_so_far(&mut self, envelopes: Envelopes, anchor: &DaosAnchor) {
        self.first = Some((HEADER, envelopes.header));
        self.last = Some((FOOTER, envelopes.footer));
        self.anchor = Some(presented(anchor).anchor);
    }

    /// Ends a step: what is written so far can be read at the returned name, and stays. It also appears under the name of the
    /// mark, where whoever resumes it finds it.
    pub fn checkpoint(&mut self) -> Result<String, RNTupleError> {
        self.complete()?;
        let mark = self.mark.unwrap_or_default();
        let name = preview_name(self.values.places().values, mark);
        let own = self.own_name()?;
        let (envelopes, anchor) = self.last()?;
        self.appear_as(&own, &envelopes, anchor.clone())?;
        if !self.is_published {
            self.appear_as(&name, &envelopes, anchor.clone())?;
            self.has_so_far(envelopes, &anchor);
        }
        for block in &mut self.blocks {
            block.kept = (block.n_pages, block.n_lists);
        }
        self.sets.values_mut().for_each(Self::keep);
        Ok(own)
    }

    /// The name of what is written so far. Of writers with one mark, each reads only its own.
    pub fn own_name(&mut self) -> Result<String, RNTupleError> {
        let block = self.block(|_| false)?.first;
        Ok(preview_name(self.values.places().values, block))
    }

    /// Removes what steps have left that does not belong to the ntuple.
    pub fn remove_steps(&self) -> Result<(), DaosError> {
        let Some(mark) = self.mark else {
            return Ok(());
        };
        let name = preview_name(self.values.places().values, mark);
        self.values.named(&name).remove_envelopes()?;
        self.remove_own_name()?;
        let Some(resumed) = &self.resumed else {
            return Ok(());
        };
        let mut left = existing(&self.values, resumed.left.iter().cloned())?;
        if self.was_published {
            left.extend(self.blocks.iter().map(|block| LISTS + block.first));
        }
        self.values.remove(left)
    }

    fn remove_own_name(&self) -> Result<(), DaosError> {
        let Some(block) = self.blocks.first() else {
            return Ok(());
        };
        let name = preview_name(self.values.places().values, block.first);
        self.values.named(&name).remove_envelopes()
    }

    pub fn n_bytes(&self) -> u64 {
        let sets = self.sets.values().map(Self::n_bytes);
        self.written.bytes + sets.sum::<u64>()
    }

    /// Values of the ntuple and of its attribute sets, without anchors.
    pub fn written(&self) -> ObjectsWritten {
        let mut all = self.written;
        for set in self.sets.values() {
            let own = set.written();
            all.objects += own.objects;
            all.bytes += own.bytes;
        }
        all
    }

    /// The ntuple, for errors.
    fn ntuple(&self) -> String {
        format!("{}:{}", self.url, self.name)
    }

    fn failed(&self, error: DaosError) -> RNTupleError {
        unwritten(&self.url, error).into()
    }

    /// The block with free numbers of a kind.
    fn block(&mut self, is_full: impl Fn(&Block) -> bool) -> Result<&mut Block, RNTupleError> {
        if self.blocks.last().is_none_or(is_full) {
            self.claim()?;
        }
        let block = self.blocks.last_mut();
        block.ok_or_else(|| RNTupleError::internal("no block of numbers"))
    }

    fn claim(&mut self) -> Result<(), RNTupleError> {
        // a forked process claims nothing
        self.writes.check(&self.url)?;
        let ntuple = self.ntuple();
        for _ in 0..BLOCKS {
            let first = self.next_block % BLOCKS * BLOCK;
            self.next_block += 1;
            let (values, mark) = (&self.values, self.mark);
            let claimed = self.claims.claim(&ntuple, values, LISTS + first, mark);
            if claimed.map_err(|error| self.failed(error))? {
                self.blocks.push(Block {
                    first,
                    n_pages: 0,
                    n_lists: 1,
                    kept: (0, 0),
                });
                return Ok(());
            }
        }
        let why = "no numbers of pages are left: `fb sweep` removes what killed writers have left";
        let url = self.url.clone();
        Err(IoError::NotWritten { url, why }.into())
    }

    fn page_number(&mut self) -> Result<u64, RNTupleError> {
        let block = self.block(|block| block.n_pages == BLOCK)?;
        block.n_pages += 1;
        Ok(block.first + block.n_pages - 1)
    }

    fn list_number(&mut self) -> Result<u64, RNTupleError> {
        let block = self.block(|block| {
            block.n_lists == BLOCK || LISTS + block.first + block.n_lists >= HEADER
        })?;
        block.n_lists += 1;
        Ok(LISTS + block.first + block.n_lists - 1)
    }

    /// Begins to write a value.
    fn put(&mut self, number: u64, parts: Vec<Bytes>) -> Result<(), RNTupleError> {
        let n = parts.iter().map(|part| part.len() as u64).sum::<u64>();
        if number < LISTS {
            self.largest_value = self.largest_value.max(n);
        }
        self.written.objects += 1;
        self.written.bytes += n;
        self.pending.push((number, parts));
        self.pending_bytes += n;
        // a sweep removes the values of writers that have not claimed their blocks for long
        if self.pending_bytes >= BATCH || self.claims.are_old() {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), RNTupleError> {
        self.pending_bytes = 0;
        match mem::take(&mut self.pending) {
            batch if batch.is_empty() => Ok(()),
            batch => Ok(self.writes.send(&self.url, batch)?),
        }
    }

    /// Waits until all values but header, footer and anchor exist, and renews old claims. Attribute sets are published: their
    /// names belong to this writer, and only its anchor tells them.
    pub fn complete(&mut self) -> Result<(), RNTupleError> {
        self.flush()?;
        for set in self.sets.values_mut() {
            set.complete()?;
            if !set.is_published {
                set.publish(Existing::Replaced)?;
            }
        }
        self.writes.wait(&self.url)?;
        Ok(self.claims.renew()?)
    }

    /// What is written last.
    fn last(&self) -> Result<(Envelopes, DaosAnchor), RNTupleError> {
        let Some(anchor) = self.anchor else {
            let why = "no ntuple was written to it";
            let url = self.url.clone();
            return Err(IoError::NotWritten { url, why }.into());
        };
        let payload = |link: &EnvelopeLink| {
            let payloads = self.first.iter().chain(&self.last);
            let mut found = payloads.filter(|(id, _)| {
                link.stored.address == PageAddress::Object { id: *id, offset: 0 }
            });
            let found = found.next().map(|(_, bytes)| bytes.clone());
            found.ok_or_else(|| {
                RNTupleError::internal("header or footer is not the first or last payload")
            })
        };
        let envelopes = Envelopes {
            header: payload(&anchor.header)?,
            footer: payload(&anchor.footer)?,
        };
        let size = |size: u64| {
            u32::try_from(size).map_err(|_| RNTupleError::Usage {
                what: format!("{}: header and footer have at most 4 GiB in DAOS", self.url),
            })
        };
        let places = self.values.places();
        let anchor = DaosAnchor {
            version: anchor.version,
            header_size: size(anchor.header.stored.size)?,
            header_length: size(anchor.header.length)?,
            footer_size: size(anchor.footer.stored.size)?,
            footer_length: size(anchor.footer.length)?,
            class: self.class.clone(),
            spliced: Some(Spliced {
                class: places.pages,
                largest_value: size(self.largest_value)?,
                block: size(self.first_block())?,
                index: 0,
            }),
        };
        Ok((envelopes, anchor))
    }

    /// Makes the complete ntuple visible.
    pub fn publish(&mut self, existing: Existing) -> Result<(), RNTupleError> {
        let (envelopes, anchor) = self.last()?;
        let published = self.values.publish(&envelopes, &anchor, existing);
        published.map_err(|error| match error {
            DaosError::Exists { .. } => {
                let url = self.ntuple();
                IoError::Exists { url }.into()
            }
            error => self.failed(error),
        })?;
        let sizes = [&envelopes.header, &envelopes.footer].map(|bytes| bytes.len() as u64);
        self.written.objects += 2;
        self.written.bytes += sizes.iter().sum::<u64>();
        self.is_published = true;
        Ok(())
    }

    /// Keeps the values when this is dropped.
    pub fn keep(&mut self) {
        self.is_kept = true;
        self.sets.values_mut().for_each(Self::keep);
    }

    /// Has the complete ntuple appear under another name.
    pub fn preview(&mut self) -> Result<Preview, RNTupleError> {
        let name = self.own_name()?;
        let (envelopes, anchor) = self.last()?;
        Ok(Preview {
            values: self.appear_as(&name, &envelopes, anchor)?,
            name,
        })
    }

    fn appear_as(
        &self,
        name: &str,
        envelopes: &Envelopes,
        mut anchor: DaosAnchor,
    ) -> Result<NTupleValues, RNTupleError> {
        if let Some(spliced) = &mut anchor.spliced {
            spliced.index = self.values.places().values;
        }
        let named = self.values.named(name);
        let published = named.publish(envelopes, &anchor, Existing::Replaced);
        published.map_err(|error| self.failed(error))?;
        Ok(named)
    }

    /// Writes pages of a column, joined to values up to a size.
    fn join(&mut self, pages: &[Bytes], most: u64) -> Result<Vec<PageAddress>, RNTupleError> {
        let sizes: Vec<u64> = pages.iter().map(|page| page.len() as u64).collect();
        let mut pages = pages.iter();
        let mut addresses = Vec::with_capacity(sizes.len());
        for value in splice(&sizes, most).chunk_by(|one, next| one.value == next.value) {
            let id = self.page_number()?;
            addresses.extend(
                value
                    .iter()
                    .map(|&Piece { offset, .. }| PageAddress::Object { id, offset }),
            );
            let parts = pages.by_ref().take(value.len());
            self.put(id, parts.cloned().collect())?;
        }
        Ok(addresses)
    }
}

impl PageSink for Writing {
    fn check_place(&self, _place: &SinkPlace<'_>) -> Result<(), RNTupleError> {
        Ok(())
    }

    fn append_payload(
        &mut self,
        payload: &[u8],
        _options: &WriteOptions,
    ) -> Result<PageAddress, RNTupleError> {
        let id = self.list_number()?;
        let payload = (id, Bytes::copy_from_slice(payload));
        if self.first.is_none() {
            self.first = Some(payload);
        } else if let Some((number, list)) = self.last.replace(payload)
            && number != FOOTER
        {
            self.put(number, vec![list])?;
        }
        Ok(PageAddress::Object { id, offset: 0 })
    }

    fn append_pages(
        &mut self,
        pages: &[Bytes],
        options: &WriteOptions,
    ) -> Result<Vec<PageAddress>, RNTupleError> {
        let most = match options.object_size.or(self.object_size) {
            None => SPLICE_BYTES,
            Some(ObjectSize::Page) => 0,
            Some(ObjectSize::Bytes(most)) => most.min(ObjectSize::LARGEST),
            Some(ObjectSize::Cluster) => ObjectSize::LARGEST,
        };
        self.join(pages, most)
    }

    fn joins_pages(&self) -> bool {
        true
    }

    fn publish(&mut self, _place: &SinkPlace<'_>, anchor: &Anchor) -> Result<(), RNTupleError> {
        self.anchor = Some(*anchor);
        Ok(())
    }

    fn attribute_set(&mut self, name: &str) -> Result<&mut dyn PageSink, RNTupleError> {
        if !self.sets.contains_key(name) {
            let block = match &self.resumed {
                Some(resumed) => resumed.block,
                None => self.block(|_| false)?.first,
            };
            let full = set_name(self.values.places().values, block, &set_base(name));
            let container: Arc<Container> = self.values.container().clone();
            let values = NTupleValues::new(container, &full, &self.class);
            let values = values.map_err(|error| self.failed(error))?;
            // a sweep finds by it what a killed writer has left
            let named = add_name(values.container(), &full, values.places().pages);
            named.map_err(|error| self.failed(error))?;
            let place = (self.url.as_str(), full.as_str());
            let claims = self.claims.clone();
            let set = Self::new(place, values, &self.class, self.object_size, 0, claims);
            self.sets.insert(name.to_owned(), set);
        }
        match self.sets.get_mut(name) {
            Some(set) => Ok(set),
            None => Err(RNTupleError::internal("an attribute set is missing")),
        }
    }

    fn links_sets(&self) -> bool {
        false
    }

    fn file(&mut self) -> Option<&mut FileWriter> {
        None
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // the values of a forked process are those of its parent
        if self.is_kept || !self.writes.is_own() {
            return;
        }
        self.writes.end();
        self.claims.release(&self.values);
        let first = self.blocks.first().map(|block| block.first);
        let (claims, values, mark) = (&self.claims, &self.values, self.mark);
        self.blocks.retain_mut(|block| {
            let owner = claims.owner(values, LISTS + block.first, mark);
            if matches!(owner, Ok(Owner::ThisAgain)) {
                // a sweep has also removed the steps
                block.kept = (0, 0);
            }
            matches!(owner, Ok(Owner::This | Owner::ThisAgain))
        });
        // what has the number of its first block in its name
        let is_own = self.blocks.first().map(|block| block.first) == first;
        // what remains is not visible, and is found by a sweep
        if is_own && self.is_published && self.values.remove_envelopes().is_err() {
            return;
        }
        if is_own {
            let _ = self.remove_own_name();
        }
        let numbers = self.blocks.iter().flat_map(Block::numbers).flatten();
        let _ = remove_values(&self.values, numbers);
        for (_, set) in mem::take(&mut self.sets) {
            if is_own && set.is_abandoned() {
                let (container, name, class) =
                    (self.values.container(), set.name.clone(), set.class());
                drop(set);
                let _ = remove_name(container, &name, class);
            }
        }
    }
}

/// An ntuple that can be read, but does not exist yet under its own name.
#[derive(Debug)]
pub(super) struct Preview {
    pub name: String,
    values: NTupleValues,
}

impl Drop for Preview {
    fn drop(&mut self) {
        // one that remains is found by a sweep
        let _ = self.values.remove_envelopes();
    }
}

/// Writes batches in a thread, one after the other, while the next one is collected. An error is returned by the next call.
#[derive(Debug)]
struct Writes {
    values: NTupleValues,
    claims: Claims,
    worker: Option<(SyncSender<Batch>, JoinHandle<()>)>,
    failure: Arc<Mutex<Option<IoError>>>,
    has_failed: bool,
    /// The process that has the thread.
    owner: u32,
}

impl Writes {
    fn new(values: NTupleValues, claims: Claims) -> Self {
        Self {
            values,
            claims,
            worker: None,
            failure: Arc::default(),
            has_failed: false,
            owner: process::id(),
        }
    }

    fn is_own(&self) -> bool {
        self.owner == process::id()
    }

    fn send(&mut self, url: &str, batch: Batch) -> Result<(), IoError> {
        self.check(url)?;
        if self.worker.is_none() {
            let (values, claims) = (self.values.clone(), self.claims.clone());
            let (own_url, failure) = (url.to_owned(), self.failure.clone());
            let (sender, receiver) = sync_channel::<Batch>(1);
            let work = move || {
                for batch in receiver {
                    // just before: meanwhile the numbers may have become those of another writer
                    let claimed = claims.renew();
                    let write = |()| {
                        values
                            .write(batch)
                            .map_err(|error| unwritten(&own_url, error))
                    };
                    if let Err(error) = claimed.and_then(write) {
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                        break;
                    }
                }
            };
            let thread = thread::Builder::new().name("daos-writes".to_owned());
            let thread = thread.spawn(work).map_err(|source| IoError::Create {
                url: url.to_owned(),
                source,
            })?;
            self.worker = Some((sender, thread));
        }
        let sent = self.worker.as_ref().map(|(sender, _)| sender.send(batch));
        match sent {
            Some(Ok(())) => Ok(()),
            // it has ended with an error
            _ => self.wait(url),
        }
    }

    /// Waits until all is written.
    fn wait(&mut self, url: &str) -> Result<(), IoError> {
        if self.is_own() {
            self.end();
        }
        self.check(url)
    }

    fn end(&mut self) {
        if let Some((sender, thread)) = self.worker.take() {
            drop(sender);
            let _ = thread.join();
        }
    }

    fn check(&mut self, url: &str) -> Result<(), IoError> {
        let refused = |why| IoError::NotWritten {
            url: url.to_owned(),
            why,
        };
        if !self.is_own() {
            return Err(refused("another process has started to write this ntuple"));
        }
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        match (failure.take(), self.has_failed) {
            (Some(error), _) => {
                self.has_failed = true;
                Err(error)
            }
            (None, true) => Err(refused("an earlier value could not be written")),
            (None, false) => Ok(()),
        }
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        match self.is_own() {
            true => self.end(),
            // the thread does not exist here
            false => mem::forget(self.worker.take()),
        }
    }
}
