//! Notices: what users should know although nothing failed, for example that a server makes them wait.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use femtobarn_fork::lock;

/// After a notice about a subject, further ones are dropped for this time: many requests may wait for the same server.
const QUIET: Duration = Duration::from_mins(1);

static TELL: RwLock<Option<fn(&str)>> = RwLock::new(None);

/// Sets the function that receives notices, and returns the one set before. It may be called on any thread, and must
/// return quickly.
pub fn tell_notices_by(tell: fn(&str)) -> Option<fn(&str)> {
    let mut told_by = TELL.write().unwrap_or_else(PoisonError::into_inner);
    told_by.replace(tell)
}

/// Sends a notice about a server or another subject, unless one was sent recently.
pub fn notice(about: &str, text: &str) {
    static TOLD: Mutex<Option<HashMap<String, Instant>>> = Mutex::new(None);
    let Some(tell) = *TELL.read().unwrap_or_else(PoisonError::into_inner) else {
        return;
    };
    let is_news = {
        let mut told = lock(&TOLD);
        let told = told.get_or_insert_default();
        told.retain(|_, when| when.elapsed() < QUIET);
        told.insert(about.to_owned(), Instant::now()).is_none()
    };
    if is_news {
        tell(text);
    }
}
