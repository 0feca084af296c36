//! What a server's refusals mean: which of them pass, and what the others are to people.

use super::emptied::EMPTIED;
use super::eviction::POLICY;
use super::settings::Address;
use crate::{EventsError, Refusal};

/// What the error of a server without memory begins with.
const NO_MEMORY: &str = "OOM";

/// Whether a server reports that it is out of memory; before version 7, the error of a script has these words in it.
pub fn is_without_memory(said: &str) -> bool {
    said.starts_with(NO_MEMORY) || said.contains(": -OOM ")
}

/// Temporary errors of a server, and redirects.
#[derive(Debug, PartialEq, Eq)]
pub enum Passing {
    /// The slot is another's from now on.
    Moved(u16, Address),
    /// This key is another's already, the slot not yet.
    Ask(Address),
    /// Wait and try again.
    Wait,
}

/// The temporary part of a refusal; none if it will be repeated. An address without a host is on that of the server
/// asked.
pub fn passing(error: &str, asked: &Address) -> Option<Passing> {
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
            // IPv6 comes without brackets.
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
        "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "BUSY" | "NOREPLICAS" => {
            Some(Passing::Wait)
        }
        _ => None,
    }
}

/// Whether it means that a value is larger than `proto-max-bulk-len`.
pub fn is_too_large(said: &str) -> bool {
    said.starts_with("ERR Protocol error: invalid bulk length")
}

/// The error of a refusal.
pub fn refused(url: &str, node: &Address, doing: &str, said: &str) -> EventsError {
    let word = match is_without_memory(said) {
        true => NO_MEMORY,
        false => said.split(' ').next().unwrap_or_default(),
    };
    let (refusal, advice) = match word {
        NO_MEMORY => (
            Refusal::Full,
            "reading and deleting still work: remove datasets (fb store rm), raise its memory limit (CONFIG SET \
             maxmemory), or add servers and move slots to them",
        ),
        "READONLY" => (
            Refusal::ReadOnly,
            "this is a replica: connect to its master, or to the cluster",
        ),
        _ if word.starts_with(POLICY) => (
            Refusal::Evicts,
            "its eviction policy deletes products when memory is full: set CONFIG SET maxmemory-policy noeviction, \
             also in its configuration file; or open the store with mode=r for reading",
        ),
        EMPTIED => (
            Refusal::Emptied,
            "this Redis was emptied, or restarted without its data, and data that this program has read are gone: \
             restore the data, or connect again to start with an empty store",
        ),
        "NOAUTH" => (
            Refusal::Denied,
            "give a password: redis://user:password@…, FEMTOBARN_STORE_PASSWORD, or password_file",
        ),
        "WRONGPASS" => (Refusal::Denied, "user or password is wrong"),
        // What servers before 6 say, and those without a password.
        "ERR" if said.contains("invalid password") || said.contains("without any password") => (
            Refusal::Denied,
            "the password is wrong, or the server has none",
        ),
        "NOPERM" => (
            Refusal::Denied,
            "the ACL does not allow this for this user: for rules for writers and readers see \
             docs/guides/event-store-admin.md; readers open the store with mode=r",
        ),
        "DENIED" => (
            Refusal::Denied,
            "protected mode: the server accepts only local clients until it has a password",
        ),
        "WRONGTYPE" => (
            Refusal::WrongType,
            "another program uses this key: use another prefix, or delete the key",
        ),
        "MISCONF" => (
            Refusal::ReadOnly,
            "the server cannot save to its disk, and rejects writes until it can",
        ),
        "ERR" if is_too_large(said) => (
            Refusal::TooLarge,
            "the value is too large for the server: raise proto-max-bulk-len, or store large products as objects \
             (objects=…)",
        ),
        "ERR" if said.contains("max number of clients") => {
            (Refusal::Full, "raise maxclients, or use fewer processes")
        }
        _ => (Refusal::Other, "see the server's log"),
    };
    EventsError::Refused {
        url: url.into(),
        node: node.to_string(),
        doing: doing.into(),
        said: said.into(),
        advice,
        refusal,
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
}
