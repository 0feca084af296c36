//! What the errors of the client mean to people, and what to do.

use femtobarn_redis::{Address, RedisError, is_out_of_memory, is_too_large};

use super::emptied::EMPTIED;
use super::eviction::POLICY;
use crate::{EventsError, Refusal};

/// What the error of a server without memory begins with.
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

/// The error of a refusal.
pub fn refused(url: &str, node: &Address, doing: &str, said: &str) -> EventsError {
    let word = match is_out_of_memory(said) {
        true => NO_MEMORY,
        false => said.split(' ').next().unwrap_or_default(),
    };
    let (refusal, advice) = match word {
        NO_MEMORY => (
            Refusal::Full,
            "it can still be read and emptied: remove datasets (fb store rm), give it more memory (CONFIG SET maxmemory), or \
             add servers and move slots to them",
        ),
        "READONLY" => (
            Refusal::ReadOnly,
            "this is a replica: connect to its master, or to the cluster",
        ),
        _ if word.starts_with(POLICY) => (
            Refusal::Evicts,
            "when its memory is full, it deletes products: CONFIG SET maxmemory-policy noeviction, and the same in its \
             configuration; a store that is opened with mode=r is not written",
        ),
        EMPTIED => (
            Refusal::Emptied,
            "this Redis was emptied, or restarted without its data, and what this program has seen there is gone: bring the \
             data back, or connect to it again to begin anew",
        ),
        "NOAUTH" => (
            Refusal::Denied,
            "give a password: redis://user:password@…, FEMTOBARN_STORE_PASSWORD, or password_file",
        ),
        "WRONGPASS" => (Refusal::Denied, "user or password is wrong"),
        // What servers before 6 say, and those without a password.
        "ERR" if said.contains("invalid password") || said.contains("without any password") => (
            Refusal::Denied,
            "the password is wrong, or there is none to give",
        ),
        "NOPERM" => (
            Refusal::Denied,
            "the ACL does not allow this user to do that: the lines for users who write and for users who read are in \
             docs/guides/event-store-admin.md; who only reads opens the store with mode=r",
        ),
        "DENIED" => (
            Refusal::Denied,
            "protected mode: the server takes only clients of its own machine until it has a password",
        ),
        "WRONGTYPE" => (
            Refusal::WrongType,
            "somebody else has a key there that is ours: use another prefix, or remove that key",
        ),
        "MISCONF" => (
            Refusal::ReadOnly,
            "the server cannot save to its disk, and takes no writes until it can",
        ),
        "ERR" if is_too_large(said) => (
            Refusal::TooLarge,
            "a value is larger than it takes: raise proto-max-bulk-len, or let large products lie beside the store \
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
                "redis://a/: no TLS without its files: x has no certificates",
            ),
            (
                unreachable,
                "store-unreachable",
                "redis://a/: cannot write: no server did it: a:6379: it does not answer",
            ),
            (
                refused("NOAUTH Authentication required."),
                "store-denied",
                "redis://a/: cannot write: a:6379 says \"NOAUTH Authentication required.\": give a password",
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
            (refused("EMPTIED {store}h"), "store-emptied", "begin anew"),
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
