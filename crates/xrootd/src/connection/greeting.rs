//! Setting up a connection: handshake, login, authentication.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Trace;
use crate::auth::{Asker, credentials};
use crate::protocol::{
    self, HEADER_LENGTH, Header, Malformed, Protocol, Request, SessionId, Status, handshake,
};
use crate::{Code, Server, XrootdError};

/// A connection with one request at a time.
pub(super) struct Raw<'s, S> {
    pub server: &'s Server,
    pub stream: S,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Raw<'_, S> {
    fn lost(&self, doing: &str, error: &std::io::Error) -> XrootdError {
        XrootdError::Lost {
            server: self.server.to_string(),
            doing: doing.to_owned(),
            why: error.to_string(),
        }
    }

    fn malformed(&self, doing: &str, source: Malformed) -> XrootdError {
        XrootdError::Malformed {
            server: self.server.to_string(),
            doing: doing.to_owned(),
            source,
        }
    }

    /// The handshake; returns what the server is.
    pub async fn greet(&mut self) -> Result<Protocol, XrootdError> {
        const DOING: &str = "the handshake";
        let request = Request::Protocol {
            able_tls: true,
            want_tls: self.server.tls,
        };
        let mut bytes = handshake().to_vec();
        let encoded = request.encode([0, 0]);
        bytes.extend(encoded.map_err(|source| self.malformed(DOING, source))?);
        let written = self.stream.write_all(&bytes).await;
        written.map_err(|error| self.lost(DOING, &error))?;
        let (status, _) = self.read(DOING).await?;
        if status != Status::Ok {
            let found = format!("{status:?}");
            let source = Malformed {
                what: "handshake",
                expected: "Ok".to_owned(),
                found,
            };
            return Err(self.malformed(DOING, source));
        }
        let (status, body) = self.read(DOING).await?;
        let body = self.fine("protocol", status, body)?;
        protocol::protocol(&body).map_err(|source| self.malformed(DOING, source))
    }

    /// Logs in; returns the ID of the session.
    pub async fn login(
        &mut self,
        asker: &Asker<'_>,
        token: &str,
        trace: &mut Trace,
    ) -> Result<SessionId, XrootdError> {
        let request = Request::Login {
            process: i32::try_from(std::process::id()).unwrap_or(0),
            user: asker.user.to_owned(),
            token: token.to_owned(),
        };
        let (status, body) = self.ask(&request, "login").await?;
        let body = self.fine("login", status, body)?;
        let login = protocol::login(&body).map_err(|source| self.malformed("login", source))?;
        if login.authentication.is_empty() {
            return Ok(login.session);
        }
        let kinds = login.authentication.iter();
        trace.offered = kinds.map(|(kind, _)| kind.clone()).collect();
        let mut tried = Vec::new();
        for (kind, parameters) in &login.authentication {
            let credentials = match credentials(kind, parameters, asker) {
                Ok(credentials) => credentials,
                Err(why) => {
                    tried.push(format!("{kind}: {why}"));
                    continue;
                }
            };
            let request = Request::Auth {
                kind: credentials.kind,
                credentials: credentials.bytes,
            };
            match self.ask(&request, "authentication").await? {
                (Status::Ok, _) => {
                    trace.used = Some(kind.clone());
                    return Ok(login.session);
                }
                (Status::Error, body) => {
                    let error = protocol::error(&body);
                    let (_, why) =
                        error.map_err(|source| self.malformed("authentication", source))?;
                    tried.push(format!("{kind}: {why}"));
                }
                (status, _) => tried.push(format!("{kind}: unexpected answer {status:?}")),
            }
        }
        Err(XrootdError::Authentication {
            server: self.server.to_string(),
            why: tried.join("; "),
        })
    }

    fn fine(&self, doing: &str, status: Status, body: Bytes) -> Result<Bytes, XrootdError> {
        let nonsense = |source| self.malformed(doing, source);
        match status {
            Status::Ok => Ok(body),
            Status::Error => {
                let (code, message) = protocol::error(&body).map_err(nonsense)?;
                Err(XrootdError::Server {
                    server: self.server.to_string(),
                    doing: doing.to_owned(),
                    code: Code(code),
                    message,
                })
            }
            _ => Err(nonsense(Malformed {
                what: "status",
                expected: "Ok, Error or Wait".to_owned(),
                found: format!("{status:?}"),
            })),
        }
    }

    /// Sends a request. If the server asks to wait, that is an error.
    async fn ask(
        &mut self,
        request: &Request,
        doing: &str,
    ) -> Result<(Status, Bytes), XrootdError> {
        let bytes = request.encode([0, 0]);
        let bytes = bytes.map_err(|source| self.malformed(doing, source))?;
        let written = self.stream.write_all(&bytes).await;
        written.map_err(|error| self.lost(doing, &error))?;
        let (status, body) = self.read(doing).await?;
        if status != Status::Wait {
            return Ok((status, body));
        }
        let wait = protocol::wait(&body).map_err(|source| self.malformed(doing, source))?;
        // the caller decides whether that is too long
        Err(XrootdError::Wait {
            server: self.server.to_string(),
            doing: doing.to_owned(),
            asked: Duration::from_secs(u64::from(wait.seconds)),
            message: wait.message,
            waited: Duration::ZERO,
            longest: Duration::ZERO,
        })
    }

    async fn read(&mut self, doing: &str) -> Result<(Status, Bytes), XrootdError> {
        const MOST: usize = 1 << 20;
        let mut header = [0; HEADER_LENGTH];
        let read = self.stream.read_exact(&mut header).await;
        read.map_err(|error| self.lost(doing, &error))?;
        if header.starts_with(b"HTTP") {
            let source = Malformed {
                what: "answer",
                expected: "an XRootD message".to_owned(),
                found: "an HTTP message: this is a web server (use http:// or https://), or the port is wrong (XRootD uses 1094)".to_owned(),
            };
            return Err(self.malformed(doing, source));
        }
        let header = Header::parse(&header).map_err(|source| self.malformed(doing, source))?;
        if header.length > MOST {
            let source = Malformed {
                what: "length of an answer",
                expected: format!("at most {MOST}"),
                found: header.length.to_string(),
            };
            return Err(self.malformed(doing, source));
        }
        let mut body = vec![0; header.length];
        let read = self.stream.read_exact(&mut body).await;
        read.map_err(|error| self.lost(doing, &error))?;
        Ok((header.status, body.into()))
    }
}
