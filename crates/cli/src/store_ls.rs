//! `fb store ls`: lists the datasets of a store, and their contents.

use std::collections::BTreeMap;
use std::io::Write;

use femtobarn::events::{
    Container, DataSet, DataStore, EventsError, FILE_NOTES, ItemType, NameCount, ObjectOptions,
};
use serde_json::{Value, json};

use crate::args::{NumbersArgs, StoreLsArgs};
use crate::failure::{Failure, code};
use crate::layout;
use crate::output::Output;
use crate::table::Table;
use crate::units;

/// Number of container numbers per request.
const PAGE: usize = 4096;
/// Maximum number of containers in text output.
const SHOWN: usize = 20;

/// A run of a dataset, or a subrun of a run.
pub struct Part {
    number: u64,
    n_subruns: u64,
    n_events: u64,
}

/// The contents of a container.
#[derive(Default)]
pub struct Survey {
    pub n_runs: u64,
    pub n_subruns: u64,
    pub n_events: u64,
    /// Number of containers of a kind that have a product: by label, type and kind.
    pub products: BTreeMap<(String, String, ItemType), u64>,
}

impl Survey {
    /// Number of containers below a container, by kind.
    pub fn words(&self, kind: ItemType) -> Vec<String> {
        let all = [
            ("run", self.n_runs),
            ("subrun", self.n_subruns),
            ("event", self.n_events),
        ];
        let own = all.iter().filter(|(name, _)| above(kind).contains(name));
        own.map(|(name, n)| units::plural(*n, name)).collect()
    }
}

pub fn run(args: &StoreLsArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    let store = DataStore::connect_to_read(&args.store, ObjectOptions::default())?;
    let Some(path) = &args.path else {
        return datasets(&store, args.sizes, out);
    };
    let dataset = store.root().dataset(path)?;
    let item = found(&dataset, &args.numbers)?;
    let inner: Vec<DataSet> = match item.item_type() {
        ItemType::DataSet => dataset.datasets(None).collect::<Result<_, _>>()?,
        _ => Vec::new(),
    };
    let (survey, parts) = survey(&item)?;
    if out.is_json {
        out.json(&document(&dataset, &item, &inner, &survey, &parts))?;
        return Ok(code::FINE);
    }
    let words = survey.words(item.item_type());
    if !words.is_empty() {
        writeln!(out, "{}", words.join(", "))?;
    }
    if !inner.is_empty() {
        let mut table = Table::new(&["dataset"], &[], &[0]);
        for dataset in &inner {
            table.push(vec![dataset.path().as_str().into()]);
        }
        writeln!(out)?;
        table.write(layout::width(), out)?;
    }
    write_parts(item.item_type(), &parts, out)?;
    write_products(&survey, out)?;
    Ok(code::FINE)
}

/// The container with these numbers, each in the previous one.
pub fn found(dataset: &DataSet, numbers: &NumbersArgs) -> Result<Container, EventsError> {
    let mut item: Container = (**dataset).clone();
    let numbers = [numbers.run, numbers.subrun, numbers.event];
    for number in numbers.into_iter().map_while(|number| number) {
        item = item.get(number)?;
    }
    Ok(item)
}

/// The kinds of containers below a container.
fn above(kind: ItemType) -> &'static [&'static str] {
    match kind {
        ItemType::DataSet => &["run", "subrun", "event"],
        ItemType::Run => &["subrun", "event"],
        ItemType::SubRun => &["event"],
        ItemType::Event => &[],
    }
}

/// All datasets of a store, including nested ones, and their sizes if requested.
fn datasets(store: &DataStore, has_sizes: bool, out: &mut Output<'_>) -> Result<i32, Failure> {
    let mut rows = Vec::new();
    let mut todo = vec![store.root().datasets(None)];
    while let Some(last) = todo.last_mut() {
        let Some(dataset) = last.next() else {
            todo.pop();
            continue;
        };
        let dataset = dataset?;
        let mut n_runs = 0;
        numbers(&dataset, |_| {
            n_runs += 1;
            Ok(())
        })?;
        rows.push((
            dataset.path().as_str().to_owned(),
            n_runs,
            dataset.uuid().to_string(),
            has_sizes.then(|| dataset.stored_bytes()).transpose()?,
        ));
        todo.push(dataset.datasets(None));
    }
    if out.is_json {
        let rows = rows.iter().map(|(path, n, uuid, n_bytes)| {
            let mut row = json!({"path": path, "runs": n, "uuid": uuid});
            if let (Some(row), Some(n_bytes)) = (row.as_object_mut(), n_bytes) {
                row.insert("bytes".into(), json!(n_bytes));
            }
            row
        });
        out.json(&json!({"store": store.url(), "datasets": rows.collect::<Vec<_>>()}))?;
    } else if rows.is_empty() {
        writeln!(out, "no datasets")?;
    } else {
        let names: &[&str] = match has_sizes {
            true => &["dataset", "runs", "size"],
            false => &["dataset", "runs"],
        };
        let mut table = Table::new(names, &[1, 2], &[0]);
        for (path, n, _, n_bytes) in rows {
            let row = [path, units::count(n)].into_iter();
            table.push(row.chain(n_bytes.map(units::bytes)).collect());
        }
        table.write(layout::width(), out)?;
    }
    Ok(code::FINE)
}

/// Calls a function for all numbers in a container.
fn numbers(
    item: &Container,
    mut each: impl FnMut(u64) -> Result<(), EventsError>,
) -> Result<(), EventsError> {
    let mut from = 0;
    loop {
        let page = item.page(from.., PAGE)?;
        page.iter().try_for_each(|&number| each(number))?;
        match page.last() {
            Some(last) if page.len() == PAGE => from = last.saturating_add(1),
            _ => return Ok(()),
        }
    }
}

/// Contents of a container, in total and for each run of a dataset, or subrun of a run.
fn survey(item: &Container) -> Result<(Survey, Vec<Part>), EventsError> {
    let mut survey = Survey::default();
    let mut parts = Vec::new();
    look(item, &mut survey, Some(&mut parts))?;
    Ok((survey, parts))
}

/// Adds the contents of a container, and of each of its parts.
pub fn look(
    item: &Container,
    survey: &mut Survey,
    mut parts: Option<&mut Vec<Part>>,
) -> Result<(), EventsError> {
    let kind = item.item_type();
    let mut add = |name: &femtobarn::events::ProductName, kind, n: u64| {
        let key = (name.label().to_owned(), name.type_name().to_owned(), kind);
        *survey.products.entry(key).or_default() += n;
    };
    if kind == ItemType::Event {
        for name in item.names(None)? {
            add(&name, kind, 1);
        }
        return Ok(());
    }
    let parent = item.descriptor().placed_by();
    let counts: Vec<NameCount> = item.datastore().backend().name_counts(&parent)?;
    for count in &counts {
        for (kind, n) in [
            (kind, u64::from(count.is_own)),
            (ItemType::Event, count.n_events),
        ] {
            if n > 0 {
                add(&count.name, kind, n);
            }
        }
    }
    numbers(item, |number| {
        let (n_subruns, n_events) = (survey.n_subruns, survey.n_events);
        match kind {
            ItemType::DataSet => survey.n_runs += 1,
            ItemType::Run => survey.n_subruns += 1,
            _ => survey.n_events += 1,
        }
        if kind == ItemType::SubRun {
            return Ok(());
        }
        look(&item.child(number)?, survey, None)?;
        if let Some(parts) = parts.as_deref_mut() {
            parts.push(Part {
                number,
                n_subruns: survey.n_subruns - n_subruns,
                n_events: survey.n_events - n_events,
            });
        }
        Ok(())
    })
}

fn write_parts(kind: ItemType, parts: &[Part], out: &mut Output<'_>) -> std::io::Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let is_runs = kind == ItemType::DataSet;
    let mut table = match is_runs {
        true => Table::new(&["run", "subruns", "events"], &[0, 1, 2], &[]),
        false => Table::new(&["subrun", "events"], &[0, 1], &[]),
    };
    for part in parts.iter().take(SHOWN) {
        let mut row = vec![part.number.to_string()];
        if is_runs {
            row.push(units::count(part.n_subruns));
        }
        row.push(units::count(part.n_events));
        table.push(row);
    }
    writeln!(out)?;
    table.write(None, out)?;
    if parts.len() > SHOWN {
        let more = units::count((parts.len() - SHOWN) as u64);
        writeln!(out, "and {more} more; --json lists all")?;
    }
    Ok(())
}

fn write_products(survey: &Survey, out: &mut Output<'_>) -> std::io::Result<()> {
    let mut rows: BTreeMap<(String, &str, ItemType), u64> = BTreeMap::new();
    for ((label, type_name, kind), n) in &survey.products {
        let label = match label.starts_with(FILE_NOTES) {
            true => format!("{FILE_NOTES}…"),
            false => label.clone(),
        };
        *rows.entry((label, type_name, *kind)).or_default() += n;
    }
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(&["product", "type", "of", "number"], &[3], &[1, 0]);
    for ((label, type_name, kind), n) in rows {
        table.push(vec![
            label,
            type_name.into(),
            kind.to_string(),
            units::count(n),
        ]);
    }
    writeln!(out)?;
    table.write(layout::width(), out)
}

fn document(
    dataset: &DataSet,
    item: &Container,
    inner: &[DataSet],
    survey: &Survey,
    parts: &[Part],
) -> Value {
    let kind = item.item_type();
    let descriptor = item.descriptor();
    let mut told = json!({
        "dataset": dataset.path().as_str(),
        "uuid": dataset.uuid().to_string(),
        "events": survey.n_events,
        "products": survey.products.iter().map(|((label, type_name, kind), n)| {
            json!({"label": label, "type": type_name, "of": kind.to_string(), "number": n})
        }).collect::<Vec<_>>(),
    });
    let mut set = |name: &str, value: Value| {
        if let Some(told) = told.as_object_mut() {
            told.insert(name.into(), value);
        }
    };
    let depth = [
        ItemType::DataSet,
        ItemType::Run,
        ItemType::SubRun,
        ItemType::Event,
    ]
    .iter()
    .position(|known| *known == kind)
    .unwrap_or_default();
    let own = [descriptor.run, descriptor.subrun, descriptor.event];
    for (name, number) in ["run", "subrun", "event"].iter().zip(own).take(depth) {
        set(name, number.into());
    }
    match kind {
        ItemType::DataSet => {
            let paths: Vec<_> = inner.iter().map(|inner| inner.path().as_str()).collect();
            set("datasets", json!(paths));
            let runs = parts.iter().map(|part| {
                json!({"run": part.number, "subruns": part.n_subruns, "events": part.n_events})
            });
            set("runs", runs.collect());
            set("n_subruns", survey.n_subruns.into());
        }
        ItemType::Run => {
            let subruns = parts
                .iter()
                .map(|part| json!({"subrun": part.number, "events": part.n_events}));
            set("subruns", subruns.collect());
        }
        _ => {}
    }
    told
}
