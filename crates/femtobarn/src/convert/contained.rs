//! Third-party parsers on untrusted input. A panic in them becomes an error of the file, and prints nothing.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

use femtobarn_io::public;
use femtobarn_rntuple::RNTupleError;

thread_local! {
    /// Whether this thread runs a parser whose panics are caught.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs a parser of a table. Errors name the table; after a panic, the parser must not be used again.
pub(super) fn contained<T, E: std::fmt::Display>(
    url: &str,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, RNTupleError> {
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let others = take_hook();
        set_hook(Box::new(move |info| {
            if !INSIDE.get() {
                others(info);
            }
        }));
    });
    let was_inside = INSIDE.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    INSIDE.set(was_inside);
    let reason = match done {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => error.to_string(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!(
                "it is damaged ({})",
                text.unwrap_or("its parser gives no reason")
            )
        }
    };
    Err(RNTupleError::Table {
        url: public(url),
        reason,
    })
}

/// The items of a parser's iterator. It ends with its first error.
pub(super) struct Contained<I> {
    url: String,
    inner: Option<I>,
}

impl<I> Contained<I> {
    pub fn new(url: &str, inner: I) -> Self {
        Self {
            url: url.to_owned(),
            inner: Some(inner),
        }
    }
}

impl<T, E: std::fmt::Display, I: Iterator<Item = Result<T, E>>> Iterator for Contained<I> {
    type Item = Result<T, RNTupleError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut inner = self.inner.take()?;
        let next = contained(&self.url, || inner.next().transpose());
        if let Ok(Some(_)) = next {
            self.inner = Some(inner);
        }
        next.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_the_file() {
        let panics = (0..3).map(|n| {
            assert!(n < 1, "number {n}");
            Ok::<_, String>(n)
        });
        let mut found = Contained::new("table.arrow", panics);
        assert_eq!(found.next().unwrap().unwrap(), 0);
        let error = found.next().unwrap().unwrap_err().to_string();
        assert!(
            error.contains("table.arrow") && error.contains("number 1"),
            "{error}"
        );
        assert!(found.next().is_none());
    }
}
