//! Containers: reading and writing many values at once.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use femtobarn_fork::PerProcess;

use crate::abi::COND_AKEY_INSERT;
use crate::connection::Connection;
use crate::error::code;
use crate::group::{Member, repeated, requests};
use crate::library::DaosLibrary;
use crate::mapping::MOST_PIECES;
use crate::queue::Call;
use crate::transfer::{List, Memory, OpenObject, Punch, Transfer};
use crate::{
    Address, DaosError, Existing, Fetch, ObjectClass, ObjectId, Settings, Update, ValueKey,
};

/// The largest value that is read: more memory is not reserved because a server says so.
const LARGEST_VALUE: u64 = 1 << 31;

/// Opens an object; the string names what for.
type Opener<'o> = dyn Fn(ObjectId, &dyn Fn() -> String) -> Result<OpenObject, DaosError> + 'o;

/// A container. It is opened at first use, once in a process, and anew in forked processes.
#[derive(Debug)]
pub struct Container {
    address: Address,
    settings: Settings,
    create: bool,
    connection: PerProcess<Arc<Connection>>,
    n_requests: AtomicU64,
}

impl Container {
    /// Opens a container.
    ///
    /// # Errors
    /// If the library cannot be loaded, or the pool or the container cannot be opened.
    pub fn open(address: &Address, settings: Settings) -> Result<Self, DaosError> {
        Self::new(address, settings, false)
    }

    /// The same container, with its own count of requests.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn again(&self) -> Result<Self, DaosError> {
        Self::open(&self.address, self.settings.clone())
    }

    /// Opens a container; creates it if it does not exist and is named by a label.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn create(address: &Address, settings: Settings) -> Result<Self, DaosError> {
        Self::new(address, settings, true)
    }

    fn new(address: &Address, settings: Settings, create: bool) -> Result<Self, DaosError> {
        let container = Self {
            address: address.clone(),
            settings,
            create,
            connection: PerProcess::new(),
            n_requests: AtomicU64::new(0),
        };
        container.connection()?;
        Ok(container)
    }

    /// The address.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The number of requests for values so far, by way of this.
    pub fn n_requests(&self) -> u64 {
        self.n_requests.load(Ordering::Relaxed)
    }

    /// The UUID of the container, which does not change if its label does.
    ///
    /// # Errors
    /// If a forked process cannot open it.
    pub fn uuid(&self) -> Result<[u8; 16], DaosError> {
        Ok(self.connection()?.uuid)
    }

    fn connection(&self) -> Result<Arc<Connection>, DaosError> {
        let Self {
            address, settings, ..
        } = self;
        self.connection
            .get(|| Connection::get(address, settings, self.create))
    }

    /// An object class by its name, as DAOS resolves it for this pool now; `""` lets DAOS choose.
    ///
    /// # Errors
    /// If the class does not exist, or the pool or the container does not allow it.
    pub fn class(&self, name: &str) -> Result<ObjectClass, DaosError> {
        let connection = self.connection()?;
        let id = match name {
            "" => 0,
            _ => {
                let found = connection.pool.library.class_id(name);
                found.ok_or_else(|| DaosError::NoClass {
                    name: name.to_owned(),
                })?
            }
        };
        let what = || format!("use object class {name:?} in {}", self.address);
        Ok(ObjectClass::of(connection.generate_id(id, what)?))
    }

    /// The name of a resolved class; none if it has no name.
    ///
    /// # Errors
    /// If a forked process cannot open the container.
    pub fn class_name(&self, class: ObjectClass) -> Result<Option<String>, DaosError> {
        Ok(self.connection()?.pool.library.class_name(class.id()))
    }

    /// Reads many values, with several requests in flight; `None` for a missing value. Keys may repeat.
    ///
    /// # Errors
    /// If a request fails.
    pub fn fetch(&self, wanted: &[Fetch]) -> Result<Vec<Option<Bytes>>, DaosError> {
        // without memory, a request would ask for the size alone
        let member = |(at, &Fetch { key, room })| Member {
            at,
            key,
            size: room.max(1),
        };
        let mut values: Vec<Member> = wanted.iter().enumerate().map(member).collect();
        let places = match repeated(wanted.iter().map(|fetch| fetch.key)) {
            Some(_) => merge(&mut values),
            None => Vec::new(),
        };
        let mut found = vec![None; values.len()];
        let larger = self.fetch_once(&values, &mut found)?;
        // a value that has grown once more is being replaced
        if let Some(again) = self.fetch_once(&larger, &mut found)?.first() {
            let known = larger.iter().find(|known| known.key == again.key);
            let expected = known.map_or(0, |known| known.size);
            return Err(self.size_error(again.key, expected, again.size));
        }
        if places.is_empty() {
            return Ok(found);
        }
        let of = |at: usize| found.get(at).cloned().flatten();
        Ok(places.into_iter().map(of).collect())
    }

    /// Reads values into their places, if they have the expected size at most; returns the others with their sizes.
    fn fetch_once(
        &self,
        values: &[Member],
        found: &mut [Option<Bytes>],
    ) -> Result<Vec<Member>, DaosError> {
        if let Some(value) = values.iter().find(|value| value.size > LARGEST_VALUE) {
            return Err(self.size_error(value.key, LARGEST_VALUE, value.size));
        }
        let room = |value: &Member| Vec::with_capacity(usize::try_from(value.size).unwrap_or(0));
        let memory = |members: &[Member]| Memory::Fetch(members.iter().map(room).collect());
        let mut larger = Vec::new();
        self.transfer("read", values, memory, |transfer, failed| {
            let members = transfer.members.iter().zip(transfer.sizes());
            let with_sizes = members.map(|(&value, size)| (value, size));
            let with_sizes: Vec<(Member, u64)> = with_sizes.collect();
            let too_large = with_sizes.iter().any(|(value, size)| *size > value.size);
            match failed {
                0 => {}
                code::TOO_LARGE if too_large => {
                    // none of the values of the request is complete for certain
                    larger.extend(with_sizes.iter().map(|&(value, size)| Member {
                        size: size.max(value.size),
                        ..value
                    }));
                    return Ok(true);
                }
                _ => return Ok(false),
            }
            for ((value, size), bytes) in with_sizes.into_iter().zip(transfer.into_values()) {
                if size > value.size {
                    larger.push(Member { size, ..value });
                } else if size > 0
                    && let Some(found) = found.get_mut(value.at)
                {
                    *found = Some(bytes.into());
                }
            }
            Ok(true)
        })?;
        Ok(larger)
    }

    /// The sizes of values, without reading them; `None` for a missing value.
    ///
    /// # Errors
    /// If a request fails.
    pub fn sizes(&self, keys: &[ValueKey]) -> Result<Vec<Option<u64>>, DaosError> {
        let mut found = vec![None; keys.len()];
        let member = |(at, &key)| Member { at, key, size: 0 };
        let values: Vec<Member> = keys.iter().enumerate().map(member).collect();
        let memory = |_: &[Member]| Memory::Sizes;
        self.transfer("ask for sizes of", &values, memory, |transfer, failed| {
            for (value, size) in transfer.members.iter().zip(transfer.sizes()) {
                if let Some(found) = found.get_mut(value.at) {
                    *found = Some(size).filter(|&size| size > 0);
                }
            }
            Ok(failed == 0)
        })?;
        Ok(found)
    }

    /// Writes many values, with several requests in flight. Those of one object and dkey are written as one, if they are not
    /// very many.
    ///
    /// # Errors
    /// If a request fails: then some of the values may have been written. If a value exists that is not to be replaced.
    pub fn update(&self, mut values: Vec<Update>, existing: Existing) -> Result<(), DaosError> {
        let repeated = repeated(values.iter().map(|value| value.key));
        let mut members = Vec::with_capacity(values.len());
        for (at, Update { key, parts }) in values.iter().enumerate() {
            let size: u64 = parts.iter().map(|part| part.len() as u64).sum();
            let why = match size {
                // it would read as if there were no value
                0 => Some("DAOS has no empty values"),
                _ if size > LARGEST_VALUE => Some("it is larger than 2 GiB"),
                _ if parts.len() > MOST_PIECES => Some("it has more than 4096 pieces"),
                _ if repeated == Some(*key) => Some("it is written twice"),
                _ => None,
            };
            if let Some(why) = why {
                return Err(DaosError::Unwritable { key: *key, why });
            }
            let key = *key;
            members.push(Member { at, key, size });
        }
        let flags = match existing {
            Existing::Replaced => 0,
            Existing::Refused => COND_AKEY_INSERT,
        };
        let memory = |members: &[Member]| {
            let mut counts = Vec::with_capacity(members.len());
            let mut pieces = Vec::with_capacity(members.len());
            for member in members {
                let parts = values
                    .get_mut(member.at)
                    .map(|value| mem::take(&mut value.parts));
                let parts = parts.unwrap_or_default();
                counts.push(parts.len());
                pieces.extend(parts);
            }
            Memory::Update {
                pieces,
                counts,
                flags,
            }
        };
        self.transfer("write", &members, memory, |transfer, failed| match failed {
            code::EXISTS => Err(DaosError::Exists {
                container: self.address.to_string(),
                key: transfer.first(),
            }),
            code => Ok(code == 0),
        })
    }

    /// Runs the requests for values. `done` gets each, when it has ended, with its code, and returns whether it knows what to
    /// do about that.
    fn transfer(
        &self,
        verb: &str,
        values: &[Member],
        mut memory: impl FnMut(&[Member]) -> Memory,
        mut done: impl FnMut(Transfer, i32) -> Result<bool, DaosError>,
    ) -> Result<(), DaosError> {
        let one = |key: ValueKey| format!("{verb} {key} in {}", self.address);
        let all = || format!("{verb} {} values in {}", values.len(), self.address);
        let start = |open: &Opener<'_>, members: Vec<Member>| {
            let first = members.first().map(|value| value.key).unwrap_or_default();
            let object = open(first.object, &|| one(first))?;
            let memory = memory(&members);
            Ok(Transfer::new(object, members, memory))
        };
        let requests = requests(values.iter().copied());
        self.run(
            all,
            requests.into_iter(),
            start,
            |transfer, failed, library| {
                let first = transfer.first();
                match done(transfer, failed)? {
                    true => Ok(()),
                    false => Err(library.error(failed, one(first))),
                }
            },
        )
    }

    /// Runs operations, which `start` makes of requests, with several in flight.
    fn run<R, C: Call>(
        &self,
        what: impl Fn() -> String,
        requests: impl Iterator<Item = R>,
        mut start: impl FnMut(&Opener<'_>, R) -> Result<C, DaosError>,
        mut done: impl FnMut(C, i32, &DaosLibrary) -> Result<(), DaosError>,
    ) -> Result<(), DaosError> {
        let mut requests = requests.peekable();
        if requests.peek().is_none() {
            return Ok(());
        }
        let connection = self.connection()?;
        let library = connection.pool.library;
        let open = |object, what: &dyn Fn() -> String| {
            OpenObject::new(library, connection.handle, object, what)
        };
        let mut unstarted = Ok(());
        let calls = requests.map_while(|request| match start(&open, request) {
            Ok(call) => {
                self.n_requests.fetch_add(1, Ordering::Relaxed);
                Some(call)
            }
            Err(error) => {
                unstarted = Err(error);
                None
            }
        });
        let run = connection.pool.queues.with(&self.settings, |queue| {
            queue.run(&self.settings, &what, calls, |call, failed| {
                done(call, failed, library)
            })
        });
        self.known(run.and(unstarted))
    }

    /// Removes objects with all their values. Missing objects are ignored.
    ///
    /// # Errors
    /// If a request fails.
    pub fn punch_objects(&self, objects: &[ObjectId]) -> Result<(), DaosError> {
        self.punch(objects.iter().map(|&object| (object, None)))
    }

    /// Removes values. Missing values are ignored.
    ///
    /// # Errors
    /// If a request fails.
    pub fn punch_values(&self, keys: &[ValueKey]) -> Result<(), DaosError> {
        let member = |(at, &key)| Member { at, key, size: 0 };
        let requests = requests(keys.iter().enumerate().map(member));
        self.punch(requests.iter().filter_map(|members| {
            let first = members.first()?.key;
            let akeys = members.iter().map(|value| value.key.akey).collect();
            Some((first.object, Some((first.dkey, akeys))))
        }))
    }

    fn punch(
        &self,
        all: impl Iterator<Item = (ObjectId, Option<(u64, Vec<u64>)>)>,
    ) -> Result<(), DaosError> {
        let what = || format!("remove values of {}", self.address);
        let start =
            |open: &Opener<'_>, (object, values)| Ok(Punch::new(open(object, &what)?, values));
        self.run(what, all, start, |_, failed, library| match failed {
            code::NOT_FOUND => Ok(()),
            failed => library.check(failed, what),
        })
    }

    /// The dkeys of an object that are numbers, sorted.
    ///
    /// # Errors
    /// If a request fails.
    pub fn dkeys(&self, object: ObjectId) -> Result<Vec<u64>, DaosError> {
        self.list(object, None)
    }

    /// The akeys of a dkey that are numbers, sorted.
    ///
    /// # Errors
    /// If a request fails.
    pub fn akeys(&self, object: ObjectId, dkey: u64) -> Result<Vec<u64>, DaosError> {
        self.list(object, Some(dkey))
    }

    fn list(&self, object: ObjectId, dkey: Option<u64>) -> Result<Vec<u64>, DaosError> {
        let connection = self.connection()?;
        let what = || format!("list keys of object {object} in {}", self.address);
        let open = OpenObject::new(connection.pool.library, connection.handle, object, what)?;
        let mut found = Vec::new();
        let mut list = List::new(open, dkey);
        let run = connection.pool.queues.with(&self.settings, |queue| {
            while !list.is_end() {
                list = queue.run_one(&self.settings, what, list)?;
                found.append(&mut list.keys());
            }
            Ok(())
        });
        match self.known(run) {
            Err(error) if error.is_missing() => {}
            run => run?,
        }
        found.sort_unstable();
        found.dedup();
        Ok(found)
    }

    /// If the server does not know the connection any more, the next call makes a new one.
    fn known<T>(&self, result: Result<T, DaosError>) -> Result<T, DaosError> {
        if matches!(
            result,
            Err(DaosError::Failed {
                code: code::NO_HANDLE,
                ..
            })
        ) {
            self.connection.clear();
        }
        result
    }

    /// An error about the size of a value.
    pub(crate) fn size_error(&self, key: ValueKey, expected: u64, found: u64) -> DaosError {
        DaosError::Size {
            container: self.address.to_string(),
            key,
            expected,
            found,
        }
    }

    /// An error about a missing value.
    pub(crate) fn missing(&self, key: ValueKey) -> DaosError {
        DaosError::Missing {
            container: self.address.to_string(),
            key,
        }
    }
}

/// Makes one value of those with the same key; returns the place of each.
fn merge(values: &mut Vec<Member>) -> Vec<usize> {
    let mut merged: Vec<Member> = Vec::with_capacity(values.len());
    let mut known = HashMap::new();
    let mut places = Vec::with_capacity(values.len());
    for value in values.iter() {
        let at = *known.entry(value.key).or_insert(merged.len());
        match merged.get_mut(at) {
            Some(known) => known.size = known.size.max(value.size),
            None => merged.push(Member { at, ..*value }),
        }
        places.push(at);
    }
    *values = merged;
    places
}
