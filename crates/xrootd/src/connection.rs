//! A connection: brought up, logged in, and shared by any number of requests.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::{OnceCell, mpsc};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::auth::{Asker, credentials};
use crate::file::Limits;
use crate::protocol::{
    self, HEADER_LENGTH, Header, Malformed, Protocol, QueryKind, Redirect, Request, Status,
    handshake,
};
use crate::streams::{Reply, Streams};
use crate::tls::TlsSession;
use crate::{Code, Options, Server, XrootdError};

/// Bytes of data that are sent before it is noted that some were.
const SENT: usize = 256 << 10;

/// Requests that may wait to be sent.
const OUTGOING: usize = 64;

/// The most bytes of an answer that is no data: listings of folders are the longest.
pub(crate) const MOST_ANSWER: usize = 256 << 20;

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Duplex for T {}

/// What a server answers to a request, once it needs no more waiting.
#[derive(Debug)]
pub(crate) enum Answer {
    Ok(Bytes),
    Redirect(Redirect),
    Error(Code, String),
}

/// A request that is to be sent.
struct Outgoing {
    stream: u16,
    request: Vec<u8>,
    data: Bytes,
}

/// What was said while a connection was made, as far as it came.
#[derive(Debug, Default)]
pub struct Trace {
    /// What the server is, and how long it took to say so.
    pub protocol: Option<(Protocol, Duration)>,
    /// The TLS, where it was asked for, and how long it took.
    pub tls: Option<(TlsSession, Duration)>,
    /// The kinds of authentication that the server takes; none if it wants none.
    pub offered: Vec<String>,
    /// The one that it took.
    pub used: Option<String>,
    /// How long login and authentication took.
    pub login: Option<Duration>,
}

/// A connection to a server.
#[derive(Debug)]
pub(crate) struct Connection {
    pub server: Server,
    pub protocol: Protocol,
    options: Arc<Options>,
    streams: Arc<Streams>,
    outgoing: mpsc::Sender<Outgoing>,
    tasks: [JoinHandle<()>; 2],
    /// What it was opened by, and its requests are made by.
    pub runtime: Handle,
    /// What the server says of vector reads, once it was asked.
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

    /// The same, telling what is said.
    pub async fn open_traced(
        server: &Server,
        token: &str,
        options: Arc<Options>,
        trace: &mut Trace,
    ) -> Result<Self, XrootdError> {
        let limit = options.connect_timeout;
        let opened = timeout(limit, Self::bring_up(server, token, options, trace));
        opened.await.unwrap_or_else(|_| {
            Err(XrootdError::Timeout {
                server: server.to_string(),
                doing: "connecting".to_owned(),
                waited: limit,
            })
        })
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
                    why: "the server has none: write root:// for roots://".to_owned(),
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
            options: &options,
        };
        let mut raw = Raw { server, stream };
        let start = Instant::now();
        raw.login(&asker, token, trace).await?;
        trace.login = Some(start.elapsed());
        let streams = Arc::new(Streams::default());
        let (reading, writing) = tokio::io::split(raw.stream);
        let (outgoing, queue) = mpsc::channel(OUTGOING);
        let tasks = [
            tokio::spawn(receive(reading, streams.clone())),
            tokio::spawn(send(writing, queue, streams.clone())),
        ];
        Ok(Self {
            server: server.clone(),
            protocol,
            options,
            streams,
            outgoing,
            tasks,
            runtime: Handle::current(),
            limits: OnceCell::new(),
        })
    }

    /// Whether it can be used.
    pub fn is_alive(&self) -> bool {
        self.streams.lost().is_none()
    }

    /// What the server takes in one vector read, which it is asked once.
    ///
    /// # Errors
    /// If it does not answer.
    pub async fn limits(&self) -> Result<Limits, XrootdError> {
        let ask = || async {
            match self
                .configuration(&["readv_iov_max", "readv_ior_max"])
                .await
            {
                Ok(lines) => Ok(Limits::parse(&lines)),
                // who does not say it has the limits of the protocol
                Err(XrootdError::Server { .. }) => Ok(Limits::default()),
                Err(error) => Err(error),
            }
        };
        self.limits.get_or_try_init(ask).await.copied()
    }

    /// What the server says of its configuration: a line for each name, which is the name itself where it does not know it.
    ///
    /// # Errors
    /// If it does not answer.
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

    /// Whether anything has come, or data was sent, of late: in the second half of the time that an answer may take.
    fn is_heard(&self) -> bool {
        let silent = self.streams.silent();
        silent.is_some_and(|silent| silent < self.options.request_timeout / 2)
    }

    /// Asks, and waits for the answer of at most so many bytes; asks again when the server wants that.
    pub async fn ask(
        &self,
        request: &Request,
        data: Bytes,
        most: usize,
        doing: &str,
    ) -> Result<Answer, XrootdError> {
        let started = Instant::now();
        loop {
            let (status, body) = self.once(request, data.clone(), most, doing).await?;
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
                    let pause = Duration::from_secs(u64::from(wait.seconds.max(1)));
                    if started.elapsed() + pause > self.options.longest_wait {
                        return Err(XrootdError::Timeout {
                            server: self.server.to_string(),
                            doing: format!("{doing} (it asks to wait: {})", wait.message),
                            waited: started.elapsed(),
                        });
                    }
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

    /// The same, but nothing other than an answer will do.
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
                why: format!("it sends us to {}", to.host),
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
        };
        let request = request.encode([0, 0]);
        let mut request = request.map_err(|source| self.malformed(doing, source))?;
        // A stream is taken only when the request is sent for sure: one that is given up while it waits for its turn would
        // never be answered, and its stream never be free again.
        let turn = loop {
            match timeout(patience, self.outgoing.reserve()).await {
                Ok(Ok(turn)) => break turn,
                Ok(Err(_)) => {
                    let why = self.streams.lost();
                    return Err(lost(why.unwrap_or_else(|| "it is closed".to_owned())));
                }
                // what is before it is being sent
                Err(_) if self.is_heard() => {}
                Err(_) => {
                    self.streams
                        .lose("nothing could be sent for too long", None);
                    return Err(late());
                }
            }
        };
        let (taken, mut receiver) = self.streams.take(most).map_err(lost)?;
        if let Some(stream) = request.first_chunk_mut::<2>() {
            *stream = taken.id.to_be_bytes();
        }
        turn.send(Outgoing {
            stream: taken.id,
            request,
            data,
        });
        let mut left = patience;
        loop {
            match timeout(left, &mut receiver).await {
                Ok(Ok(Reply::Answer(status, body))) => return Ok((status, body)),
                Ok(Ok(Reply::Malformed(source))) => return Err(self.malformed(doing, source)),
                Ok(Ok(Reply::Lost(why))) => return Err(lost(why)),
                Ok(Err(_)) => return Err(lost("it is closed".to_owned())),
                Err(_) => {
                    let idle = self.streams.idle(taken.id);
                    if idle < patience {
                        left = patience - idle;
                        continue;
                    }
                    // a connection on which nothing comes is none
                    if !self.is_heard() {
                        self.streams.lose("nothing came for too long", None);
                    }
                    return Err(late());
                }
            }
        }
    }
}

/// The name of the process's user.
fn own_name() -> String {
    let names = ["USER", "LOGNAME"].into_iter();
    let name = names.filter_map(|name| std::env::var(name).ok()).next();
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| format!("u{}", rustix::process::getuid().as_raw()))
}

/// A connection on which one request is asked after the other.
struct Raw<'s, S> {
    server: &'s Server,
    stream: S,
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

    /// The handshake, and what the server is.
    async fn greet(&mut self) -> Result<Protocol, XrootdError> {
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

    async fn login(
        &mut self,
        asker: &Asker<'_>,
        token: &str,
        trace: &mut Trace,
    ) -> Result<(), XrootdError> {
        let request = Request::Login {
            process: i32::try_from(std::process::id()).unwrap_or(0),
            user: asker.user.to_owned(),
            token: token.to_owned(),
        };
        let (status, body) = self.ask(&request, "login").await?;
        let body = self.fine("login", status, body)?;
        let login = protocol::login(&body).map_err(|source| self.malformed("login", source))?;
        if login.authentication.is_empty() {
            return Ok(());
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
                    return Ok(());
                }
                (Status::Error, body) => {
                    let error = protocol::error(&body);
                    let (_, why) =
                        error.map_err(|source| self.malformed("authentication", source))?;
                    tried.push(format!("{kind}: {why}"));
                }
                (status, _) => tried.push(format!("{kind}: it answers {status:?}")),
            }
        }
        Err(XrootdError::Authentication {
            server: self.server.to_string(),
            why: tried.join("; "),
        })
    }

    fn fine(&self, doing: &str, status: Status, body: Bytes) -> Result<Bytes, XrootdError> {
        if status == Status::Ok {
            return Ok(body);
        }
        let error = protocol::error(&body).map_err(|source| self.malformed(doing, source))?;
        let (code, message) = error;
        Err(XrootdError::Server {
            server: self.server.to_string(),
            doing: doing.to_owned(),
            code: Code(code),
            message,
        })
    }

    async fn ask(
        &mut self,
        request: &Request,
        doing: &str,
    ) -> Result<(Status, Bytes), XrootdError> {
        let bytes = request.encode([0, 0]);
        let bytes = bytes.map_err(|source| self.malformed(doing, source))?;
        let written = self.stream.write_all(&bytes).await;
        written.map_err(|error| self.lost(doing, &error))?;
        self.read(doing).await
    }

    async fn read(&mut self, doing: &str) -> Result<(Status, Bytes), XrootdError> {
        const MOST: usize = 1 << 20;
        let mut header = [0; HEADER_LENGTH];
        let read = self.stream.read_exact(&mut header).await;
        read.map_err(|error| self.lost(doing, &error))?;
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

/// Sends what is to be sent, each request whole.
async fn send(
    mut writing: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Outgoing>,
    streams: Arc<Streams>,
) {
    while let Some(outgoing) = queue.recv().await {
        let mut written = writing.write_all(&outgoing.request).await;
        for part in outgoing.data.chunks(SENT) {
            if written.is_ok() {
                written = writing.write_all(part).await;
                streams.sending();
            }
        }
        streams.sent(outgoing.stream);
        if written.is_ok() && queue.is_empty() {
            written = writing.flush().await;
        }
        if let Err(error) = written {
            return streams.lose(&error.to_string(), None);
        }
    }
}

/// What ends the receiving.
enum End {
    Io(std::io::Error),
    Malformed(Malformed),
}

impl From<std::io::Error> for End {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Malformed> for End {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed)
    }
}

/// Gives answers to those who wait for them, until the connection ends.
pub(crate) async fn receive(mut reading: impl AsyncRead + Unpin, streams: Arc<Streams>) {
    loop {
        match receive_one(&mut reading, &streams).await {
            Ok(()) => {}
            Err(End::Io(error)) => {
                let why = match error.kind() {
                    std::io::ErrorKind::UnexpectedEof => "the server closed it".to_owned(),
                    _ => error.to_string(),
                };
                return streams.lose(&why, None);
            }
            Err(End::Malformed(malformed)) => {
                return streams.lose(&malformed.to_string(), Some(&malformed));
            }
        }
    }
}

async fn receive_one(reading: &mut (impl AsyncRead + Unpin), streams: &Streams) -> Result<(), End> {
    let mut header = [0; HEADER_LENGTH];
    reading.read_exact(&mut header).await?;
    let header = Header::parse(&header)?;
    let id = u16::from_be_bytes(header.stream);
    if header.status == Status::Attention {
        let mut body = BytesMut::new();
        fill(reading, &mut body, header.length, MOST_ANSWER, || {}).await?;
        let Some((header, body)) = protocol::attention(&body.freeze())? else {
            return Ok(());
        };
        let id = u16::from_be_bytes(header.stream);
        streams.answer(id, header.status, body);
        return Ok(());
    }
    let Some((mut body, left)) = streams.body(id) else {
        return Err(Malformed {
            what: "stream",
            expected: "one that waits for an answer".to_owned(),
            found: id.to_string(),
        }
        .into());
    };
    let progress = || streams.progress(id);
    match header.status {
        Status::WaitForResponse => {
            let mut told = BytesMut::new();
            fill(reading, &mut told, header.length, MOST_ANSWER, progress).await?;
            let wait = protocol::wait(&told)?;
            streams.put(id, body);
            streams.postpone(id, Duration::from_secs(u64::from(wait.seconds)));
        }
        Status::OkSoFar => {
            fill(reading, &mut body, header.length, left, progress).await?;
            streams.put(id, body);
        }
        Status::Ok => {
            fill(reading, &mut body, header.length, left, progress).await?;
            streams.answer(id, Status::Ok, body.freeze());
        }
        Status::Status => {
            let mut told = BytesMut::new();
            fill(reading, &mut told, header.length, MOST_ANSWER, progress).await?;
            let told = protocol::status_body(&told)?;
            // data, each with where they are in the file and how many they are
            let whole = told.n_data + 16;
            if whole > left {
                return Err(too_long(whole, left).into());
            }
            body.extend_from_slice(&told.offset.to_be_bytes());
            body.extend_from_slice(&(told.n_data as u64).to_be_bytes());
            fill(reading, &mut body, told.n_data, left, progress).await?;
            match told.is_partial {
                true => streams.put(id, body),
                false => streams.answer(id, Status::Status, body.freeze()),
            }
        }
        Status::Error | Status::Redirect | Status::Wait | Status::AuthMore | Status::Attention => {
            let mut told = BytesMut::new();
            fill(reading, &mut told, header.length, MOST_ANSWER, progress).await?;
            streams.answer(id, header.status, told.freeze());
        }
    }
    Ok(())
}

fn too_long(found: usize, most: usize) -> Malformed {
    Malformed {
        what: "length of an answer",
        expected: format!("at most {most} bytes"),
        found: found.to_string(),
    }
}

/// Reads so many bytes more into a buffer, if they are no more than may come.
async fn fill(
    reading: &mut (impl AsyncRead + Unpin),
    body: &mut BytesMut,
    length: usize,
    most: usize,
    progress: impl Fn(),
) -> Result<(), End> {
    if length > most {
        return Err(too_long(length, most).into());
    }
    let end = body.len() + length;
    body.reserve(length);
    while body.len() < end {
        let left = end - body.len();
        let mut part = bytes::BufMut::limit(&mut *body, left);
        if reading.read_buf(&mut part).await? == 0 {
            return Err(std::io::Error::from(std::io::ErrorKind::UnexpectedEof).into());
        }
        progress();
    }
    Ok(())
}
