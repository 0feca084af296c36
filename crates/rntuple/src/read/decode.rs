//! Decodes pieces of pages to their final positions.

use std::sync::Arc;
use std::time::Instant;

use super::cache::{PageCache, PageKey};
use super::fetch::{Decode, Fetched};
use super::plan::{Part, Piece};
use super::reader::{Reader, page_error};
use super::stats::{Stats, add, elapsed};
use crate::RNTupleError;
use crate::encoding::{PageDecoder, PageError, Scratch, Target, copy};
use crate::spec::{ColumnRecord, Page, StoredRange};

/// A piece of a page, and the position of its elements in the result.
#[derive(Debug)]
pub(super) struct Job<'a> {
    /// Index of the part.
    pub part: usize,
    /// Physical column.
    pub column: u32,
    /// The cluster's number, for messages.
    pub cluster: u64,
    /// The piece to decode.
    pub piece: Piece,
    /// The form of decoded elements.
    pub target: Target,
    /// Where to write them.
    pub out: &'a mut [u8],
}

impl Job<'_> {
    /// Key of the page in a cache.
    pub fn key(&self, part: &Part) -> PageKey {
        PageKey {
            reader: Arc::as_ptr(&part.reader) as usize,
            column: self.column,
            address: self.piece.page.body.address,
            n_elements: self.piece.page.n_elements,
            target: self.target,
        }
    }

    fn is_whole(&self) -> bool {
        self.piece.low == 0 && self.piece.high == self.piece.page.n_elements
    }

    /// Copies the wanted elements from those of the whole page.
    pub fn copy_from(&mut self, page: &[u8]) -> Result<(), PageError> {
        let size = self.target.size();
        let (low, high) = (self.piece.low as usize, self.piece.high as usize);
        let wanted = page.get(low.saturating_mul(size)..high.saturating_mul(size));
        copy(wanted.unwrap_or_default(), self.out)
    }
}

impl Fetched for Job<'_> {
    fn part(&self) -> usize {
        self.part
    }

    fn stored(&self) -> StoredRange {
        self.piece.page.stored()
    }
}

/// Decodes jobs on one thread.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    parts: &'a [Part],
    cache: Option<&'a PageCache>,
    decoder: PageDecoder,
    whole_page: Scratch,
    /// The page whose elements are in `whole_page`.
    held: Option<PageKey>,
    stats: Stats,
}

impl<'a> Worker<'a> {
    pub fn new(parts: &'a [Part], cache: Option<&'a PageCache>) -> Self {
        let (decoder, whole_page) = Default::default();
        Self {
            parts,
            cache,
            decoder,
            whole_page,
            held: None,
            stats: Stats::default(),
        }
    }

    /// Decodes the stored bytes of a job's page, which are followed by its checksum.
    fn decode_job(&mut self, job: &mut Job<'_>, stored: &[u8]) -> Result<(), RNTupleError> {
        let start = Instant::now();
        let before = self.decoder.decompress_ns;
        let result = self.decode_page(job, stored);
        let decompressed = self.decoder.decompress_ns - before;
        add(
            &self.stats.decode_ns,
            elapsed(start).saturating_sub(decompressed),
        );
        add(&self.stats.pages, 1);
        add(&self.stats.bytes_decoded, job.out.len() as u64);
        result
    }

    fn decode_page(&mut self, job: &mut Job<'_>, stored: &[u8]) -> Result<(), RNTupleError> {
        let Some(part) = self.parts.get(job.part) else {
            return Err(RNTupleError::internal("the plan names what is not there"));
        };
        let reader = &part.reader;
        let Some(record) = reader.descriptor().column(job.column) else {
            return Err(reader.inconsistent("schema", "the column of a page", "none"));
        };
        let place = (job.column, job.cluster);
        let body = check_page(reader, record, place, &job.piece.page, stored)?;
        let n = job.piece.page.n_elements as usize;
        let (cluster, at) = (job.cluster, job.piece.page.body.address);
        let failed = |source: PageError| page_error(reader, record, cluster, at, source);
        add(
            &self.stats.bytes_decompressed,
            record.packed_bytes(n as u64).unwrap_or(0),
        );
        let field = reader.descriptor().field(record.field_id);
        self.decoder.of_double = field.is_some_and(|field| field.record.type_name == "double");
        if job.is_whole() {
            return self
                .decoder
                .decode(record, n, body, job.target, job.out)
                .map_err(failed);
        }
        let size = n.saturating_mul(job.target.size());
        let wanted = job.key(part);
        if self.held == Some(wanted) {
            let page = self.whole_page.bytes(size).map_err(failed)?;
            return job.copy_from(page).map_err(failed);
        }
        self.held = None;
        crate::encoding::packed_size(record, n as u64, body.len() as u64).map_err(failed)?;
        let page = self.whole_page.bytes(size).map_err(failed)?;
        self.decoder
            .decode(record, n, body, job.target, page)
            .map_err(failed)?;
        if let Some(cache) = self
            .cache
            .filter(|_| job.piece.high < job.piece.page.n_elements)
        {
            cache.insert(wanted, page);
        }
        job.copy_from(page).map_err(failed)?;
        self.held = Some(wanted);
        Ok(())
    }
}

impl<'j> Decode<Job<'j>> for Worker<'_> {
    fn decode(&mut self, job: &mut Job<'j>, stored: &[u8]) -> Result<(), RNTupleError> {
        self.decode_job(job, stored)
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn into_stats(self) -> Stats {
        add(&self.stats.decompress_ns, self.decoder.decompress_ns);
        self.stats
    }
}

/// Splits the checksum from the stored bytes of a page, and verifies it; `place` is column and cluster.
pub(crate) fn check_page<'b>(
    reader: &Reader,
    record: &ColumnRecord,
    (column, cluster): (u32, u64),
    page: &Page,
    stored: &'b [u8],
) -> Result<&'b [u8], RNTupleError> {
    if !page.has_checksum {
        return Ok(stored);
    }
    let Some((body, checksum)) = stored.split_last_chunk::<8>() else {
        return Ok(stored);
    };
    if reader.options().verify_checksums {
        let (expected, found) = (u64::from_le_bytes(*checksum), femtobarn_codec::xxh3(body));
        if expected != found {
            return Err(RNTupleError::PageChecksum {
                url: reader.url().into(),
                at: page.body.address,
                field: reader.label(record.field_id),
                column,
                cluster,
                expected,
                found,
            });
        }
    }
    Ok(body)
}
