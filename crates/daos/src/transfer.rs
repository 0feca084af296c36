//! Operations on objects: values that are read and written, keys that are listed and removed.

#![expect(
    unsafe_code,
    reason = "the library gets pointers to what an operation owns, and to its values"
)]

use std::ffi::c_int;
use std::ptr;

use bytes::Bytes;

use crate::abi::{
    Event, Handle, IOD_SINGLE, Iod, Iov, KeyDesc, ListAnchor, NO_TRANSACTION, OBJECT_READ_WRITE,
    SgList,
};
use crate::group::Member;
use crate::library::DaosLibrary;
use crate::queue::Call;
use crate::{DaosError, ObjectId, ValueKey};

/// An open object. Opening needs no server.
#[derive(Debug)]
pub(crate) struct OpenObject {
    library: &'static DaosLibrary,
    handle: Handle,
}

impl OpenObject {
    /// Opens an object of a container.
    pub fn new(
        library: &'static DaosLibrary,
        container: Handle,
        object: ObjectId,
        what: impl FnOnce() -> String,
    ) -> Result<Self, DaosError> {
        let mut handle = Handle::default();
        let at = &raw mut handle;
        // SAFETY: without an event the library returns when it has written the handle.
        let code = unsafe {
            (library.api.object_open)(container, object, OBJECT_READ_WRITE, at, ptr::null_mut())
        };
        library.check(code, what)?;
        Ok(Self { library, handle })
    }
}

impl Drop for OpenObject {
    fn drop(&mut self) {
        // SAFETY: nobody else has the handle, and operations own their open object, so none is in flight.
        unsafe { (self.library.api.object_close)(self.handle, ptr::null_mut()) };
    }
}

/// The memory of values, one for each akey.
#[derive(Debug)]
pub(crate) enum Memory {
    /// Capacity for values that are read, which have no bytes before.
    Fetch(Vec<Vec<u8>>),
    /// The pieces of values that are written, and how many each has.
    Update {
        pieces: Vec<Bytes>,
        counts: Vec<usize>,
        flags: u64,
    },
    /// Only the sizes of values are asked for.
    Sizes,
}

/// Reading or writing values of one dkey of an object.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// The values.
    pub members: Vec<Member>,
    object: OpenObject,
    dkey: u64,
    akeys: Vec<u64>,
    memory: Memory,
    /// What the library is given; empty before the start.
    arguments: Arguments,
}

/// The structures of the library, which refer to each other and to the memory.
#[derive(Debug, Default)]
struct Arguments {
    dkey: Vec<Iov>,
    iods: Vec<Iod>,
    lists: Vec<SgList>,
    iovs: Vec<Iov>,
}

// SAFETY: the pointers are of memory that the same value owns.
unsafe impl Send for Arguments {}

impl Transfer {
    /// Of values of one dkey, each with its part of the memory.
    pub fn new(object: OpenObject, members: Vec<Member>, memory: Memory) -> Self {
        Self {
            object,
            dkey: members.first().map_or(0, |value| value.key.dkey),
            akeys: members.iter().map(|value| value.key.akey).collect(),
            members,
            memory,
            arguments: Arguments::default(),
        }
    }

    /// The key of the first value.
    pub fn first(&self) -> ValueKey {
        self.members
            .first()
            .map(|value| value.key)
            .unwrap_or_default()
    }

    /// The sizes of the values after the operation; 0 for a missing value.
    pub fn sizes(&self) -> impl Iterator<Item = u64> {
        self.arguments.iods.iter().map(|iod| iod.size)
    }

    /// The values that were read, after the operation has ended without an error.
    pub fn into_values(mut self) -> Vec<Vec<u8>> {
        let Memory::Fetch(values) = &mut self.memory else {
            return Vec::new();
        };
        for ((value, room), iod) in values
            .iter_mut()
            .zip(&self.arguments.iovs)
            .zip(&self.arguments.iods)
        {
            let size = usize::try_from(iod.size).unwrap_or(usize::MAX);
            // SAFETY: the library has written as many bytes as it says, and not more than there is room for.
            unsafe { value.set_len(size.min(room.buf_len).min(value.capacity())) };
            // there may have been room for the largest value; this does not move it
            value.shrink_to_fit();
        }
        std::mem::take(values)
    }

    fn arguments(&mut self) -> Arguments {
        let Self {
            dkey,
            akeys,
            memory,
            members,
            ..
        } = self;
        // one after the other in memory that is never reallocated
        let n = match memory {
            Memory::Update { pieces, .. } => pieces.len(),
            Memory::Fetch(values) => values.len(),
            Memory::Sizes => 0,
        };
        let mut iovs = Vec::with_capacity(n);
        let mut parts = Vec::with_capacity(akeys.len());
        match memory {
            Memory::Fetch(values) => {
                for (value, member) in values.iter_mut().zip(members) {
                    let room = usize::try_from(member.size).unwrap_or(0);
                    parts.push((1, 0));
                    iovs.push(Iov::of(
                        value.as_mut_ptr().cast(),
                        room.min(value.capacity()),
                    ));
                }
            }
            Memory::Update { pieces, counts, .. } => {
                let sizes = members.iter().map(|member| member.size);
                parts.extend(counts.iter().copied().zip(sizes));
                // the library only reads values that it writes to servers
                let of_piece =
                    |piece: &Bytes| Iov::of(piece.as_ptr().cast_mut().cast(), piece.len());
                iovs.extend(pieces.iter().map(of_piece));
            }
            Memory::Sizes => {}
        }
        let iod = |(akey, size): (&mut u64, u64)| Iod {
            name: Iov::of((&raw mut *akey).cast(), size_of::<u64>()),
            kind: IOD_SINGLE,
            size,
            flags: 0,
            nr: 1,
            recxs: ptr::null_mut(),
        };
        let sizes = parts
            .iter()
            .map(|&(_, size)| size)
            .chain(std::iter::repeat(0));
        let mut next = iovs.as_mut_ptr();
        let list = |&(n, _): &(usize, u64)| {
            let iovs = next;
            next = next.wrapping_add(n);
            SgList {
                nr: u32::try_from(n).unwrap_or(u32::MAX),
                nr_out: 0,
                iovs,
            }
        };
        Arguments {
            dkey: vec![Iov::of((&raw mut *dkey).cast(), size_of::<u64>())],
            iods: akeys.iter_mut().zip(sizes).map(iod).collect(),
            lists: parts.iter().map(list).collect(),
            iovs,
        }
    }
}

impl Call for Transfer {
    unsafe fn start(&mut self, library: &DaosLibrary, event: *mut Event) -> c_int {
        self.arguments = self.arguments();
        let Ok(n) = u32::try_from(self.akeys.len()) else {
            return crate::error::code::INVALID;
        };
        let Arguments {
            dkey, iods, lists, ..
        } = &mut self.arguments;
        let (dkey, iods, object) = (dkey.as_mut_ptr(), iods.as_mut_ptr(), self.object.handle);
        // SAFETY: all pointers are of memory that this value owns, which stays in place until the event was returned: each
        // akey has its iod, and its list with as many iovs as it says. The value of a zero-sized list is not read.
        unsafe {
            match &self.memory {
                memory @ (Memory::Fetch(_) | Memory::Sizes) => {
                    let lists = match memory {
                        Memory::Sizes => ptr::null_mut(),
                        _ => lists.as_mut_ptr(),
                    };
                    let maps = ptr::null_mut();
                    (library.api.fetch)(
                        object,
                        NO_TRANSACTION,
                        0,
                        dkey,
                        n,
                        iods,
                        lists,
                        maps,
                        event,
                    )
                }
                Memory::Update { flags, .. } => {
                    let lists = lists.as_mut_ptr();
                    (library.api.update)(
                        object,
                        NO_TRANSACTION,
                        *flags,
                        dkey,
                        n,
                        iods,
                        lists,
                        event,
                    )
                }
            }
        }
    }
}

/// Removing an object, or values of one dkey of it.
#[derive(Debug)]
pub(crate) struct Punch {
    object: OpenObject,
    dkey: u64,
    /// All if there are none.
    akeys: Vec<u64>,
    keys: Arguments,
}

impl Punch {
    /// Of an object, or of these akeys of a dkey.
    pub fn new(object: OpenObject, values: Option<(u64, Vec<u64>)>) -> Self {
        let (dkey, akeys) = values.unwrap_or_default();
        Self {
            object,
            dkey,
            akeys,
            keys: Arguments::default(),
        }
    }
}

impl Call for Punch {
    unsafe fn start(&mut self, library: &DaosLibrary, event: *mut Event) -> c_int {
        let key = |key: &mut u64| Iov::of((&raw mut *key).cast(), size_of::<u64>());
        self.keys.dkey = vec![key(&mut self.dkey)];
        self.keys.iovs = self.akeys.iter_mut().map(key).collect();
        let (object, n) = (
            self.object.handle,
            u32::try_from(self.akeys.len()).unwrap_or(u32::MAX),
        );
        let Arguments { dkey, iovs, .. } = &mut self.keys;
        // SAFETY: the pointers are of memory that this value owns, with as many akeys as it says.
        unsafe {
            match n {
                0 => (library.api.punch_object)(object, NO_TRANSACTION, 0, event),
                _ => {
                    let (dkey, akeys) = (dkey.as_mut_ptr(), iovs.as_mut_ptr());
                    (library.api.punch_akeys)(object, NO_TRANSACTION, 0, dkey, n, akeys, event)
                }
            }
        }
    }
}

/// Keys that are listed at once.
const MOST_KEYS: u32 = 512;

/// Listing dkeys of an object, or akeys of a dkey, as far as one answer goes.
#[derive(Debug)]
pub(crate) struct List {
    object: OpenObject,
    dkey: Option<u64>,
    name: Vec<Iov>,
    anchor: ListAnchor,
    n: u32,
    found: Vec<KeyDesc>,
    keys: Vec<u8>,
    memory: Arguments,
}

// SAFETY: the pointers are of memory that the same value owns.
unsafe impl Send for List {}

impl List {
    /// Of dkeys, or of the akeys of a dkey.
    pub fn new(object: OpenObject, dkey: Option<u64>) -> Self {
        Self {
            object,
            dkey,
            name: Vec::new(),
            anchor: ListAnchor::NEW,
            n: 0,
            found: Vec::new(),
            keys: Vec::new(),
            memory: Arguments::default(),
        }
    }

    /// Whether the last answer was the end of the list.
    pub fn is_end(&self) -> bool {
        self.anchor.is_end()
    }

    /// The keys of the last answer that are numbers, as all are in objects of this crate.
    pub fn keys(&self) -> Vec<u64> {
        let mut rest = &self.keys[..];
        let n = usize::try_from(self.n).unwrap_or(usize::MAX);
        let next = |desc: &KeyDesc| {
            let (key, after) = rest.split_at_checked(usize::try_from(desc.len).ok()?)?;
            rest = after;
            Some(key.try_into().ok().map(u64::from_le_bytes))
        };
        self.found
            .iter()
            .take(n)
            .map_while(next)
            .flatten()
            .collect()
    }
}

impl Call for List {
    unsafe fn start(&mut self, library: &DaosLibrary, event: *mut Event) -> c_int {
        self.n = MOST_KEYS;
        self.found = vec![KeyDesc::default(); MOST_KEYS as usize];
        self.keys = vec![0; 64 * MOST_KEYS as usize];
        self.memory.iovs = vec![Iov::of(self.keys.as_mut_ptr().cast(), self.keys.len())];
        self.memory.lists = vec![SgList {
            nr: 1,
            nr_out: 0,
            iovs: self.memory.iovs.as_mut_ptr(),
        }];
        let (object, n, found) = (self.object.handle, &raw mut self.n, self.found.as_mut_ptr());
        let (list, anchor) = (self.memory.lists.as_mut_ptr(), &raw mut self.anchor);
        // SAFETY: the pointers are of memory that this value owns, with as much room as it says.
        unsafe {
            match &mut self.dkey {
                None => {
                    (library.api.list_dkeys)(object, NO_TRANSACTION, n, found, list, anchor, event)
                }
                Some(dkey) => {
                    self.name = vec![Iov::of((&raw mut *dkey).cast(), size_of::<u64>())];
                    let dkey = self.name.as_mut_ptr();
                    (library.api.list_akeys)(
                        object,
                        NO_TRANSACTION,
                        dkey,
                        n,
                        found,
                        list,
                        anchor,
                        event,
                    )
                }
            }
        }
    }
}
