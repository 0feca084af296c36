//! Labels of bins.

use crate::layout::Labels;
use crate::splice::put_string;

/// Bins and labels, in the order of the bins.
pub(crate) fn bins_of(labels: &Labels) -> Vec<(u32, Vec<u8>)> {
    let mut out = labels.items.clone();
    out.sort();
    out
}

/// Encodes further items of a list whose class was named before.
pub(crate) fn items(labels: &[(u32, Vec<u8>)], tag: u32) -> Option<Vec<u8>> {
    const BYTE_COUNT: u32 = 0x4000_0000;
    let mut out = Vec::new();
    for (bin, text) in labels {
        // version of TObjString; version, ID and bits of its TObject
        let mut body = vec![0, 1, 0, 1];
        body.extend(bin.to_be_bytes());
        body.extend([0; 4]);
        put_string(&mut body, text)?;
        let n_bytes = u32::try_from(body.len()).ok()?;
        out.extend((BYTE_COUNT | n_bytes.checked_add(8)?).to_be_bytes());
        out.extend(tag.to_be_bytes());
        out.extend((BYTE_COUNT | n_bytes).to_be_bytes());
        out.extend(body);
        // no option
        out.push(0);
    }
    Some(out)
}

/// A label for messages.
pub(crate) fn shown(text: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(text))
}
