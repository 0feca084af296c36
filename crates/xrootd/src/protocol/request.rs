//! Requests of a client.

use super::VERSION;

/// The server's handle of an open file. Zero is a valid handle.
pub type FileHandle = [u8; 4];

/// An element of a vector read: a range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// The file.
    pub handle: FileHandle,
    /// Offset of the first byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}

/// How to open a file (`XOpenRequestOption`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags(pub u16);

impl OpenFlags {
    /// Create; fail if the file exists.
    pub const NEW: Self = Self(0x0008);
    /// Open for reading.
    pub const READ: Self = Self(0x0010);
    /// Open for reading and writing.
    pub const UPDATE: Self = Self(0x0020);
    /// Allow asynchronous answers.
    pub const ASYNC: Self = Self(0x0040);
    /// Create missing parent directories.
    pub const MAKE_PATH: Self = Self(0x0100);
    /// Return the status of the file.
    pub const RETURN_STAT: Self = Self(0x0400);

    /// Both options.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Permissions of a new file, as in POSIX.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mode(pub u16);

impl Mode {
    /// The owner may read and write, others may read.
    pub const FILE: Self = Self(0o644);
}

/// The kind of a query (`XQueryType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the protocol")]
pub enum QueryKind {
    Checksum,
    Config,
}

impl QueryKind {
    fn code(self) -> u16 {
        match self {
            Self::Checksum => 3,
            Self::Config => 7,
        }
    }
}

/// A request, without the number of its stream.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the protocol")]
pub enum Request {
    Protocol {
        /// Whether the client supports TLS.
        able_tls: bool,
        /// Whether the client wants TLS.
        want_tls: bool,
    },
    Login {
        process: i32,
        user: String,
        /// Opaque data, for example the token of a redirect.
        token: String,
    },
    Auth {
        kind: [u8; 4],
        credentials: Vec<u8>,
    },
    EndSession {
        session: [u8; 16],
    },
    Open {
        path: String,
        flags: OpenFlags,
        mode: Mode,
    },
    Close {
        handle: FileHandle,
    },
    Read {
        handle: FileHandle,
        offset: u64,
        length: u32,
    },
    ReadV {
        elements: Vec<Element>,
    },
    PgRead {
        handle: FileHandle,
        offset: u64,
        length: u32,
        /// Whether the pages are sent again because they arrived damaged.
        is_retry: bool,
    },
    Write {
        handle: FileHandle,
        offset: u64,
        /// Number of bytes that follow the request.
        length: u32,
    },
    PgWrite {
        handle: FileHandle,
        offset: u64,
        /// Number of bytes that follow the request, including checksums.
        length: u32,
        is_retry: bool,
    },
    Sync {
        handle: FileHandle,
    },
    Stat {
        path: String,
    },
    StatOpen {
        handle: FileHandle,
    },
    DirList {
        path: String,
    },
    Locate {
        path: String,
        refresh: bool,
    },
    Query {
        kind: QueryKind,
        argument: String,
    },
    Mv {
        from: String,
        to: String,
    },
    Rm {
        path: String,
    },
}

impl Request {
    /// The request code (`XRequestTypes`).
    pub fn code(&self) -> u16 {
        match self {
            Self::Auth { .. } => 3000,
            Self::Query { .. } => 3001,
            Self::Close { .. } => 3003,
            Self::DirList { .. } => 3004,
            Self::Protocol { .. } => 3006,
            Self::Login { .. } => 3007,
            Self::Mv { .. } => 3009,
            Self::Open { .. } => 3010,
            Self::Read { .. } => 3013,
            Self::Rm { .. } => 3014,
            Self::Sync { .. } => 3016,
            Self::Stat { .. } | Self::StatOpen { .. } => 3017,
            Self::Write { .. } => 3019,
            Self::EndSession { .. } => 3023,
            Self::ReadV { .. } => 3025,
            Self::PgWrite { .. } => 3026,
            Self::Locate { .. } => 3027,
            Self::PgRead { .. } => 3030,
        }
    }

    /// Encodes the request for a stream. The data of `Write` and `PgWrite` must be sent after it.
    ///
    /// # Errors
    /// If it is longer than the protocol allows.
    pub fn encode(&self, stream: [u8; 2]) -> Result<Vec<u8>, super::Malformed> {
        let mut body = [0; 16];
        let mut payload = Vec::new();
        self.fill(&mut Fields(&mut body), &mut payload);
        let follows = match self {
            Self::Write { length, .. } | Self::PgWrite { length, .. } => *length as usize,
            _ => 0,
        };
        let length = i32::try_from(payload.len().saturating_add(follows)).map_err(|_| {
            super::Malformed::new("length of a request", "at most 2 GiB", payload.len())
        })?;
        let mut out = Vec::with_capacity(24 + payload.len());
        out.extend_from_slice(&stream);
        out.extend_from_slice(&self.code().to_be_bytes());
        out.extend_from_slice(&body);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&payload);
        Ok(out)
    }

    /// Fills the sixteen bytes that are specific to the request, and the payload after the header.
    fn fill(&self, body: &mut Fields<'_>, payload: &mut Vec<u8>) {
        match self {
            Self::Protocol { able_tls, want_tls } => {
                body.put(0, &VERSION.to_be_bytes());
                // ask for the security requirements; a login follows
                body.put(
                    4,
                    &[1 | u8::from(*able_tls) << 1 | u8::from(*want_tls) << 2, 3],
                );
            }
            Self::Login {
                process,
                user,
                token,
            } => {
                body.put(0, &process.to_be_bytes());
                let user = user.as_bytes();
                body.put(4, user.get(..8).unwrap_or(user));
                // full URLs, several protocols, re-reads at redirects, IPv4 and IPv6; asynchronous answers, version 5
                body.put(12, &[0, 1 | 2 | 4 | 8, 0x80 | 5, 0]);
                payload.extend_from_slice(token.as_bytes());
            }
            Self::Auth { kind, credentials } => {
                body.put(12, kind);
                payload.extend_from_slice(credentials);
            }
            Self::EndSession { session } => body.put(0, session),
            Self::Open { path, flags, mode } => {
                body.put(0, &mode.0.to_be_bytes());
                body.put(2, &flags.0.to_be_bytes());
                payload.extend_from_slice(path.as_bytes());
            }
            Self::Close { handle } | Self::Sync { handle } => body.put(0, handle),
            Self::Read {
                handle,
                offset,
                length,
            } => {
                body.put(0, handle);
                body.put(4, &offset.to_be_bytes());
                body.put(12, &length.to_be_bytes());
            }
            Self::ReadV { elements } => {
                for element in elements {
                    payload.extend_from_slice(&element.handle);
                    payload.extend_from_slice(&element.length.to_be_bytes());
                    payload.extend_from_slice(&element.offset.to_be_bytes());
                }
            }
            Self::PgRead {
                handle,
                offset,
                length,
                is_retry,
            } => {
                body.put(0, handle);
                body.put(4, &offset.to_be_bytes());
                body.put(12, &length.to_be_bytes());
                if *is_retry {
                    payload.extend_from_slice(&[0, 1]);
                }
            }
            Self::Write { handle, offset, .. } => {
                body.put(0, handle);
                body.put(4, &offset.to_be_bytes());
            }
            Self::PgWrite {
                handle,
                offset,
                is_retry,
                ..
            } => {
                body.put(0, handle);
                body.put(4, &offset.to_be_bytes());
                body.put(13, &[u8::from(*is_retry)]);
            }
            Self::Stat { path } | Self::Rm { path } => {
                payload.extend_from_slice(path.as_bytes());
            }
            Self::StatOpen { handle } => body.put(12, handle),
            Self::DirList { path } => {
                body.put(15, &[1 << 1]); // with the status of each entry
                payload.extend_from_slice(path.as_bytes());
            }
            Self::Locate { path, refresh } => {
                let options: u16 = if *refresh { 0x0080 } else { 0 };
                body.put(0, &options.to_be_bytes());
                payload.extend_from_slice(path.as_bytes());
            }
            Self::Query { kind, argument } => {
                body.put(0, &kind.code().to_be_bytes());
                payload.extend_from_slice(argument.as_bytes());
            }
            Self::Mv { from, to } => {
                let length = i16::try_from(from.len()).unwrap_or(0);
                body.put(14, &length.to_be_bytes());
                payload.extend_from_slice(from.as_bytes());
                payload.push(b' ');
                payload.extend_from_slice(to.as_bytes());
            }
        }
    }
}

/// The sixteen bytes that are specific to a request.
struct Fields<'a>(&'a mut [u8; 16]);

impl Fields<'_> {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.0.get_mut(at..at + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }
}

/// The first bytes of a connection, before any request.
pub fn handshake() -> [u8; 20] {
    let mut out = [0; 20];
    let (_, rest) = out.split_at_mut(12);
    let (four, rest) = rest.split_at_mut(4);
    four.copy_from_slice(&4_i32.to_be_bytes());
    rest.copy_from_slice(&2012_i32.to_be_bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(request: &Request) -> Vec<u8> {
        request.encode([0x12, 0x34]).unwrap()
    }

    #[test]
    fn requests_have_the_layout_of_the_protocol() {
        let read = Request::Read {
            handle: [1, 2, 3, 4],
            offset: 0x0102_0304_0506_0708,
            length: 9,
        };
        let expected = [
            0x12, 0x34, 0x0b, 0xc5, 1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9, 0, 0, 0, 0,
        ];
        assert_eq!(bytes(&read), expected);
        let element = Element {
            handle: [9, 0, 0, 1],
            offset: 256,
            length: 3,
        };
        let readv = bytes(&Request::ReadV {
            elements: vec![element],
        });
        assert_eq!(readv.len(), 24 + 16);
        assert_eq!(readv[20..24], 16_i32.to_be_bytes());
        assert_eq!(
            readv[24..],
            [9, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 1, 0]
        );
        let open = bytes(&Request::Open {
            path: "/a".to_owned(),
            flags: OpenFlags::READ.and(OpenFlags::RETURN_STAT),
            mode: Mode(0),
        });
        assert_eq!(open[4..8], [0, 0, 0x04, 0x10]);
        assert_eq!(&open[24..], b"/a");
    }

    #[test]
    fn data_that_follow_are_counted() {
        let write = bytes(&Request::Write {
            handle: [0; 4],
            offset: 5,
            length: 1000,
        });
        assert_eq!(write.len(), 24);
        assert_eq!(write[20..], 1000_i32.to_be_bytes());
        let too_long = Request::Write {
            handle: [0; 4],
            offset: 5,
            length: u32::MAX,
        };
        assert!(too_long.encode([0, 0]).is_err());
    }

    #[test]
    fn the_handshake_is_that_of_a_client() {
        assert_eq!(handshake()[12..], [0, 0, 0, 4, 0, 0, 0x07, 0xdc]);
    }
}
