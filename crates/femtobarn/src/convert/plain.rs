//! Converts columns of tables to columns that ntuples support: times and decimals become their stored integers, and
//! names become valid in ROOT.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow_array::types::Decimal128Type;
use arrow_array::{
    Array, ArrayRef, Int64Array, RecordBatch, RecordBatchOptions, cast::AsArray, make_array,
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::write::{FieldModel, all_or_none, arrow_type_name};

use super::source::refused;
use super::wanted::{Names, Wanted, with_drop};

/// The reason for leaving out a column of nulls.
const WITHOUT_TYPE: &str = "all of its values are missing, so its type is unknown";

/// Maximum number of digits that fit into any 64-bit integer.
const MOST_DIGITS: u8 = 18;

/// The converted columns of a table.
#[derive(Debug)]
pub(super) struct Columns {
    /// Their indexes in the table.
    chosen: Vec<usize>,
    /// Their new schema.
    pub schema: SchemaRef,
    /// Columns that are not converted, with reasons.
    pub skipped: Vec<(String, String)>,
    /// Columns with notes.
    pub notes: Vec<(String, String)>,
    /// For each column, its previous type if it has changed.
    pub was: Vec<Option<String>>,
}

impl Columns {
    /// Selects columns; with `rename`, changes names that are invalid in ROOT.
    ///
    /// # Errors
    /// If two columns get the same name, decimals have too many digits, or a type is not supported: one error for all
    /// of them.
    pub fn new(
        schema: &Schema,
        wanted: &mut Wanted<'_>,
        rename: bool,
    ) -> Result<Self, RNTupleError> {
        let mut out = Self {
            chosen: Vec::new(),
            schema: Arc::new(Schema::empty()),
            skipped: Vec::new(),
            notes: Vec::new(),
            was: Vec::new(),
        };
        let mut names = HashMap::new();
        let columns = schema.fields().iter().enumerate();
        let each = columns.map(|(at, field)| out.add(at, field, wanted, rename, &mut names));
        let fields = all_or_none(each.collect::<Vec<_>>())?;
        out.schema = Arc::new(Schema::new(
            fields.into_iter().flatten().collect::<Vec<_>>(),
        ));
        Ok(out)
    }

    /// Adds a column in its new form, if it is selected.
    fn add<'s>(
        &mut self,
        at: usize,
        field: &'s Field,
        wanted: &mut Wanted<'_>,
        rename: bool,
        names: &mut HashMap<String, &'s str>,
    ) -> Result<Option<Field>, RNTupleError> {
        let given = field.name().as_str();
        let mut plain = Plain {
            rename,
            changes: Vec::new(),
            has_integers: false,
            without_type: Vec::new(),
        };
        let mut name = plain.name(given);
        // members keep their names: the names of tuple members are numbers
        if rename && name.starts_with(|c: char| c.is_ascii_digit()) {
            name.insert(0, '_');
        }
        let all_names = Names::new(given).called(name.clone());
        if !wanted.takes(&all_names) {
            return Ok(None);
        }
        if !has_type(field.data_type()) {
            let reason = WITHOUT_TYPE;
            if wanted.names(&all_names) {
                return Err(refused(given, with_drop(reason)));
            }
            self.skipped.push((given.to_owned(), reason.to_owned()));
            return Ok(None);
        }
        if let Some(other) = names
            .insert(name.clone(), given)
            .filter(|_| name != given || rename)
        {
            let reason = if other == given {
                "two columns have this name: rename one of them".to_owned()
            } else {
                format!("{other:?} and it would both get the name {name:?}: leave one out")
            };
            return Err(refused(given, reason));
        }
        if name != given {
            self.notes
                .push((given.to_owned(), format!("renamed to {name:?}")));
        }
        let data_type = plain.data_type(field.data_type(), given);
        let data_type = data_type.map_err(|reason| refused(given, reason))?;
        let was = plain
            .has_integers
            .then(|| arrow_type_name(field.data_type()));
        let without = plain.without_type.into_iter();
        let without = without.map(|path| (path, WITHOUT_TYPE.to_owned()));
        self.skipped.extend(without);
        let notes = plain.changes.into_iter();
        self.notes.extend(notes.map(|note| (name.clone(), note)));
        let made = Field::new(name, data_type, field.is_nullable());
        FieldModel::from_arrow(&made)?;
        self.was.push(was);
        self.chosen.push(at);
        Ok(Some(made))
    }

    /// Selects and converts the columns of a batch.
    ///
    /// # Errors
    /// If a value does not fit its new type.
    pub fn of(&self, batch: &RecordBatch) -> Result<RecordBatch, RNTupleError> {
        let columns = self.chosen.iter().zip(self.schema.fields());
        let columns = columns.map(|(&at, field)| {
            let array = batch.columns().get(at);
            let array = array.ok_or_else(|| refused(field.name(), "it is missing in a batch"))?;
            recast(array, field.data_type())
                .map_err(|error| refused(field.name(), error.to_string()))
        });
        let columns = columns.collect::<Result<_, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|error| refused("", error.to_string()))
    }
}

/// The new form of a column's type.
struct Plain {
    rename: bool,
    changes: Vec<String>,
    /// Whether some values are written as integers.
    has_integers: bool,
    /// Paths of members without a type.
    without_type: Vec<String>,
}

impl Plain {
    fn name(&self, name: &str) -> String {
        if self.rename {
            identifier(name)
        } else {
            name.to_owned()
        }
    }

    fn data_type(&mut self, given: &DataType, path: &str) -> Result<DataType, String> {
        use DataType as D;
        let name = || arrow_type_name(given);
        let too_long = || {
            format!(
                "{} may have more digits than an integer: cast it to float64 or string first, or leave it out",
                name()
            )
        };
        let scaled = |scale: i8| format!(", its value times 10^{scale}");
        let (integer, how) = match given {
            D::Timestamp(..) | D::Date64 | D::Time64(_) | D::Duration(_) => {
                (D::Int64, String::new())
            }
            D::Date32 | D::Time32(_) => (D::Int32, String::new()),
            D::Decimal32(_, scale) => (D::Int32, scaled(*scale)),
            D::Decimal64(_, scale) => (D::Int64, scaled(*scale)),
            D::Decimal128(digits, scale) if *digits <= MOST_DIGITS => (D::Int64, scaled(*scale)),
            D::Decimal128(..) | D::Decimal256(..) => return Err(too_long()),
            D::List(item) => return Ok(D::List(self.field(item, path)?)),
            D::LargeList(item) => return Ok(D::LargeList(self.field(item, path)?)),
            D::ListView(item) => return Ok(D::ListView(self.field(item, path)?)),
            D::LargeListView(item) => return Ok(D::LargeListView(self.field(item, path)?)),
            D::FixedSizeList(item, size) => {
                return Ok(D::FixedSizeList(self.field(item, path)?, *size));
            }
            D::Map(entries, is_sorted) => {
                return Ok(D::Map(self.field(entries, path)?, *is_sorted));
            }
            D::Dictionary(keys, values) => {
                let values = Box::new(self.data_type(values, path)?);
                return Ok(D::Dictionary(keys.clone(), values));
            }
            D::Struct(members) => return self.members(members, path).map(D::Struct),
            other => return Ok(other.clone()),
        };
        self.has_integers = true;
        self.changes
            .push(format!("{} is written as an integer{how}", name()));
        Ok(integer)
    }

    fn field(&mut self, field: &Field, path: &str) -> Result<FieldRef, String> {
        let data_type = self.data_type(field.data_type(), path)?;
        Ok(Arc::new(Field::new(
            field.name(),
            data_type,
            field.is_nullable(),
        )))
    }

    fn members(&mut self, members: &Fields, path: &str) -> Result<Fields, String> {
        let mut names = HashSet::new();
        let mut out = Vec::with_capacity(members.len());
        for member in members {
            let path = format!("{path}.{}", member.name());
            if !has_type(member.data_type()) {
                self.without_type.push(path);
                continue;
            }
            let name = self.name(member.name());
            if !names.insert(name.clone()) {
                return Err(format!("two of its members would get the name {name:?}"));
            }
            if &name != member.name() {
                self.changes.push(format!(
                    "its member {:?} is renamed to {name:?}",
                    member.name()
                ));
            }
            let member = self.field(member, &path)?;
            out.push(member.as_ref().clone().with_name(name));
        }
        Ok(out.into())
    }
}

/// Whether a type contains something that ntuples support; nulls and empty containers of nulls do not.
fn has_type(given: &DataType) -> bool {
    use DataType as D;
    match given {
        D::Null => false,
        D::List(item) | D::LargeList(item) | D::ListView(item) | D::LargeListView(item) => {
            has_type(item.data_type())
        }
        D::FixedSizeList(item, _) => has_type(item.data_type()),
        D::Map(entries, _) => match entries.data_type() {
            D::Struct(pair) => pair.iter().all(|part| has_type(part.data_type())),
            _ => true,
        },
        D::Dictionary(_, values) => has_type(values),
        D::Struct(members) => {
            members.is_empty() || members.iter().any(|member| has_type(member.data_type()))
        }
        _ => true,
    }
}

/// A valid C++ name, as RDataFrame requires: invalid characters become underscores.
fn identifier(name: &str) -> String {
    let is_base = name
        .strip_prefix(":_")
        .is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()));
    if is_base {
        return name.to_owned();
    }
    let plain = name
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { '_' });
    plain.collect()
}

/// Converts an array to the type in [`Plain::data_type`]. Only decimals are copied.
fn recast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(array.clone());
    }
    if let Some(decimals) = array.as_primitive_opt::<Decimal128Type>() {
        let narrow = |value: i128| {
            let too_large = || {
                ArrowError::InvalidArgumentError(format!("{value} has more digits than its type"))
            };
            i64::try_from(value).map_err(|_| too_large())
        };
        let each = decimals.iter().map(|value| value.map(narrow).transpose());
        let integers = each.collect::<Result<Int64Array, _>>()?;
        return Ok(Arc::new(integers));
    }
    let data = array.to_data();
    let types = match to {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item.data_type()],
        DataType::Dictionary(_, values) => vec![values.as_ref()],
        DataType::Struct(members) => members.iter().map(|member| member.data_type()).collect(),
        _ => Vec::new(),
    };
    let is_record = matches!(to, DataType::Struct(_));
    let children = data.child_data().iter();
    let children = children.filter(|child| !is_record || has_type(child.data_type()));
    let below = children.zip(types);
    let below = below.map(|(child, to)| Ok(recast(&make_array(child.clone()), to)?.to_data()));
    let below = below.collect::<Result<Vec<_>, ArrowError>>()?;
    let builder = data
        .clone()
        .into_builder()
        .data_type(to.clone())
        .child_data(below);
    builder.build().map(make_array)
}
