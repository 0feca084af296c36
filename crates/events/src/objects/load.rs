//! Loads products that are objects, many at a time.

use xxhash_rust::xxh3::xxh3_128;

use super::name::{BESIDE, Reference};
use super::{LargeObjects, container, product};
use crate::seal::{INLINE, open};
use crate::{Backend, EventsError, VisitProduct, Wanted};

/// Total bytes of objects that are fetched together; a larger object is fetched alone.
const AT_ONCE: u64 = 64 << 20;
/// Maximum number of attempts for a product whose object is missing because another client has
/// overwritten it.
const TRIES: usize = 5;

/// The position of a requested product: the index of the request, and of the event.
type Place = (usize, usize);

/// Visits inline products, and returns the products that are objects.
pub fn visit_inline(
    backend: &dyn Backend,
    wanted: &[Wanted<'_>],
    visit: &mut VisitProduct<'_>,
) -> Result<Vec<(Place, Reference)>, EventsError> {
    let (mut late, mut room) = (Vec::new(), Vec::new());
    backend.load(wanted, &mut |w, e, stored| {
        let bad = |(expected, found)| damaged(backend.url(), wanted, (w, e), expected, found);
        let Some(stored) = stored else {
            return visit(w, e, None);
        };
        match open(stored, &mut room).map_err(bad)? {
            (value, INLINE) => visit(w, e, Some(value)),
            (bytes, BESIDE) => {
                let Some(container) = container(wanted, w, e) else {
                    return Err(bad((String::new(), String::new())));
                };
                let reference = Reference::of(bytes, &container).map_err(bad)?;
                late.push(((w, e), reference));
                Ok(())
            }
            (_, tag) => {
                let expected = "a value of a known kind".into();
                Err(bad((expected, format!("one of kind {tag}"))))
            }
        }
    })?;
    Ok(late)
}

/// The error of a damaged product.
fn damaged(
    url: &str,
    wanted: &[Wanted<'_>],
    (w, e): Place,
    expected: String,
    found: String,
) -> EventsError {
    match product(wanted, w, e) {
        Some(id) => EventsError::Damaged {
            url: url.into(),
            id: Box::new(id),
            expected,
            found,
        },
        None => EventsError::engine(url, "load products", "an unrequested object was returned"),
    }
}

impl LargeObjects {
    /// Visits products that are objects.
    pub fn visit(
        &self,
        backend: &dyn Backend,
        wanted: &[Wanted<'_>],
        mut late: Vec<(Place, Reference)>,
        visit: &mut VisitProduct<'_>,
    ) -> Result<(), EventsError> {
        for _ in 0..TRIES {
            let mut missing = Vec::new();
            let mut rest = late.as_slice();
            while !rest.is_empty() {
                let mut n_bytes = 0;
                let fits = |(_, reference): &&(Place, Reference)| {
                    n_bytes += reference.size;
                    n_bytes <= AT_ONCE
                };
                let n = rest.iter().take_while(fits).count();
                let (now, later) = rest.split_at(n.max(1));
                self.fetch(wanted, now, &mut missing, visit)?;
                rest = later;
            }
            if missing.is_empty() {
                return Ok(());
            }
            late = self.again(backend, wanted, missing, visit)?;
        }
        match late.first() {
            None => Ok(()),
            Some(((w, e), reference)) => {
                let url = self.folder.url_of(&reference.name);
                let source = femtobarn_io::IoError::Changed { url };
                Err(self.failed(wanted, (*w, *e), reference, source))
            }
        }
    }

    fn fetch(
        &self,
        wanted: &[Wanted<'_>],
        late: &[(Place, Reference)],
        missing: &mut Vec<(Place, Reference, EventsError)>,
        visit: &mut VisitProduct<'_>,
    ) -> Result<(), EventsError> {
        let objects = late.iter();
        let objects: Vec<_> = objects
            .map(|(_, reference)| (reference.name.as_str(), reference.size))
            .collect();
        let found = self
            .folder
            .get(&objects)
            .map_err(|source| EventsError::Objects {
                url: self.url.clone(),
                doing: "load large products",
                source,
            })?;
        for ((place, reference), bytes) in late.iter().zip(found) {
            match bytes {
                Ok(bytes) => {
                    let sum = xxh3_128(&bytes);
                    if sum != reference.checksum {
                        let object = self.folder.url_of(&reference.name);
                        let expected = format!("checksum {:#034x} of {object}", reference.checksum);
                        let found = format!("{sum:#034x}");
                        return Err(damaged(&self.url, wanted, *place, expected, found));
                    }
                    visit(place.0, place.1, Some(&bytes))?;
                }
                Err(source) => {
                    let is_gone = matches!(source, femtobarn_io::IoError::NotFound { .. });
                    let error = self.failed(wanted, *place, reference, source);
                    match is_gone {
                        true => missing.push((*place, reference.clone(), error)),
                        false => return Err(error),
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads products again whose objects are missing. If a product still refers to the same
    /// object, this is an error.
    fn again(
        &self,
        backend: &dyn Backend,
        wanted: &[Wanted<'_>],
        missing: Vec<(Place, Reference, EventsError)>,
        visit: &mut VisitProduct<'_>,
    ) -> Result<Vec<(Place, Reference)>, EventsError> {
        let mut late = Vec::new();
        for ((w, e), before, error) in missing {
            let Some(group) = wanted.get(w) else { continue };
            let event = group.events.get(e).copied().into_iter().collect::<Vec<_>>();
            let one = [Wanted {
                events: &event,
                ..*group
            }];
            let found = visit_inline(backend, &one, &mut |_, _, value| visit(w, e, value))?;
            for (_, reference) in found {
                if reference == before {
                    return Err(error);
                }
                late.push(((w, e), reference));
            }
        }
        Ok(late)
    }

    fn failed(
        &self,
        wanted: &[Wanted<'_>],
        (w, e): Place,
        reference: &Reference,
        source: femtobarn_io::IoError,
    ) -> EventsError {
        match product(wanted, w, e) {
            Some(id) => EventsError::Object {
                url: self.url.clone(),
                id: Box::new(id),
                object: self.folder.url_of(&reference.name),
                source,
            },
            None => EventsError::engine(&self.url, "load products", source),
        }
    }
}
