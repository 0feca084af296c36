//! Finding and starting the C library.

#![expect(
    unsafe_code,
    reason = "a library is loaded, and its functions are called"
)]

use std::error::Error as _;
use std::ffi::{CStr, CString, OsString, c_int};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use femtobarn_fork::{PerProcess, lock};

use crate::abi::{Api, CLASS_NAME};
use crate::{DaosError, NAMES, VARIABLE};

/// A loaded library, usable in this process. It stays loaded until the process ends.
#[derive(Debug)]
pub(crate) struct DaosLibrary {
    pub api: Api,
    path: PathBuf,
    /// Whether it was started in this process or in one that this was forked from.
    was_started: AtomicBool,
    is_started: PerProcess<()>,
}

/// The loaded libraries: one, unless tests load several. The process is not forked while one is being loaded, as the
/// loader of the system could then load nothing in the child.
static LOADED: Mutex<Vec<&'static DaosLibrary>> = Mutex::new(Vec::new());

/// Loads and starts the library, unless that was done; returns the name that it was found by.
///
/// # Errors
/// If it is missing, too old, or cannot be started.
pub fn load() -> Result<PathBuf, DaosError> {
    Ok(DaosLibrary::get(None)?.path.clone())
}

impl DaosLibrary {
    /// The library of this name, or by default that of the environment or the system, ready to be used.
    pub fn get(name: Option<&Path>) -> Result<&'static Self, DaosError> {
        let names: Vec<PathBuf> = match (name, std::env::var_os(VARIABLE)) {
            (Some(name), _) => vec![name.into()],
            (None, Some(name)) if !name.is_empty() => vec![name.into()],
            (None, _) => NAMES.iter().map(PathBuf::from).collect(),
        };
        let found = Self::loaded(&names)?;
        found.start()?;
        Ok(found)
    }

    fn loaded(names: &[PathBuf]) -> Result<&'static Self, DaosError> {
        let mut loaded = lock(&LOADED);
        if let Some(known) = loaded.iter().find(|known| names.contains(&known.path)) {
            return Ok(known);
        }
        let mut why = Vec::new();
        for name in names {
            // SAFETY: the user names the library, or the system has it under the name that DAOS reserves; its
            // initialisers are run as if the program were linked with it.
            match unsafe { libloading::Library::new(OsString::from(name)) } {
                Ok(library) => {
                    let wrong = |function: &str| DaosError::WrongLibrary {
                        path: name.display().to_string(),
                        function: function.to_owned(),
                    };
                    let library = Box::leak(Box::new(library));
                    let new: &'static Self = Box::leak(Box::new(Self {
                        api: Api::of(library).map_err(wrong)?,
                        path: name.clone(),
                        was_started: AtomicBool::new(false),
                        is_started: PerProcess::new(),
                    }));
                    loaded.push(new);
                    return Ok(new);
                }
                Err(error) => {
                    // the error itself names neither the file nor the reason
                    let cause = error
                        .source()
                        .map_or_else(|| error.to_string(), ToString::to_string);
                    why.push(match cause.contains(&*name.to_string_lossy()) {
                        true => cause,
                        false => format!("{}: {cause}", name.display()),
                    });
                }
            }
        }
        Err(DaosError::NoLibrary {
            why: why.join("; "),
        })
    }

    /// Starts the library in this process, once. After a fork it is started anew: connections of the parent, and the threads
    /// that serve them, do not exist here. It is never stopped, as DAOS cannot be started again reliably.
    fn start(&'static self) -> Result<(), DaosError> {
        self.is_started.get(|| {
            let what = "start DAOS";
            let code = if self.was_started.load(Ordering::Acquire) {
                let Some(reinit) = self.api.reinit else {
                    return Err(DaosError::Failed {
                        what: what.into(),
                        code: crate::error::code::INVALID,
                        name: "this version cannot be used in a forked process; start processes by spawn".into(),
                    });
                };
                // SAFETY: the library was started in a process that this was forked from.
                unsafe { reinit() }
            } else {
                // SAFETY: it may be called at any time.
                unsafe { (self.api.init)() }
            };
            self.check(code, || what.into())?;
            self.was_started.store(true, Ordering::Release);
            Ok(())
        })
    }

    /// The error of a code, if it is one.
    pub fn check(&self, code: c_int, what: impl FnOnce() -> String) -> Result<(), DaosError> {
        match code {
            0.. => Ok(()),
            _ => Err(self.error(code, what())),
        }
    }

    /// The error of a code.
    pub fn error(&self, code: c_int, what: String) -> DaosError {
        // SAFETY: the library returns a constant string for every number.
        let name = unsafe { (self.api.error_name)(code) };
        let name = match name.is_null() {
            true => "unknown error".into(),
            // SAFETY: as above.
            false => unsafe { CStr::from_ptr(name) }
                .to_string_lossy()
                .into_owned(),
        };
        DaosError::Failed { what, code, name }
    }

    /// The number of an object class; `None` if it does not exist.
    pub fn class_id(&self, name: &str) -> Option<u32> {
        let name = CString::new(name).ok()?;
        // SAFETY: the string ends with 0, and is only read.
        let found = unsafe { (self.api.class_id)(name.as_ptr()) };
        u32::try_from(found).ok().filter(|&found| found != 0)
    }

    /// The name of an object class.
    pub fn class_name(&self, id: u32) -> Option<String> {
        let mut name = [0u8; CLASS_NAME];
        // SAFETY: the memory is larger than the longest name.
        let code = unsafe { (self.api.class_name)(id, name.as_mut_ptr().cast()) };
        let found = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
        (code == 0).then(|| found.to_owned())
    }
}
