//! Connections to pools and containers.

#![expect(unsafe_code, reason = "functions of the library are called")]

use std::ffi::{CString, c_int, c_uint};
use std::ptr;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use femtobarn_fork::PerProcess;

use crate::abi::{
    ContainerInfo, Event, HINTS_DEFAULT, Handle, PoolInfo, READ_ONLY, READ_WRITE, TYPE_MULTI_UINT64,
};
use crate::address::c_string;
use crate::error::code;
use crate::library::DaosLibrary;
use crate::queue::{CLEARING_UP, Call, Queues};
use crate::{Address, DaosError, ObjectId, Settings};

/// What is open in this process, so that it is opened once.
static POOLS: Shared<Pool> = Shared::new();
static CONTAINERS: Shared<Connection> = Shared::new();

/// Values of a process by library and name, kept as long as they are used.
struct Shared<T>(PerProcess<Arc<Known<T>>>);

type Known<T> = Mutex<Vec<(usize, String, Weak<T>)>>;

impl<T> Shared<T> {
    const fn new() -> Self {
        Self(PerProcess::new())
    }

    /// The value of this name; others that open one of the same kind wait meanwhile.
    fn get(
        &self,
        library: &'static DaosLibrary,
        name: String,
        open: impl FnOnce() -> Result<T, DaosError>,
    ) -> Result<Arc<T>, DaosError> {
        let known = self.0.get(|| Ok::<_, DaosError>(Arc::default()))?;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        let library = ptr::from_ref(library).addr();
        let is_it = |other: &&(usize, String, Weak<T>)| other.0 == library && other.1 == name;
        if let Some(found) = known.iter().find(is_it).and_then(|found| found.2.upgrade()) {
            return Ok(found);
        }
        known.retain(|(.., value)| value.strong_count() > 0);
        let new = Arc::new(open()?);
        known.push((library, name, Arc::downgrade(&new)));
        Ok(new)
    }
}

/// A connection to a pool, with the event queues of all that is done in it.
#[derive(Debug)]
pub(crate) struct Pool {
    pub library: &'static DaosLibrary,
    pub queues: Queues,
    handle: Handle,
    name: String,
}

impl Pool {
    fn get(name: &str, settings: &Settings) -> Result<Arc<Self>, DaosError> {
        let library = DaosLibrary::get(settings.library.as_deref())?;
        POOLS.get(library, name.to_owned(), || {
            Self::connect(library, name, settings)
        })
    }

    fn connect(
        library: &'static DaosLibrary,
        name: &str,
        settings: &Settings,
    ) -> Result<Self, DaosError> {
        let queues = Queues::new(library);
        let what = || format!("connect to DAOS pool {name}");
        let call = with_rights(|flags| {
            let call = Connect {
                name: c_string(name),
                flags,
                handle: Handle::default(),
                info: PoolInfo::NEW,
            };
            queues.with(settings, |queue| queue.run_one(settings, what, call))
        })?;
        Ok(Self {
            library,
            queues,
            handle: call.handle,
            name: name.to_owned(),
        })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let (handle, what) = (self.handle, || {
            format!("disconnect from DAOS pool {}", self.name)
        });
        let close = Close(handle, |library| library.api.pool_disconnect);
        // the agent clears up if this fails
        let settings = clearing_up();
        let _ = self
            .queues
            .with(&settings, |queue| queue.run_one(&settings, what, close));
    }
}

/// An open container.
#[derive(Debug)]
pub(crate) struct Connection {
    pub pool: Arc<Pool>,
    pub handle: Handle,
    pub uuid: [u8; 16],
    address: Address,
}

impl Connection {
    /// The container of an address, opened once in a process; created if that is wanted and it does not exist.
    pub fn get(
        address: &Address,
        settings: &Settings,
        create: bool,
    ) -> Result<Arc<Self>, DaosError> {
        let pool = Pool::get(address.pool(), settings)?;
        let library = pool.library;
        CONTAINERS.get(library, address.to_string(), || {
            if create {
                Self::create(&pool, address)?;
            }
            Self::open(pool, address, settings)
        })
    }

    fn create(pool: &Pool, address: &Address) -> Result<(), DaosError> {
        let what = || format!("create {address}");
        if !address.has_label() {
            return Ok(()); // it has a UUID, so it exists
        }
        let (label, uuid) = (c_string(address.container()), ptr::null_mut());
        let library = pool.library;
        // Without an event: versions before 2.8 free the label before a server has it.
        // SAFETY: the library returns when it has done it; properties and the UUID may be missing.
        let code = unsafe {
            (library.api.container_create)(
                pool.handle,
                label.as_ptr(),
                ptr::null_mut(),
                uuid,
                ptr::null_mut(),
            )
        };
        match code {
            // who may not create it may perhaps open it
            code::EXISTS | code::NO_PERMISSION => Ok(()),
            code => library.check(code, what),
        }
    }

    fn open(pool: Arc<Pool>, address: &Address, settings: &Settings) -> Result<Self, DaosError> {
        let what = || format!("open {address}");
        let call = with_rights(|flags| {
            let call = Open {
                pool: pool.handle,
                name: c_string(address.container()),
                flags,
                handle: Handle::default(),
                info: ContainerInfo::NEW,
            };
            let queues = &pool.queues;
            queues.with(settings, |queue| queue.run_one(settings, what, call))
        })?;
        Ok(Self {
            pool,
            handle: call.handle,
            uuid: call.info.uuid,
            address: address.clone(),
        })
    }

    /// The ID of an object of a class, as DAOS resolves it for this pool and container; 0 lets DAOS choose.
    pub fn generate_id(
        &self,
        class: u32,
        what: impl FnOnce() -> String,
    ) -> Result<ObjectId, DaosError> {
        let mut id = ObjectId::default();
        let (handle, at) = (self.handle, &raw mut id);
        let library = self.pool.library;
        // SAFETY: the library reads and writes the ID, and returns.
        let code = unsafe {
            (library.api.generate_id)(handle, at, TYPE_MULTI_UINT64, class, HINTS_DEFAULT, 0)
        };
        library.check(code, what)?;
        Ok(id)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let (handle, what) = (self.handle, || format!("close {}", self.address));
        let close = Close(handle, |library| library.api.container_close);
        let settings = clearing_up();
        let _ = self
            .pool
            .queues
            .with(&settings, |queue| queue.run_one(&settings, what, close));
    }
}

fn clearing_up() -> Settings {
    Settings {
        timeout: CLEARING_UP,
        ..Settings::default()
    }
}

/// Opens something to read and write, or to read only, if that is all that is allowed.
fn with_rights<T>(open: impl Fn(c_uint) -> Result<T, DaosError>) -> Result<T, DaosError> {
    match open(READ_WRITE) {
        Err(DaosError::Failed {
            code: code::NO_PERMISSION,
            ..
        }) => open(READ_ONLY),
        opened => opened,
    }
}

struct Connect {
    name: CString,
    flags: c_uint,
    handle: Handle,
    info: PoolInfo,
}

impl Call for Connect {
    unsafe fn start(&mut self, library: &DaosLibrary, event: *mut Event) -> c_int {
        let (name, at, info) = (self.name.as_ptr(), &raw mut self.handle, &raw mut self.info);
        // SAFETY: the pointers are of memory that this value owns; the name of the system may be missing.
        unsafe { (library.api.pool_connect)(name, ptr::null(), self.flags, at, info, event) }
    }
}

struct Open {
    pool: Handle,
    name: CString,
    flags: c_uint,
    handle: Handle,
    info: ContainerInfo,
}

impl Call for Open {
    unsafe fn start(&mut self, library: &DaosLibrary, event: *mut Event) -> c_int {
        let (name, at, info) = (self.name.as_ptr(), &raw mut self.handle, &raw mut self.info);
        // SAFETY: the pointers are of memory that this value owns.
        unsafe { (library.api.container_open)(self.pool, name, self.flags, at, info, event) }
    }
}

struct Close(
    Handle,
    fn(&DaosLibrary) -> unsafe extern "C" fn(Handle, *mut Event) -> c_int,
);

impl Call for Close {
    unsafe fn start(&mut self, library: &DaosLibrary, event: *mut Event) -> c_int {
        // SAFETY: nobody else has the handle.
        unsafe { self.1(library)(self.0, event) }
    }
}
