//! What can go wrong.

use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::protocol::Malformed;

/// The text without what would steer a terminal or begin a line: names in files, and what servers say, are anybody's.
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

/// An error with its causes, on one line.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    printable(&text).into_owned()
}

/// An error of a server or of the way to it. Every variant names the server, and what was being done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum XrootdError {
    /// A URL that names no server or no file.
    #[error("{url} is no URL of XRootD: {what} (as root://host[:port]//path)")]
    Url {
        /// It.
        url: String,
        /// What is wrong with it.
        what: String,
    },
    /// The server's name has no address, or none of them answers.
    #[error("cannot connect to {server}")]
    Connect {
        /// The server.
        server: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// Nothing came for too long.
    #[error("{server} gave no answer to {doing} for {} s (request_timeout)", seconds(*.waited))]
    Timeout {
        /// The server.
        server: String,
        /// What was being done.
        doing: String,
        /// How long nothing came.
        waited: Duration,
    },
    /// The server makes us wait for longer than it may.
    #[error("{server} asks to wait {} s for {doing}{}: with the {} s that it was waited for, that is more than longest_wait allows ({} s)", seconds(*.asked), said(.message), seconds(*.waited), seconds(*.longest))]
    Wait {
        /// The server.
        server: String,
        /// What was being done.
        doing: String,
        /// What it asks for.
        asked: Duration,
        /// What it says of that.
        message: String,
        /// How long was waited until now.
        waited: Duration,
        /// How long may be waited.
        longest: Duration,
    },
    /// The connection ended.
    #[error("the connection to {server} was lost during {doing}: {why}")]
    Lost {
        /// The server.
        server: String,
        /// What was being done.
        doing: String,
        /// What ended it.
        why: String,
    },
    /// TLS could not be set up.
    #[error("no TLS with {server}: {why}")]
    Tls {
        /// The server.
        server: String,
        /// What is wrong.
        why: String,
    },
    /// The server wants to know who asks, and none of what there is convinced it.
    #[error("{server} does not let us in: {why}")]
    Authentication {
        /// The server.
        server: String,
        /// What it takes, what was tried, and what to do.
        why: String,
    },
    /// What the server sent is not what the protocol says.
    #[error("{server} sent nonsense during {doing}")]
    Malformed {
        /// The server.
        server: String,
        /// What was being done.
        doing: String,
        /// What is wrong with it.
        source: Malformed,
    },
    /// The server says that it cannot or will not.
    #[error("{server}: {doing}: {message} ({code})")]
    Server {
        /// The server.
        server: String,
        /// What was being done.
        doing: String,
        /// The number of the error.
        code: Code,
        /// What the server says.
        message: String,
    },
    /// Servers send us from one to another.
    #[error("{doing}: more than {most} redirects: {servers}")]
    Redirects {
        /// What was being done.
        doing: String,
        /// How many are followed.
        most: usize,
        /// The servers, in their order.
        servers: String,
    },
    /// Several servers were asked, and none did it.
    #[error("{doing}: no server did it: {history}")]
    Exhausted {
        /// What was being done.
        doing: String,
        /// Who was asked, in which order, and what each said.
        history: String,
        /// The last error, which is also the last that `history` says.
        last: Box<XrootdError>,
    },
    /// A redirector has a server that cannot be asked what is in a folder.
    #[error(
        "the list of {folder} of {redirector} lacks what {server} has (the setting partial_lists takes it as it is)"
    )]
    Incomplete {
        /// The folder.
        folder: String,
        /// The redirector.
        redirector: String,
        /// The server.
        server: String,
        /// Why it cannot be asked.
        source: Box<XrootdError>,
    },
    /// Bytes were damaged on their way, by their checksums.
    #[error("{server}: {doing}: checksum mismatch at {offset}, also when it was tried again")]
    Checksum {
        /// The server.
        server: String,
        /// What was being done.
        doing: String,
        /// Where in the file.
        offset: u64,
    },
    /// Fewer bytes came than the file has.
    #[error(
        "{server} answered {doing} with {found} of {expected} bytes, though the file is as long as it was"
    )]
    Short {
        /// The server.
        server: String,
        /// What was being done.
        doing: String,
        /// How many bytes were asked for.
        expected: u64,
        /// How many came.
        found: u64,
    },
    /// The file is not what it was when it was opened.
    #[error(
        "{url} has changed while it was read: expected {expected}, found {found}: open it again"
    )]
    Changed {
        /// The file.
        url: String,
        /// What it was.
        expected: String,
        /// What it is.
        found: String,
    },
    /// A file that is being written is not on its server any more, or not all that the server has taken of it.
    #[error(
        "{url}: {server} has lost what was written: expected {expected}, found {found}: write it again"
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
    /// What was asked for cannot be done.
    #[error("{what}")]
    Usage {
        /// Why, and what to do.
        what: String,
    },
}

fn seconds(duration: Duration) -> u64 {
    duration.as_secs()
}

/// What a server says, if it says anything, behind something else.
pub(crate) fn said(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(" ({message})"),
    }
}

impl XrootdError {
    /// What a server has said in the end, if it has said no.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Server { code, .. } => Some(*code),
            Self::Exhausted { last, .. } => last.code(),
            _ => None,
        }
    }

    /// Whether another server, or the same one later, may do it.
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

    /// Whether it is the way to the server that failed, and not the server.
    pub(crate) fn is_of_the_way(&self) -> bool {
        matches!(
            self,
            Self::Connect { .. } | Self::Timeout { .. } | Self::Lost { .. }
        )
    }

    /// The reason that a redirector is told (`triedrc`).
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

/// The number of a server's error (`XErrorCode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code(pub i32);

impl Code {
    /// Others have it open.
    pub const FILE_LOCKED: Self = Self(3003);
    /// The server does not have it open for us.
    pub const FILE_NOT_OPEN: Self = Self(3004);
    /// There is no such file.
    pub const NOT_FOUND: Self = Self(3011);
    /// It may not be read or written.
    pub const NOT_AUTHORIZED: Self = Self(3010);
    /// There is one already.
    pub const EXISTS: Self = Self(3018);
    /// It is a folder.
    pub const IS_FOLDER: Self = Self(3016);
    /// The server does not know the request.
    pub const UNSUPPORTED: Self = Self(3013);

    /// Whether another server may do what this one did not.
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
