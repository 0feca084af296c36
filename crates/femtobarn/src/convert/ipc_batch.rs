//! Arrow IPC record batches and their shared dictionaries.

use std::collections::HashMap;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch, make_array, new_null_array};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{Block, Message, MetadataVersion};
use arrow_schema::{ArrowError, SchemaRef};

/// Decodes checked messages.
pub(super) struct Decoder {
    schema: SchemaRef,
    version: MetadataVersion,
    dictionaries: HashMap<i64, ArrayRef>,
}

impl Decoder {
    pub fn new(schema: SchemaRef, version: MetadataVersion) -> Self {
        Self {
            schema,
            version,
            dictionaries: HashMap::new(),
        }
    }

    /// Reads a dictionary for the following batches.
    pub fn dictionary(
        &mut self,
        message: &Message<'_>,
        block: &Block,
        bytes: &Buffer,
    ) -> Result<(), ArrowError> {
        self.check_version(message)?;
        let batch = message.header_as_dictionary_batch();
        let batch = batch.ok_or_else(|| wrong("a dictionary"))?;
        let version = message.version();
        let (body, known) = (body(block, bytes)?, &mut self.dictionaries);
        read_dictionary(&body, batch, &self.schema, known, &version)
    }

    /// Reads a record batch.
    pub fn batch(
        &self,
        message: &Message<'_>,
        block: &Block,
        bytes: &Buffer,
    ) -> Result<RecordBatch, ArrowError> {
        self.check_version(message)?;
        let batch = message.header_as_record_batch();
        let batch = batch.ok_or_else(|| wrong("a record batch"))?;
        let version = message.version();
        let body = body(block, bytes)?;
        let read = |dictionaries: &HashMap<i64, ArrayRef>| {
            let schema = self.schema.clone();
            read_record_batch(&body, batch, schema, dictionaries, None, &version)
        };
        let error = match read(&self.dictionaries) {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        // members of missing records have arbitrary keys, even into an empty dictionary
        let mut has_empty = false;
        let known = self.dictionaries.iter().map(|(&id, values)| {
            has_empty |= values.is_empty();
            let values = match values.is_empty() {
                true => new_null_array(values.data_type(), 1),
                false => values.clone(),
            };
            (id, values)
        });
        let stand_ins: HashMap<i64, ArrayRef> = known.collect();
        if !has_empty {
            return Err(error);
        }
        match read(&stand_ins) {
            Ok(found) if found.columns().iter().all(|column| is_hidden(column, None)) => Ok(found),
            _ => Err(error),
        }
    }

    fn check_version(&self, message: &Message<'_>) -> Result<(), ArrowError> {
        // files of the first version may not state it
        if self.version == MetadataVersion::V1 || message.version() == self.version {
            return Ok(());
        }
        let reason = format!(
            "version of a message: expected {:?}, found {:?}",
            self.version,
            message.version()
        );
        Err(ArrowError::IpcError(reason))
    }
}

fn wrong(expected: &str) -> ArrowError {
    ArrowError::IpcError(format!(
        "a message: expected {expected}, found another kind"
    ))
}

/// The body of a message, after its metadata.
fn body(block: &Block, bytes: &Buffer) -> Result<Buffer, ArrowError> {
    let from = usize::try_from(block.metaDataLength()).ok();
    let from = from.filter(|&from| from <= bytes.len());
    let from = from.ok_or_else(|| wrong("a body"))?;
    Ok(bytes.slice(from))
}

/// Whether all keys into the placeholder of an empty dictionary are missing or inside missing records.
fn is_hidden(array: &ArrayRef, above: Option<&NullBuffer>) -> bool {
    if let Some(record) = array.as_struct_opt() {
        let nulls = NullBuffer::union(above, record.nulls());
        let mut columns = record.columns().iter();
        return columns.all(|column| is_hidden(column, nulls.as_ref()));
    }
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        let values = dictionary.values();
        if values.len() != 1 || values.null_count() != 1 {
            return is_hidden(values, None);
        }
        let nulls = NullBuffer::union(above, dictionary.keys().nulls());
        return nulls.map_or(0, |nulls| nulls.null_count()) == array.len();
    }
    let data = array.to_data();
    let mut children = data.child_data().iter();
    children.all(|child| is_hidden(&make_array(child.clone()), None))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int8Array, Int8DictionaryArray, StringArray, StructArray};
    use arrow_schema::{Field, Fields};

    use super::*;

    fn record(is_there: Vec<bool>, key: Option<i8>) -> ArrayRef {
        let values = Arc::new(StringArray::new_null(1));
        let keys = Int8Array::from(vec![key; is_there.len()]);
        let member = Int8DictionaryArray::try_new(keys, values).unwrap();
        let field = Field::new("cut", member.data_type().clone(), true);
        let fields = Fields::from(vec![field]);
        let record = StructArray::try_new(fields, vec![Arc::new(member)], Some(is_there.into()));
        Arc::new(record.unwrap())
    }

    #[test]
    fn only_what_is_missing_may_have_a_key_of_an_empty_dictionary() {
        assert!(is_hidden(&record(vec![false, false], Some(0)), None));
        assert!(is_hidden(&record(vec![true, false], None), None));
        assert!(!is_hidden(&record(vec![true, false], Some(0)), None));
        assert!(is_hidden(&record(vec![], None), None));
        let number: ArrayRef = Arc::new(Int8Array::from(vec![1]));
        assert!(is_hidden(&number, None));
    }
}
