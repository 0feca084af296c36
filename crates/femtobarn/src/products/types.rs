//! The types of a store's products.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use femtobarn_events::{DataStore, EventsError};
use femtobarn_fork::lock;
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::rows::RowType;
use femtobarn_rntuple::write::FieldModel;

use super::forget::FORGETTING;
use super::note::InMemory;
use super::{ClassNote, Described, OPAQUE};

/// Maximum nesting depth of classes.
const DEEPEST: usize = 64;

/// How long class descriptions are cached. After a class is forgotten, no program stores it with other members before
/// this time has passed.
pub const CLASSES_KNOWN_FOR: Duration = Duration::from_secs(5);

/// The types of a store's products, cached for some seconds.
#[derive(Debug)]
pub struct Types {
    pub(super) store: DataStore,
    known: Mutex<HashMap<(String, String), Known>>,
}

#[derive(Debug)]
struct Known {
    rows: Arc<RowType>,
    /// When its classes were looked up; `None` if it has none.
    since: Option<Instant>,
}

impl Types {
    /// The types of a store.
    pub fn new(store: &DataStore) -> Self {
        Self {
            store: store.clone(),
            known: Mutex::default(),
        }
    }

    /// How values of a type are stored. `column` is the name of a column with them.
    ///
    /// # Errors
    ///
    /// [`EventsError::Type`] if the name is invalid, or the store does not describe its classes.
    pub fn of(&self, type_name: &str, column: &str) -> Result<Arc<RowType>, EventsError> {
        let key = (type_name.to_owned(), column.to_owned());
        let is_new = |since: Instant| since.elapsed() < CLASSES_KNOWN_FOR;
        if let Some(known) = lock(&self.known).get(&key)
            && known.since.is_none_or(is_new)
        {
            return Ok(known.rows.clone());
        }
        let now = Instant::now();
        let (model, has_classes) = self.model(type_name, column)?;
        let rows = RowType::new(model).map_err(|error| self.bad(type_name, error.to_string()))?;
        let rows = Arc::new(rows);
        let known = Known {
            rows: rows.clone(),
            since: has_classes.then_some(now),
        };
        lock(&self.known).insert(key, known);
        Ok(rows)
    }

    /// The classes in a type's name, as described in the store, sorted so that members precede the classes that use
    /// them.
    ///
    /// # Errors
    ///
    /// [`EventsError::Type`] if a description is damaged.
    pub fn notes(&self, type_name: &str) -> Result<Vec<ClassNote>, EventsError> {
        let (mut classes, mut notes) = (Vec::new(), Vec::new());
        self.collect(type_name, &mut classes, &mut notes, 0)?;
        Ok(notes)
    }

    /// The field of a type, and whether classes were looked up for it.
    fn model(&self, type_name: &str, column: &str) -> Result<(FieldModel, bool), EventsError> {
        if OPAQUE.contains(&type_name) {
            let why = "the structure of these bytes is unknown: load them as bytes".into();
            return Err(self.bad(type_name, why));
        }
        let (mut classes, mut notes) = (Vec::new(), Vec::new());
        self.collect(type_name, &mut classes, &mut notes, 0)?;
        let model = FieldModel::from_type_name_with(column, type_name, &classes);
        let model =
            model.map_err(|error| self.bad(type_name, unread(type_name, &classes, error)))?;
        Ok((model, !classes.is_empty()))
    }

    /// Adds the classes in a type's name, after the classes of their members.
    fn collect(
        &self,
        type_name: &str,
        classes: &mut Vec<FieldModel>,
        notes: &mut Vec<ClassNote>,
        depth: usize,
    ) -> Result<(), EventsError> {
        if depth > DEEPEST {
            return Err(self.bad(type_name, "its classes contain each other".into()));
        }
        for name in class_names(type_name) {
            let is_known = |class: &FieldModel| class.type_name == name;
            if classes.iter().any(is_known) {
                continue;
            }
            let note = self.store.backend().noted(&ClassNote::key(name))?;
            let Some(note) = note.filter(|note| !note.starts_with(FORGETTING)) else {
                continue;
            };
            let bad = |why: String| {
                self.bad(
                    name,
                    format!("its description in the store is damaged: {why}"),
                )
            };
            let in_memory = ClassNote::in_memory(&note);
            let note = ClassNote::from_json(&note).map_err(bad)?;
            for member in &note.members {
                self.collect(&member.type_name, classes, notes, depth + 1)?;
            }
            let model = note.model(classes).map_err(bad)?;
            if let Some(in_memory) = in_memory {
                self.check_places(&model, &in_memory)?;
            }
            classes.push(model);
            notes.push(note);
        }
        Ok(())
    }

    /// Fails if the memory layout does not match, because members are missing in the description.
    fn check_places(&self, model: &FieldModel, there: &InMemory) -> Result<(), EventsError> {
        let bad = |why: String| self.bad(&model.type_name, why);
        let rows = RowType::new(model.clone()).map_err(|error| bad(error.to_string()))?;
        let places = rows.places().unwrap_or_default().iter();
        let own = InMemory {
            size: rows.size().unwrap_or_default() as u64,
            places: places.map(|place| *place as u64).collect(),
        };
        if own == *there {
            return Ok(());
        }
        Err(bad(format!(
            "the C++ program that stored it has {} bytes with members at {:?}, but the described members need {} \
             with members at {:?}: describe all members, in their order (FB_DESCRIBE)",
            there.size, there.places, own.size, own.places
        )))
    }

    /// Stores the descriptions of classes.
    ///
    /// # Errors
    ///
    /// [`EventsError::Class`] if the store has another description of a class with the same name.
    pub fn note(&self, described: &Described) -> Result<(), EventsError> {
        for class in &described.classes {
            let noted = self
                .store
                .backend()
                .note(&ClassNote::key(&class.name), &class.to_json())?;
            if noted.starts_with(FORGETTING) {
                return Err(EventsError::Usage {
                    what: format!(
                        "{}: class {} is being forgotten, which takes some seconds: try again; if that was \
                         interrupted, forget it again (forget_class, `fb store forget-class`)",
                        self.store.url(),
                        class.name
                    ),
                });
            }
            let there = ClassNote::from_json(&noted).map_err(|why| {
                self.bad(
                    &class.name,
                    format!("its description in the store is damaged: {why}"),
                )
            })?;
            if there.members != class.members {
                return Err(EventsError::Class {
                    url: self.store.url().into(),
                    class: class.name.clone(),
                    difference: there.difference(class),
                });
            }
        }
        Ok(())
    }

    /// Empties the cache.
    pub(super) fn clear(&self) {
        lock(&self.known).clear();
    }

    fn bad(&self, type_name: &str, why: String) -> EventsError {
        EventsError::Type {
            url: self.store.url().into(),
            type_name: type_name.into(),
            why,
        }
    }
}

/// The reason why values of a type cannot be read.
fn unread(type_name: &str, classes: &[FieldModel], error: RNTupleError) -> String {
    let reason = match error {
        RNTupleError::Unwritable { reason, .. } => reason,
        other => return other.to_string(),
    };
    if reason.contains("did you mean") {
        return reason;
    }
    let is_unknown = |name: &&&str| FieldModel::from_type_name_with("x", name, classes).is_err();
    match class_names(type_name).iter().find(is_unknown) {
        Some(class) => format!(
            "the store has no description of class {class:?} (describe it with FB_DESCRIBE in C++, or store a \
             dataclass of Python)"
        ),
        None => reason,
    }
}

/// The parts of a type's name that may be classes: a template with its arguments, then each argument.
pub(super) fn class_names(type_name: &str) -> Vec<&str> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
    let mut names = Vec::new();
    let mut at = 0;
    while let Some(rest) = type_name.get(at..).filter(|rest| !rest.is_empty()) {
        let length = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(length);
        let begins = name.starts_with(|c: char| c.is_alphabetic() || c == '_');
        if begins && !name.starts_with("std::") {
            if let Some(end) = closing(behind) {
                names.extend(rest.get(..length + end));
            }
            names.push(name);
        }
        let next = behind.chars().next().map_or(0, char::len_utf8);
        at += length + next;
    }
    names
}

/// The end of the template arguments that begin here.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    if !text.starts_with('<') {
        return None;
    }
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at + 1);
        }
    }
    None
}
