//! Envelopes that the anchor of objects has, too, so that opening an ntuple needs one request.

use bytes::Bytes;

/// The most bytes of envelopes in an anchor.
const MOST: usize = 256 << 10;

/// The envelopes of an ntuple by their objects, as far as an anchor may have them: header and footer, and all page lists.
#[derive(Debug, Default)]
pub(super) struct AnchorEnvelopes {
    header: Option<(u64, Bytes)>,
    page_lists: Vec<(u64, Bytes)>,
    footer: Option<(u64, Bytes)>,
    /// Whether there are too many page lists, or another writer has written some.
    has_others: bool,
}

impl AnchorEnvelopes {
    /// Those of an ntuple that another writer has begun.
    pub fn of_others() -> Self {
        Self {
            has_others: true,
            ..Self::default()
        }
    }

    /// Adds an envelope: first the header, last the footer.
    pub fn add(&mut self, id: u64, envelope: Bytes) {
        if self.header.is_none() && !self.has_others {
            self.header = Some((id, envelope));
        } else if let Some(list) = self.footer.replace((id, envelope)) {
            self.page_lists.push(list);
            if size(&self.page_lists) > MOST {
                self.has_others = true;
                self.page_lists.clear();
            }
        }
    }

    /// Forgets the footer of a step: another one will follow.
    pub fn end_step(&mut self) {
        self.footer = None;
    }

    /// Those for the anchor. ROOT reads only short anchors, and no objects with several pages.
    pub fn for_anchor(&self, is_packed: bool) -> Vec<(u64, Bytes)> {
        let ends = self.header.iter().chain(&self.footer).cloned();
        let mut out: Vec<_> = ends.collect();
        if !is_packed || out.len() < 2 || size(&out) > MOST {
            return Vec::new();
        }
        if !self.has_others && size(&out) + size(&self.page_lists) <= MOST {
            out.extend_from_slice(&self.page_lists);
        }
        out
    }
}

fn size(envelopes: &[(u64, Bytes)]) -> usize {
    envelopes.iter().map(|(_, bytes)| bytes.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(envelopes: &AnchorEnvelopes) -> Vec<u64> {
        let found = envelopes.for_anchor(true).into_iter();
        found.map(|(id, _)| id).collect()
    }

    #[test]
    fn small_envelopes_are_in_anchors_of_packed_objects() {
        let envelope = |size: usize| Bytes::from(vec![1; size]);
        let mut all = AnchorEnvelopes::default();
        for (id, size) in [(0, 1000), (7, 500), (9, 500), (12, 100)] {
            all.add(id, envelope(size));
        }
        assert_eq!(numbers(&all), [0, 12, 7, 9]);
        assert!(all.for_anchor(false).is_empty());
        // a step ends, and the next one has another footer
        all.end_step();
        all.add(20, envelope(500));
        all.add(21, envelope(100));
        assert_eq!(numbers(&all), [0, 21, 7, 9, 20]);
        // too many page lists
        all.add(30, envelope(MOST));
        all.add(31, envelope(100));
        assert_eq!(numbers(&all), [0, 31]);
        all.add(32, envelope(100));
        assert_eq!(numbers(&all), [0, 32]);
        // too large a footer
        all.add(33, envelope(MOST));
        assert!(numbers(&all).is_empty());
        let mut resumed = AnchorEnvelopes::of_others();
        resumed.add(5, envelope(100));
        resumed.add(6, envelope(100));
        assert!(numbers(&resumed).is_empty());
    }
}
