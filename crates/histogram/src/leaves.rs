//! The leaves of streamed objects: numbers, strings, lists.

use crate::HistogramError;
use crate::error::unsupported;
use crate::layout::{Names, Place};
use crate::numbers::Kind;
use crate::walk::{BITS, COUNTER, Walker};

impl Walker<'_> {
    pub(crate) fn object(&mut self, path: Option<&str>) -> Result<(), HistogramError> {
        let at = self.cursor.object()?.bits_at;
        let place = Place {
            kind: Kind::I32,
            at,
            n: 1,
        };
        self.note(path, "fBits", place);
        Ok(())
    }

    pub(crate) fn named(&mut self, path: Option<&str>) -> Result<(), HistogramError> {
        let header = self.header("TNamed")?;
        self.object(path)?;
        let (name_at, name) = (self.cursor.position(), self.cursor.string("name")?);
        let name_end = self.cursor.position();
        let title = self.cursor.string("title")?;
        if let Some(path) = path {
            let names = Names {
                name: name.to_vec(),
                name_at: name_at..name_end,
                title: title.to_vec(),
            };
            self.layout.names.insert(path.to_owned(), names);
        }
        self.finish("TNamed", header)
    }

    pub(crate) fn label(&mut self) -> Result<(), HistogramError> {
        let header = self.header("TObjString")?;
        let object = self.cursor.object()?;
        let string = self.cursor.string("TObjString")?;
        if let Some(labels) = &mut self.labels {
            labels.items.push((object.id, string.to_vec()));
        }
        self.finish("TObjString", header)
    }

    /// A TObjArray or a list.
    pub(crate) fn items(&mut self, class: &str) -> Result<(), HistogramError> {
        let header = self.header("collection")?;
        if header.version > 2 {
            self.object(None)?;
        }
        if header.version > 1 {
            self.cursor.string("name of a collection")?;
        }
        let count_at = self.cursor.position();
        let n = self.cursor.count(4, "number of objects")?;
        if class == "TObjArray" {
            self.cursor.skip(4, "lower bound")?;
        }
        for _ in 0..n {
            self.pointer()?;
            if class != "TObjArray" && header.version > 3 {
                self.cursor.string("option of a list")?;
            }
        }
        let end = self.cursor.position();
        if let Some(labels) = self.labels.as_mut().filter(|_| header.version > 3) {
            labels.list = Some((count_at, end));
        }
        self.finish(class, header)
    }

    /// A TMap: alternating keys and values.
    pub(crate) fn pairs(&mut self) -> Result<(), HistogramError> {
        let header = self.header("map")?;
        if header.version > 2 {
            self.object(None)?;
        }
        if header.version > 1 {
            self.cursor.string("name of a map")?;
        }
        for _ in 0..self.cursor.count(8, "number of pairs")? {
            self.pointer()?;
            self.pointer()?;
        }
        self.finish("TMap", header)
    }

    /// A TArray.
    pub(crate) fn array(&mut self, path: Option<&str>, kind: Kind) -> Result<(), HistogramError> {
        let n = self.cursor.count(kind.size(), "array")?;
        let place = Place {
            kind,
            at: self.cursor.position(),
            n,
        };
        self.cursor.skip(place.range().len(), "array")?;
        self.note(path, "fArray", place);
        Ok(())
    }

    /// Numbers. Returns none if their kind is not needed.
    pub(crate) fn numbers(&mut self, code: i32, n: usize) -> Result<Option<Place>, HistogramError> {
        let (kind, size) = match code {
            // one-byte types
            1 | 10 => (Some(Kind::I8), 1),
            11 | 18 => (None, 1),
            2 | 12 => (Some(Kind::I16), 2),
            3 | COUNTER => (Some(Kind::I32), 4),
            4 | 16 => (Some(Kind::I64), 8),
            5 => (Some(Kind::F32), 4),
            8 => (Some(Kind::F64), 8),
            9 | 13 => (None, 4),
            14 | 17 => (None, 8),
            BITS => {
                self.cursor.skip(4, "bits")?;
                return Ok(None);
            }
            _ => return unsupported(format!("numbers of the unknown type {code}")),
        };
        let at = self.cursor.position();
        self.cursor.skip(n.saturating_mul(size), "numbers")?;
        Ok(kind.map(|kind| Place { kind, at, n }))
    }
}
