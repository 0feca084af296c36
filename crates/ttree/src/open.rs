//! Opening a tree.

use std::sync::Arc;

use femtobarn_io::ByteSource;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::storage::Storage;
use femtobarn_rntuple::read::{Reader, ReaderOptions};
use femtobarn_rntuple::schema::FieldId;
use femtobarn_rootfile::{Key, RootFile};

use crate::descriptor::{Owner, describe};
use crate::model::{self, BranchId, TreeModel};
use crate::object::Infos;
use crate::read::TreeStorage;

/// Classes of trees.
pub const TREE_CLASSES: [&str; 3] = ["TTree", "TNtuple", "TNtupleD"];

/// Whether a class is one of trees.
pub fn is_tree(class_name: &str) -> bool {
    TREE_CLASSES.contains(&class_name)
}

/// A tree behind a reader.
pub struct Tree;

impl Tree {
    /// The model of the tree that a reader reads; none if it reads something else.
    pub fn model(reader: &Reader) -> Option<&TreeModel> {
        let storage = reader.storage()?.as_any().downcast_ref::<TreeStorage>()?;
        Some(storage.model())
    }

    /// The top-level field that shows the values of a branch; none if it has none of its own, or they cannot be read.
    pub fn field(reader: &Reader, branch: BranchId) -> Option<FieldId> {
        let storage = reader.storage()?.as_any().downcast_ref::<TreeStorage>()?;
        storage.data(branch).map(|data| data.field)
    }

    /// The branch that a column is read from, or whose values are its lengths.
    pub fn branch(reader: &Reader, column: u32) -> Option<BranchId> {
        let storage = reader.storage()?.as_any().downcast_ref::<TreeStorage>()?;
        storage.owner(column).map(|owner| match owner {
            Owner::Branch { branch, .. } | Owner::Counter(branch) => branch,
        })
    }

    /// For each member of a record, the bases that it is of, the outermost first; none if no two members have one name, as
    /// those of a class with a base by two ways.
    pub fn bases(reader: &Reader, record: FieldId) -> Option<&[Vec<String>]> {
        let storage = reader.storage()?.as_any().downcast_ref::<TreeStorage>()?;
        storage.bases(record)
    }
}

/// Opens the tree of a key; `source` is where its baskets are read from.
pub fn open(
    source: Arc<dyn ByteSource>,
    file: &RootFile,
    key: &Key,
    path: &str,
    options: ReaderOptions,
) -> Result<Reader, RNTupleError> {
    let infos = Infos::new(file.streamer_infos()?);
    let object = file.read_object(key)?;
    let model = model::build(&infos, &key.class_name, &object, key.key_len).map_err(|error| {
        RNTupleError::Object {
            url: source.url().into(),
            ntuple: path.into(),
            structure: format!("the {}", key.class_name),
            offset: key.seek_key,
            source: Box::new(error),
        }
    })?;
    let version = file.header().version % 1_000_000;
    let writer = format!(
        "ROOT v{}.{:02}.{:02}",
        version / 10_000,
        version / 100 % 100,
        version % 100
    );
    let described = describe(&model, &infos, writer);
    let (descriptor, aliases) = (described.descriptor, described.aliases);
    let (owners, data, bases) = (described.owners, described.data, described.bases);
    let storage = TreeStorage::new(model, owners, data, bases, object, &descriptor);
    let storage: Arc<dyn Storage> = Arc::new(storage);
    let reader = Reader::of_storage(source, path, descriptor, storage, aliases, options);
    // it says where the baskets are, as header, footer and page lists do of an RNTuple
    let record = key.record();
    reader.note_metadata(record.end.saturating_sub(record.start));
    Ok(reader)
}
