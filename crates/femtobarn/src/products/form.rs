//! Products as columns of an ntuple. The column keeps everything: missing products, and bytes of unknown types.

use std::str::FromStr;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray};
use femtobarn_events::{DataStore, Descriptor, EventsError, ProductName};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::Arrays;
use femtobarn_rntuple::rows::Columns;
use femtobarn_rntuple::write::{FieldKind, FieldModel};

use super::{OPAQUE, Part, Types, damaged, descriptors};

/// How a column stores a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The value, which all entries have.
    Value,
    /// The value, or none if it is missing: `std::optional`.
    Optional,
    /// A `std::vector` with the value, or an empty one: for types whose values may themselves be missing.
    List,
    /// The stored bytes, which all entries have.
    Bytes,
    /// The stored bytes, or none if the product is missing.
    OptionalBytes,
}

impl Form {
    const ALL: [(Self, &str); 5] = [
        (Self::Value, "value"),
        (Self::Optional, "optional"),
        (Self::List, "list"),
        (Self::Bytes, "bytes"),
        (Self::OptionalBytes, "optional bytes"),
    ];
    /// The type of columns with bytes.
    pub const BYTES: &str = "std::vector<std::byte>";

    /// The name of the form.
    pub fn name(self) -> &'static str {
        let known = Self::ALL.iter().find(|(form, _)| *form == self);
        known.map_or("value", |(_, name)| name)
    }

    /// Whether the form has the stored bytes.
    pub fn is_bytes(self) -> bool {
        matches!(self, Self::Bytes | Self::OptionalBytes)
    }

    /// Whether the form can represent missing products.
    pub fn may_lack(self) -> bool {
        !matches!(self, Self::Value | Self::Bytes)
    }
}

impl FromStr for Form {
    type Err = RNTupleError;

    fn from_str(name: &str) -> Result<Self, RNTupleError> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        known
            .map(|(form, _)| *form)
            .ok_or_else(|| RNTupleError::Usage {
                what: format!("unknown form {name:?} of products"),
            })
    }
}

impl Types {
    /// The form for products of a type, with the reason if only bytes are possible. `is_partial` tells whether some
    /// entries lack the product.
    ///
    /// # Errors
    ///
    /// Errors of the store.
    pub fn form(
        &self,
        type_name: &str,
        is_partial: bool,
    ) -> Result<(Form, Option<String>), EventsError> {
        let bytes = match is_partial {
            true => Form::OptionalBytes,
            false => Form::Bytes,
        };
        if OPAQUE.contains(&type_name) {
            return Ok((bytes, None));
        }
        let rows = match self.of(type_name, "x") {
            Ok(rows) => rows,
            Err(EventsError::Type { why, .. }) => return Ok((bytes, Some(why))),
            Err(error) => return Err(error),
        };
        let model = rows.model();
        if let Err(error) = model.check() {
            return Ok((bytes, Some(error.to_string())));
        }
        if let Some(why) = unclear(model) {
            return Ok((bytes, Some(why.into())));
        }
        Ok((
            match is_partial {
                false => Form::Value,
                true if may_be_missing(model) => Form::List,
                true => Form::Optional,
            },
            None,
        ))
    }

    /// The field for products of a type in a form.
    ///
    /// # Errors
    ///
    /// Errors of [`of`](Self::of).
    pub fn field(
        &self,
        column: &str,
        type_name: &str,
        form: Form,
    ) -> Result<FieldModel, EventsError> {
        let type_name = if form.is_bytes() {
            Form::BYTES
        } else {
            type_name
        };
        let model = self.of(type_name, column)?.model().clone();
        Ok(match form {
            Form::Value | Form::Bytes => model,
            Form::Optional | Form::OptionalBytes => FieldModel::optional(column, model),
            Form::List => FieldModel::vector(column, model),
        })
    }
}

/// Whether values of a field may themselves be missing.
fn may_be_missing(model: &FieldModel) -> bool {
    match &model.kind {
        FieldKind::Optional(_) | FieldKind::Variant(_) => true,
        FieldKind::Wrapper(item) => may_be_missing(item),
        _ => false,
    }
}

/// The reason why the values of a field are ambiguous when read, if they are.
pub(super) fn unclear(model: &FieldModel) -> Option<&'static str> {
    let missing =
        |model: &FieldModel| !matches!(model.kind, FieldKind::Variant(_)) && may_be_missing(model);
    let is_pointer = model.type_name.starts_with("std::unique_ptr<");
    match &model.kind {
        FieldKind::Optional(item) if may_be_missing(item) => Some(TWICE),
        FieldKind::Variant(alternatives) if alternatives.iter().any(missing) => Some(TWICE),
        FieldKind::Optional(item) if is_pointer && is_list(item) => {
            Some("pointers are read as lists of one value or none, and this one points to a list")
        }
        _ => model.subfields().iter().find_map(unclear),
    }
}

const TWICE: &str =
    "a value can be missing in several ways, which cannot be distinguished when it is read";

/// Whether values of a field are read as lists.
fn is_list(model: &FieldModel) -> bool {
    match &model.kind {
        FieldKind::Collection(_) | FieldKind::Array(..) | FieldKind::Bitset(_) => true,
        FieldKind::Wrapper(item) => is_list(item),
        _ => false,
    }
}

/// The column of a product in an ntuple.
#[derive(Clone, Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The product.
    pub product: ProductName,
    /// The form, and the reason for it.
    pub form: Form,
}

impl Column {
    /// Adds the column with values; `which` names the containers of the values in messages.
    ///
    /// # Errors
    ///
    /// If a type is unknown, or a value does not fit its type.
    pub fn add<'a>(
        &self,
        columns: &mut Columns,
        types: &Types,
        store: &DataStore,
        values: impl Iterator<Item = Option<&'a [u8]>>,
        which: impl FnOnce(usize) -> Option<Descriptor>,
    ) -> Result<(), EventsError> {
        if self.form.is_bytes() {
            columns.add_bytes(&self.name, values);
            return Ok(());
        }
        let rows = types.of(self.product.type_name(), &self.name)?;
        let added = match self.form {
            Form::List => columns.add_lists(&rows, values),
            _ => columns.add(&rows, values),
        };
        added.map_err(|fault| {
            let container = which(fault.row);
            damaged(store, container, &self.product, fault)
        })
    }
}

/// Loaded products as columns of an ntuple, after the event numbers with the given names.
///
/// # Errors
///
/// If a type is unknown, or a value does not fit its type.
pub fn export(
    types: &Types,
    store: &DataStore,
    parts: &[Part<'_>],
    wanted: &[Column],
    [run, subrun, event]: [&str; 3],
) -> Result<Arrays, EventsError> {
    let n = parts.iter().map(|(_, range)| range.len()).sum();
    let mut columns = Columns::new(n).with_texts_as_bytes();
    let numbers = |of: fn(Descriptor) -> u64| descriptors(parts).map(of).collect::<Vec<_>>();
    columns.add_numbers(run, &numbers(|event| event.run));
    columns.add_numbers(subrun, &numbers(|event| event.subrun));
    columns.add_numbers(event, &numbers(|event| event.event));
    for (at, column) in wanted.iter().enumerate() {
        let products = parts.iter().filter_map(|(loaded, range)| {
            let values = loaded.products.get(at)?;
            Some(values.iter().skip(range.start).take(range.len()))
        });
        let which = |row| descriptors(parts).nth(row);
        column.add(&mut columns, types, store, products.flatten(), which)?;
    }
    Ok(columns.finish())
}

/// The values of products in a column of a form, and a mask of the entries that have one; `None` if all have. Forms
/// with bytes have values of type [`Form::BYTES`].
///
/// # Errors
///
/// If the array does not have this form.
pub fn present(
    array: &ArrayRef,
    form: Form,
    label: &str,
) -> Result<(ArrayRef, Option<Vec<bool>>), RNTupleError> {
    let refused = |reason: String| RNTupleError::Unwritable {
        name: label.to_owned(),
        reason,
    };
    match form {
        Form::Value | Form::Bytes => Ok((array.clone(), None)),
        Form::Optional | Form::OptionalBytes => {
            let Some(nulls) = array.logical_nulls() else {
                return Ok((array.clone(), None));
            };
            let there = BooleanArray::new(nulls.inner().clone(), None);
            let values = arrow_select::filter::filter(array, &there)
                .map_err(|error| refused(error.to_string()))?;
            Ok((values, Some(nulls.iter().collect())))
        }
        Form::List => {
            let wide = lists(array).ok_or_else(|| {
                refused("it is not a column of lists with at most one value".into())
            })?;
            let (ends, values) = wide;
            let there = ends.windows(2).map(|pair| match pair {
                [a, b] if b.saturating_sub(*a) <= 1 => Ok(b > a),
                _ => Err(refused("one of its lists has more than one value".into())),
            });
            let there = there.collect::<Result<_, _>>()?;
            let (first, last) = (ends.first().copied(), ends.last().copied());
            let (first, last) = (first.unwrap_or_default(), last.unwrap_or_default());
            Ok((values.slice(first, last.saturating_sub(first)), Some(there)))
        }
    }
}

/// The ends of lists, and their items.
fn lists(array: &ArrayRef) -> Option<(Vec<usize>, ArrayRef)> {
    let place = |end: i64| usize::try_from(end).ok();
    if let Some(lists) = array.as_list_opt::<i64>() {
        let ends = lists.offsets().iter().map(|end| place(*end));
        return Some((ends.collect::<Option<_>>()?, lists.values().clone()));
    }
    let lists = array.as_list_opt::<i32>()?;
    let ends = lists.offsets().iter().map(|end| place(i64::from(*end)));
    Some((ends.collect::<Option<_>>()?, lists.values().clone()))
}
