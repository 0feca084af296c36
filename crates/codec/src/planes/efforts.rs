//! The ways to compress a plane: each is a context of zstd with parameters of its own.

use zstd_safe::zstd_sys::ZSTD_EndDirective as Directive;
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, ParamSwitch, ResetDirective, Strategy};

use crate::compress::new_zstd;
use crate::{Algorithm, CodecError, RecordHeader};

/// How a plane is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    /// Not at all: it does not shrink.
    None,
    /// The quickest search for matches: there is little else than one byte.
    Constant,
    /// Entropy coding, no search for matches.
    Literals,
    /// A quick search for matches of seven bytes and more.
    Matches,
    /// A quick search for matches of four bytes and more.
    ShortMatches,
    /// A search for matches among a few candidates.
    Runs,
    /// The library at its level.
    Full,
}

/// Contexts of the library; each is made when it is first needed.
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
    /// One frame, if with a record's header it is smaller than `bytes`.
    pub(super) fn frame(
        &mut self,
        effort: Effort,
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let mut frame = Vec::with_capacity(bytes.len().saturating_sub(RecordHeader::SIZE + 1));
        let written = self.context(effort)?.compress2(&mut frame, bytes);
        Ok(written.is_ok().then_some(frame))
    }

    /// The same, if it is wanted.
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

    /// The same for several planes: blocks end where they do, so that each has a code of its own.
    pub(super) fn frame_of_planes(
        &mut self,
        effort: Effort,
        plane: usize,
        bytes: &[u8],
    ) -> Result<Option<Vec<u8>>, CodecError> {
        let context = self.context(effort)?;
        // neither fails in a context without a frame that was begun
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
            // what is left is for a larger buffer
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
            // all of them are in the ranges that the library has for them
            let failed = |_| CodecError::OutOfMemory {
                algorithm: Algorithm::Zstd,
            };
            new.set_parameter(parameter).map_err(failed)?;
        }
        Ok(context.insert(new))
    }
}

/// A match ends where another byte is; its successor is found wherever it begins.
const CONSTANT: [CParameter; 4] = [
    CParameter::WindowLog(24),
    CParameter::HashLog(17),
    CParameter::MinMatch(6),
    CParameter::Strategy(Strategy::ZSTD_fast),
];

/// A step of 4096 bytes after each position without a match makes the search for them vanish.
const LITERALS: [CParameter; 7] = [
    CParameter::WindowLog(17),
    CParameter::HashLog(10),
    CParameter::ChainLog(10),
    CParameter::MinMatch(7),
    CParameter::TargetLength(4096),
    CParameter::Strategy(Strategy::ZSTD_fast),
    CParameter::LiteralCompressionMode(ParamSwitch::Enable),
];

/// Short matches cost more than they save: where they are, the bytes are few and their code is short.
const MATCHES: [CParameter; 5] = [
    CParameter::WindowLog(24),
    CParameter::HashLog(17),
    CParameter::ChainLog(17),
    CParameter::MinMatch(7),
    CParameter::Strategy(Strategy::ZSTD_dfast),
];

/// Of noise, the search for them goes past quickly.
const SHORT_MATCHES: [CParameter; 4] = [
    CParameter::WindowLog(24),
    CParameter::HashLog(17),
    CParameter::MinMatch(4),
    CParameter::Strategy(Strategy::ZSTD_fast),
];

/// Of runs a few candidates are enough: nearly as small as at level 10 in a quarter of its time.
const RUNS: [CParameter; 6] = [
    CParameter::WindowLog(24),
    CParameter::HashLog(17),
    CParameter::ChainLog(16),
    CParameter::SearchLog(2),
    CParameter::MinMatch(6),
    CParameter::Strategy(Strategy::ZSTD_lazy),
];

/// libzstd's level 10 as it is for large pages: for their planes it would take twice the time, to save a fiftieth.
const LEVEL_5: [CParameter; 4] = [
    CParameter::CompressionLevel(10),
    CParameter::SearchLog(5),
    CParameter::MinMatch(5),
    CParameter::Strategy(Strategy::ZSTD_lazy2),
];
