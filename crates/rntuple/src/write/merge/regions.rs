//! Moves kept pages to the output in regions of the input's file, as few as possible.
//!
//! Copied data pass through memory, where the checksums of pages are verified. Shared blocks are not read.

use std::ops::Range;

use femtobarn_io::{
    ByteSink, ByteSource, IoError, SourceCost, Transferred, coalesce, note_used, on_threads,
};
use femtobarn_rootfile::FileWriter;

use super::super::catalog::LARGEST_KEY;
use super::options::{MergeOptions, hull};
use crate::RNTupleError;
use crate::read::{Reader, check_page, soundly};
use crate::spec::{Page, StoredRange};

/// Shorter regions are copied: a request to share takes as long as copying this much.
const WORTH_SHARING: u64 = 64 << 10;

/// Gaps between pages that are included: with shared blocks they cost next to nothing, copied they are wasted.
const GAP_SHARED: u64 = 8 << 10;
const GAP_COPIED: u64 = 256;

/// Size of small regions that one thread copies at a time.
const TOGETHER: u64 = 8 << 20;

/// Size of whole pages that one thread copies at a time, so that they stay in the processor's cache.
const PIECE: u64 = 1 << 20;

/// Regions up to this size are read together and written at once.
const SMALL: u64 = 256 << 10;

/// Regions of a file, and their offsets in the output.
#[derive(Debug, Default)]
pub(super) struct Moved {
    regions: Vec<(Range<u64>, u64)>,
    /// The range of all regions in the output.
    pub place: Range<u64>,
}

impl Moved {
    /// The offset of an input's page in the output.
    pub fn offset(&self, offset: u64) -> Option<u64> {
        let behind = self
            .regions
            .partition_point(|(region, _)| region.start <= offset);
        let (region, place) = self.regions.get(behind.checked_sub(1)?)?;
        region
            .contains(&offset)
            .then(|| place + (offset - region.start))
    }
}

/// A kept page, with its column and cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct KeptPage {
    pub page: Page,
    pub column: u32,
    pub cluster: u64,
}

/// The kept pages of an input, in the order of the file, without duplicates.
struct Pages<'r> {
    reader: &'r Reader,
    source: &'r dyn ByteSource,
    pages: Vec<KeptPage>,
}

impl<'r> Pages<'r> {
    fn new(reader: &'r Reader, source: &'r dyn ByteSource, kept: &[KeptPage]) -> Self {
        let place = |kept: &KeptPage| (kept.page.body.address.offset(), kept.page.stored_size());
        // small items are sorted in a third of the time
        let mut order: Vec<(u64, usize)> = kept.iter().map(|it| place(it).0).zip(0..).collect();
        order.sort_unstable();
        let mut pages: Vec<KeptPage> = Vec::with_capacity(kept.len());
        pages.extend(order.iter().filter_map(|&(_, at)| kept.get(at)));
        pages.dedup_by_key(|kept| place(kept));
        Self {
            reader,
            source,
            pages,
        }
    }

    /// The pages that begin in a range.
    fn within(&self, range: &Range<u64>) -> &[KeptPage] {
        let place = |at: u64| {
            let is_before = |kept: &KeptPage| kept.page.body.address.offset() < at;
            self.pages.partition_point(is_before)
        };
        let (first, last) = (place(range.start), place(range.end));
        self.pages.get(first..last).unwrap_or_default()
    }

    /// A region in pieces that do not split pages.
    fn pieces(&self, region: &Range<u64>) -> Vec<Range<u64>> {
        let mut out = Vec::new();
        let (mut start, mut end) = (region.start, region.start);
        for KeptPage { page, .. } in self.within(region) {
            let Range { start: at, end: to } = page.stored().range();
            if at >= end && to - start > PIECE && at > start {
                out.push(start..at);
                start = at;
            }
            end = end.max(to);
        }
        out.push(start..region.end);
        out
    }

    /// The pages in a range, and where they are in its bytes.
    fn places(&self, range: &Range<u64>) -> impl Iterator<Item = (&KeptPage, Range<usize>)> {
        let start = range.start;
        self.within(range).iter().map(move |kept| {
            let place = kept.page.stored().range();
            let at = |at: u64| usize::try_from(at - start).unwrap_or(usize::MAX);
            (kept, at(place.start)..at(place.end))
        })
    }

    /// Verifies the checksum of a page.
    fn check(&self, kept: &KeptPage, stored: &[u8]) -> Result<(), RNTupleError> {
        let Some(record) = self.reader.descriptor().column(kept.column) else {
            return Err(RNTupleError::internal("a page of no column"));
        };
        let place = (kept.column, kept.cluster);
        check_page(self.reader, record, place, &kept.page, stored).map(drop)
    }

    /// Verifies the checksums of the pages in a range. If a page is damaged and there is another copy, it and the rest of the
    /// range are taken from that.
    fn mend(&self, range: &Range<u64>, bytes: &mut [u8]) -> Result<(), RNTupleError> {
        let (store, request) = (self.reader.store(), StoredRange::of_file(range.clone()));
        for (kept, place) in self.places(range) {
            let start = place.start;
            let own = bytes.get(place).ok_or_else(cut)?;
            let places = (&kept.page.stored(), &request);
            let check = |stored: &[u8]| self.check(kept, stored);
            let (checked, again) = soundly(store, places, own, check)?;
            checked?;
            let rest = again.as_ref().and_then(|again| again.get(start..));
            if let Some((rest, own)) = rest.zip(bytes.get_mut(start..)) {
                own.copy_from_slice(rest);
            }
        }
        Ok(())
    }
}

fn cut() -> RNTupleError {
    RNTupleError::internal("a page that was cut")
}

/// What is copied at once.
enum Task {
    /// A region whose blocks are shared.
    Shared(Range<u64>, u64),
    /// A piece of a region.
    Piece(Range<u64>, u64),
    /// Several regions that are adjacent in the output.
    Several(Vec<Range<u64>>, u64),
}

/// Moves pages of an input to the output, sharing blocks if possible, and returns their new locations.
pub(super) fn bring(
    file: &mut FileWriter,
    (reader, source): (&Reader, &dyn ByteSource),
    kept: &[KeptPage],
    options: &MergeOptions,
    tick: &(dyn Fn(u64) -> bool + Sync),
) -> Result<(Moved, Transferred), RNTupleError> {
    let pages = Pages::new(reader, source, kept);
    let ranges = pages.pages.iter().map(|kept| kept.page.stored().range());
    let ranges: Vec<Range<u64>> = ranges.collect();
    let most = options.write.max_key_size.min(LARGEST_KEY);
    let block = file.sink().share_block(source).filter(|_| options.share);
    let cost = SourceCost {
        largest_gap: if block.is_some() {
            GAP_SHARED
        } else {
            GAP_COPIED
        },
        most_gaps: None,
        largest_request: most.saturating_sub(block.unwrap_or(0)),
        most_ranges: usize::MAX,
        concurrency: 1,
        ..SourceCost::default()
    };
    let regions: Vec<Range<u64>> = coalesce(&ranges, &cost)
        .into_iter()
        .map(|request| request.range)
        .collect();
    let mut moved = Moved::default();
    let mut done = Transferred::default();
    let mut rest = regions.as_slice();
    while !rest.is_empty() {
        let blob = place(rest, file.next_blob()?, block, most);
        let taken = blob.regions.len();
        let threads = options.write.threads;
        let mut is_able = block.is_some();
        let all = file.append_filled(blob.length, |sink, _| {
            let long = blob.regions.iter().find(|(region, _)| is_long(region));
            if let Some((block, first)) = block.zip(long) {
                is_able = can_share(sink, source, first, block)?;
            }
            let (tasks, share) = tasks(&blob.regions, is_able, &pages);
            let shared = perform((sink, &pages), share, threads, tick)?;
            let copied = perform((sink, &pages), tasks, threads, tick)?;
            Ok::<Transferred, RNTupleError>(shared.and(copied))
        })?;
        done = done.and(all);
        if options.share && !is_able {
            let long = blob.regions.iter().filter(|(region, _)| is_long(region));
            done.refused += long
                .map(|(region, _)| region.end - region.start)
                .sum::<u64>();
        }
        moved.place = hull(&moved.place, &(blob.start..blob.start + blob.length));
        moved.regions.extend(blob.regions);
        rest = rest.get(taken.max(1)..).unwrap_or_default();
    }
    Ok((moved, done))
}

/// Whether a region is worth sharing.
fn is_long(region: &Range<u64>) -> bool {
    region.end - region.start >= WORTH_SHARING
}

/// Whether a file system shares blocks, tested with the first block of a region. A refused request would be copied
/// without verification.
fn can_share(
    sink: &dyn ByteSink,
    source: &dyn ByteSource,
    (region, place): &(Range<u64>, u64),
    block: u64,
) -> Result<bool, IoError> {
    let whole = region.start.next_multiple_of(block).saturating_add(block);
    let first = region.start..whole.min(region.end);
    let done = sink.transfer(source, &first, *place, true)?;
    Ok(!done.unable)
}

/// The payload of a record.
struct Blob {
    start: u64,
    length: u64,
    regions: Vec<(Range<u64>, u64)>,
}

/// Places as many regions as fit in a record, one after another. Regions whose blocks may be shared have the same offset
/// within a block as in their file.
fn place(regions: &[Range<u64>], start: u64, block: Option<u64>, most: u64) -> Blob {
    let mut blob = Blob {
        start,
        length: 0,
        regions: Vec::new(),
    };
    for region in regions {
        let mut at = start + blob.length;
        if let Some(block) = block.filter(|_| is_long(region)) {
            at += (region.start % block + block - at % block) % block;
        }
        let end = at + (region.end - region.start) - start;
        if end > most && !blob.regions.is_empty() {
            break;
        }
        blob.length = end;
        blob.regions.push((region.clone(), at));
    }
    blob
}

/// The tasks to copy, and the tasks to share.
fn tasks(regions: &[(Range<u64>, u64)], share: bool, pages: &Pages<'_>) -> (Vec<Task>, Vec<Task>) {
    let mut copied: Vec<Task> = Vec::new();
    let mut shared = Vec::new();
    // the end of the small regions collected so far, and their size
    let mut last = (0, 0);
    for (region, place) in regions {
        let n_bytes = region.end - region.start;
        if share && is_long(region) {
            shared.push(Task::Shared(region.clone(), *place));
        } else if n_bytes > SMALL {
            for piece in pages.pieces(region) {
                let place = place + (piece.start - region.start);
                copied.push(Task::Piece(piece, place));
            }
        } else {
            match copied.last_mut() {
                Some(Task::Several(several, _)) if last.0 == *place && last.1 < TOGETHER => {
                    several.push(region.clone());
                    last.1 += n_bytes;
                }
                _ => {
                    copied.push(Task::Several(vec![region.clone()], *place));
                    last.1 = n_bytes;
                }
            }
            last.0 = place + n_bytes;
        }
    }
    (copied, shared)
}

fn perform(
    (sink, pages): (&dyn ByteSink, &Pages<'_>),
    tasks: Vec<Task>,
    threads: usize,
    tick: &(dyn Fn(u64) -> bool + Sync),
) -> Result<Transferred, RNTupleError> {
    let source = pages.source;
    let mut buffers = vec![Vec::new(); threads.max(1)];
    let work = |buffer: &mut Vec<u8>, task: Task| {
        let done = match task {
            Task::Shared(region, place) => {
                let done = sink.transfer(source, &region, place, true)?;
                note_used(source, done.through_memory);
                if done.refused > 0 {
                    check_again(pages, &region, buffer)?;
                }
                done
            }
            Task::Piece(piece, place) => {
                read(source, &piece, buffer)?;
                pages.mend(&piece, buffer)?;
                sink.write_at(place, buffer)?;
                Transferred {
                    through_memory: buffer.len() as u64,
                    ..Transferred::default()
                }
            }
            Task::Several(regions, place) => together(sink, pages, &regions, place, buffer)?,
        };
        if tick(done.n_bytes()) {
            Ok(done)
        } else {
            Err(RNTupleError::Interrupted)
        }
    };
    let done = on_threads(&mut buffers, tasks, work)?;
    Ok(done
        .into_iter()
        .fold(Transferred::default(), Transferred::and))
}

fn read(source: &dyn ByteSource, range: &Range<u64>, buffer: &mut Vec<u8>) -> Result<(), IoError> {
    let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    buffer.resize(length, 0);
    source.read_into(range.start, buffer)?;
    note_used(source, buffer.len() as u64);
    Ok(())
}

/// Verifies pages that were copied because the file system refused to share a file or a range.
fn check_again(
    pages: &Pages<'_>,
    region: &Range<u64>,
    buffer: &mut Vec<u8>,
) -> Result<(), RNTupleError> {
    for piece in pages.pieces(region) {
        read(pages.source, &piece, buffer)?;
        for (kept, place) in pages.places(&piece) {
            pages.check(kept, buffer.get(place).ok_or_else(cut)?)?;
        }
    }
    Ok(())
}

/// Reads regions, and writes them one after another.
fn together(
    sink: &dyn ByteSink,
    pages: &Pages<'_>,
    regions: &[Range<u64>],
    place: u64,
    buffer: &mut Vec<u8>,
) -> Result<Transferred, RNTupleError> {
    let source = pages.source;
    let requests = coalesce(regions, &source.cost());
    let ranges: Vec<Range<u64>> = requests
        .iter()
        .map(|request| request.range.clone())
        .collect();
    let answers = source.read_ranges(&ranges)?;
    buffer.clear();
    // both have the order of the file
    for (request, answer) in requests.iter().zip(&answers) {
        let members = request.members.iter().filter_map(|&at| regions.get(at));
        for region in members {
            let bytes = request.slice(answer, region).unwrap_or_default();
            let start = buffer.len();
            buffer.extend_from_slice(&bytes);
            pages.mend(region, buffer.get_mut(start..).unwrap_or_default())?;
            note_used(source, bytes.len() as u64);
        }
    }
    sink.write_at(place, buffer)?;
    Ok(Transferred {
        through_memory: buffer.len() as u64,
        ..Transferred::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_regions_begin_at_the_same_place_of_a_block() {
        let regions = [100..200_000, 300_001..300_010, 400_002..500_000];
        let blob = place(&regions, 5000, Some(4096), 1 << 30);
        let places: Vec<u64> = blob.regions.iter().map(|(_, place)| *place).collect();
        assert_eq!(places.len(), 3);
        assert_eq!(places[0] % 4096, 100);
        // a region that is not worth sharing follows immediately
        assert_eq!(places[1], places[0] + 199_900);
        assert_eq!(places[2] % 4096, 400_002 % 4096);
        assert!(places[2] - (places[1] + 9) < 4096);
        assert_eq!(blob.start + blob.length, places[2] + 99_998);
    }

    #[test]
    fn a_record_takes_no_more_than_it_may() {
        let regions = [0..600, 1000..1300, 2000..2500];
        let blob = place(&regions, 77, None, 1000);
        assert_eq!((blob.length, blob.regions.len()), (900, 2));
        let blob = place(&regions[2..], 977, None, 100);
        assert_eq!((blob.length, blob.regions.len()), (500, 1));
    }

    #[test]
    fn pages_are_found_where_their_regions_are() {
        let moved = Moved {
            regions: vec![(10..20, 1000), (50..90, 1010)],
            place: 0..0,
        };
        assert_eq!(moved.offset(15), Some(1005));
        assert_eq!(moved.offset(50), Some(1010));
        assert_eq!(moved.offset(20), None);
        assert_eq!(moved.offset(9), None);
    }
}
