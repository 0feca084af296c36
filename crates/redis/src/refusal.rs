//! The meaning of server errors: which are temporary, and redirects.

use crate::Address;

/// Whether an error says that the server is out of memory. Before version 7, errors of scripts contain these words.
#[must_use]
pub fn is_out_of_memory(said: &str) -> bool {
    said.starts_with("OOM") || said.contains(": -OOM ")
}

/// Whether an error says that a value has more bytes than `proto-max-bulk-len`.
#[must_use]
pub fn is_too_large(said: &str) -> bool {
    said.starts_with("ERR Protocol error: invalid bulk length")
}

/// Whether an error is temporary, for example while a server loads its data, or a cluster repairs itself.
#[must_use]
pub fn is_temporary(said: &str) -> bool {
    let word = said.split(' ').next().unwrap_or_default();
    matches!(
        word,
        "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "BUSY" | "NOREPLICAS"
    )
}

/// Errors after which the command is sent again, perhaps to another server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    /// The slot has moved to another server.
    Moved(u16, Address),
    /// This key has moved to another server already; the slot is still migrating.
    Ask(Address),
    /// Wait and try again.
    Wait,
}

/// Classifies an error; none if it is permanent. An address without a host has the host of the server asked.
pub(crate) fn passing(error: &str, asked: &Address) -> Option<Passing> {
    let mut words = error.split(' ');
    let word = words.next()?;
    let place = |text: Option<&str>| {
        let text = text?;
        let local = |port: &str| {
            Some(Address {
                host: asked.host.clone(),
                port: port.parse().ok()?,
            })
        };
        match text.rsplit_once(':')? {
            ("" | "?", port) => local(port),
            // IPv6 addresses have no brackets
            (host, port) => Address::parse(&format!("[{host}]:{port}")),
        }
    };
    match word {
        "MOVED" => {
            let slot = words.next()?.parse().ok()?;
            Some(Passing::Moved(slot, place(words.next())?))
        }
        "ASK" => {
            words.next()?;
            Some(Passing::Ask(place(words.next())?))
        }
        _ => is_temporary(error).then_some(Passing::Wait),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirections_say_where() {
        let asked = Address::parse("here:1").unwrap();
        let at = |text: &str| Address::parse(text).unwrap();
        for (error, found) in [
            (
                "MOVED 3999 10.0.0.1:6381",
                Some(Passing::Moved(3999, at("10.0.0.1:6381"))),
            ),
            (
                "MOVED 3999 ::1:6381",
                Some(Passing::Moved(3999, at("[::1]:6381"))),
            ),
            ("MOVED 1 :6380", Some(Passing::Moved(1, at("here:6380")))),
            ("ASK 1 ?:6380", Some(Passing::Ask(at("here:6380")))),
            ("CLUSTERDOWN Hash slot not served", Some(Passing::Wait)),
            ("MOVED x y", None),
            ("MOVED", None),
            ("OOM command not allowed", None),
        ] {
            assert_eq!(passing(error, &asked), found, "{error}");
        }
    }

    #[test]
    fn a_server_without_memory_says_so_itself_or_by_a_script() {
        let script = "ERR Error running script: @user_script: 3: -OOM command not allowed";
        for said in [
            "OOM command not allowed when used memory > 'maxmemory'",
            script,
        ] {
            assert!(is_out_of_memory(said), "{said}");
        }
        assert!(!is_out_of_memory("ERR no OOM"));
        assert!(is_too_large("ERR Protocol error: invalid bulk length"));
    }
}
