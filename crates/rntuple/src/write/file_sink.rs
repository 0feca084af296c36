//! Writes pages and envelopes to a ROOT file as records. Payloads that exceed MaxKeySize are split.

use bytes::Bytes;
use femtobarn_rootfile::{ElementKind, FileWriter, StreamerElement, StreamerInfo};

use super::model::unwritable;
use super::options::WriteOptions;
use super::sink::{Existing, PageSink, SinkPlace};
use crate::RNTupleError;
use crate::spec::{Anchor, PageAddress, write as spec};

/// The class name of ntuples in files.
const CLASS: &str = "ROOT::RNTuple";

impl PageSink for FileWriter {
    fn check_place(&self, place: &SinkPlace<'_>) -> Result<(), RNTupleError> {
        let may_hide = match place.existing {
            Existing::Continued => return Ok(()),
            Existing::Hidden => true,
            Existing::Refused => false,
        };
        Ok(self.check_name(place.directory, CLASS, place.name, may_hide)?)
    }

    fn append_payload(
        &mut self,
        payload: &[u8],
        options: &WriteOptions,
    ) -> Result<PageAddress, RNTupleError> {
        append_payload(self, payload, options.max_key_size).map(PageAddress::File)
    }

    fn append_pages(
        &mut self,
        pages: &[Bytes],
        options: &WriteOptions,
    ) -> Result<Vec<PageAddress>, RNTupleError> {
        let most = options.max_key_size;
        let mut out = Vec::with_capacity(pages.len());
        let mut rest = pages;
        while let Some(first) = rest.first() {
            if first.len() as u64 > most {
                out.push(PageAddress::File(append_payload(self, first, most)?));
                rest = rest.get(1..).unwrap_or_default();
                continue;
            }
            let mut n_bytes = 0u64;
            let fits = |page: &&Bytes| {
                n_bytes += page.len() as u64;
                n_bytes <= most
            };
            let (these, others) = rest.split_at(rest.iter().take_while(fits).count());
            let parts: Vec<&[u8]> = these.iter().map(|page| &**page).collect();
            let mut offset = self.append_parts(&parts, options.threads)?;
            for part in parts {
                out.push(PageAddress::File(offset));
                offset += part.len() as u64;
            }
            rest = others;
        }
        Ok(out)
    }

    fn publish(&mut self, place: &SinkPlace<'_>, anchor: &Anchor) -> Result<(), RNTupleError> {
        // another ntuple of this name may have been completed in the meantime
        self.check_place(place)?;
        self.add_streamer_info(streamer_info());
        let names = (CLASS, place.name, "");
        let anchor = spec::anchor(anchor);
        if place.existing == Existing::Continued {
            self.replace_object(place.directory, names, &anchor, 0)?;
        } else {
            self.write_object(place.directory, names, &anchor, 0)?;
        }
        Ok(())
    }

    fn attribute_set(&mut self, _name: &str) -> Result<&mut dyn PageSink, RNTupleError> {
        Ok(self)
    }

    fn file(&mut self) -> Option<&mut FileWriter> {
        Some(self)
    }
}

/// Appends a payload. If it is larger than `most`, it is split, and the first record ends with the offsets
/// of the others.
fn append_payload(file: &mut FileWriter, payload: &[u8], most: u64) -> Result<u64, RNTupleError> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if payload.len() <= most {
        return Ok(file.append_blob(&[payload])?);
    }
    let least = payload.len().div_ceil(most);
    // the offsets may require one more record
    let room = least.saturating_mul(most).saturating_sub(8 * (least - 1));
    let n_keys = least + usize::from(room < payload.len());
    let parts = most
        .checked_sub(8 * (n_keys - 1))
        .and_then(|first| payload.split_at_checked(first));
    let (head, rest) = parts.ok_or_else(|| {
        let n = payload.len();
        let reason = format!("{n} bytes do not fit records of {most} bytes: increase max_key_size");
        unwritable("payload", reason)
    })?;
    let mut offsets = Vec::with_capacity(8 * (n_keys - 1));
    for part in rest.chunks(most) {
        offsets.extend(file.append_blob(&[part])?.to_le_bytes());
    }
    Ok(file.append_blob(&[head, &offsets])?)
}

/// ROOT's description of the anchor.
fn streamer_info() -> StreamerInfo {
    let element = |name: &str, wide: bool| StreamerElement {
        kind: ElementKind::BasicType,
        name: name.to_owned(),
        title: String::new(),
        type_code: if wide { 14 } else { 12 },
        size: if wide { 8 } else { 2 },
        array_length: 0,
        array_dim: 0,
        max_index: [0; 5],
        type_name: if wide {
            "unsigned long"
        } else {
            "unsigned short"
        }
        .to_owned(),
    };
    let narrow = [
        "fVersionEpoch",
        "fVersionMajor",
        "fVersionMinor",
        "fVersionPatch",
    ];
    let wide = [
        "fSeekHeader",
        "fNBytesHeader",
        "fLenHeader",
        "fSeekFooter",
        "fNBytesFooter",
        "fLenFooter",
        "fMaxKeySize",
    ];
    let narrow = narrow.iter().map(|name| element(name, false));
    StreamerInfo {
        name: CLASS.to_owned(),
        version: 2,
        checksum: 0x28e6_32ec,
        title: String::new(),
        elements: narrow
            .chain(wide.iter().map(|name| element(name, true)))
            .collect(),
    }
}
