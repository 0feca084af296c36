//! Advice for files whose classes differ from those in the store.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use femtobarn_events::EventsError;
use femtobarn_io::public;
use femtobarn_io::units::plural;
use serde_json::Value;

use super::files::{load_note, notes};
use super::{ClassesOf, FileKind, Ingest, IngestFile};
use crate::products::ClassNote;
use crate::transfer::{TransferError, quoted, shortened};

/// How long other files are looked into.
const PATIENCE: Duration = Duration::from_secs(20);

impl Ingest {
    /// The error of a product whose class differs from that in the store, with advice.
    pub(super) fn differing(
        &self,
        at: usize,
        label: &str,
        error: EventsError,
        classes_of: ClassesOf<'_>,
    ) -> TransferError {
        let (kind, words) = (error.kind(), self.options.words);
        let is_class = matches!(error, EventsError::Class { .. });
        let error = TransferError::from(error).of(format!("product {}", quoted(label)));
        let Some(file) = self.files.get(at).filter(|_| is_class) else {
            return error;
        };
        let is_root = file.kind == FileKind::Root;
        let is_spread = is_root && self.options.collections;
        let drop = match is_spread {
            true => words.with_all("drop", &[format!("n{label}"), format!("{label}_*")]),
            false => words.with("drop", label),
        };
        let member = match (is_root, is_spread) {
            (false, _) => words.with("drop", &format!("{label}/…")),
            (true, true) => words.with("drop", &format!("{label}_…")),
            (true, false) => String::new(),
        };
        let members = match member.is_empty() {
            true => String::new(),
            false => format!(", or the members that some files lack ({member})"),
        };
        let advice = self.chosen_before().and_then(|before| {
            let alike = self.alike(file, classes_of)?;
            Ok(format!(
                "{before}{alike}: ingest these separately with {}, e.g. {}, or leave out of all files the product \
                 ({drop}){members}",
                words.name("namespace"),
                words.with("namespace", "v2")
            ))
        });
        match advice {
            Ok(advice) => TransferError::new(kind, format!("{error}. {advice}")),
            Err(_) => error,
        }
    }

    /// How the selection differed for a file in the dataset, which may explain different members.
    fn chosen_before(&self) -> Result<String, TransferError> {
        let chosen = self.options.chosen();
        for name in notes(&self.dataset)? {
            let Some(noted) = load_note(&self.dataset, &name)? else {
                continue;
            };
            let before = noted.get("chosen");
            let differs = |option: &&&str| {
                let before = before.and_then(|before| before.get(**option));
                before.is_some_and(|before| Some(before) != chosen.get(**option))
            };
            let other: Vec<String> = ["groups", "fields", "drop"]
                .iter()
                .filter(differs)
                .map(|option| {
                    let values = before.and_then(|before| before.get(*option)?.as_array());
                    let values = values.into_iter().flatten().filter_map(Value::as_str);
                    let values: Vec<&str> = values.collect();
                    match values.is_empty() {
                        true => format!("no {}", self.options.words.name(option)),
                        false => self.options.words.list(option, &values),
                    }
                })
                .collect();
            if !other.is_empty() {
                let file = noted
                    .get("file")
                    .and_then(Value::as_str)
                    .unwrap_or_default();
                return Ok(format!(
                    "{file} was ingested with {}, which may be the reason. ",
                    other.join(" and ")
                ));
            }
        }
        Ok(String::new())
    }

    /// The files whose classes have the same members as those of a file, where these differ from the store's.
    fn alike(&self, file: &IngestFile, classes_of: ClassesOf<'_>) -> Result<String, TransferError> {
        let classes = |file: &IngestFile| match file.kind {
            FileKind::Root => self.classes_of(file),
            FileKind::Hdf5 => classes_of(file),
        };
        let mut differing: BTreeMap<String, ClassNote> = BTreeMap::new();
        for class in classes(file)? {
            let there = self.types.notes(&class.name)?;
            let there = there.iter().find(|there| there.name == class.name);
            if there.is_some_and(|there| there.members != class.members) {
                differing.insert(class.name.clone(), class);
            }
        }
        let until = Instant::now() + PATIENCE;
        let (mut paths, mut n) = (Vec::new(), 1);
        let todo = self.todo.iter().filter_map(|at| self.files.get(*at));
        for one in todo.filter(|one| one.kind == file.kind) {
            if one.path == file.path && one.name == file.name {
                paths.push(public(&one.path));
            } else if Instant::now() < until {
                n += 1;
                // errors of other files are reported when they are read
                let Ok(found) = classes(one) else { continue };
                let is_alike = |class: &ClassNote| found.contains(class);
                if differing.values().all(is_alike) {
                    paths.push(public(&one.path));
                }
            }
        }
        let of = if n > 1 {
            format!("Of {n} checked files, ")
        } else {
            String::new()
        };
        let have = if paths.len() == 1 { "has" } else { "have" };
        let files = plural(paths.len() as u64, "file");
        Ok(format!(
            "{of}{files} {have} these members, {}",
            shortened(&paths)
        ))
    }
}
