//! Fields that turn out to be unreadable during reading: objects in trees store the version of their class, and the
//! file may not describe that version.
//!
//! A read of all fields continues without such fields. When one is found, the first entries of all similar fields are
//! tried at once, so that a file with many is not read many times. An iteration finds them in its first step. Later
//! steps must have the same fields, so a field found later is an error, and is left out of the next read.

use std::ops::Range;
use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::array::Arrays;
use femtobarn_rntuple::read::{Part, ReadOptions, ReadSchema, Reader, read};
use femtobarn_rntuple::schema::FieldId;

use crate::ntuple::{NTuple, OnUnreadable, Selection};

impl NTuple {
    /// Reads entries. Unreadable fields are removed from the selection, if it allows that.
    pub(crate) fn read_settling(
        &self,
        selection: &mut Selection,
        entries: &Range<u64>,
        options: &ReadOptions<'_>,
    ) -> Result<Arrays, RNTupleError> {
        let read = |selection: &Selection| self.read_exactly(selection, entries, options);
        self.settling(selection, entries, read)
    }

    /// The same for any read of these entries.
    pub(crate) fn settling<T>(
        &self,
        selection: &mut Selection,
        entries: &Range<u64>,
        read: impl Fn(&Selection) -> Result<T, RNTupleError>,
    ) -> Result<T, RNTupleError> {
        loop {
            let error = match read(selection) {
                Ok(found) => return Ok(found),
                Err(error) => error,
            };
            let RNTupleError::Unsupported { name, reason, .. } = &error else {
                return Err(error);
            };
            match selection.on_unreadable {
                OnUnreadable::Tell => return Err(error),
                OnUnreadable::Refuse => {
                    return Err(hinted(error, "leave it out by selecting fields"));
                }
                OnUnreadable::LeaveOutNext => {
                    self.leave_out(name, reason);
                    let hint = "earlier entries were already returned with it: the next read leaves it out";
                    return Err(hinted(error, hint));
                }
                OnUnreadable::LeaveOut => self.leave_out(name, reason),
            }
            self.try_each(selection, entries);
            if !self.shrink(selection)? {
                return Err(error);
            }
        }
    }

    /// The selection without fields that are unreadable in their first entries of `entries`. Costs nothing if the
    /// metadata suffice, otherwise one read per file.
    ///
    /// # Errors
    /// If the remaining fields cannot be selected.
    pub fn without_unreadable(
        &self,
        selection: &Selection,
        entries: &Range<u64>,
    ) -> Result<Selection, RNTupleError> {
        let mut settled = selection.clone();
        if selection.on_unreadable == OnUnreadable::LeaveOut
            && self.find_unreadable(selection, entries)
        {
            self.shrink(&mut settled)?;
        }
        Ok(settled.fixed())
    }

    /// Whether the first entries of `entries` show that a selected field is unreadable. Such fields are left out from
    /// then on.
    pub(crate) fn find_unreadable(&self, selection: &Selection, entries: &Range<u64>) -> bool {
        let mut all = self.doubtful(selection, entries).into_iter();
        let is_unreadable = |(reader, fields, entry): (&Arc<Reader>, Vec<FieldId>, u64)| {
            let tried = read_fields(reader, &fields, entry..entry.saturating_add(1));
            matches!(tried, Err(RNTupleError::Unsupported { .. }))
        };
        let found = all.any(is_unreadable);
        if found {
            self.try_each(selection, entries);
        }
        found
    }

    /// Tries the first entry of each doubtful field in each file.
    fn try_each(&self, selection: &Selection, entries: &Range<u64>) {
        for (reader, fields, entry) in self.doubtful(selection, entries) {
            for field in fields {
                let tried = read_fields(reader, &[field], entry..entry.saturating_add(1));
                if let Err(RNTupleError::Unsupported { name, reason, .. }) = tried {
                    self.leave_out(&name, &reason);
                }
            }
        }
    }

    /// For each file, the doubtful fields that are selected and not left out, with their first relevant entry.
    fn doubtful(
        &self,
        selection: &Selection,
        entries: &Range<u64>,
    ) -> Vec<(&Arc<Reader>, Vec<FieldId>, u64)> {
        let left_out = self.left_out();
        let is_selected = |path: &str| {
            let is_in = |wanted: &Arc<[String]>| wanted.iter().any(|wanted| wanted == path);
            left_out.reason(path).is_none() && selection.paths.as_ref().is_none_or(is_in)
        };
        let mut out = Vec::new();
        for (reader, &first) in self.readers().iter().zip(self.file_starts()) {
            let end = first.saturating_add(reader.n_entries()).min(entries.end);
            let start = entries.start.max(first);
            let Some(storage) = reader.storage().filter(|_| start < end) else {
                continue;
            };
            let fields = storage.doubtful().into_iter();
            let path = |id: FieldId| reader.paths().get(id as usize)?.as_deref();
            let fields: Vec<FieldId> = fields
                .filter(|&id| path(id).is_some_and(is_selected))
                .collect();
            if !fields.is_empty() {
                out.push((reader, fields, start - first));
            }
        }
        out
    }

    /// Removes fields from a selection that are left out; returns whether there were any.
    fn shrink(&self, selection: &mut Selection) -> Result<bool, RNTupleError> {
        let left_out = self.left_out();
        let is_left = |path: &&String| {
            let top = self.readers().first().and_then(|reader| {
                let top = reader.descriptor().top_of(reader.find_field(path)?);
                reader.paths().get(top as usize)?.as_deref()
            });
            top.is_none_or(|top| left_out.reason(top).is_none())
        };
        let before = selection.schema.columns.len();
        let paths = selection.paths.as_ref();
        let paths: Option<Vec<String>> =
            paths.map(|paths| paths.iter().filter(is_left).cloned().collect());
        let on_unreadable = selection.on_unreadable;
        *selection = self.select(paths.as_deref())?;
        selection.on_unreadable = on_unreadable;
        Ok(selection.schema.columns.len() < before)
    }
}

/// Reads fields of one file, even if other files lack them.
pub(crate) fn read_fields(
    reader: &Arc<Reader>,
    fields: &[FieldId],
    entries: Range<u64>,
) -> Result<Arrays, RNTupleError> {
    let readers = std::slice::from_ref(reader);
    let (schema, bindings) = ReadSchema::of_fields(readers, &[fields.to_vec()])?;
    let parts = bindings.into_iter().map(|binding| Part {
        reader: reader.clone(),
        binding,
        start: entries.start,
        stop: entries.end,
    });
    let parts: Vec<Part> = parts.collect();
    read(&schema, &parts, &ReadOptions::default())
}

/// The error for an unreadable field, with advice.
fn hinted(error: RNTupleError, hint: &str) -> RNTupleError {
    match error {
        RNTupleError::Unsupported {
            url,
            ntuple,
            name,
            reason,
            ..
        } => RNTupleError::Unsupported {
            url,
            ntuple,
            name,
            reason,
            hint: format!("; {hint}"),
        },
        other => other,
    }
}
