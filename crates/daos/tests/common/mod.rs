//! The DAOS that tests use: a stand-in that is built here, or a real one, if `FEMTOBARN_TEST_DAOS=POOL` is set.
//! Tests of faults need the stand-in, and say so if they are skipped.

#![allow(
    dead_code,
    unsafe_code,
    reason = "each test uses a part; the stand-in is asked by its functions"
)]

use std::ffi::{CString, c_char, c_long};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use femtobarn_daos::{Address, Container, ObjectId, Settings, ValueKey};

/// Faults that a test can set, each 0 by default.
const FAULTS: [&str; 12] = [
    "quiet",
    "event_error",
    "event_error_skip",
    "event_error_count",
    "start_error",
    "delay_us",
    "hang",
    "pool_bytes",
    "gone",
    "lost_bytes",
    "no_queue",
    "list_keys",
];

/// Compiles C code into the folder of this build, if it is newer than what is there.
pub fn compiled(source: &str, output: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/standin");
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(output);
    let modified = |path: &Path| path.metadata().and_then(|meta| meta.modified()).ok();
    let sources = [folder.join(source), folder.join("daos_abi.h")];
    let newest = sources.iter().filter_map(|path| modified(path)).max();
    if modified(&output) < newest {
        let new = output.with_extension(format!("new-{}", std::process::id()));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let status = Command::new(compiler)
            .args(["-O2", "-Wall", "-Wextra", "-std=gnu11", "-o"])
            .arg(&new)
            .arg(&sources[0])
            .args(flags)
            .status();
        assert!(status.unwrap().success(), "the stand-in cannot be built");
        std::fs::rename(&new, &output).unwrap();
    }
    output
}

/// The stand-in.
pub fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        compiled(
            "standin.c",
            "libdaos-standin.so",
            &["-shared", "-fPIC", "-pthread"],
        )
    })
}

fn real() -> Option<String> {
    std::env::var("FEMTOBARN_TEST_DAOS")
        .ok()
        .filter(|pool| !pool.is_empty())
        .map(|pool| format!("daos://{pool}/femtobarn-tests"))
}

/// A DAOS that no other test of this process uses meanwhile.
pub struct Daos {
    _alone: MutexGuard<'static, ()>,
    controls: Option<Controls>,
    address: Address,
}

struct Controls {
    set: unsafe extern "C" fn(*const c_char, c_long),
    get: unsafe extern "C" fn(*const c_char) -> c_long,
}

impl Daos {
    /// The stand-in or the real one.
    pub fn any() -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let address = real().unwrap_or_else(|| "daos://pool/container".into());
        let new = Self {
            _alone: alone,
            controls: real().is_none().then(Controls::load),
            address: Address::parse(&address).unwrap(),
        };
        if new.controls.is_some() {
            FAULTS.iter().for_each(|fault| new.set(fault, 0));
            new.set("no_class", 0);
        }
        new
    }

    /// The stand-in; none, and a note, if tests use a real DAOS.
    pub fn with_faults() -> Option<Self> {
        let daos = Self::any();
        if daos.controls.is_none() {
            eprintln!("skipped: faults need the stand-in, without FEMTOBARN_TEST_DAOS");
        }
        daos.controls.is_some().then_some(daos)
    }

    pub fn settings(&self) -> Settings {
        Settings {
            library: self.controls.as_ref().map(|_| library().to_owned()),
            timeout: Duration::from_secs(30),
            ..Settings::default()
        }
    }

    pub fn address(&self) -> &Address {
        &self.address
    }

    pub fn container(&self) -> Container {
        self.container_with(self.settings())
    }

    pub fn container_with(&self, settings: Settings) -> Container {
        Container::create(&self.address, settings).unwrap()
    }

    pub fn shared(&self) -> Arc<Container> {
        Arc::new(self.container())
    }

    /// Sets a fault or a counter of the stand-in.
    pub fn set(&self, name: &str, value: i64) {
        let name = CString::new(name).unwrap();
        let controls = self.controls.as_ref().unwrap();
        // SAFETY: the string is read only.
        unsafe { (controls.set)(name.as_ptr(), value) }
    }

    /// A counter of the stand-in.
    pub fn get(&self, name: &str) -> i64 {
        let name = CString::new(name).unwrap();
        let controls = self.controls.as_ref().unwrap();
        // SAFETY: the string is read only.
        unsafe { (controls.get)(name.as_ptr()) }
    }
}

impl Drop for Daos {
    fn drop(&mut self) {
        if self.controls.is_some() {
            self.set("hang", 0);
        }
    }
}

impl Controls {
    fn load() -> Self {
        // SAFETY: the types are those of the source that was just compiled; the library stays loaded.
        unsafe {
            let library = Box::leak(Box::new(libloading::Library::new(library()).unwrap()));
            Self {
                set: *library.get("daos_standin_set").unwrap(),
                get: *library.get("daos_standin_get").unwrap(),
            }
        }
    }
}

/// A number that no other test has used, also in a container that stays.
pub fn unused() -> u32 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let time = std::time::SystemTime::UNIX_EPOCH
        .elapsed()
        .unwrap()
        .as_micros();
    femtobarn_daos::mapping::ntuple_index(&format!("{time} {number} {}", std::process::id()))
}

/// An object that no other test uses.
pub fn object(container: &Container) -> ObjectId {
    container.class("").unwrap().object(1, unused())
}

pub fn key(object: ObjectId, dkey: u64, akey: u64) -> ValueKey {
    ValueKey { object, dkey, akey }
}
