//! A connection: set up, logged in, and shared by any number of requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::auth::Asker;
use crate::file::Limits;
use crate::protocol::{self, Malformed, Protocol, QueryKind, Redirect, Request, SessionId, Status};
use crate::streams::{Late, Reply, Streams};
use crate::tls::TlsSession;
use crate::{Code, Options, Server, XrootdError};

mod flow;
mod greeting;
mod patience;

pub(crate) use flow::receive;
use flow::send;
use greeting::Raw;
use patience::{LONG, Patience};

/// Length of the queue of requests to send.
const OUTGOING: usize = 64;

/// The most bytes of an answer without file data. Directory listings are the longest.
pub(crate) const MOST_ANSWER: usize = 256 << 20;

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// The final answer of a server to a request.
#[derive(Debug)]
pub(crate) enum Answer {
    Ok(Bytes),
    Redirect(Redirect),
    Error(Code, String),
}

/// A request to send.
struct Outgoing {
    stream: u16,
    request: Vec<u8>,
    data: Bytes,
}

/// What happened while a connection was set up, up to success or failure.
#[derive(Debug, Default)]
pub struct Trace {
    /// The server's version and flags, and how long it took to answer.
    pub protocol: Option<(Protocol, Duration)>,
    /// The TLS session, if TLS was requested, and how long it took.
    pub tls: Option<(TlsSession, Duration)>,
    /// The authentication protocols that the server offers; empty if it requires none.
    pub offered: Vec<String>,
    /// The authentication protocol that succeeded.
    pub used: Option<String>,
    /// Duration of login and authentication.
    pub login: Option<Duration>,
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    pub server: Server,
    pub protocol: Protocol,
    /// The server's ID of the session. Another connection can end the session by it.
    pub session: SessionId,
    options: Arc<Options>,
    streams: Arc<Streams>,
    outgoing: mpsc::Sender<Outgoing>,
    tasks: [JoinHandle<()>; 2],
    /// Whether the token was sent to the server.
    pub has_token: bool,
    /// The runtime that opened the connection and makes its requests.
    pub runtime: Handle,
    /// The server's limits on vector reads, once they were requested.
    limits: OnceCell<Limits>,
}

impl Drop for Connection {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Connection {
    /// Connects and logs in, with a token if a redirect gave one.
    pub async fn open(
        server: &Server,
        token: &str,
        options: Arc<Options>,
    ) -> Result<Self, XrootdError> {
        Self::open_traced(server, token, options, &mut Trace::default()).await
    }

    /// The same, recording each step. If the server asks to wait, it is connected to again later.
    pub async fn open_traced(
        server: &Server,
        token: &str,
        options: Arc<Options>,
        trace: &mut Trace,
    ) -> Result<Self, XrootdError> {
        let (limit, patience) = (options.connect_timeout, Patience::of(&options));
        loop {
            let opened = Self::bring_up(server, token, options.clone(), trace);
            match timeout(limit, opened).await {
                Ok(Err(XrootdError::Wait {
                    doing,
                    asked,
                    message,
                    ..
                })) => {
                    let pause = patience.pause(server, &doing, asked, &message)?;
                    tokio::time::sleep(pause).await;
                }
                Ok(opened) => return opened,
                Err(_) => {
                    return Err(XrootdError::Timeout {
                        server: server.to_string(),
                        doing: "connecting".to_owned(),
                        waited: limit,
                        setting: "connect_timeout",
                    });
                }
            }
        }
    }

    async fn bring_up(
        server: &Server,
        token: &str,
        options: Arc<Options>,
        trace: &mut Trace,
    ) -> Result<Self, XrootdError> {
        let failed = |source| XrootdError::Connect {
            server: server.to_string(),
            source,
        };
        let stream = TcpStream::connect((server.host.as_str(), server.port)).await;
        let stream = stream.map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        let address = stream.local_addr().map_err(failed)?;
        let mut raw = Raw { server, stream };
        let start = Instant::now();
        let protocol = raw.greet().await?;
        trace.protocol = Some((protocol, start.elapsed()));
        let is_tls = server.tls || protocol.flags.go_to_tls() || protocol.flags.demands_tls();
        let stream: Box<dyn Duplex> = match is_tls {
            true if !protocol.flags.has_tls() => {
                return Err(XrootdError::Tls {
                    server: server.to_string(),
                    why: "the server does not support it: use root:// instead of roots://"
                        .to_owned(),
                });
            }
            true => {
                let (start, mut session) = (Instant::now(), TlsSession::default());
                let upgraded = crate::tls::upgrade(raw.stream, server, &options, &mut session);
                let upgraded = upgraded.await;
                trace.tls = Some((session, start.elapsed()));
                Box::new(upgraded?)
            }
            false => Box::new(raw.stream),
        };
        let user = server.user.clone().or_else(|| options.user.clone());
        let user = user.unwrap_or_else(own_name);
        let asker = Asker {
            user: &user,
            address,
            is_tls,
            gives_token: server.may_have_token,
            options: &options,
        };
        let mut raw = Raw { server, stream };
        let start = Instant::now();
        let session = raw.login(&asker, token, trace).await?;
        trace.login = Some(start.elapsed());
        let streams = Arc::new(Streams::default());
        let (reading, writing) = tokio::io::split(raw.stream);
        let (outgoing, queue) = mpsc::channel(OUTGOING);
        let tasks = [
            tokio::spawn(receive(reading, streams.clone(), options.rate())),
            tokio::spawn(send(writing, queue, streams.clone())),
        ];
        Ok(Self {
            server: server.clone(),
            protocol,
            session,
            options,
            streams,
            outgoing,
            tasks,
            has_token: trace.used.as_deref() == Some("ztn"),
            runtime: Handle::current(),
            limits: OnceCell::new(),
        })
    }

    /// How often bytes of answers were received.
    pub fn n_received(&self) -> u64 {
        self.streams.n_received()
    }

    /// Whether the connection can be used.
    pub fn is_alive(&self) -> bool {
        self.streams.lost().is_none()
    }

    /// Returns the server's limits on vector reads. They are requested once.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn limits(&self) -> Result<Limits, XrootdError> {
        let ask = || async {
            match self
                .configuration(&["readv_iov_max", "readv_ior_max"])
                .await
            {
                Ok(lines) => Ok(Limits::parse(&lines)),
                // the protocol's limits apply if the server does not report its own
                Err(XrootdError::Server { .. } | XrootdError::Wait { .. }) => Ok(Limits::default()),
                Err(error) => Err(error),
            }
        };
        self.limits.get_or_try_init(ask).await.copied()
    }

    /// Returns configuration values of the server: one line per name, which is the name itself if the server does not
    /// know it.
    ///
    /// # Errors
    /// If the server does not answer.
    pub async fn configuration(&self, names: &[&str]) -> Result<Vec<String>, XrootdError> {
        let argument = names.join(" ");
        let doing = format!("query config {argument}");
        let request = Request::Query {
            kind: QueryKind::Config,
            argument,
        };
        let body = self.demand(&request, Bytes::new(), MOST_ANSWER, &doing);
        let text = body.await?;
        let text = String::from_utf8_lossy(&text);
        let lines = text.trim_end_matches('\0').lines();
        Ok(lines.map(str::to_owned).collect())
    }

    /// Whether anything was received, or data were sent, recently: within half of the time that an answer may take.
    fn is_heard(&self) -> bool {
        let silent = self.streams.silent();
        silent.is_some_and(|silent| silent < self.options.request_timeout / 2)
    }

    /// Sends a request and waits for its answer of at most so many bytes. Repeats the request if the server asks for it.
    pub async fn ask(
        &self,
        request: &Request,
        data: Bytes,
        most: usize,
        doing: &str,
    ) -> Result<Answer, XrootdError> {
        let waits = Patience::of(&self.options);
        loop {
            let answer = self.once(request, data.clone(), most, doing, &waits);
            let (status, body) = answer.await?;
            let nonsense = |source| self.malformed(doing, source);
            return Ok(match status {
                Status::Ok | Status::OkSoFar | Status::Status | Status::AuthMore => {
                    Answer::Ok(body)
                }
                Status::Error => {
                    let (code, message) = protocol::error(&body).map_err(nonsense)?;
                    Answer::Error(Code(code), message)
                }
                Status::Redirect => Answer::Redirect(protocol::redirect(&body).map_err(nonsense)?),
                Status::Wait => {
                    let wait = protocol::wait(&body).map_err(nonsense)?;
                    let asked = Duration::from_secs(u64::from(wait.seconds));
                    let pause = waits.pause(&self.server, doing, asked, &wait.message)?;
                    tokio::time::sleep(pause).await;
                    continue;
                }
                Status::Attention | Status::WaitForResponse => {
                    let found = Malformed {
                        what: "status",
                        expected: "an answer".to_owned(),
                        found: format!("{status:?}"),
                    };
                    return Err(nonsense(found));
                }
            });
        }
    }

    /// The same, but errors and redirects of the server are errors.
    pub async fn demand(
        &self,
        request: &Request,
        data: Bytes,
        most: usize,
        doing: &str,
    ) -> Result<Bytes, XrootdError> {
        match self.ask(request, data, most, doing).await? {
            Answer::Ok(body) => Ok(body),
            Answer::Error(code, message) => Err(self.refused(doing, code, message)),
            Answer::Redirect(to) => Err(XrootdError::Lost {
                server: self.server.to_string(),
                doing: doing.to_owned(),
                why: format!("the server redirects to {}", to.host),
            }),
        }
    }

    pub fn refused(&self, doing: &str, code: Code, message: String) -> XrootdError {
        XrootdError::Server {
            server: self.server.to_string(),
            doing: doing.to_owned(),
            code,
            message,
        }
    }

    pub fn malformed(&self, doing: &str, source: Malformed) -> XrootdError {
        XrootdError::Malformed {
            server: self.server.to_string(),
            doing: doing.to_owned(),
            source,
        }
    }

    async fn once(
        &self,
        request: &Request,
        data: Bytes,
        most: usize,
        doing: &str,
        waits: &Patience,
    ) -> Result<(Status, Bytes), XrootdError> {
        let lost = |why: String| XrootdError::Lost {
            server: self.server.to_string(),
            doing: doing.to_owned(),
            why,
        };
        let patience = self.options.request_timeout;
        let late = || XrootdError::Timeout {
            server: self.server.to_string(),
            doing: doing.to_owned(),
            waited: patience,
            setting: "request_timeout",
        };
        let request = request.encode([0, 0]);
        let mut request = request.map_err(|source| self.malformed(doing, source))?;
        // Take a stream only when the request will surely be sent. A request that is abandoned while it waits to be sent
        // is never answered, so its stream would never be free again.
        let turn = loop {
            match timeout(patience, self.outgoing.reserve()).await {
                Ok(Ok(turn)) => break turn,
                Ok(Err(_)) => {
                    let why = self.streams.lost();
                    return Err(lost(
                        why.unwrap_or_else(|| "the connection is closed".to_owned()),
                    ));
                }
                // earlier requests are being sent
                Err(_) if self.is_heard() => {}
                Err(_) => {
                    self.streams
                        .lose("nothing could be sent within request_timeout", None);
                    return Err(late());
                }
            }
        };
        let (taken, mut receiver) = self.streams.take(most, waits.end()).map_err(lost)?;
        if let Some(stream) = request.first_chunk_mut::<2>() {
            *stream = taken.id.to_be_bytes();
        }
        turn.send(Outgoing {
            stream: taken.id,
            request,
            data,
        });
        // wake often enough to report an answer that the server has postponed
        let mut left = patience.min(LONG);
        loop {
            match timeout(left, &mut receiver).await {
                Ok(Ok(Reply::Answer(status, body))) => return Ok((status, body)),
                Ok(Ok(Reply::Malformed(source))) => return Err(self.malformed(doing, source)),
                Ok(Ok(Reply::Lost(why))) => return Err(lost(why)),
                Ok(Err(_)) => return Err(lost("the connection is closed".to_owned())),
                Err(_) => match self.streams.late(taken.id, patience) {
                    Late::Not(more) => {
                        if let Some(by) = self.streams.postponed(taken.id) {
                            waits.tell(&self.server, doing, by, "the answer comes later");
                        }
                        left = more;
                    }
                    Late::Postponed(by) => {
                        return Err(waits.over(&self.server, doing, by, "the answer comes later"));
                    }
                    Late::Silent => {
                        // the connection is dead if nothing at all arrives
                        if !self.is_heard() {
                            self.streams
                                .lose("nothing was received within request_timeout", None);
                        }
                        return Err(late());
                    }
                },
            }
        }
    }
}

/// The name of the user who runs the process.
fn own_name() -> String {
    let names = ["USER", "LOGNAME"].into_iter();
    let name = names.filter_map(|name| std::env::var(name).ok()).next();
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("u{}", rustix::process::getuid().as_raw()))
}
