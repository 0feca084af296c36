//! A position in the bytes of a value.

/// What was expected, and what was found.
pub type Fault = (String, String);

/// A position in the bytes of a value.
#[derive(Debug)]
pub struct Cursor<'a> {
    all: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the beginning of a value.
    pub fn new(all: &'a [u8]) -> Self {
        Self { all, at: 0 }
    }

    /// Number of bytes before the position.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Number of bytes after the position.
    pub fn left(&self) -> usize {
        self.all.len().saturating_sub(self.at)
    }

    /// Moves to another position.
    pub fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    /// The next `n` bytes.
    ///
    /// # Errors
    ///
    /// If there are fewer.
    #[inline]
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Fault> {
        let end = self.at.checked_add(n);
        match end.and_then(|end| self.all.get(self.at..end)) {
            Some(taken) => {
                self.at += n;
                Ok(taken)
            }
            None => Err(self.too_few(n)),
        }
    }

    #[cold]
    fn too_few(&self, n: usize) -> Fault {
        let (at, left, length) = (self.at, self.left(), self.all.len());
        (
            format!("{n} more bytes at byte {at}"),
            format!("{left} of {length} bytes left"),
        )
    }

    /// Reads the number of items, which take at least `least` bytes each.
    ///
    /// # Errors
    ///
    /// If the rest cannot contain so many.
    pub fn count(&mut self, least: usize) -> Result<usize, Fault> {
        let at = self.at;
        let head = self.take(8)?.try_into().unwrap_or([0; 8]);
        let n = u64::from_le_bytes(head);
        let most = self.left() / least.max(1);
        match usize::try_from(n) {
            Ok(n) if n <= most => Ok(n),
            _ => Err((
                format!("at most {most} items at byte {at}"),
                format!("{n} items"),
            )),
        }
    }

    /// Reads a byte that must be at most `most`.
    ///
    /// # Errors
    ///
    /// If it is larger, or there is none.
    pub fn tag(&mut self, most: usize, what: &str) -> Result<usize, Fault> {
        let at = self.at;
        let tag = usize::from(self.take(1)?.first().copied().unwrap_or_default());
        match tag <= most {
            true => Ok(tag),
            false => Err((format!("{what} at byte {at}"), tag.to_string())),
        }
    }

    /// Checks that the value ends here.
    ///
    /// # Errors
    ///
    /// If it has further bytes.
    pub fn finish(self) -> Result<(), Fault> {
        match self.at == self.all.len() {
            true => Ok(()),
            false => {
                let bytes = |n: usize| format!("{n} bytes");
                Err((bytes(self.at), bytes(self.all.len())))
            }
        }
    }
}
