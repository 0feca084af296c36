//! Claims of blocks of numbers: they tell who writes the values of a block, and that the writer lives.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use femtobarn_daos::mapping::LISTS;
use femtobarn_daos::{DaosError, NTupleValues};
use femtobarn_io::IoError;
use femtobarn_rootfile::Uuid;

use super::unwritten;
use super::writing::BLOCK;

/// The age at which claims are compared and renewed.
const CLAIM_AGAIN: Duration = Duration::from_secs(60);
/// Size of a claim with a mark.
const CLAIM_SIZE: u64 = 32;
/// The time in a claim whose values a sweep is removing.
const SWEPT: Duration = Duration::ZERO;

/// The content of a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    /// When it was written, since 1970.
    pub time: Duration,
    /// What the ntuple is made from, if it is written in steps.
    pub mark: Option<Uuid>,
    /// Who has written it. Earlier versions did not tell.
    owner: Option<[u8; 8]>,
}

impl Claim {
    fn parse(bytes: &[u8]) -> Self {
        let (time, rest) = bytes.split_first_chunk().unwrap_or((&[0; 8], &[]));
        let (mark, owner) = match rest.split_first_chunk() {
            Some((mark, owner)) => (Some(Uuid(*mark)), owner),
            None => (None, rest),
        };
        Self {
            time: Duration::from_secs(u64::from_le_bytes(*time)),
            mark,
            owner: owner.first_chunk().copied(),
        }
    }

    fn to_bytes(self) -> Bytes {
        let mut bytes = self.time.as_secs().to_le_bytes().to_vec();
        bytes.extend(self.mark.iter().flat_map(|mark| mark.0));
        bytes.extend(self.owner.iter().flatten());
        bytes.into()
    }

    /// The claims with these numbers; none where there is none.
    pub fn read(values: &NTupleValues, numbers: &[u64]) -> Result<Vec<Option<Self>>, DaosError> {
        let found = values.find_values(numbers, CLAIM_SIZE)?.into_iter();
        Ok(found.map(|bytes| Some(Self::parse(&bytes?))).collect())
    }

    pub fn read_one(values: &NTupleValues, number: u64) -> Result<Option<Self>, DaosError> {
        Ok(Self::read(values, &[number])?.pop().flatten())
    }

    /// Takes it for a sweep: its writer fails from now on. Returns what is there now.
    pub fn sweep(self, values: &NTupleValues, number: u64) -> Result<Self, DaosError> {
        let taken = Self {
            time: SWEPT,
            owner: Some(random()),
            ..self
        };
        values.write([(number, vec![taken.to_bytes()])])?;
        Ok(taken)
    }
}

/// Random bytes, which no other writer has.
fn random() -> [u8; 8] {
    let Uuid([a, b, c, d, e, f, g, h, ..]) = Uuid::random();
    [a, b, c, d, e, f, g, h]
}

/// The time since 1970.
pub(super) fn now() -> Duration {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()
}

/// Whether a number is that of a claim.
pub(super) fn is_claim(number: &u64) -> bool {
    *number >= LISTS && number.is_multiple_of(BLOCK)
}

/// Removes values, and then the claims among them: only then others take these numbers.
pub(super) fn remove_values(
    values: &NTupleValues,
    numbers: impl IntoIterator<Item = u64>,
) -> Result<(), DaosError> {
    let (claims, others): (Vec<u64>, Vec<u64>) = numbers.into_iter().partition(is_claim);
    values.remove(others)?;
    values.remove(claims)
}

/// The claims of all ntuples that one writer writes at the same time, and of their attribute sets.
#[derive(Debug, Clone)]
pub(super) struct Claims(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    owner: [u8; 8],
    /// When the oldest claim was written, in seconds since 1970; 0 before there is one.
    renewed: AtomicU64,
    all: Mutex<Vec<Held>>,
}

/// A claim of this writer.
#[derive(Debug)]
struct Held {
    /// The ntuple, for errors.
    url: String,
    values: NTupleValues,
    number: u64,
    mark: Option<Uuid>,
}

/// To whom a claim belongs when its writer ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Owner {
    This,
    /// To this writer again, after a sweep had removed it.
    ThisAgain,
    Another,
}

impl Claims {
    pub fn new() -> Self {
        Self(Arc::new(Shared {
            owner: random(),
            renewed: AtomicU64::new(0),
            all: Mutex::default(),
        }))
    }

    fn all(&self) -> MutexGuard<'_, Vec<Held>> {
        self.0.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn content(&self, mark: Option<Uuid>) -> Claim {
        Claim {
            time: now(),
            mark,
            owner: Some(self.0.owner),
        }
    }

    fn bytes(&self, mark: Option<Uuid>) -> Bytes {
        self.content(mark).to_bytes()
    }

    /// Claims a block, if nobody has it; returns whether it is claimed now.
    pub fn claim(
        &self,
        url: &str,
        values: &NTupleValues,
        number: u64,
        mark: Option<Uuid>,
    ) -> Result<bool, DaosError> {
        let is_free = values.claim(number, self.bytes(mark))?;
        if is_free {
            self.hold(url, values, &[number], mark);
        }
        Ok(is_free)
    }

    /// Takes the claims of another writer, which fails from then on; returns whether all of them were there.
    pub fn take_over(
        &self,
        url: &str,
        values: &NTupleValues,
        numbers: &[u64],
        mark: Option<Uuid>,
    ) -> Result<bool, DaosError> {
        if Claim::read(values, numbers)?.contains(&None) {
            return Ok(false);
        }
        let content = |&number: &u64| (number, vec![self.bytes(mark)]);
        values.write(numbers.iter().map(content))?;
        self.hold(url, values, numbers, mark);
        Ok(true)
    }

    fn hold(&self, url: &str, values: &NTupleValues, numbers: &[u64], mark: Option<Uuid>) {
        let mut all = self.all();
        if all.is_empty() {
            self.0.renewed.store(now().as_secs(), Relaxed);
        }
        all.extend(numbers.iter().map(|&number| Held {
            url: url.to_owned(),
            values: values.clone(),
            number,
            mark,
        }));
    }

    /// Whether the claims are so old that they have to be renewed.
    pub fn are_old(&self) -> bool {
        let renewed = self.0.renewed.load(Relaxed);
        renewed != 0 && now().as_secs().abs_diff(renewed) >= CLAIM_AGAIN.as_secs()
    }

    /// Renews old claims, if they are still those of this writer.
    ///
    /// # Errors
    /// If a sweep has removed one, or another writer has it, or a request fails.
    pub fn renew(&self) -> Result<(), IoError> {
        if !self.are_old() {
            return Ok(());
        }
        let all = self.all();
        let renewed = now();
        let index = |held: &Held| held.values.places().values;
        for of_one in all.chunk_by(|one, next| index(one) == index(next)) {
            let Some(Held { url, values, .. }) = of_one.first() else {
                continue;
            };
            let failed = |error| unwritten(url, error);
            let numbers: Vec<u64> = of_one.iter().map(|held| held.number).collect();
            let url = || url.clone();
            for stored in Claim::read(values, &numbers).map_err(failed)? {
                match stored {
                    None | Some(Claim { time: SWEPT, .. }) => {
                        return Err(IoError::Swept { url: url() });
                    }
                    Some(claim) if claim.owner != Some(self.0.owner) => {
                        return Err(IoError::Overtaken { url: url() });
                    }
                    Some(_) => {}
                }
            }
            let content = |held: &Held| (held.number, vec![self.bytes(held.mark)]);
            values.write(of_one.iter().map(content)).map_err(failed)?;
        }
        self.0.renewed.store(renewed.as_secs(), Relaxed);
        Ok(())
    }

    /// Ends the claims of an ntuple: they are not renewed any more.
    pub fn release(&self, values: &NTupleValues) {
        let index = values.places().values;
        self.all()
            .retain(|held| held.values.places().values != index);
    }

    /// To whom a claim belongs. One that a sweep has removed is claimed again, so that nobody else writes the values of its
    /// block while they are removed.
    pub fn owner(
        &self,
        values: &NTupleValues,
        number: u64,
        mark: Option<Uuid>,
    ) -> Result<Owner, DaosError> {
        Ok(match Claim::read_one(values, number)? {
            Some(claim) if claim.owner == Some(self.0.owner) => Owner::This,
            None if values.claim(number, self.bytes(mark))? => Owner::ThisAgain,
            _ => Owner::Another,
        })
    }

    /// Has them taken for claims of the day before.
    #[cfg(test)]
    pub fn grow_old(&self) {
        self.0.renewed.fetch_sub(86_400, Relaxed);
    }
}
