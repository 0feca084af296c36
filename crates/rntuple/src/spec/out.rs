//! Encodes values and frames: the counterpart of `cursor`.

/// Little-endian values, one after another.
#[derive(Debug, Default)]
pub(super) struct Out(pub Vec<u8>);

impl Out {
    pub fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub fn string(&mut self, text: &str) -> &mut Self {
        self.count(text.len());
        self.0.extend(text.as_bytes());
        self
    }

    pub fn count(&mut self, n: usize) -> &mut Self {
        self.u32(u32::try_from(n).unwrap_or(u32::MAX))
    }

    /// A record frame: its size, then the output of `write`.
    pub fn record(&mut self, write: impl FnOnce(&mut Self)) {
        self.frame(1, write);
    }

    /// A list frame: its negated size, the number of items, the items.
    pub fn list<T>(&mut self, items: &[T], mut write: impl FnMut(&mut Self, &T)) {
        self.frame(-1, |out| {
            out.count(items.len());
            items.iter().for_each(|item| write(out, item));
        });
    }

    /// A frame: its signed size, then the output of `write`.
    pub fn frame(&mut self, sign: i64, write: impl FnOnce(&mut Self)) {
        let at = self.0.len();
        self.u64(0);
        write(self);
        let size = i64::try_from(self.0.len() - at).unwrap_or(i64::MAX) * sign;
        if let Some(place) = self.0.get_mut(at..at + 8) {
            place.copy_from_slice(&size.to_le_bytes());
        }
    }
}
