//! Open inputs.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;

use femtobarn_histogram::Infos;
use femtobarn_io::ByteSource;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{Reader, ReaderOptions};
use femtobarn_rootfile::{FileWriter, Key, RootFile};
use femtobarn_ttree::is_tree;

use super::Input;
use crate::daos::with_name;
use crate::objects::{self, RNTUPLE_CLASS};
use crate::open::{OpenOptions, directory_of, open_reader_in, reader_of, while_it_grows};

/// The ntuples that the trees of an input were converted to, in a file that is shared with other inputs.
pub(crate) struct ConvertedTrees {
    /// The file with the ntuples, under the name of the input.
    pub source: Arc<dyn ByteSource>,
    pub file: Rc<Opened>,
    /// The ntuples by their paths in the output.
    pub ntuples: Vec<(String, Key)>,
}

impl ConvertedTrees {
    /// Opens an ntuple; `None` if no tree was converted to this path.
    pub fn reader(&self, path: &str) -> Result<Option<Reader>, RNTupleError> {
        let found = self.ntuples.iter().find(|(own, _)| own == path);
        let open = |(_, key): &(String, Key)| {
            let options = ReaderOptions::default();
            reader_of(self.source.clone(), &self.file.file, (path, key), options)
        };
        found.map(open).transpose()
    }
}

/// An open input.
pub(crate) struct Opened {
    pub source: Arc<dyn ByteSource>,
    pub file: RootFile,
    /// The ntuples from its trees.
    pub converted: Option<ConvertedTrees>,
    infos: OnceCell<Arc<Infos>>,
    /// Whether its class descriptions were added to the output.
    is_described: Cell<bool>,
}

impl Opened {
    pub fn new(input: &Input) -> Result<Self, RNTupleError> {
        let url = with_name(&input.url, input.path.as_deref());
        while_it_grows(&url, &input.all_settings()?, Self::of)
    }

    pub fn of(source: Arc<dyn ByteSource>) -> Result<Self, RNTupleError> {
        Ok(Self {
            file: directory_of(source.clone())?,
            source,
            converted: None,
            infos: OnceCell::new(),
            is_described: Cell::new(false),
        })
    }

    /// The newest cycle of all objects in the file, or of one object. Ntuples take the place of their trees.
    pub fn objects(&self, path: Option<&str>) -> Result<Vec<(String, Key)>, RNTupleError> {
        self.objects_and_older(path).map(|(objects, _)| objects)
    }

    /// Also returns older cycles of objects, unless one object is named.
    #[expect(clippy::type_complexity, reason = "used once")]
    pub fn objects_and_older(
        &self,
        path: Option<&str>,
    ) -> Result<(Vec<(String, Key)>, Vec<(String, Key)>), RNTupleError> {
        let (found, older) = match path {
            Some(_) => (wanted(&self.file, path)?, Vec::new()),
            None => objects::newest_and_older(&self.file)?,
        };
        Ok((self.with_converted(found)?, older))
    }

    /// Replaces trees by the ntuples that they were converted to.
    fn with_converted(
        &self,
        found: Vec<(String, Key)>,
    ) -> Result<Vec<(String, Key)>, RNTupleError> {
        let Some(converted) = &self.converted else {
            return Ok(found);
        };
        let others = found
            .into_iter()
            .filter(|(_, key)| !is_tree(&key.class_name));
        let mut out: Vec<(String, Key)> = others.collect();
        for (path, key) in &converted.ntuples {
            let is_ntuple =
                |(other, key): &(String, Key)| other == path && key.class_name == RNTUPLE_CLASS;
            if out.iter().any(is_ntuple) {
                let url = self.source.url();
                return Err(RNTupleError::Usage {
                    what: format!(
                        "{url} has an RNTuple called {path:?}, and a tree that would get the same name: name one of \
                         them ({url}:NAME)"
                    ),
                });
            }
            out.push((path.clone(), key.clone()));
        }
        Ok(out)
    }

    /// Whether the ntuple with a path comes from a tree.
    pub fn is_converted(&self, path: &str) -> bool {
        let converted = self.converted.iter().flat_map(|it| &it.ntuples);
        converted.into_iter().any(|(own, _)| own == path)
    }

    /// Opens an ntuple.
    pub fn reader(&self, path: &str, key: &Key) -> Result<Reader, RNTupleError> {
        let converted = self.converted.as_ref().map(|it| it.reader(path));
        if let Some(reader) = converted.transpose()?.flatten() {
            return Ok(reader);
        }
        let options = ReaderOptions::default();
        reader_of(self.source.clone(), &self.file, (path, key), options)
    }

    /// Opens an ntuple or a tree; `path` is optional if the file has only one.
    pub fn entries(&self, path: Option<&str>) -> Result<Reader, RNTupleError> {
        let options = OpenOptions::default();
        let found = open_reader_in(self.source.clone(), &self.file, path, &options)?;
        found.ok_or_else(|| RNTupleError::internal("internal error: an ntuple is missing"))
    }

    /// The class descriptions of the file, read once.
    pub fn infos(&self) -> Result<Arc<Infos>, RNTupleError> {
        if let Some(infos) = self.infos.get() {
            return Ok(Arc::clone(infos));
        }
        let infos = Arc::new(Infos::new(self.file.streamer_infos()?));
        Ok(Arc::clone(self.infos.get_or_init(|| infos)))
    }

    /// Adds the class descriptions of the file to the output.
    pub fn describe_in(&self, output: &mut FileWriter) -> Result<(), RNTupleError> {
        if !self.is_described.replace(true) {
            for info in self.infos()?.all() {
                output.add_streamer_info(info.clone());
            }
        }
        Ok(())
    }
}

/// The newest objects of a file, or the object with a name.
pub(crate) fn wanted(
    file: &RootFile,
    name: Option<&str>,
) -> Result<Vec<(String, Key)>, RNTupleError> {
    match name {
        Some(name) => {
            let key = objects::find(file, name)?;
            Ok(vec![(objects::path_of(name, &key), key)])
        }
        None => objects::newest(file),
    }
}
