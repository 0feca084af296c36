//! Writing the events, and the products of runs, subruns and the dataset.

use std::collections::{BTreeMap, BTreeSet};

use crate::writable::Output;
use femtobarn_events::{Container, EventsError, Loaded, ProductName};
use femtobarn_io::units::plural;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::Arrays;
use femtobarn_rntuple::rows::Columns;
use femtobarn_rntuple::schema::DType;
use femtobarn_rntuple::write::{FieldModel, NTupleWriter, WriteOptions};
use serde_json::{Value, json};

use super::batches::{Page, each_batch};
use super::names::column_names;
use super::report::{ExportReport, ExportedProduct};
use super::survey::{Name, Row, Survey};
use super::{ExportOptions, Exported, OnExport};
use crate::products::{self, Column, Form, REFERENCE, Types};
use crate::transfer::{LEVELS, NUMBERS, TransferError, joined, note, quoted};

const MOST_ROWS: usize = 4096;

/// Why writing has ended before the end.
#[derive(Debug)]
pub(super) enum Again {
    /// An event lacks a product that was expected in all events.
    Partial(Name),
    /// Products have intact values that are not of their type: C++ has stored them in another way.
    Unreadable(BTreeMap<Name, String>),
    /// An error.
    Failed(TransferError),
}

impl<E: Into<TransferError>> From<E> for Again {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// An export in progress.
pub(super) struct Exporting<'a> {
    exported: &'a Exported<'a>,
    holders: &'a [Container],
    types: &'a Types,
    survey: &'a Survey,
    options: &'a ExportOptions,
    pub report: ExportReport,
    references: BTreeSet<String>,
}

impl<'a> Exporting<'a> {
    pub fn new(
        exported: &'a Exported<'a>,
        holders: &'a [Container],
        types: &'a Types,
        survey: &'a Survey,
        options: &'a ExportOptions,
    ) -> Self {
        Self {
            exported,
            holders,
            types,
            survey,
            options,
            report: ExportReport::default(),
            references: BTreeSet::new(),
        }
    }

    /// Writes all ntuples.
    pub fn write(&mut self, file: &mut Output, tick: OnExport<'_>) -> Result<(), Again> {
        let survey = self.survey;
        let products: Vec<Name> = survey.events.keys().cloned().collect();
        let lacks = |name: &Name| {
            survey.events.get(name) != Some(&survey.n_events) || survey.partial.contains(name)
        };
        let name = self.options.name.clone();
        let columns = self.columns(&name, &products, &self.options.numbers, &lacks)?;
        let mut ntuple = self.begin(file, "events", &name, &self.options.numbers, &columns)?;
        let mut written = vec![0; columns.len()];
        let names: Vec<ProductName> = columns
            .iter()
            .map(|column| column.product.clone())
            .collect();
        for holder in self.holders {
            let budget = self.options.batch_bytes;
            each_batch(holder, &names, budget, &mut |loaded| {
                self.write_events(file, &mut ntuple, loaded, &columns, &mut written)?;
                match tick(self.report.events, survey.n_events) {
                    true => Ok(()),
                    false => Err(RNTupleError::Interrupted.into()),
                }
            })?;
        }
        self.warn_of_types(&columns, &written);
        self.end(file, ntuple, &name, &columns, &written)?;
        for (level, rows) in LEVELS.iter().zip(&survey.levels) {
            if !rows.is_empty() {
                self.write_level(file, level, rows)?;
            }
        }
        if !self.references.is_empty() {
            let labels = joined(self.references.iter().map(|label| quoted(label)));
            self.report.warnings.push(format!(
                "{labels}: references are exported as they are: the referenced data are not exported, and the \
                 references are invalid in another store"
            ));
        }
        Ok(())
    }

    fn write_events(
        &mut self,
        file: &mut Output,
        ntuple: &mut NTupleWriter,
        loaded: &Loaded,
        columns: &[Column],
        written: &mut [u64],
    ) -> Result<(), Again> {
        let n = loaded.len();
        for ((column, values), written) in columns.iter().zip(&loaded.products).zip(written) {
            let there = values.iter().flatten().count();
            if there < n && !column.form.may_lack() {
                return Err(Again::Partial(super::survey::name_of(&column.product)));
            }
            *written += there as u64;
        }
        let (types, store) = (self.types, self.exported.store());
        let numbers = self.options.numbers.each_ref().map(String::as_str);
        let arrays = products::export(types, store, &[(loaded, 0..n)], columns, numbers);
        let arrays = arrays.map_err(|error| {
            let each = columns.iter().zip(&loaded.products);
            let add = |column: &Column, of: &mut Columns| {
                let values = each.clone().find(|(one, _)| one.product == column.product);
                let values = values.into_iter().flat_map(|(_, values)| values.iter());
                column.add(of, types, store, values, |row| {
                    loaded.descriptors().nth(row)
                })
            };
            unreadable(error, columns, n, &add)
        })?;
        extend(file, ntuple, &arrays)?;
        self.report.events += n as u64;
        Ok(())
    }

    /// Writes the products of the dataset, of runs or of subruns.
    fn write_level(&mut self, file: &mut Output, level: &str, rows: &[Row]) -> Result<(), Again> {
        let name = format!("{}_{level}", self.options.name);
        let n_numbers = rows.first().map_or(0, |row| row.numbers.len());
        let numbers: Vec<String> = self
            .options
            .numbers
            .iter()
            .take(n_numbers)
            .cloned()
            .collect();
        let mut counts: BTreeMap<Name, u64> = BTreeMap::new();
        for product in rows.iter().flat_map(|row| &row.products) {
            *counts.entry(product.clone()).or_default() += 1;
        }
        let products: Vec<Name> = counts.keys().cloned().collect();
        let lacks = |name: &Name| counts.get(name) != Some(&(rows.len() as u64));
        let columns = self.columns(&name, &products, &numbers, &lacks)?;
        let mut ntuple = self.begin(file, level, &name, &numbers, &columns)?;
        let mut page = Page::default();
        for row in rows {
            page.load(self.exported, row)?;
            if page.n_bytes >= self.options.batch_bytes || page.rows.len() >= MOST_ROWS {
                self.write_page(
                    file,
                    &mut ntuple,
                    &numbers,
                    &columns,
                    &std::mem::take(&mut page),
                )?;
            }
        }
        if !page.rows.is_empty() {
            self.write_page(file, &mut ntuple, &numbers, &columns, &page)?;
        }
        let written: Vec<u64> = counts.values().copied().collect();
        self.end(file, ntuple, &name, &columns, &written)
    }

    fn write_page(
        &self,
        file: &mut Output,
        ntuple: &mut NTupleWriter,
        numbers: &[String],
        columns: &[Column],
        page: &Page<'_>,
    ) -> Result<(), Again> {
        let n = page.rows.len();
        let mut arrays = Columns::new(n).with_texts_as_bytes();
        for (at, name) in numbers.iter().enumerate() {
            let own = page
                .rows
                .iter()
                .map(|row| row.numbers.get(at).copied().unwrap_or_default());
            arrays.add_numbers(name, &own.collect::<Vec<_>>());
        }
        let add = |column: &Column, of: &mut Columns| {
            let name = super::survey::name_of(&column.product);
            let values = page
                .values
                .iter()
                .map(|own| own.get(&name).map(Vec::as_slice));
            let which = |row: usize| page.rows.get(row).map(|row| row.descriptor);
            column.add(of, self.types, self.exported.store(), values, which)
        };
        let mut all = columns.iter();
        let added = all.try_for_each(|column| add(column, &mut arrays));
        added.map_err(|error| unreadable(error, columns, n, &add))?;
        extend(file, ntuple, &arrays.finish())
    }

    /// The columns of products. `lacks` tells whether some containers do not have a product.
    fn columns(
        &mut self,
        ntuple: &str,
        products: &[Name],
        numbers: &[String],
        lacks: &dyn Fn(&Name) -> bool,
    ) -> Result<Vec<Column>, TransferError> {
        let mut names = column_names(products, numbers);
        let mut columns = Vec::new();
        for product in products {
            let (label, type_name) = product;
            let name = names.remove(product).unwrap_or_default();
            let (form, why) = match self.survey.unreadable.get(product) {
                Some(why) if lacks(product) => (Form::OptionalBytes, Some(why.clone())),
                Some(why) => (Form::Bytes, Some(why.clone())),
                None => self.types.form(type_name, lacks(product))?,
            };
            if let Some(why) = why {
                self.report.warnings.push(format!(
                    "product {} of type {type_name} is stored as bytes in {ntuple}.{name}: {why}",
                    quoted(label)
                ));
            }
            columns.push(Column {
                name,
                product: ProductName::new(label, type_name)?,
                form: self.options.missing.form(form),
            });
        }
        Ok(columns)
    }

    fn begin(
        &mut self,
        file: &mut Output,
        level: &str,
        name: &str,
        numbers: &[String],
        columns: &[Column],
    ) -> Result<NTupleWriter, TransferError> {
        let mut fields = Vec::new();
        for (column, number) in numbers.iter().zip(NUMBERS) {
            let mut field = FieldModel::number(column, DType::UInt64);
            field.description = note("number", number.into());
            fields.push(field);
        }
        for column in columns {
            let (label, type_name) = (column.product.label(), column.product.type_name());
            let mut field = self.types.field(&column.name, type_name, column.form)?;
            let mut about = json!({"label": label, "type": type_name, "form": column.form.name()});
            let classes = self.classes(type_name)?;
            if type_name.contains("hepnos::Ptr<")
                || classes.iter().any(|(class, _)| class == REFERENCE)
            {
                self.references.insert(label.to_owned());
            }
            if let (Some(about), false) = (about.as_object_mut(), classes.is_empty()) {
                about.insert("classes".into(), json!(classes));
            }
            field.description = note("product", about);
            fields.push(field);
        }
        let store = self.exported.store().url();
        let about = json!({"level": level, "container": self.exported.to_string(), "store": store});
        let options = WriteOptions {
            description: note("level", about),
            ..self.options.write.clone()
        };
        let (folder, own) = name.rsplit_once('/').unwrap_or(("", name));
        let directory = file.directory(folder)?;
        Ok(NTupleWriter::new(file, directory, own, &fields, options)?)
    }

    /// The classes in a type with their members; none if the record of one is damaged, and these are bytes.
    fn classes(&self, type_name: &str) -> Result<Vec<(String, Value)>, TransferError> {
        let notes = match self.types.notes(type_name) {
            Err(EventsError::Type { .. }) => Vec::new(),
            notes => notes?,
        };
        let class = |note: products::ClassNote| {
            let members = note.members.into_iter();
            let members: Vec<_> = members
                .map(|member| json!([member.name, member.type_name]))
                .collect();
            (note.name, Value::Array(members))
        };
        Ok(notes.into_iter().map(class).collect())
    }

    fn end(
        &mut self,
        file: &mut Output,
        ntuple: NTupleWriter,
        name: &str,
        columns: &[Column],
        written: &[u64],
    ) -> Result<(), Again> {
        let n = ntuple.finish(file)?;
        self.report.ntuples.push((name.to_owned(), n));
        let products = columns
            .iter()
            .zip(written)
            .map(|(column, number)| ExportedProduct {
                label: column.product.label().to_owned(),
                type_name: column.product.type_name().to_owned(),
                ntuple: name.to_owned(),
                column: column.name.clone(),
                form: column.form.name(),
                number: *number,
            });
        self.report.products.extend(products);
        Ok(())
    }

    /// Tells which labels have products of several types, and so several columns.
    fn warn_of_types(&mut self, columns: &[Column], written: &[u64]) {
        let mut by_label: Vec<(&str, Vec<(&Column, u64)>)> = Vec::new();
        for (column, n) in columns.iter().zip(written) {
            let label = column.product.label();
            match by_label.iter_mut().find(|(known, _)| *known == label) {
                Some((_, own)) => own.push((column, *n)),
                None => by_label.push((label, vec![(column, *n)])),
            }
        }
        for (label, own) in by_label {
            let [(first, _), _, ..] = own.as_slice() else {
                continue;
            };
            let counts = own.iter().map(|(column, n)| {
                let kind = column.product.type_name();
                format!("{kind} in {} ({})", column.name, plural(*n, "event"))
            });
            let label = quoted(label);
            self.report.warnings.push(format!(
                "products {label} have several types, each with a column of its own: {}; store all with the same type \
                 (typename=), or export one type with products=[({label}, {})]",
                joined(counts),
                quoted(first.product.type_name())
            ));
        }
    }
}

fn extend(file: &mut Output, ntuple: &mut NTupleWriter, arrays: &Arrays) -> Result<(), Again> {
    let batch = arrays.to_arrow().map_err(|error| RNTupleError::Internal {
        what: femtobarn_io::with_causes(&error),
    })?;
    Ok(ntuple.extend(file, &batch)?)
}

/// An error of decoding products, or which products have intact values that are not of their type.
fn unreadable(
    error: EventsError,
    columns: &[Column],
    n: usize,
    add: &dyn Fn(&Column, &mut Columns) -> Result<(), EventsError>,
) -> Again {
    if !matches!(error, EventsError::Damaged { .. }) || error.is_checksum() {
        return error.into();
    }
    let mut why = BTreeMap::new();
    for column in columns {
        let kind = column.product.type_name();
        if column.form.is_bytes() || !products::may_be_of_boost(kind) {
            continue;
        }
        let fault = add(column, &mut Columns::new(n).with_texts_as_bytes());
        if let Err(EventsError::Damaged {
            id,
            expected,
            found,
            ..
        }) = fault
        {
            let reason = format!(
                "not all have this type; hepnos.hpp may have stored them with Boost ({}: expected {expected}, found \
                 {found})",
                id.container
            );
            why.insert(super::survey::name_of(&column.product), reason);
        }
    }
    match why.is_empty() {
        true => error.into(),
        false => Again::Unreadable(why),
    }
}
