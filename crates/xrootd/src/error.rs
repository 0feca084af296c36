//! The error of this crate.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::protocol::Malformed;

/// Replaces control characters and line breaks. Names in files and messages of servers are not trusted, and must not
/// control a terminal.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    let steers = |c: char| {
        c.is_control()
            || matches!(c, '\u{200e}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(steers) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if steers(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out.into()
}

/// An error with its causes, in one line.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    printable(&text).into_owned()
}

/// An error of a server or of the connection to it. Every variant names the server and the operation.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XrootdError {
    /// A URL without a server or a path.
    #[error("invalid XRootD URL {url}: {what} (expected root://host[:port]//path)")]
    Url {
        /// The URL.
        url: String,
        /// What is wrong with it.
        what: String,
    },
    /// The name of the server has no address, or no address accepts connections.
    #[error("cannot connect to {server}")]
    Connect {
        /// The server.
        server: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Nothing was received within the timeout.
    #[error("{server} did not answer {doing} within {} s ({setting})", seconds(*.waited))]
    Timeout {
        /// The server.
        server: String,
        /// The operation.
        doing: String,
        /// How long nothing was received.
        waited: Duration,
        /// The setting that says so.
        setting: &'static str,
    },
    /// The server asks to wait for longer than allowed.
    #[error("{server} asks to wait {} s for {doing}{}: after {} s of waiting, this exceeds longest_wait ({} s)", seconds(*.asked), said(.message), seconds(*.waited), seconds(*.longest))]
    Wait {
        /// The server.
        server: String,
        /// The operation.
        doing: String,
        /// The wait that the server asks for.
        asked: Duration,
        /// The reason that the server gives.
        message: String,
        /// How long was waited before.
        waited: Duration,
        /// The most time that may be waited.
        longest: Duration,
    },
    /// The connection ended.
    #[error("the connection to {server} was lost during {doing}: {why}")]
    Lost {
        /// The server.
        server: String,
        /// The operation.
        doing: String,
        /// Why it ended.
        why: String,
    },
    /// TLS could not be set up.
    #[error("TLS with {server} failed: {why}")]
    Tls {
        /// The server.
        server: String,
        /// What is wrong.
        why: String,
    },
    /// The server requires authentication, and no attempt succeeded.
    #[error("authentication with {server} failed: {why}")]
    Authentication {
        /// The server.
        server: String,
        /// The protocols that the server offers, what failed with each, and what to do.
        why: String,
    },
    /// An answer violates the protocol.
    #[error("{server} sent an invalid answer to {doing}")]
    Malformed {
        /// The server.
        server: String,
        /// The operation.
        doing: String,
        /// How it violates the protocol.
        source: Malformed,
    },
    /// The server answered with an error.
    #[error("{server}: {doing}: {message} ({code})")]
    Server {
        /// The server.
        server: String,
        /// The operation.
        doing: String,
        /// The error code.
        code: Code,
        /// The server's message.
        message: String,
    },
    /// The servers redirect too often.
    #[error("{doing}: more than {most} redirects: {servers}")]
    Redirects {
        /// The operation.
        doing: String,
        /// How many redirects are followed.
        most: usize,
        /// The servers, in their order.
        servers: String,
    },
    /// Several servers were tried, and all failed.
    #[error("{doing}: all servers failed: {history}")]
    Exhausted {
        /// The operation.
        doing: String,
        /// The servers in the order of the attempts, with their errors.
        history: String,
        /// The last error, which is also the last of `history`.
        last: Box<XrootdError>,
    },
    /// A server of a redirector could not list a directory.
    #[error(
        "the listing of {folder} on {redirector} is incomplete: {server} failed (set partial_lists to accept incomplete listings)"
    )]
    Incomplete {
        /// The directory.
        folder: String,
        /// The redirector.
        redirector: String,
        /// The server.
        server: String,
        /// Why it could not.
        source: Box<XrootdError>,
    },
    /// Checksums show that bytes were damaged in transfer.
    #[error("{server}: {doing}: checksum mismatch at {offset}, also after a retry")]
    Checksum {
        /// The server.
        server: String,
        /// The operation.
        doing: String,
        /// The offset in the file.
        offset: u64,
    },
    /// The server returned fewer bytes than the file has.
    #[error(
        "{server} answered {doing} with {found} of {expected} bytes, although the file is long enough"
    )]
    Short {
        /// The server.
        server: String,
        /// The operation.
        doing: String,
        /// How many bytes were requested.
        expected: u64,
        /// How many were returned.
        found: u64,
    },
    /// The file has changed since it was opened.
    #[error("{url} changed while it was read: expected {expected}, found {found}: open it again")]
    Changed {
        /// The file.
        url: String,
        /// Size and time when it was opened.
        expected: String,
        /// Size and time now.
        found: String,
    },
    /// A file that is being written has disappeared from its server, or lost data that the server had accepted.
    #[error(
        "{url}: {server} has lost data that were written: expected {expected}, found {found}: write the file again"
    )]
    Gone {
        /// The file.
        url: String,
        /// The server.
        server: String,
        /// What should be there.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The request is not possible.
    #[error("{what}")]
    Usage {
        /// Why, and what to do.
        what: String,
    },
}

fn seconds(duration: Duration) -> u64 {
    duration.as_secs()
}

/// The server's message, if there is one, in parentheses after a space.
pub(crate) fn said(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(" ({message})"),
    }
}

impl XrootdError {
    /// The server's error code, if the final error is one of a server.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Server { code, .. } => Some(*code),
            Self::Exhausted { last, .. } => last.code(),
            _ => None,
        }
    }

    /// Whether another server, or the same server later, may succeed.
    pub(crate) fn is_of_the_server(&self) -> bool {
        match self {
            Self::Connect { .. }
            | Self::Timeout { .. }
            | Self::Wait { .. }
            | Self::Lost { .. }
            | Self::Malformed { .. }
            | Self::Short { .. }
            | Self::Checksum { .. } => true,
            Self::Server { code, .. } => code.is_of_the_server(),
            _ => false,
        }
    }

    /// Whether the connection failed, and not the server.
    pub(crate) fn is_of_the_way(&self) -> bool {
        matches!(
            self,
            Self::Connect { .. } | Self::Timeout { .. } | Self::Lost { .. }
        )
    }

    /// The reason of the failure in the form that redirectors expect (`triedrc`).
    pub(crate) fn tried_reason(&self) -> &'static str {
        match self {
            Self::Server { code, .. } => match code.0 {
                3011 => "enoent",
                3007 | 3019 => "ioerr",
                3005 => "fserr",
                _ => "srverr",
            },
            _ => "srverr",
        }
    }
}

/// An error code of a server (`XErrorCode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub i32);

impl Code {
    /// The file is in use by others.
    pub const FILE_LOCKED: Self = Self(3003);
    /// The server does not have the file open for this client.
    pub const FILE_NOT_OPEN: Self = Self(3004);
    /// The file does not exist.
    pub const NOT_FOUND: Self = Self(3011);
    /// Permission denied.
    pub const NOT_AUTHORIZED: Self = Self(3010);
    /// The file exists.
    pub const EXISTS: Self = Self(3018);
    /// The path is a directory.
    pub const IS_FOLDER: Self = Self(3016);

    /// Whether another server may succeed.
    fn is_of_the_server(self) -> bool {
        // FSError, IOError, NoMemory, NotFound, ServerError, noserver, ChkSumErr, Overloaded, ReqTimedOut, TimerExpired
        matches!(
            self.0,
            3005 | 3007 | 3008 | 3011 | 3012 | 3014 | 3019 | 3024 | 3034 | 3035
        )
    }

    fn name(self) -> &'static str {
        match self.0 {
            3000 => "ArgInvalid",
            3001 => "ArgMissing",
            3002 => "ArgTooLong",
            3003 => "FileLocked",
            3004 => "FileNotOpen",
            3005 => "FSError",
            3006 => "InvalidRequest",
            3007 => "IOError",
            3008 => "NoMemory",
            3009 => "NoSpace",
            3010 => "NotAuthorized",
            3011 => "NotFound",
            3012 => "ServerError",
            3013 => "Unsupported",
            3014 => "noserver",
            3015 => "NotFile",
            3016 => "isDirectory",
            3017 => "Cancelled",
            3018 => "ItExists",
            3019 => "ChkSumErr",
            3020 => "inProgress",
            3021 => "overQuota",
            3022 => "SigVerErr",
            3023 => "DecryptErr",
            3024 => "Overloaded",
            3025 => "fsReadOnly",
            3026 => "BadPayload",
            3027 => "AttrNotFound",
            3028 => "TLSRequired",
            3029 => "noReplicas",
            3030 => "AuthFailed",
            3031 => "Impossible",
            3032 => "Conflict",
            3033 => "TooManyErrs",
            3034 => "ReqTimedOut",
            3035 => "TimerExpired",
            _ => "unknown error",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name(), self.0)
    }
}
