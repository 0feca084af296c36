//! Diagnosis of the access to a file or an ntuple.

use std::sync::Arc;

use femtobarn_daos::{Address, Container, DaosError, NTupleValues, load, names};
use femtobarn_io::units::plural;
use femtobarn_io::{
    Check, FailedStep, NTupleSteps, Readable, Settings, Step, is_daos, object_address,
};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::spec::PageAddress;

use crate::daos::{requests_by, unopened, values_of, with_name};
use crate::open::{OpenOptions, open_reader_of, open_source_with};
use crate::target::Target;

/// Steps before an ntuple in DAOS is opened.
const LIBRARY: &str = "library";
const CONTAINER: &str = "container";

/// Checks the access to a file or an ntuple step by step, and reads at most `n_bytes` bytes. Steps after a failure are
/// reported as not reached. Of a container of DAOS, each ntuple is checked, with its name in the notes.
#[must_use]
pub fn examine(target: &Target, n_bytes: u64) -> Vec<Check> {
    let names = match target.name {
        // errors are reported by the steps
        None if is_daos(&target.file) => complete(&target.file).unwrap_or_default(),
        _ => Vec::new(),
    };
    if names.len() < 2 {
        return examine_one(target, n_bytes);
    }
    let mut all = Vec::new();
    for name in names {
        let own = Target {
            name: Some(name.clone()),
            ..target.clone()
        };
        for mut check in examine_one(&own, n_bytes) {
            if ![LIBRARY, CONTAINER].contains(&check.name) {
                check.note = format!("{name}: {}", check.note);
            } else if all.iter().any(|known: &Check| known.name == check.name) {
                continue;
            }
            all.push(check);
        }
    }
    all
}

/// The ntuples of a container, without those that are being written.
fn complete(url: &str) -> Result<Vec<String>, RNTupleError> {
    let refused = |error| unopened(url, error);
    let address = Address::parse(url).map_err(refused)?;
    let requests = requests_by(&Settings::of(url))?;
    let container = Arc::new(Container::open(&address, requests).map_err(refused)?);
    let mut names = names(&container).map_err(refused)?;
    // what is damaged is reported
    names.retain(|name| !matches!(NTupleValues::find(container.clone(), name), Ok(None)));
    Ok(names)
}

fn examine_one(target: &Target, n_bytes: u64) -> Vec<Check> {
    let url = &*with_name(&target.file, target.name.as_deref());
    let settings = &Settings::of(&target.file);
    let failed = |error: RNTupleError| match error {
        RNTupleError::Io(error) if !is_daos(url) => error.into(),
        error => {
            let advice = match is_daos(url) {
                true => "see the guide on DAOS for what is needed",
                false => "`fb verify` tells what is damaged",
            };
            FailedStep::new(error.with_causes(), advice)
        }
    };
    let mut before: Vec<(_, Step<'_, String>)> = Vec::new();
    if is_daos(url) {
        let refused = |error: DaosError| failed(unopened(url, error).into());
        before.push((
            LIBRARY,
            Box::new(move || {
                let name = load().map_err(refused)?;
                Ok(format!("{} was loaded and started", name.display()))
            }),
        ));
        before.push((
            CONTAINER,
            Box::new(move || {
                let (address, _) = Address::with_ntuple(url).map_err(refused)?;
                let requests = requests_by(settings).map_err(|error| failed(error.into()))?;
                let container = Container::open(&address, requests).map_err(refused)?;
                let n = names(&container).map_err(refused)?.len();
                Ok(format!("it lists {}", plural(n as u64, "ntuple")))
            }),
        ));
    }
    let steps = NTupleSteps {
        before,
        open: Box::new(|| readable(url, target.name.as_deref(), settings).map_err(failed)),
    };
    femtobarn_io::examine(&target.file, settings, n_bytes, &steps)
}

/// An ntuple in objects or values, with the pages of its first cluster group.
fn readable(url: &str, name: Option<&str>, settings: &Settings) -> Result<Readable, RNTupleError> {
    let source = open_source_with(url, &settings.but("cache", "off"))?;
    let reader = open_reader_of(source.clone(), name, &OpenOptions::default())?;
    let reader = reader.ok_or_else(|| RNTupleError::internal("an ntuple is missing"))?;
    let source = match is_daos(url) {
        true => values_of(&source, reader.path())?,
        false => source,
    };
    let mut pages = Vec::new();
    for (_, list) in reader.page_lists(0..1)? {
        for page in list.all_pages() {
            let stored = page.stored();
            if let PageAddress::Object { id, offset } = stored.address
                && let Some(start) = object_address(id, offset)
            {
                pages.push(start..start + stored.size);
            }
        }
    }
    Ok((source, pages))
}
