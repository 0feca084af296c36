//! The structures, constants and functions of libdaos that this crate uses, as its headers declare them (DAOS 2.0 to 2.8).
//! Nothing of DAOS is needed to build this crate.

#![expect(
    unsafe_code,
    reason = "functions of a C library, whose types only its headers know"
)]

use std::ffi::{c_char, c_int, c_uint, c_void};

use libloading::Library;

/// A handle of a pool, a container, an object or an event queue. 0 is none.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Handle {
    pub cookie: u64,
}

/// No transaction.
pub(crate) const NO_TRANSACTION: Handle = Handle { cookie: 0 };

/// An ID of an object. The upper 32 bits of `hi` belong to DAOS: type and class of the object.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The lower half.
    pub lo: u64,
    /// The upper half.
    pub hi: u64,
}

/// Memory: its size, and the size of the data in it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Iov {
    pub buf: *mut c_void,
    pub buf_len: usize,
    pub len: usize,
}

impl Iov {
    /// All of this memory.
    pub const fn of(buf: *mut c_void, len: usize) -> Self {
        Self {
            buf,
            buf_len: len,
            len,
        }
    }
}

/// The memory of a value, in several pieces.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct SgList {
    pub nr: u32,
    pub nr_out: u32,
    pub iovs: *mut Iov,
}

/// A value of an akey.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Iod {
    pub name: Iov,
    pub kind: c_uint,
    pub size: u64,
    pub flags: u64,
    pub nr: u32,
    pub recxs: *mut c_void,
}

/// The state of an operation that was started. It must not move until the event queue has returned it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    pub error: c_int,
    private: [u64; 20],
    debug: u64,
}

impl Event {
    pub const NEW: Self = Self {
        error: 0,
        private: [0; 20],
        debug: 0,
    };
}

/// What is known of a pool, with room for what later versions append.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct PoolInfo {
    pub uuid: [u8; 16],
    pub n_targets: u32,
    more: [u64; 45],
}

impl PoolInfo {
    pub const NEW: Self = Self {
        uuid: [0; 16],
        n_targets: 0,
        more: [0; 45],
    };
}

/// What is known of a container, with room for what later versions append.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContainerInfo {
    pub uuid: [u8; 16],
    more: [u64; 30],
}

impl ContainerInfo {
    pub const NEW: Self = Self {
        uuid: [0; 16],
        more: [0; 30],
    };
}

/// The length of a listed key.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyDesc {
    pub len: u64,
    pub kind: u32,
}

/// How far a list of keys was read.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListAnchor {
    pub kind: u16,
    shard: u16,
    flags: u32,
    sub_anchors: u64,
    buf: [u8; 104],
}

impl ListAnchor {
    pub const NEW: Self = Self {
        kind: 0,
        shard: 0,
        flags: 0,
        sub_anchors: 0,
        buf: [0; 104],
    };

    /// Whether the list is complete.
    pub fn is_end(&self) -> bool {
        self.kind == 3
    }
}

/// A single value, which is read and written as a whole.
pub(crate) const IOD_SINGLE: c_uint = 1;
/// Objects whose dkeys and akeys are numbers.
pub(crate) const TYPE_MULTI_UINT64: c_uint = 4;
/// Pools and containers are opened to read and write, or to read only.
pub(crate) const READ_WRITE: c_uint = 1 << 1;
pub(crate) const READ_ONLY: c_uint = 1 << 0;
/// An object is opened to read and write.
pub(crate) const OBJECT_READ_WRITE: c_uint = 1 << 2;
/// Fail if an akey has a value already.
pub(crate) const COND_AKEY_INSERT: u64 = 1 << 4;
/// The class is chosen by the redundancy of the container, and with the usual number of groups.
pub(crate) const HINTS_DEFAULT: u16 = 1 << 0 | 1 << 4;
/// The longest name of an object class, with its 0; DAOS has 24, ROOT allows 64.
pub(crate) const CLASS_NAME: usize = 65;

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal ($($arg:ty),*) -> $back:ty;)*) => {
        /// The functions of a loaded library.
        #[derive(Debug)]
        pub(crate) struct Api {
            $($(#[$doc])* pub $name: unsafe extern "C" fn($($arg),*) -> $back,)*
            /// Makes the library usable in a forked process; none before DAOS 2.4.
            pub reinit: Option<unsafe extern "C" fn() -> c_int>,
        }

        impl Api {
            /// The functions of a library, or the name of the first that it does not have.
            pub fn of(library: &'static Library) -> Result<Self, &'static str> {
                // SAFETY: the types are those of the headers of DAOS, whose names of these symbols change with their types
                // (`daos_pool_connect2`); the library is never unloaded.
                unsafe {
                    Ok(Self {
                        $($name: *library.get($symbol).map_err(|_| $symbol)?,)*
                        reinit: library.get("daos_reinit").ok().map(|found| *found),
                    })
                }
            }
        }
    };
}

functions! {
    init = "daos_init" () -> c_int;
    error_name = "d_errstr" (c_int) -> *const c_char;
    pool_connect = "daos_pool_connect2"
        (*const c_char, *const c_char, c_uint, *mut Handle, *mut PoolInfo, *mut Event) -> c_int;
    pool_disconnect = "daos_pool_disconnect" (Handle, *mut Event) -> c_int;
    container_create = "daos_cont_create_with_label"
        (Handle, *const c_char, *mut c_void, *mut [u8; 16], *mut Event) -> c_int;
    container_open = "daos_cont_open2"
        (Handle, *const c_char, c_uint, *mut Handle, *mut ContainerInfo, *mut Event) -> c_int;
    container_close = "daos_cont_close" (Handle, *mut Event) -> c_int;
    class_id = "daos_oclass_name2id" (*const c_char) -> c_int;
    class_name = "daos_oclass_id2name" (u32, *mut c_char) -> c_int;
    generate_id = "daos_obj_generate_oid2" (Handle, *mut ObjectId, c_uint, u32, u16, u32) -> c_int;
    object_open = "daos_obj_open" (Handle, ObjectId, c_uint, *mut Handle, *mut Event) -> c_int;
    object_close = "daos_obj_close" (Handle, *mut Event) -> c_int;
    fetch = "daos_obj_fetch"
        (Handle, Handle, u64, *mut Iov, c_uint, *mut Iod, *mut SgList, *mut c_void, *mut Event) -> c_int;
    update = "daos_obj_update"
        (Handle, Handle, u64, *mut Iov, c_uint, *mut Iod, *mut SgList, *mut Event) -> c_int;
    punch_object = "daos_obj_punch" (Handle, Handle, u64, *mut Event) -> c_int;
    punch_akeys = "daos_obj_punch_akeys"
        (Handle, Handle, u64, *mut Iov, c_uint, *mut Iov, *mut Event) -> c_int;
    list_dkeys = "daos_obj_list_dkey"
        (Handle, Handle, *mut u32, *mut KeyDesc, *mut SgList, *mut ListAnchor, *mut Event) -> c_int;
    list_akeys = "daos_obj_list_akey"
        (Handle, Handle, *mut Iov, *mut u32, *mut KeyDesc, *mut SgList, *mut ListAnchor, *mut Event) -> c_int;
    queue_create = "daos_eq_create" (*mut Handle) -> c_int;
    queue_poll = "daos_eq_poll" (Handle, c_int, i64, c_uint, *mut *mut Event) -> c_int;
    queue_destroy = "daos_eq_destroy" (Handle, c_int) -> c_int;
    event_init = "daos_event_init" (*mut Event, Handle, *mut Event) -> c_int;
    event_fini = "daos_event_fini" (*mut Event) -> c_int;
}

#[cfg(test)]
mod tests {
    use std::mem::{align_of, offset_of, size_of};

    use super::*;

    #[test]
    fn structures_have_the_layout_of_the_headers_of_daos() {
        assert_eq!((size_of::<Handle>(), align_of::<Handle>()), (8, 8));
        assert_eq!((size_of::<ObjectId>(), offset_of!(ObjectId, hi)), (16, 8));
        assert_eq!(size_of::<Iov>(), 24);
        assert_eq!((offset_of!(Iov, buf_len), offset_of!(Iov, len)), (8, 16));
        assert_eq!(size_of::<SgList>(), 16);
        assert_eq!(
            (offset_of!(SgList, nr_out), offset_of!(SgList, iovs)),
            (4, 8)
        );
        assert_eq!(size_of::<Iod>(), 64);
        let iod = [
            offset_of!(Iod, name),
            offset_of!(Iod, kind),
            offset_of!(Iod, size),
            offset_of!(Iod, flags),
            offset_of!(Iod, nr),
            offset_of!(Iod, recxs),
        ];
        assert_eq!(iod, [0, 24, 32, 40, 48, 56]);
        assert_eq!((size_of::<Event>(), offset_of!(Event, error)), (176, 0));
        assert_eq!((size_of::<KeyDesc>(), offset_of!(KeyDesc, kind)), (16, 8));
        assert_eq!(size_of::<ListAnchor>(), 120);
        assert_eq!(
            (offset_of!(ListAnchor, kind), offset_of!(ListAnchor, buf)),
            (0, 16)
        );
    }

    #[test]
    fn structures_that_the_library_fills_are_at_least_as_large_as_its_own() {
        assert!(size_of::<PoolInfo>() >= 192 && size_of::<ContainerInfo>() >= 48);
        assert_eq!(
            (offset_of!(PoolInfo, uuid), offset_of!(PoolInfo, n_targets)),
            (0, 16)
        );
        assert_eq!(offset_of!(ContainerInfo, uuid), 0);
    }

    #[test]
    fn constants_are_those_of_the_headers_of_daos() {
        assert_eq!((IOD_SINGLE, TYPE_MULTI_UINT64, HINTS_DEFAULT), (1, 4, 0x11));
        assert_eq!((READ_WRITE, READ_ONLY, OBJECT_READ_WRITE), (2, 1, 4));
        assert_eq!(COND_AKEY_INSERT, 16);
    }
}
