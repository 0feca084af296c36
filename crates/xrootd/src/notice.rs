//! What people should know although nothing has failed: that a server makes them wait, or that some servers say nothing.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How long nothing more is told of a server: many requests may wait for it at once.
const QUIET: Duration = Duration::from_mins(1);

static TELL: RwLock<Option<fn(&str)>> = RwLock::new(None);

/// From now on, such is told by this, in place of what was given before, which comes back. It is called on any thread, and
/// returns soon.
pub fn tell_notices_by(tell: fn(&str)) -> Option<fn(&str)> {
    let mut told_by = TELL.write().unwrap_or_else(PoisonError::into_inner);
    told_by.replace(tell)
}

/// Tells something of a server, or of something else, if nothing was told of it of late.
pub fn notice(about: &str, text: &str) {
    static TOLD: Mutex<Option<HashMap<String, Instant>>> = Mutex::new(None);
    let Some(tell) = *TELL.read().unwrap_or_else(PoisonError::into_inner) else {
        return;
    };
    let is_news = {
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        let told = told.get_or_insert_default();
        told.retain(|_, when| when.elapsed() < QUIET);
        told.insert(about.to_owned(), Instant::now()).is_none()
    };
    if is_news {
        tell(text);
    }
}
