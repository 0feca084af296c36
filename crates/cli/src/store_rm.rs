//! `fb store rm`: deletes a dataset of a store, a container in it, or products.

use std::io::Write;

use femtobarn::events::{Container, DataSet, DataStore, EventsError, ItemType};
use serde_json::json;

use crate::args::StoreRmArgs;
use crate::failure::{Failure, code};
use crate::output::Output;
use crate::store::existing;
use crate::store_ls::{Survey, found, look};
use crate::table::printable;
use crate::units;

pub fn run(args: &StoreRmArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    if args.path.trim_matches('/').is_empty() {
        let message = "dataset missing: name the dataset to delete, e.g. fermilab/nova";
        return Err(Failure::new(code::USAGE, "usage", message));
    }
    let store = existing(&args.store)?;
    let is_whole = args.numbers.run.is_none() && args.product.is_none();
    let dataset = match store.root().dataset(&args.path) {
        Err(EventsError::NotFound { .. }) if is_whole => return rest(&store, args, out),
        found => found?,
    };
    let item = found(&dataset, &args.numbers)?;
    let what = shown(args, &dataset);
    if let (Some(label), true) = (&args.product, args.events) {
        let product = (label.as_str(), args.type_name.as_deref());
        return of_events(&item, product, &what, out);
    }
    if let Some(label) = &args.product {
        let names = delete_products(&item, &what, (label, args.type_name.as_deref()))?;
        store.flush()?;
        match out.is_json {
            true => {
                out.json(&json!({"container": what, "products": names.len(), "names": names}))?;
            }
            false => writeln!(out, "deleted {} of {what}", printable(&names.join(", ")))?,
        }
        return Ok(code::FINE);
    }
    let mut survey = Survey::default();
    look(&item, &mut survey, None)?;
    let mut n_datasets = 0;
    match args.numbers.run {
        None => {
            n_datasets = look_at_datasets(&dataset, &mut survey)?;
            dataset.remove()?;
        }
        Some(_) => item.remove()?,
    }
    store.flush()?;
    tell(&what, item.item_type(), n_datasets, &survey, out)?;
    Ok(code::FINE)
}

/// Deletes products by label, or by label and type, of all events in a container; prints how many.
fn of_events(
    item: &Container,
    product: (&str, Option<&str>),
    what: &str,
    out: &mut Output<'_>,
) -> Result<i32, Failure> {
    let done = item.remove_event_products(product.0, product.1)?;
    item.datastore().flush()?;
    let n = done.n();
    if n == 0 {
        let url = item.datastore().url();
        return Err(done.not_found(url, product, what).into());
    }
    let names: Vec<_> = done.removed.keys().map(ToString::to_string).collect();
    if out.is_json {
        out.json(&json!({"events_of": what, "products": n, "names": names}))?;
    } else {
        let products = units::plural(n, "product");
        let names = names.join(", ");
        writeln!(
            out,
            "deleted {products} {} of events of {what}",
            printable(&names)
        )?;
    }
    Ok(code::FINE)
}

/// Finishes an interrupted deletion.
fn rest(store: &DataStore, args: &StoreRmArgs, out: &mut Output<'_>) -> Result<i32, Failure> {
    store.root().delete_dataset(&args.path)?;
    store.flush()?;
    match out.is_json {
        true => out.json(&json!({"container": args.path, "was_left": true}))?,
        false => writeln!(out, "deleted the rest of {}", printable(&args.path))?,
    }
    Ok(code::FINE)
}

/// Prints the former contents of a deleted container.
fn tell(
    what: &str,
    kind: ItemType,
    n_datasets: u64,
    survey: &Survey,
    out: &mut Output<'_>,
) -> std::io::Result<()> {
    let n_products: u64 = survey.products.values().sum();
    if out.is_json {
        return out.json(&json!({
            "container": what, "datasets": n_datasets, "runs": survey.n_runs, "subruns": survey.n_subruns,
            "events": survey.n_events, "products": n_products,
        }));
    }
    let mut words = survey.words(kind);
    if n_datasets > 0 {
        words.insert(0, units::plural(n_datasets, "dataset"));
    }
    words.push(units::plural(n_products, "product"));
    writeln!(out, "deleted {what}: {}", words.join(", "))
}

/// Adds the contents of nested datasets; returns the number of these.
fn look_at_datasets(dataset: &DataSet, survey: &mut Survey) -> Result<u64, EventsError> {
    let mut n = 0;
    for inner in dataset.datasets(None) {
        let inner = inner?;
        look(&inner, survey, None)?;
        n += 1 + look_at_datasets(&inner, survey)?;
    }
    Ok(n)
}

/// Deletes products by label, or by label and type; returns their names.
fn delete_products(
    item: &Container,
    shown: &str,
    (label, type_name): (&str, Option<&str>),
) -> Result<Vec<String>, EventsError> {
    let mut names = item.names(Some(label))?;
    names.retain(|name| type_name.is_none_or(|wanted| name.type_name() == wanted));
    if names.is_empty() {
        let known = item.names(None)?;
        let known = known.iter().map(|name| match type_name {
            Some(_) => name.as_str(),
            None => name.label(),
        });
        let known: Vec<_> = known.collect();
        let product = match type_name {
            Some(type_name) => format!("{label}#{type_name}"),
            None => label.into(),
        };
        return Err(EventsError::NotFound {
            url: item.datastore().url().into(),
            what: format!("product {product:?} of {shown}"),
            hint: match (known.is_empty(), item.item_type()) {
                (false, _) => format!("; existing products: {}", known.join(", ")),
                (true, ItemType::Event) => "; it has no products".into(),
                (true, _) => {
                    "; it has no products of its own (--events deletes products of its events)"
                        .into()
                }
            },
        });
    }
    for name in &names {
        item.remove_products(Some(name))?;
    }
    Ok(names.iter().map(ToString::to_string).collect())
}

/// The name of the selected container, as on the command line.
fn shown(args: &StoreRmArgs, dataset: &DataSet) -> String {
    let numbers = &args.numbers;
    let numbers = [
        ("run", numbers.run),
        ("subrun", numbers.subrun),
        ("event", numbers.event),
    ];
    let numbers = numbers
        .into_iter()
        .filter_map(|(name, n)| Some(format!(", {name} {}", n?)));
    let path = printable(dataset.path().as_str()).to_string();
    std::iter::once(path).chain(numbers).collect()
}
