//! Work at the end of the process, whatever language its program is written in.

#![expect(
    unsafe_code,
    reason = "only the C library calls functions at the end of a process"
)]

use std::sync::{Mutex, OnceLock};

use femtobarn_fork::lock;

static WORK: Mutex<Vec<fn()>> = Mutex::new(Vec::new());

/// Calls a function at the end of this process and of those forked from it, once.
pub(crate) fn at_exit(work: fn()) {
    static IS_TOLD: OnceLock<bool> = OnceLock::new();
    let mut all = lock(&WORK);
    if !all.iter().any(|known| std::ptr::fn_addr_eq(*known, work)) {
        all.push(work);
    }
    drop(all);
    // SAFETY: it may be called at any time; the function unwinds for no input, and uses only what lives for ever.
    IS_TOLD.get_or_init(|| unsafe { libc::atexit(run) } == 0);
}

extern "C" fn run() {
    let all = std::mem::take(&mut *lock(&WORK));
    all.iter().for_each(|work| work());
}
