//! The methods of compressing a plane: each is a zstd context with its own parameters.

use zstd_safe::zstd_sys::ZSTD_EndDirective as Directive;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ParamSwitch, ResetDirective, Strategy};

use crate::compress::new_zstd;
use crate::{Algorithm, CodecError, RecordHeader};

/// The compression method of a plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// Stored: compression does not make it smaller.
    None,
    /// The fastest search for matches, for a plane that is mostly one byte.
    Constant,
    /// Entropy coding without a search for matches.
    Literals,
    /// A fast search for matches of at least seven bytes.
    Matches,
    /// A fast search for matches of at least four bytes.
    ShortMatches,
    /// A search for matches with a few candidates.
    Runs,
    /// The library's level as requested.
    Full,
}

/// Contexts of the library. Each is created when it is first needed.
#[derive(Default)]
pub(crate) struct PlaneContexts {
    constant: Option<CCtx<'static>>,
    literals: Option<CCtx<'static>>,
    matches: Option<CCtx<'static>>,
    short_matches: Option<CCtx<'static>>,
    runs: Option<CCtx<'static>>,
    level_5: Option<CCtx<'static>>,
}

impl PlaneContexts {
    /// A frame, if it is smaller than `bytes` including a record header.
    pub(super) fn frame(
        &mut self,
        effort: Effort,
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let mut frame = Vec::with_capacity(bytes.len().saturating_sub(RecordHeader::SIZE + 1));
        let written = self.context(effort)?.compress2(&mut frame, bytes);
        Ok(written.is_ok().then_some(frame))
    }

    /// The same, if requested.
    pub(super) fn frame_if(
        &mut self,
        wanted: bool,
        effort: Effort,
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, CodecError> {
        if wanted {
            self.frame(effort, bytes)
        } else {
            Ok(None)
        }
    }

    /// The same for several planes. Blocks end where planes end, so that each plane has its own entropy code.
    pub(super) fn frame_of_planes(
        &mut self,
        effort: Effort,
        plane: usize,
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let context = self.context(effort)?;
        // cannot fail: no frame has begun in this context
        let _ = context.reset(ResetDirective::SessionOnly);
        let _ = context.set_pledged_src_size(Some(bytes.len() as u64));
        let mut frame = Vec::with_capacity(bytes.len().saturating_sub(RecordHeader::SIZE + 1));
        let mut output = OutBuffer::around(&mut frame);
        let mut planes = bytes.chunks(plane).peekable();
        while let Some(bytes) = planes.next() {
            let directive = match planes.peek() {
                Some(_) => Directive::ZSTD_e_flush,
                None => Directive::ZSTD_e_end,
            };
            let mut input = InBuffer::around(bytes);
            // a non-zero rest means that the buffer is too small
            if context.compress_stream2(&mut output, &mut input, directive) != Ok(0) {
                return Ok(None);
            }
        }
        Ok(Some(frame))
    }

    fn context(&mut self, effort: Effort) -> Result<&mut CCtx<'static>, CodecError> {
        let (context, parameters): (_, &[CParameter]) = match effort {
            Effort::Constant => (&mut self.constant, &CONSTANT),
            Effort::Literals => (&mut self.literals, &LITERALS),
            Effort::ShortMatches => (&mut self.short_matches, &SHORT_MATCHES),
            Effort::Runs => (&mut self.runs, &RUNS),
            Effort::Full => (&mut self.level_5, &LEVEL_5),
            Effort::Matches | Effort::None => (&mut self.matches, &MATCHES),
        };
        if let Some(context) = context {
            return Ok(context);
        }
        let mut new = new_zstd()?;
        for &parameter in parameters {
            // all values are within the library's ranges
            let failed = |_| CodecError::OutOfMemory {
                algorithm: Algorithm::Zstd,
            };
            new.set_parameter(parameter).map_err(failed)?;
        }
        Ok(context.insert(new))
    }
}

/// A match ends at a different byte; the next match is found from any position.
const CONSTANT: [CParameter; 4] = [
    CParameter::WindowLog(24),
    CParameter::HashLog(17),
    CParameter::MinMatch(6),
    CParameter::Strategy(Strategy::ZSTD_fast),
];

/// A step of 4096 bytes after each position without a match makes the search practically free.
const LITERALS: [CParameter; 7] = [
    CParameter::WindowLog(17),
    CParameter::HashLog(10),
    CParameter::ChainLog(10),
    CParameter::MinMatch(7),
    CParameter::TargetLength(4096),
    CParameter::Strategy(Strategy::ZSTD_fast),
    CParameter::LiteralCompressionMode(ParamSwitch::Enable),
];

/// Short matches cost more than they save: bytes that have them are few, and their entropy code is short.
const MATCHES: [CParameter; 5] = [
    CParameter::WindowLog(24),
    CParameter::HashLog(17),
    CParameter::ChainLog(17),
    CParameter::MinMatch(7),
    CParameter::Strategy(Strategy::ZSTD_dfast),
];

/// The search skips noise quickly.
const SHORT_MATCHES: [CParameter; 4] = [
    CParameter::WindowLog(24),
    CParameter::HashLog(17),
    CParameter::MinMatch(4),
    CParameter::Strategy(Strategy::ZSTD_fast),
];

/// For runs, a few candidates are enough: nearly as small as level 10, in a quarter of its time.
const RUNS: [CParameter; 6] = [
    CParameter::WindowLog(24),
    CParameter::HashLog(17),
    CParameter::ChainLog(16),
    CParameter::SearchLog(2),
    CParameter::MinMatch(6),
    CParameter::Strategy(Strategy::ZSTD_lazy),
];

/// libzstd's level 10 for large inputs. For planes it would take twice the time and save 2 %.
const LEVEL_5: [CParameter; 4] = [
    CParameter::CompressionLevel(10),
    CParameter::SearchLog(5),
    CParameter::MinMatch(5),
    CParameter::Strategy(Strategy::ZSTD_lazy2),
];
