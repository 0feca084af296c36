//! What an ntuple costs in an object store: objects, requests, bytes and money, in its present layout and in others.
//!
//! No page is read. The layouts are sketched by the code that copies ntuples, with zeros in place of pages, and opened and
//! planned by the code that reads ntuples, so that all numbers are those of real writes and reads.
//!
//! | part | |
//! |---|---|
//! | `layout` | the layouts, and the requests to write them |
//! | `access` | what a pass reads: columns, or what a trace has recorded |
//! | `prices` | prices, from a TOML file |
//! | `advise` | which shape suits a destination, by a model of its costs; `sample` tries codecs |

mod access;
mod advise;
mod layout;
mod prices;
mod sample;

use std::collections::BTreeMap;

use femtobarn_io::units::{bytes as shown_bytes, real};
use femtobarn_io::{Settings, UploadRequests, is_daos};
use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::Reader;
use serde_json::{Value, json};

pub use access::{Pass, matching};
pub use advise::{Advice, AdviceOptions, Destination, Expected, Shape, advise, choose};
pub use layout::Granularity;
pub use prices::Prices;
pub use sample::{ColumnVolume, Trial};

use crate::daos::with_name;
use crate::open::open_source_with;
use crate::replay::Trace;
use crate::target::Target;
use access::{Access, recorded};
use layout::{Opened, sketched};

/// What is read, and at which prices.
#[derive(Debug, Clone)]
pub struct CostOptions {
    /// Names of fields, and patterns; all fields if there are none.
    pub columns: Vec<String>,
    /// Reads that were recorded, in place of columns.
    pub trace: Option<Trace>,
    /// The prices.
    pub prices: Prices,
    /// Settings, which override the environment and the settings file.
    pub settings: BTreeMap<String, String>,
}

/// The cost of one layout.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LayoutCost {
    /// The layout.
    pub granularity: Granularity,
    /// Number of objects, without anchors.
    pub objects: u64,
    /// Size of the objects.
    pub bytes: u64,
    /// Number of objects of other ntuples that it refers to. They are read in a pass, but neither written nor stored for it.
    pub foreign_objects: u64,
    /// Their size.
    pub foreign_bytes: u64,
    /// The requests that write it.
    pub write: UploadRequests,
    /// A pass.
    pub pass: Pass,
    /// In money.
    pub money: Money,
}

/// Prices of a layout.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Money {
    /// The requests that write it.
    pub write: f64,
    /// The requests of a pass.
    pub pass: f64,
    /// Storage for a month.
    pub month: f64,
    /// Transfer of the bytes of a pass to the internet.
    pub transfer_out: f64,
    /// The requests to write 1 TB like it.
    pub write_per_tb: f64,
    /// The requests to read 1 TB like the pass.
    pub pass_per_tb: f64,
}

/// The costs of an ntuple.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// URL of the file or the objects.
    pub url: String,
    /// The ntuple.
    pub ntuple: String,
    /// Number of entries.
    pub n_entries: u64,
    /// The columns of the pass; none for all, or for a trace.
    pub columns: Option<Vec<String>>,
    /// How often the trace has opened the file, if the pass is that of a trace.
    pub recorded: Option<u64>,
    /// The prices.
    pub prices: Prices,
    /// The present layout, then the others.
    pub layouts: Vec<LayoutCost>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// Computes the costs of an ntuple of one file, from its metadata.
///
/// # Errors
/// If it cannot be opened, is a tree, or a name or the trace does not fit.
pub fn cost(target: &Target, options: &CostOptions) -> Result<Costs, RNTupleError> {
    let file = target.file.as_str();
    let settings = Settings::new(file, options.settings.clone())?;
    let source = open_source_with(&with_name(file, target.name.as_deref()), &settings)?;
    let open = || Opened::new(source.clone(), target.name.as_deref(), &settings);
    let present = open()?;
    // a container is opened once, and counts on
    let opening = present.values.as_ref().map(|values| values.opening);
    let open = || {
        let mut again = open()?;
        if let Some((values, opening)) = again.values.as_mut().zip(opening) {
            values.opening = opening;
        }
        Ok(again)
    };
    let reader = &present.reader;
    check_ntuple(reader)?;
    let (access, columns) = match &options.trace {
        Some(trace) => (recorded(trace, reader)?, None),
        None => {
            let columns = matching(reader, &options.columns);
            let columns = columns.map_err(|name| no_match(reader, name))?;
            (Access::Columns(columns.clone()), columns)
        }
    };
    let mut layouts = vec![layout_cost(
        (Granularity::Present, &present),
        access.pass(&open)?,
        &options.prices,
        &settings,
    )?];
    for granularity in Granularity::others(present.is_file()) {
        let sketch = sketched(reader, granularity)?;
        let name = reader.descriptor().name.clone();
        let open = || Opened::new(sketch.clone(), Some(&name), &settings);
        layouts.push(layout_cost(
            (granularity, &open()?),
            access.pass(&open)?,
            &options.prices,
            &settings,
        )?);
    }
    let mut notes = Vec::new();
    if present.is_file() {
        let note =
            "the present layout is a file: its numbers are those of the same file as one object";
        notes.push(note.to_owned());
    }
    if is_daos(file) {
        let note = "the present layout is in DAOS: its numbers are those of requests to DAOS, at the prices of objects";
        notes.push(note.to_owned());
    }
    if let Some(present) = layouts.first().filter(|layout| layout.foreign_objects > 0) {
        notes.push(format!(
            "the present layout also refers to {} objects ({}) of other ntuples, which are read, but not stored again",
            present.foreign_objects,
            shown_bytes(present.foreign_bytes)
        ));
    }
    if !reader.descriptor().attribute_sets.is_empty() {
        notes.push("attribute sets are not counted".to_owned());
    }
    Ok(Costs {
        n_entries: present.ntuple.n_entries(),
        recorded: match &access {
            Access::Pages(sessions) => Some(sessions.len() as u64),
            Access::Columns(_) => None,
        },
        url: reader.url().to_owned(),
        ntuple: reader.path().to_owned(),
        columns,
        prices: options.prices.clone(),
        layouts,
        notes,
    })
}

/// Refuses trees.
fn check_ntuple(reader: &Reader) -> Result<(), RNTupleError> {
    match reader.storage() {
        None => Ok(()),
        Some(_) => Err(RNTupleError::Usage {
            what: format!(
                "{}:{} is a TTree, and only RNTuples can be stored as objects: convert it first",
                reader.url(),
                reader.path()
            ),
        }),
    }
}

/// The error for a pattern that matches no field.
fn no_match(reader: &Reader, name: String) -> RNTupleError {
    RNTupleError::NoSuchField {
        url: reader.url().to_owned(),
        ntuple: reader.path().to_owned(),
        name,
        hint: ": no field matches this pattern".to_owned(),
    }
}

fn layout_cost(
    (granularity, opened): (Granularity, &Opened),
    pass: Pass,
    prices: &Prices,
    settings: &Settings,
) -> Result<LayoutCost, RNTupleError> {
    let objects = opened.objects()?;
    let write = opened.uploads(&objects.own, settings)?;
    let bytes = objects.own.iter().sum();
    let foreign = objects.foreign.iter().sum();
    Ok(LayoutCost {
        granularity,
        objects: objects.own.len() as u64,
        bytes,
        foreign_objects: objects.foreign.len() as u64,
        foreign_bytes: foreign,
        write,
        pass,
        money: Money::of((bytes, foreign), write, pass, prices),
    })
}

impl Money {
    /// Of an ntuple with objects of its own, and of others that it refers to.
    fn of(
        (bytes, foreign): (u64, u64),
        write: UploadRequests,
        pass: Pass,
        prices: &Prices,
    ) -> Self {
        let per_tb = |price: f64, bytes: u64| price * 1e12 / real(bytes.max(1));
        let written = prices.requests(write.puts, write.gets);
        let read = prices.requests(0, pass.all_requests());
        Self {
            write: written,
            pass: read,
            month: prices.month(bytes),
            transfer_out: prices.transfer_out(pass.all_bytes()),
            write_per_tb: per_tb(written, bytes.saturating_add(foreign)),
            pass_per_tb: per_tb(read, pass.all_bytes()),
        }
    }
}

impl Costs {
    /// The same as JSON.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let layouts = self.layouts.iter().map(|layout| layout.to_json());
        json!({
            "url": self.url,
            "ntuple": self.ntuple,
            "num_entries": self.n_entries,
            "columns": self.columns,
            "recorded": self.recorded,
            "prices": self.prices.to_json(),
            "layouts": layouts.collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

impl LayoutCost {
    fn to_json(self) -> Value {
        let Money {
            write,
            pass,
            month,
            transfer_out,
            write_per_tb,
            pass_per_tb,
        } = self.money;
        json!({
            "layout": self.granularity.name(),
            "objects": self.objects,
            "bytes": self.bytes,
            "foreign_objects": self.foreign_objects,
            "foreign_bytes": self.foreign_bytes,
            "puts": self.write.puts,
            "gets_before_and_after": self.write.gets,
            "requests": self.pass.all_requests(),
            "metadata_requests": self.pass.metadata_requests,
            "bytes_read": self.pass.all_bytes(),
            "metadata_bytes": self.pass.metadata_bytes,
            "bytes_needed": self.pass.bytes_needed,
            "write_price": write,
            "pass_price": pass,
            "month_price": month,
            "transfer_out_price": transfer_out,
            "write_price_per_tb": write_per_tb,
            "pass_price_per_tb": pass_per_tb,
        })
    }
}
