//! Output that survives a closed pipe.

use std::io::{self, BufWriter, ErrorKind, Write};

use crate::table::printable;

/// A buffered stream. When its reader has closed the pipe, it ignores all output.
pub struct Output<'a> {
    inner: BufWriter<Stream<'a>>,
    /// Whether results and errors are JSON documents.
    pub is_json: bool,
}

struct Stream<'a> {
    inner: Box<dyn Write + 'a>,
    closed: bool,
}

impl<'a> Output<'a> {
    pub fn new(inner: impl Write + 'a) -> Self {
        let inner = Box::new(inner);
        Self {
            inner: BufWriter::new(Stream {
                inner,
                closed: false,
            }),
            is_json: false,
        }
    }

    /// Whether the reader has closed the pipe, so that the caller can stop.
    pub fn is_closed(&self) -> bool {
        self.inner.get_ref().closed
    }

    /// Writes a JSON document and a newline.
    pub fn json(&mut self, document: &serde_json::Value) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut self.inner, document)?;
        self.inner.write_all(b"\n")
    }

    /// Writes lines of text.
    pub fn lines(&mut self, text: &str) -> io::Result<()> {
        text.lines()
            .try_for_each(|line| writeln!(self, "{}", printable(line)))
    }
}

impl Write for Output<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Ok(bytes.len());
        }
        match self.inner.write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(bytes.len())
            }
            other => other,
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.inner.flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken(ErrorKind);

    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_noticed_and_is_no_error() {
        let mut out = Output::new(Broken(ErrorKind::BrokenPipe));
        assert!(!out.is_closed());
        out.write_all(&vec![b'x'; 100_000]).unwrap();
        out.flush().unwrap();
        assert!(out.is_closed());
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let mut out = Output::new(Broken(ErrorKind::StorageFull));
        out.write_all(b"x").unwrap();
        assert_eq!(out.flush().unwrap_err().kind(), ErrorKind::StorageFull);
    }
}
