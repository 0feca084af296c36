//! Translates errors of the client to errors of the store, with advice.

use femtobarn_redis::{Address, RedisError, is_out_of_memory, is_too_large};

use super::emptied::EMPTIED;
use super::eviction::POLICY;
use crate::{EventsError, Refusal};

/// The prefix of a server's error when it is out of memory.
const NO_MEMORY: &str = "OOM";

impl From<RedisError> for EventsError {
    fn from(error: RedisError) -> Self {
        match error {
            RedisError::Unreachable { url, doing, said } => Self::Unreachable { url, doing, said },
            RedisError::Refused {
                url,
                node,
                doing,
                said,
            } => refused(&url, &node, &doing, &said),
            error @ RedisError::Tls { .. } => Self::Usage {
                what: error.to_string(),
            },
        }
    }
}

/// The error for a refused command.
pub fn refused(url: &str, node: &Address, doing: &str, said: &str) -> EventsError {
    let word = match is_out_of_memory(said) {
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
        // Errors of servers before version 6, and of servers without a password.
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
    fn errors_of_the_client_have_kinds_and_say_what_to_do() {
        let url = || "redis://a/".to_owned();
        let refused = |said: &str| RedisError::Refused {
            url: url(),
            node: Address::parse("a").unwrap(),
            doing: "write".into(),
            said: said.into(),
        };
        let files = RedisError::Tls {
            url: url(),
            why: "x has no certificates".into(),
        };
        let unreachable = RedisError::Unreachable {
            url: url(),
            doing: "write".into(),
            said: "a:6379: it does not answer".into(),
        };
        for (error, kind, words) in [
            (
                files,
                "usage",
                "redis://a/: cannot load the TLS files: x has no certificates",
            ),
            (
                unreachable,
                "store-unreachable",
                "redis://a/: cannot write: no server answered: a:6379: it does not answer",
            ),
            (
                refused("NOAUTH Authentication required."),
                "store-denied",
                "redis://a/: cannot write: a:6379 answered \"NOAUTH Authentication required.\": give a password",
            ),
            (
                refused("ERR Error running script: -OOM command: -OOM not allowed"),
                "store-full",
                "fb store rm",
            ),
            (
                refused("OOM not allowed (5M used, maxmemory is 4M)"),
                "store-full",
                "CONFIG SET maxmemory",
            ),
            (refused("READONLY no"), "read-only", "connect to its master"),
            (refused("NOPERM no"), "store-denied", "mode=r"),
            (refused("WRONGTYPE no"), "key-damaged", "another prefix"),
            (
                refused("ERR Protocol error: invalid bulk length"),
                "product-too-large",
                "proto-max-bulk-len",
            ),
            (
                refused("maxmemory_policy:allkeys-lru"),
                "store-evicts",
                "noeviction",
            ),
            (
                refused("EMPTIED {store}h"),
                "store-emptied",
                "start with an empty store",
            ),
            (
                refused("ERR max number of clients reached"),
                "store-full",
                "maxclients",
            ),
            (refused("ERR whatever"), "store-engine", "the server's log"),
        ] {
            let error = EventsError::from(error);
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}
