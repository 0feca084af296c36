//! Compression of pages that consist of byte planes, with as much effort as each plane is worth.
//!
//! A split encoding stores the first bytes of all elements, then the second bytes, and so on. These planes have little in
//! common: in measured numbers, the low bytes of the mantissa are zero or noise, and the high bytes are unevenly
//! distributed. Few bytes repeat earlier ones, but the search for repetitions is what a compressor spends its time on. So
//! each plane becomes a record of its own, compressed by the cheapest of five methods that is good enough: entropy coding
//! alone, a fast search if the plane is mostly one byte, a fast search for long matches, a better search for runs, or the
//! library at its level. Readers accept several records, as a record holds at most 16 MiB anyway. Only sizes are
//! compared, so the same page always gives the same bytes.
//!
//! `docs/design/006-byte-planes.md` has the measurements. This is done for zstd only.

mod efforts;

use std::ops::Range;

use self::efforts::Effort;
pub(crate) use self::efforts::PlaneContexts;
use crate::{Algorithm, CodecError, Compressor, RecordHeader};

/// Smaller payloads are compressed as a whole: the choice would cost more than it saves.
const LEAST_PAYLOAD: usize = 1024;

/// Smaller planes are not separate records: the headers would take too much space.
const LEAST_PLANE: usize = 4096;

/// Number of bytes that are counted together. Not a power of two, to avoid the periods of repeating data.
const PART: usize = 252;

/// Adjacent planes that become one record.
#[derive(Debug)]
struct Part {
    planes: Range<usize>,
    effort: Effort,
    /// A zstd frame, if it was made already.
    frame: Option<Vec<u8>>,
    /// Whether matches may span this part and a neighbour of the same kind; then both are better in one record.
    spans: bool,
}

impl Compressor {
    /// Like [`compress`](Self::compress), for a payload of planes of `plane` bytes each.
    ///
    /// With zstd, the result is usually smaller than that of [`compress`](Self::compress) at the same level, and takes a
    /// fraction of the time.
    ///
    /// # Errors
    /// As [`compress`](Self::compress).
    pub fn compress_planes(
        &mut self,
        settings: u32,
        plane: usize,
        src: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, CodecError> {
        let level = settings % 100;
        let zstd = Algorithm::of_settings(settings) == Some(Algorithm::Zstd) && level > 0;
        if !zstd || src.len() < LEAST_PAYLOAD || src.len() > RecordHeader::MAX_SIZE {
            return self.compress(settings, src, out);
        }
        let plane = if plane < LEAST_PLANE {
            src.len()
        } else {
            plane
        };
        if has_copies(plane, src) {
            return self.compress(settings, src, out);
        }
        let start = out.len();
        let shrunk = self.append_planes(level, plane, src, out)?;
        // a single plane was tried as a whole already
        if level <= LAST_QUICK_LEVEL || plane >= src.len() {
            return Ok(shrunk);
        }
        // at high levels, take the smaller result
        let mut whole = Vec::new();
        if self.compress(settings, src, &mut whole)? && (!shrunk || whole.len() < out.len() - start)
        {
            out.truncate(start);
            out.extend_from_slice(&whole);
            return Ok(true);
        }
        Ok(shrunk)
    }

    /// Appends the planes as records; `false` if they do not become smaller.
    fn append_planes(
        &mut self,
        level: u32,
        plane: usize,
        src: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, CodecError> {
        let mut parts: Vec<Part> = Vec::new();
        for (i, bytes) in src.chunks(plane).enumerate() {
            let (effort, frame, spans) = self.choose(level, bytes)?;
            let part = Part {
                planes: i..i + 1,
                effort,
                frame,
                spans,
            };
            join(&mut parts, part);
        }
        if let [only] = parts.as_slice()
            && only.effort == Effort::None
        {
            return Ok(false);
        }
        join_last(&mut parts);
        let start = out.len();
        for part in parts {
            if !self.append_part(level, plane, src, part, out)? {
                out.truncate(start);
                return self.append_whole(plane, src, out);
            }
        }
        Ok(true)
    }

    /// Chooses the method for a plane. Returns the frame if it was made for the choice, and whether matches may span the
    /// plane and its neighbours.
    fn choose(&mut self, level: u32, bytes: &[u8]) -> Result<Choice, CodecError> {
        let whole = bytes.len() as f64;
        let entropy = entropy(bytes);
        if entropy < NEARLY_CONSTANT * whole {
            return Ok(if level > LAST_QUICK_LEVEL {
                (Effort::Full, None, true)
            } else {
                (Effort::Constant, None, true)
            });
        }
        let may_be_coded = entropy < 0.99 * whole;
        if level > LAST_QUICK_LEVEL {
            let full = self.full(level, bytes)?;
            let size = full.as_ref().map_or(whole, |frame| frame.len() as f64);
            if size < MAY_SPAN * entropy {
                return Ok((Effort::Full, full, true));
            }
            let literals = self
                .planes
                .frame_if(may_be_coded, Effort::Literals, bytes)?;
            return Ok(smaller((Effort::Full, full), literals));
        }
        // the shortest Huffman code is one bit: sparser data are coded better by their runs
        if entropy < SPARSE * whole {
            let runs = self.planes.frame(Effort::Runs, bytes)?;
            return Ok((Effort::Runs, runs, false));
        }
        let mut matches = None;
        if entropy > ALMOST_NOISE * whole {
            // low bytes of slowly growing numbers look like noise but have many short matches
            let short = self.planes.frame(Effort::ShortMatches, bytes)?;
            if short.is_some_and(|frame| (frame.len() as f64) < NO_MATCHES * entropy) {
                return Ok((Effort::Full, None, true));
            }
        } else if !self.sample_has_no_matches(bytes)? {
            matches = self.planes.frame(Effort::Matches, bytes)?;
            let size = matches.as_ref().map_or(whole, |frame| frame.len() as f64);
            if size < REPAID_BELOW * entropy {
                return Ok((Effort::Full, None, true));
            }
            if size < NO_MATCHES * entropy {
                return Ok((Effort::Matches, matches, false));
            }
        }
        let literals = self
            .planes
            .frame_if(may_be_coded, Effort::Literals, bytes)?;
        Ok(smaller((Effort::Matches, matches), literals))
    }

    /// A frame at the library's level, if it is smaller than `bytes` including a record header.
    fn full(&mut self, level: u32, bytes: &[u8]) -> Result<Option<Vec<u8>>, CodecError> {
        let mut frame = vec![0; bytes.len().saturating_sub(RecordHeader::SIZE + 1)];
        let written = self.compress_zstd(level, bytes, &mut frame)?;
        Ok(written.map(|size| {
            frame.truncate(size);
            frame
        }))
    }

    /// Whether a fast search finds nothing in the first quarter of a plane that is long enough for this test.
    fn sample_has_no_matches(&mut self, bytes: &[u8]) -> Result<bool, CodecError> {
        let sample = bytes.get(..bytes.len() / 4).unwrap_or_default();
        if sample.len() < LEAST_PLANE {
            return Ok(false);
        }
        let matches = self.planes.frame(Effort::Matches, sample)?;
        let size = matches.map_or(sample.len(), |frame| frame.len());
        Ok(size as f64 > NO_MATCHES_IN_SAMPLE * entropy(sample))
    }

    /// Appends a record; `false` if it would not be smaller.
    fn append_part(
        &mut self,
        level: u32,
        plane: usize,
        src: &[u8],
        part: Part,
        out: &mut Vec<u8>,
    ) -> Result<bool, CodecError> {
        let end = (part.planes.end * plane).min(src.len());
        let bytes = src.get(part.planes.start * plane..end).unwrap_or_default();
        let frame = match (part.frame, part.effort) {
            (Some(frame), _) => Some(frame),
            (None, Effort::None) => None,
            (None, Effort::Full) if level == 5 && src.len() > LARGE => {
                self.planes.frame(Effort::Full, bytes)?
            }
            (None, Effort::Full) => return self.append_record(Algorithm::Zstd, level, bytes, out),
            (None, effort) => self.planes.frame_of_planes(effort, plane, bytes)?,
        };
        Ok(append_frame(bytes.len(), frame.as_deref(), out))
    }

    /// Appends one record of all planes, if some do not become smaller by themselves.
    fn append_whole(
        &mut self,
        plane: usize,
        src: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<bool, CodecError> {
        let frame = self.planes.frame_of_planes(Effort::Matches, plane, src)?;
        Ok(append_frame(src.len(), frame.as_deref(), out))
    }
}

/// Above this input size, libzstd's levels consider fewer candidates.
const LARGE: usize = 1 << 18;

/// Entropy per byte, in bytes, below which all searches give nearly the same result.
const NEARLY_CONSTANT: f64 = 0.015;

/// Entropy per byte, in bytes, below which runs are better than a Huffman code, whose shortest code is an eighth.
const SPARSE: f64 = 0.09;

/// If a search for matches gives more than this share of the entropy of single bytes, it was not worth it.
const NO_MATCHES: f64 = 0.98;

/// The same for the first quarter of a plane, in which fewer matches are found than in the whole.
const NO_MATCHES_IN_SAMPLE: f64 = 1.02;

/// If the entropy exceeds this share of the plane, only short matches can make it smaller.
const ALMOST_NOISE: f64 = 0.95;

/// Above this level, users want small files, and the library's level is always tried. Up to this level, it is tried only
/// if it pays off, and a search that finds nothing in the first quarter is not continued.
const LAST_QUICK_LEVEL: u32 = 5;

/// If a plane shrinks below this share of the entropy of single bytes, matches across planes are likely.
const MAY_SPAN: f64 = 0.9;

/// If a fast search shrinks a plane below this share of the entropy of single bytes, the library's level is tried: such
/// planes are text, indexes or repetitions, and shrink more with a longer search.
const REPAID_BELOW: f64 = 0.5;

/// The method for a plane, its frame if it was made, and whether matches may span it and its neighbours: see [`Part`].
type Choice = (Effort, Option<Vec<u8>>, bool);

/// Chooses the smaller of a frame and entropy coding alone. Chooses neither if both are at least as large as the plane.
fn smaller(one: (Effort, Option<Vec<u8>>), literals: Option<Vec<u8>>) -> Choice {
    let size = |frame: &Option<Vec<u8>>| frame.as_ref().map_or(usize::MAX, Vec::len);
    let (effort, frame) = if size(&literals) < size(&one.1) {
        (Effort::Literals, literals)
    } else {
        one
    };
    let effort = if frame.is_some() {
        effort
    } else {
        Effort::None
    };
    (effort, frame, false)
}

/// Whether a plane equals another one, and is not one repeated byte.
fn has_copies(plane: usize, src: &[u8]) -> bool {
    // compare with itself shifted by one byte: a loop over bytes takes ten times as long, and most such planes are all
    // zero
    let is_constant = |bytes: &[u8]| bytes.get(1..) == bytes.split_last().map(|(_, rest)| rest);
    let planes: Vec<&[u8]> = src.chunks_exact(plane).collect();
    planes.iter().enumerate().any(|(i, one)| {
        let others = planes.get(i + 1..).unwrap_or_default();
        others.contains(one) && !is_constant(one)
    })
}

/// The size of the bytes in an ideal entropy code of single bytes. In long planes, every fourth or eighth part is
/// counted.
fn entropy(bytes: &[u8]) -> f64 {
    let step = match bytes.len() / LEAST_PLANE {
        0..4 => 1,
        4..16 => 4,
        _ => 8,
    };
    // four counters, so that equal bytes in a row do not wait for one another
    let mut counts = [[0u32; 256]; 4];
    let mut n = 0;
    for part in bytes.chunks(PART).step_by(step) {
        n += part.len();
        for four in part.chunks(4) {
            for (counts, &byte) in counts.iter_mut().zip(four) {
                if let Some(count) = counts.get_mut(usize::from(byte)) {
                    *count += 1;
                }
            }
        }
    }
    let [a, b, c, d] = &counts;
    let n = n as f64;
    let total = |i: usize| [a, b, c, d].iter().filter_map(|of| of.get(i)).sum::<u32>();
    let bits = (0..256).map(total).filter(|count| *count > 0).map(|count| {
        let count = f64::from(count);
        count * (n / count).log2()
    });
    bits.sum::<f64>() / 8.0 * (bytes.len() as f64 / n.max(1.0))
}

/// Adds a plane to the parts. Planes that are compressed at the level become one record. A plane that does not become
/// smaller is joined with its neighbour, as every record must become smaller.
fn join(parts: &mut Vec<Part>, next: Part) {
    if let Some(last) = parts.last_mut() {
        let effort = match (last.effort, next.effort) {
            (Effort::None, effort) => Some(effort),
            (effort, other) if last.spans && next.spans && effort == other => Some(effort),
            _ => None,
        };
        if let Some(effort) = effort {
            last.spans = matches!(effort, Effort::Constant | Effort::Full);
            last.planes.end = next.planes.end;
            last.effort = effort;
            last.frame = None;
            return;
        }
    }
    parts.push(next);
}

/// Joins the last planes, which have only a preceding neighbour.
fn join_last(parts: &mut Vec<Part>) {
    if let Some(last) = parts.pop_if(|last| last.effort == Effort::None)
        && let Some(before) = parts.last_mut()
    {
        before.planes.end = last.planes.end;
        before.frame = None;
    }
}

/// Appends a frame as a record; `false` if there is none, or it is not smaller.
fn append_frame(uncompressed: usize, frame: Option<&[u8]>, out: &mut Vec<u8>) -> bool {
    let smaller = |frame: &&[u8]| RecordHeader::SIZE + frame.len() < uncompressed;
    let header = frame.filter(smaller).and_then(|frame| {
        let header = RecordHeader {
            algorithm: Algorithm::Zstd,
            compressed: frame.len(),
            uncompressed,
        };
        header.to_bytes().map(|header| (header, frame))
    });
    let Some((header, frame)) = header else {
        return false;
    };
    out.extend_from_slice(&header);
    out.extend_from_slice(frame);
    true
}
