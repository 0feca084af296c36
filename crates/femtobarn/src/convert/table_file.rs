//! Table files, local or remote, for the readers of arrow-rs.

use std::io::{BufRead, BufReader, Error, Read, Result, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use femtobarn_io::ByteSource;
use femtobarn_rntuple::RNTupleError;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::page_header;
use crate::inputs::Input;

/// Number of bytes per read for sequential data.
pub(super) const BUFFER: usize = 64 << 10;

/// A file and a read position.
#[derive(Debug, Clone)]
pub(super) struct TableFile {
    source: Arc<dyn ByteSource>,
    at: u64,
}

impl TableFile {
    /// Opens the file of an input.
    ///
    /// # Errors
    /// If it does not exist or cannot be read.
    pub fn open(input: &Input) -> std::result::Result<Self, RNTupleError> {
        let (source, at) = (input.open_source()?, 0);
        Ok(Self { source, at })
    }

    /// Size of the file.
    pub fn n_bytes(&self) -> u64 {
        self.source.meta().size
    }

    /// The first `n_bytes` of the file, or fewer.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn beginning(&self, n_bytes: usize) -> std::result::Result<Bytes, RNTupleError> {
        let end = self.n_bytes().min(n_bytes as u64);
        let found = self.source.read_ranges(std::slice::from_ref(&(0..end)))?;
        Ok(found.into_iter().next().unwrap_or_default())
    }

    /// A range of bytes.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read_range(&self, range: Range<u64>) -> Result<Bytes> {
        let found = self.source.read_ranges(&[range]).map_err(Error::other)?;
        Ok(found.into_iter().next().unwrap_or_default())
    }
}

impl Read for TableFile {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let end = self.at.saturating_add(buffer.len() as u64);
        let range = self.at..end.min(self.n_bytes());
        if range.is_empty() {
            return Ok(0);
        }
        let found = self.read_range(range)?;
        let Some(place) = buffer.get_mut(..found.len()) else {
            return Err(Error::other("more data than requested"));
        };
        place.copy_from_slice(&found);
        self.at += found.len() as u64;
        Ok(found.len())
    }
}

impl Seek for TableFile {
    fn seek(&mut self, to: SeekFrom) -> Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.n_bytes().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| Error::other("a position before the beginning"))?;
        Ok(self.at)
    }
}

impl Length for TableFile {
    fn len(&self) -> u64 {
        self.n_bytes()
    }
}

impl ChunkReader for TableFile {
    type T = BufReader<Self>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        let at = Self {
            at: start,
            ..self.clone()
        };
        let mut read = BufReader::with_capacity(BUFFER, at);
        page_header::check(read.fill_buf()?, self.n_bytes()).map_err(ParquetError::General)?;
        Ok(read)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let end = start.saturating_add(length as u64);
        self.read_range(start..end).map_err(ParquetError::from)
    }
}

#[cfg(test)]
mod tests {
    use femtobarn_io::MemorySource;

    use super::*;

    #[test]
    fn parts_are_read_from_any_place() {
        let source = MemorySource::new("memory", b"0123456789".to_vec());
        let mut file = TableFile { source, at: 0 };
        let mut buffer = [0; 4];
        assert_eq!((file.read(&mut buffer).unwrap(), &buffer), (4, b"0123"));
        assert_eq!(file.seek(SeekFrom::End(-3)).unwrap(), 7);
        assert_eq!(file.seek(SeekFrom::Current(1)).unwrap(), 8);
        assert_eq!(file.read(&mut buffer).unwrap(), 2);
        assert_eq!(file.read(&mut buffer).unwrap(), 0);
        assert!(file.seek(SeekFrom::Current(-11)).is_err());
        assert_eq!(file.get_bytes(2, 3).unwrap(), "234");
        assert!(file.get_bytes(8, 3).is_err());
        let mut rest = String::new();
        file.get_read(5).unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "56789");
    }
}
