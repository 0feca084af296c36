//! What the entries of a branch mean.

use femtobarn_rntuple::schema::DType;
use femtobarn_rootfile::{ElementKind, StreamerElement};

use super::class::{Shapes, sizes};
use super::cpp::Cpp;
use super::known::basic;
use super::leaf;
use super::shape::{Hidden, ListWire, Member, Number, Record, RecordWire, Shape, TextWire};
use crate::TreeError;
use crate::error::unsupported;
use crate::model::{Branch, BranchId, TreeModel};
use crate::object::codes::OFFSET_P;
use crate::object::{Infos, squeezed};

/// ROOT's kinds of branches that are members of items of a TClonesArray, or of a collection.
const MEMBER_OF_CLONES: i64 = 31;
const MEMBER_OF_COLLECTION: i64 = 41;

/// The layout of a branch's entries.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    /// All entries have the same size.
    Fixed { size: usize },
    /// A counter gives the number of items, which have the same size.
    Counted { counter: BranchId, size: usize },
    /// The basket has the offsets of entries.
    Entries,
    /// The same for lists of arrays whose lengths are the items of another branch.
    Lists { lengths: BranchId },
}

/// What the entries of a branch mean.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Meaning {
    /// The branch only contains other branches.
    Group,
    /// The branch has values.
    Values { shape: Shape, content: Content },
}

/// Finds out what the entries of a branch mean. The error says why that is not possible.
pub(crate) fn meaning(
    model: &TreeModel,
    id: BranchId,
    infos: &Infos,
) -> Result<Meaning, TreeError> {
    let Some(branch) = model.branch(id) else {
        return unsupported("no such branch");
    };
    if let Some(problem) = &branch.problem {
        return unsupported(problem.clone());
    }
    if !branch.children.is_empty() {
        // a TClonesArray also has the number of its items as a field
        let is_clones = match branch.parent {
            None => branch.object_class == "TClonesArray",
            Some(_) => element(branch, infos).is_some_and(|own| own.type_name == "TClonesArray"),
        };
        if !is_clones || branch.kind != 3 {
            return Ok(Meaning::Group);
        }
        return Ok(fixed(Shape::Number(Number::plain(DType::Int32))));
    }
    if !branch.file_name.is_empty() {
        return unsupported(format!(
            "its baskets are in another file, {:?}",
            branch.file_name
        ));
    }
    if branch.class_name == "TBranchObject" {
        return object_with_name(branch, infos);
    }
    let element = element(branch, infos);
    let title = element.map_or("", |element| element.title.as_str());
    match branch.leaves.as_slice() {
        [] => unsupported("it has no leaves"),
        [only] => {
            let (sizes, _) = leaf::dimensions(only);
            if only.class_name == "TLeafC" {
                return Ok(entries(Shape::Text(TextWire::Short { header: false })));
            }
            match leaf::number(only, title) {
                Some(number) => {
                    let item = Shape::Number(number).in_arrays(&sizes);
                    match only.count {
                        None => Ok(fixed(item)),
                        Some((counter, _)) => counted(model, counter, item),
                    }
                }
                None => objects(model, branch, element, infos),
            }
        }
        several => leaf::record(several, id).map(fixed),
    }
}

fn fixed(shape: Shape) -> Meaning {
    match shape.size() {
        Some(size) if size > 0 => Meaning::Values {
            shape,
            content: Content::Fixed { size },
        },
        _ => entries(shape),
    }
}

fn entries(shape: Shape) -> Meaning {
    Meaning::Values {
        shape,
        content: Content::Entries,
    }
}

/// Arrays of variable length. Their counter must be a readable branch.
fn counted(model: &TreeModel, counter: BranchId, item: Shape) -> Result<Meaning, TreeError> {
    let is_readable = model.branch(counter).is_some_and(|branch| {
        branch.leaves.len() == 1 && counter_number(branch).is_some() && is_complete(branch)
    });
    let content = match item.size() {
        Some(size) if size > 0 && is_readable => Content::Counted { counter, size },
        _ => Content::Entries,
    };
    let shape = Shape::List {
        wire: ListWire::Rest,
        item: Box::new(item),
        container: "std::vector".into(),
    };
    Ok(Meaning::Values { shape, content })
}

/// Whether a branch has all its entries, as far as the tree states.
fn is_complete(branch: &Branch) -> bool {
    branch.problem.is_none() && branch.lacks.is_none()
}

/// The number type of a counter branch.
pub(crate) fn counter_number(branch: &Branch) -> Option<Number> {
    let leaf = branch.leaves.first()?;
    if leaf.length > 1 {
        return None;
    }
    // a split collection stores the number of its items
    if matches!(branch.kind, 3 | 4) {
        return Some(Number::plain(DType::Int32));
    }
    leaf::number(leaf, "").filter(|number| is_integer(number.dtype))
}

fn is_integer(dtype: DType) -> bool {
    dtype != DType::Bool && !dtype.is_float()
}

/// Objects, strings, containers.
fn objects(
    model: &TreeModel,
    branch: &Branch,
    element: Option<&StreamerElement>,
    infos: &Infos,
) -> Result<Meaning, TreeError> {
    let mut shapes = Shapes::new(infos);
    let is_member_of_items = matches!(branch.kind, MEMBER_OF_CLONES | MEMBER_OF_COLLECTION);
    let Some(element) = element.filter(|_| branch.element >= 0) else {
        if branch.object_class.is_empty() {
            return unsupported("its type is unknown");
        }
        let mut shape = whole(&mut shapes, branch, infos)?;
        if is_member_of_items {
            shape = rest(shape);
        }
        return Ok(entries(shape));
    };
    if let ElementKind::BasicPointer(counter) = &element.kind {
        if !sizes(element).is_empty() {
            return unsupported(format!("{}, an array of pointers", element.type_name));
        }
        let item = basic(element.type_code - OFFSET_P, &element.title)?;
        let list = |wire| Shape::List {
            wire,
            item: Box::new(Shape::Number(item)),
            container: "std::vector".into(),
        };
        // the counter is a separate branch
        if !is_member_of_items {
            return Ok(entries(list(ListWire::Marked)));
        }
        let Some(lengths) = lengths(model, branch, &counter.name, infos) else {
            return unsupported(format!(
                "its lengths are in branch {:?}, which cannot be read",
                counter.name
            ));
        };
        return Ok(Meaning::Values {
            shape: rest(list(ListWire::Elsewhere)),
            content: Content::Lists { lengths },
        });
    }
    // the dimensions in the leaf's title are those of the element as well
    let mut shape = shapes.element(element, &[])?;
    if is_member_of_items {
        shape = rest(shape);
    }
    Ok(entries(shape))
}

/// The branch of the same collection with the member that has the lengths.
fn lengths(model: &TreeModel, branch: &Branch, counter: &str, infos: &Infos) -> Option<BranchId> {
    let siblings = &model.branch(branch.parent?)?.children;
    let counts = |id: BranchId| match meaning(model, id, infos).ok()? {
        Meaning::Values {
            shape: Shape::List { item, .. },
            content: Content::Counted { .. },
        } => match *item {
            Shape::Number(number) if is_integer(number.dtype) => Some(id),
            _ => None,
        },
        _ => None,
    };
    let is_it = |id: &&BranchId| {
        let own = model.branch(**id);
        own.is_some_and(|own| clean_name(&own.name) == counter && is_complete(own))
    };
    siblings.iter().find(is_it).and_then(|&id| counts(id))
}

/// The objects of a TBranchObject, each after its class name.
fn object_with_name(branch: &Branch, infos: &Infos) -> Result<Meaning, TreeError> {
    let class = branch.object_class.as_str();
    let Shape::Record(record) = Shapes::new(infos).class(class)? else {
        return unsupported(format!("objects of the class {class}"));
    };
    let hidden = Member {
        name: String::new(),
        shape: Shape::Hidden(Hidden::ClassName),
        is_base: false,
    };
    let own = Member {
        name: record.name.clone(),
        shape: Shape::Record(record),
        is_base: true,
    };
    let members = vec![hidden, own];
    Ok(entries(Shape::Record(Record::bare(
        class.to_owned(),
        members,
    ))))
}

/// A complete object, in the version that the branch states.
fn whole(shapes: &mut Shapes<'_>, branch: &Branch, infos: &Infos) -> Result<Shape, TreeError> {
    let class = branch.object_class.as_str();
    let cpp = Cpp::parse(class)?;
    let version = i32::try_from(branch.class_version).unwrap_or(-1);
    let info = infos
        .by_checksum(class, branch.checksum)
        .or_else(|| infos.get(class, version));
    match info {
        Some(info) if !is_special(&cpp.name) => {
            Ok(Shape::Record(without_header(branch, shapes.record(info)?)))
        }
        _ => Ok(match shapes.of_type(&cpp, true)? {
            Shape::Record(record) => Shape::Record(without_header(branch, record)),
            shape => shape,
        }),
    }
}

/// Objects of classes without a custom streamer have no header.
fn without_header(branch: &Branch, mut record: Record) -> Record {
    if let (0, RecordWire::Headed { version, checksum }) = (branch.kind, &record.wire) {
        record.wire = RecordWire::Maybe {
            version: *version,
            checksum: *checksum,
        };
    }
    record
}

fn is_special(name: &str) -> bool {
    matches!(
        name,
        "string"
            | "TString"
            | "TRef"
            | "TRefArray"
            | "TDatime"
            | "TNamed"
            | "TArrayC"
            | "TArrayS"
            | "TArrayI"
            | "TArrayL"
            | "TArrayL64"
            | "TArrayF"
            | "TArrayD"
            | "vector"
            | "list"
            | "deque"
            | "set"
            | "multiset"
            | "map"
            | "multimap"
            | "unordered_map"
            | "unordered_set"
            | "bitset"
            | "RVec"
            | "array"
            | "forward_list"
    )
}

/// Items up to the end of the entry.
pub(crate) fn rest(item: Shape) -> Shape {
    Shape::List {
        wire: ListWire::Rest,
        item: Box::new(item),
        container: "std::vector".into(),
    }
}

/// The streamer element of the member that a branch holds.
pub(crate) fn element<'s>(branch: &Branch, infos: &'s Infos) -> Option<&'s StreamerElement> {
    let own = clean_name(&branch.name);
    let at = usize::try_from(branch.element).ok()?;
    let class = branch.object_class.as_str();
    let version = i32::try_from(branch.class_version).unwrap_or(-1);
    let candidates = infos
        .by_checksum(class, branch.checksum)
        .into_iter()
        .chain(infos.get(class, version))
        .chain(infos.newest(class));
    for info in candidates {
        // the branch of a base class has the name of the object
        let is_own = |element: &&StreamerElement| {
            let is_base = matches!(element.kind, ElementKind::Base { .. });
            element.name == own || (is_base && info.checksum == branch.checksum)
        };
        if let Some(element) = info.elements.get(at).filter(is_own) {
            return Some(element);
        }
        if let Some(element) = info.elements.iter().find(|element| element.name == own) {
            return Some(element);
        }
    }
    let parent = infos.newest(&squeezed(&branch.parent_class))?;
    parent.elements.iter().find(|element| element.name == own)
}

/// The member's name from a branch name: the part after the last dot, without dimensions.
fn clean_name(name: &str) -> &str {
    let name = name.split('[').next().unwrap_or(name);
    let name = name.trim_end_matches('.');
    name.rsplit('.').next().unwrap_or(name)
}
