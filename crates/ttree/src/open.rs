//! Opens a tree.

use std::collections::HashMap;
use std::sync::Arc;

use femtobarn_io::ByteSource;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::storage::Storage;
use femtobarn_rntuple::read::{
    ENTRIES_OF_ANY_FILE, Known, Reader, ReaderOptions, SourceStore, most_entries,
};
use femtobarn_rntuple::schema::FieldId;
use femtobarn_rntuple::spec::PageAddress;
use femtobarn_rootfile::{Key, RootFile};

use crate::common::{COMMON, Common};
use crate::descriptor::{Owner, descriptor};
use crate::model::{self, BranchId, Filling, TreeModel};
use crate::object::Infos;
use crate::read::TreeStorage;

/// Classes of trees.
pub const TREE_CLASSES: [&str; 3] = ["TTree", "TNtuple", "TNtupleD"];

/// Whether a class is a tree class.
pub fn is_tree(class_name: &str) -> bool {
    TREE_CLASSES.contains(&class_name)
}

/// Access to the tree of a reader.
pub struct Tree;

impl Tree {
    /// The model of the tree; none if the reader does not read a tree.
    pub fn model(reader: &Reader) -> Option<&TreeModel> {
        Some(storage(reader)?.model())
    }

    /// The contents of the branches.
    pub fn filling(reader: &Reader) -> Option<&Filling> {
        Some(storage(reader)?.filling())
    }

    /// The top-level field with the values of a branch; none if the branch has no values, or they cannot be read.
    pub fn field(reader: &Reader, branch: BranchId) -> Option<FieldId> {
        storage(reader)?.data(branch).map(|data| data.field)
    }

    /// Whether the strings of a field are objects of ROOT's class TString.
    pub fn is_tstring(reader: &Reader, field: FieldId) -> bool {
        storage(reader).is_some_and(|tree| tree.common().described.tstrings.contains(&field))
    }

    /// The full names of the branches that fields have: of top-level fields, and of whole objects.
    pub fn branch_names(reader: &Reader) -> HashMap<FieldId, String> {
        let Some(tree) = storage(reader) else {
            return HashMap::new();
        };
        let own =
            (0..tree.model().branches.len()).filter_map(|id| Some((id, tree.data(id)?.field)));
        let fields = own.chain(Self::objects(reader).iter().copied());
        fields
            .map(|(id, field)| (field, tree.model().full_name(id)))
            .collect()
    }

    /// The branch that a column is read from, or whose values are the lengths in the column.
    pub fn branch(reader: &Reader, column: u32) -> Option<BranchId> {
        storage(reader)?.owner(column).map(|owner| match owner {
            Owner::Branch { branch, .. } | Owner::Counter(branch) => branch,
        })
    }

    /// The fields with whole objects of classes that are split into branches, such as `Jets/`, by branch. They are not at
    /// the top level.
    pub fn objects(reader: &Reader) -> &[(BranchId, FieldId)] {
        storage(reader).map_or(&[], |tree| tree.common().described.objects.as_slice())
    }

    /// The path of base classes for each member of a record, outermost first. None if all member names are different;
    /// they are not if a class inherits a base twice.
    pub fn bases(reader: &Reader, record: FieldId) -> Option<&[Vec<String>]> {
        storage(reader)?.bases(record)
    }
}

fn storage(reader: &Reader) -> Option<&TreeStorage> {
    reader.storage()?.as_any().downcast_ref()
}

/// The streamer infos of open files, by the hash of their stored bytes.
static INFOS: Known<Infos> = Known::new();

/// The streamer infos of a file. If an open file has the same, they are shared.
fn infos_of(file: &RootFile) -> Result<Arc<Infos>, RNTupleError> {
    let hash = file.streamer_info_hash()?;
    let is_same = |known: &Infos| known.hash == hash;
    match INFOS.find(is_same) {
        Some(known) => Ok(known),
        None => {
            let infos = Infos::new(file.streamer_infos()?, hash);
            Ok(INFOS.add(Arc::new(infos), is_same))
        }
    }
}

/// Checks that a tree has no more entries than a file of this size can hold. Entries may take no bytes, if no branch has
/// as many.
fn check_entries(filling: &Filling, file_size: u64) -> Result<(), (String, u64)> {
    let found = filling.n_entries;
    let most = most_entries(file_size);
    if found > most {
        let expected = format!("at most {most} in a file of {file_size} bytes");
        return Err((expected, found));
    }
    match filling.most_of_a_branch() {
        Some(own) if found > own.max(ENTRIES_OF_ANY_FILE) => Err((
            format!("at most {own}, the number in the largest branch"),
            found,
        )),
        _ => Ok(()),
    }
}

/// Opens the tree of a key. Its baskets are read from `source`.
pub fn open(
    source: Arc<dyn ByteSource>,
    file: &RootFile,
    key: &Key,
    path: &str,
    options: ReaderOptions,
) -> Result<Reader, RNTupleError> {
    let infos = infos_of(file)?;
    let object = file.read_object(key)?;
    let version = file.header().version % 1_000_000;
    let writer = format!(
        "ROOT v{}.{:02}.{:02}",
        version / 10_000,
        version / 100 % 100,
        version % 100
    );
    let is_like = |known: &Common| {
        let own = (&known.described.schema.writer, &known.model.name);
        Arc::ptr_eq(&known.infos, &infos) && own == (&writer, &key.name)
    };
    let like = COMMON.find(is_like);
    let known = like.as_ref().map(|known| &known.model);
    let built = model::build(&infos, &key.class_name, &object, key.key_len, known);
    let (model, filling) = built.map_err(|error| RNTupleError::Object {
        url: source.url().into(),
        ntuple: path.into(),
        structure: format!("the {}", key.class_name),
        at: PageAddress::File(key.seek_key),
        source: Box::new(error),
    })?;
    check_entries(&filling, source.meta().size).map_err(|(expected, found)| {
        RNTupleError::Inconsistent {
            url: source.url().into(),
            ntuple: path.into(),
            what: "number of entries".into(),
            expected,
            found: found.to_string(),
        }
    })?;
    let common = match (model, like) {
        (None, Some(like)) => like,
        (model, _) => Common::of(model.unwrap_or_default(), infos, &writer, &filling),
    };
    let descriptor = descriptor(common.described.schema.clone(), &filling);
    let (header, aliases) = (common.header.clone(), common.aliases.clone());
    let storage: Arc<dyn Storage> = Arc::new(TreeStorage::new(
        common,
        filling,
        object,
        file.header().compression,
    ));
    let store = Arc::new(SourceStore::new(source, path, 0));
    let reader = Reader::of_storage(store, path, descriptor, header, storage, aliases, options);
    // the tree's record has the positions of baskets, like header, footer and page lists of an RNTuple
    let record = key.record();
    reader.note_metadata(record.end.saturating_sub(record.start));
    Ok(reader)
}
