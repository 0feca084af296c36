//! The documents that the page shows.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use femtobarn::histogram::{Filling, HistogramFile, fill};
use femtobarn::inspect::{FileListing, Info, Listed, list};
use femtobarn::io::{Report, Settings};
use femtobarn::{Error, PageCounter};
use serde_json::{Value, json};

use crate::args::Threads;
use crate::failure::Failure;
use crate::hist::{self, Shown};
use crate::open::{Opened, open};
use crate::options::{condition, usage};
use crate::progress::is_interrupted;

/// The file that is viewed. Ntuples are opened when they are first looked at.
pub struct Viewed {
    file: String,
    listing: FileListing,
    opened: Mutex<HashMap<String, Arc<Opened>>>,
    /// Counts histograms: a new one ends the one before.
    latest: AtomicU64,
}

/// What a request asks for, by name: `of` (listing, info, pages, histogram, stored or reads), the `name` of an object, and
/// what that needs.
pub struct Asked(pub HashMap<String, String>);

impl Asked {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).map_or("", |text| text.trim())
    }

    /// A number, which may be missing.
    fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        match self.text(name) {
            "" => Ok(None),
            text => match text.parse() {
                Ok(number) => Ok(Some(number)),
                Err(_) => Err(usage(&format!("invalid {name}: {text:?} is not a number"))),
            },
        }
    }
}

impl Viewed {
    pub fn new(file: &str) -> Result<Self, Error> {
        let listing = match list(file, false, &BTreeMap::new())? {
            Listed::File(listing) => listing,
            Listed::Folder(_) => return Err(Error::internal("a directory is listed as a file")),
        };
        Ok(Self {
            file: file.to_owned(),
            listing,
            opened: Mutex::default(),
            latest: AtomicU64::new(0),
        })
    }

    pub fn answer(&self, asked: &Asked) -> Result<Value, Failure> {
        match asked.text("of") {
            "listing" => Ok(self.listing.document()),
            "info" => {
                let opened = self.opened(asked.text("name"))?;
                Ok(Info::new(&opened.ntuple, &opened.reader)?.document())
            }
            "pages" => {
                let field = asked.number("field")?.unwrap_or_default();
                self.pages(asked.text("name"), field)
            }
            "histogram" => self.histogram(asked),
            "stored" => self.stored(asked.text("name")),
            "reads" => Ok(Report::now().json()),
            other => Err(usage(&format!("unknown question {other:?}"))),
        }
    }

    fn opened(&self, name: &str) -> Result<Arc<Opened>, Failure> {
        let known = self.known().get(name).cloned();
        if let Some(known) = known {
            return Ok(known);
        }
        let opened = Arc::new(open(&self.file, Some(name))?);
        self.known().insert(name.to_owned(), Arc::clone(&opened));
        Ok(opened)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<Opened>>> {
        self.opened.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The pages of a field in each cluster: cluster, pages, elements, bytes.
    fn pages(&self, name: &str, field: u32) -> Result<Value, Failure> {
        let opened = self.opened(name)?;
        let reader = &opened.reader;
        let columns = reader.descriptor().field(field);
        let columns = columns.map_or(&[][..], |field| &field.columns);
        let mut counter = PageCounter::new(reader);
        let mut out = Vec::new();
        for (first, list) in reader.page_lists(0..u64::MAX)? {
            for (index, summary) in list.clusters().iter().enumerate() {
                let sizes = counter.columns(&list, index, columns);
                out.push(json!({
                    "cluster": first.saturating_add(index as u64),
                    "first_entry": summary.first_entry,
                    "pages": sizes.pages,
                    "bytes_on_disk": sizes.bytes_on_disk,
                    "bytes_uncompressed": sizes.bytes_uncompressed,
                }));
            }
        }
        Ok(Value::Array(out))
    }

    fn histogram(&self, asked: &Asked) -> Result<Value, Failure> {
        let opened = self.opened(asked.text("name"))?;
        let number = self.latest.fetch_add(1, Ordering::Relaxed) + 1;
        let goes_on = || !is_interrupted() && self.latest.load(Ordering::Relaxed) == number;
        let wanted = Some(asked.text("where")).filter(|text| !text.is_empty());
        let filling = Filling {
            values: condition(asked.text("values"))?,
            condition: wanted.map(condition).transpose()?,
            bins: asked.number("bins")?,
            range: asked.number("low")?.zip(asked.number("high")?),
            threads: Threads::default().number()?,
        };
        let filled = fill(&opened.ntuple, &filling, &goes_on)?;
        let mut document = hist::document(&Shown {
            histogram: filled.histogram,
            n_nan: filled.n_nan,
        })?;
        if let Value::Object(map) = &mut document {
            map.insert("selected_entries".to_owned(), filled.n_entries.into());
        }
        Ok(document)
    }

    fn stored(&self, name: &str) -> Result<Value, Failure> {
        let file = HistogramFile::open(&self.file, &Settings::of(&self.file))?;
        let mut read = file.read(&[Some(name.to_owned())])?;
        match read.pop() {
            Some((_, histogram)) => hist::document(&Shown {
                histogram,
                n_nan: 0,
            }),
            None => Err(crate::open::missing("the histogram")),
        }
    }
}
