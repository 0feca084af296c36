//! Errors of DAOS.

use std::ffi::c_int;
use std::time::Duration;

use crate::ValueKey;

/// Codes of DAOS that this crate distinguishes.
pub(crate) mod code {
    use std::ffi::c_int;

    pub const NO_PERMISSION: c_int = -1001;
    pub const NO_HANDLE: c_int = -1002;
    pub const INVALID: c_int = -1003;
    pub const EXISTS: c_int = -1004;
    pub const NOT_FOUND: c_int = -1005;
    pub const UNREACHABLE: c_int = -1006;
    pub const NO_SPACE: c_int = -1007;
    pub const TIMED_OUT: c_int = -1011;
    pub const TOO_LARGE: c_int = -2013;
    pub const DAMAGED: c_int = -2021;
    pub const AGENT: c_int = -2034;
}

/// An error of the library, of a server, or of what is stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DaosError {
    /// The library is not installed.
    #[error(
        "cannot load the DAOS client library: {why}: install it (package daos-client), or set FEMTOBARN_LIBDAOS to the \
         path of libdaos.so.2"
    )]
    NoLibrary {
        /// The names that were tried, with the reasons.
        why: String,
    },
    /// The library has other functions.
    #[error(
        "{path} is not a usable DAOS client library: it has no function {function}: install DAOS 2.0 or newer"
    )]
    WrongLibrary {
        /// The library.
        path: String,
        /// The missing function.
        function: String,
    },
    /// The address of a container is wrong.
    #[error("invalid DAOS address {address:?}: {why}: write daos://POOL/CONTAINER")]
    Address {
        /// The address.
        address: String,
        /// What is wrong.
        why: &'static str,
    },
    /// The object class does not exist.
    #[error(
        "DAOS has no object class {name:?}: use a name such as SX, S1 or RP_2G1, or none to let DAOS choose"
    )]
    NoClass {
        /// The name.
        name: String,
    },
    /// An operation failed.
    #[error("{what}: {name} ({code}){}", advice(*.code))]
    Failed {
        /// The operation, and what it was for.
        what: String,
        /// The code of DAOS.
        code: i32,
        /// The name of the code.
        name: String,
    },
    /// A server does not answer.
    #[error("{what}: no answer within {} seconds", .after.as_secs_f64())]
    TimedOut {
        /// The operation.
        what: String,
        /// The time.
        after: Duration,
    },
    /// The caller interrupted the waiting.
    #[error("{what}: interrupted")]
    Interrupted {
        /// The operation.
        what: String,
    },
    /// A key has no value.
    #[error("{container} has no value for {key}")]
    Missing {
        /// The container.
        container: String,
        /// The key.
        key: ValueKey,
    },
    /// A value exists that must not be replaced.
    #[error("{container} has a value for {key} already, and it is not replaced")]
    Exists {
        /// The container.
        container: String,
        /// The key; one of those that were written together.
        key: ValueKey,
    },
    /// A value is replaced again and again.
    #[error("{container}: the value for {key} is replaced too often to be read")]
    Replaced {
        /// The container.
        container: String,
        /// The key.
        key: ValueKey,
    },
    /// A value has another size.
    #[error("{container}: the value for {key} has {found} bytes, and {expected} are needed")]
    Size {
        /// The container.
        container: String,
        /// The key.
        key: ValueKey,
        /// The needed size.
        expected: u64,
        /// The size of the value.
        found: u64,
    },
    /// A number is not one of an ntuple's values.
    #[error("{container}: no value of an ntuple can have the number {number}")]
    NoNumber {
        /// The container.
        container: String,
        /// The number.
        number: u64,
    },
    /// What was asked for cannot be stored.
    #[error("cannot write {key}: {why}")]
    Unwritable {
        /// The key.
        key: ValueKey,
        /// The reason.
        why: &'static str,
    },
    /// An anchor is damaged or of another version.
    #[error("anchor of an ntuple in DAOS: {what}: expected {expected}, found {found}")]
    Anchor {
        /// The field.
        what: &'static str,
        /// What was expected.
        expected: String,
        /// What was found.
        found: String,
    },
}

impl DaosError {
    /// A stable name of the kind of error.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::NoLibrary { .. } | Self::WrongLibrary { .. } => "daos-library",
            Self::Address { .. } => "daos-address",
            Self::NoClass { .. } => "daos-class",
            Self::Failed { .. } => "daos-failed",
            Self::TimedOut { .. } => "daos-timeout",
            Self::Interrupted { .. } => "interrupted",
            Self::Missing { .. } => "daos-missing",
            Self::Exists { .. } => "daos-exists",
            Self::Replaced { .. } => "daos-replaced",
            Self::Size { .. } => "daos-size",
            Self::NoNumber { .. } => "daos-number",
            Self::Unwritable { .. } => "daos-unwritable",
            Self::Anchor { .. } => "daos-anchor",
        }
    }

    /// Whether access rights are missing.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Failed { code, .. } if *code == code::NO_PERMISSION)
    }

    /// Whether what is stored is wrong, and not the way to it.
    pub fn is_damage(&self) -> bool {
        let is_damaged = |code: &i32| *code == code::DAMAGED;
        matches!(self, Self::Failed { code, .. } if is_damaged(code))
            || matches!(
                self,
                Self::Missing { .. } | Self::Size { .. } | Self::Anchor { .. }
            )
    }

    /// Whether a value, a container or a pool does not exist.
    pub fn is_missing(&self) -> bool {
        match self {
            Self::Missing { .. } => true,
            Self::Failed { code, .. } => *code == code::NOT_FOUND,
            _ => false,
        }
    }
}

/// What to do about a code.
fn advice(found: c_int) -> &'static str {
    match found {
        code::NO_PERMISSION => {
            ": check the access rights with `daos pool get-acl` and `daos cont get-acl`"
        }
        code::NO_HANDLE => ": the connection was closed or evicted; open the container again",
        code::INVALID => ": check the object class, which the pool or the container may not allow",
        code::NOT_FOUND => ": check the labels with `dmg pool list` and `daos cont list POOL`",
        code::DAMAGED => ": the value is damaged on its server",
        code::UNREACHABLE | code::TIMED_OUT | code::AGENT => {
            ": check that the servers run, and the agent of this machine (daos_agent)"
        }
        code::NO_SPACE => ": the pool is full; remove data, or extend the pool",
        _ => "",
    }
}
