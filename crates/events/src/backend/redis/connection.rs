//! One connection to one server: TCP or TLS, and authentication.
//!
//! If the server neither accepts nor sends data within [`SLICE`], this returns [`RedisError::Quiet`]; the caller can
//! check whether to continue, and call again: nothing is lost.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::resp::{Reply, Scan, packed};
use super::settings::{Address, Settings};
use super::tls;

/// How long a wait lasts until the caller may look around.
pub const SLICE: Duration = Duration::from_millis(500);
/// How much is read at once.
const READ: usize = 256 << 10;
/// More memory than that is given back when a reply was taken.
const KEPT: usize = 8 << 20;
/// The first bytes of a TLS server that does not understand the client: an alert.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];
const SPEAKS_TLS: &str = "if this is its TLS port, connect with rediss://";

/// What a connection has come to.
#[derive(Debug)]
pub enum RedisError {
    /// Nothing moved for a while.
    Quiet,
    /// It has failed, for this reason.
    Broken(String),
    /// The server does not want us.
    Refused(String),
}

enum Transport {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// One connection.
pub struct Connection {
    way: Transport,
    /// Bytes to send, from `sent` on.
    out: Vec<u8>,
    sent: usize,
    /// Received bytes, from `start` to `end`.
    input: Vec<u8>,
    start: usize,
    end: usize,
    scan: Scan,
    /// When something went or came last.
    pub moved: Instant,
    /// Whether the server is known to have kept its data.
    pub is_checked: bool,
    /// The probable reason if the connection ends before any answer.
    silence: Option<&'static str>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

impl Connection {
    /// Connects, and authenticates.
    pub fn open(
        address: &Address,
        settings: &Settings,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Self, RedisError> {
        let until = Instant::now() + settings.connect_timeout;
        let stream = connect(address, until)?;
        let broken = |error: std::io::Error| RedisError::Broken(error.to_string());
        stream.set_nodelay(true).map_err(broken)?;
        stream.set_read_timeout(Some(SLICE)).map_err(broken)?;
        stream.set_write_timeout(Some(SLICE)).map_err(broken)?;
        let way = match tls {
            Some(config) => {
                let cause = |error: &std::io::Error| tls::cause(error, settings);
                Transport::Tls(Box::new(secure(address, config, stream, until, &cause)?))
            }
            None => Transport::Plain(stream),
        };
        let silence = match &way {
            Transport::Tls(_) => tls::of_ours(settings),
            Transport::Plain(_) => SPEAKS_TLS,
        };
        let mut connection = Self {
            way,
            out: Vec::new(),
            sent: 0,
            input: Vec::new(),
            start: 0,
            end: 0,
            scan: Scan::default(),
            moved: Instant::now(),
            is_checked: false,
            silence: Some(silence),
        };
        connection.say_who(settings, until)?;
        Ok(connection)
    }

    fn say_who(&mut self, settings: &Settings, until: Instant) -> Result<(), RedisError> {
        let (user, password) = (&settings.user, &settings.password);
        let Some(password) = password else {
            return match user {
                Some(user) => Err(RedisError::Refused(format!(
                    "NOAUTH user {user:?} has no password"
                ))),
                None => Ok(()),
            };
        };
        let mut args = vec![b"AUTH".as_slice()];
        args.extend(user.as_ref().map(|user| user.as_bytes()));
        args.push(password.0.as_bytes());
        self.ask(&args, until, |reply| match reply {
            Reply::Error(said) => Err(RedisError::Refused(String::from_utf8_lossy(said).into())),
            _ => Ok(()),
        })?
    }

    /// Sends one command and waits for its answer.
    pub fn ask<T>(
        &mut self,
        args: &[&[u8]],
        until: Instant,
        take: impl FnOnce(Reply<'_>) -> T,
    ) -> Result<T, RedisError> {
        self.push(&packed(args));
        self.patiently(until, Self::flush)?;
        self.patiently(until, Self::receive)?;
        self.take(take)
    }

    fn patiently(
        &mut self,
        until: Instant,
        mut work: impl FnMut(&mut Self) -> Result<(), RedisError>,
    ) -> Result<(), RedisError> {
        loop {
            match work(self) {
                Err(RedisError::Quiet) if Instant::now() < until => {}
                Err(RedisError::Quiet) => {
                    return Err(RedisError::Broken("no answer".into()));
                }
                done => return done,
            }
        }
    }

    /// Notes bytes that are to be sent.
    pub fn push(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// How many bytes are still to be sent.
    pub fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Sends the buffered commands.
    pub fn flush(&mut self) -> Result<(), RedisError> {
        while self.unsent() > 0 {
            let rest = self.out.get(self.sent..).unwrap_or_default();
            let sent = self.way.write(rest);
            self.sent += sent.map_err(|trouble| self.explained(trouble))?;
            self.moved = Instant::now();
        }
        self.out.clear();
        self.sent = 0;
        if self.out.capacity() > KEPT {
            self.out = Vec::new();
        }
        let flushed = self.way.flush();
        flushed.map_err(|trouble| self.explained(trouble))
    }

    /// Explains why a connection has ended before any answer.
    fn explained(&self, trouble: RedisError) -> RedisError {
        match (trouble, self.silence) {
            (RedisError::Broken(why), Some(silence)) if !why.starts_with("TLS") => {
                RedisError::Broken(format!("{why} before it answered: {silence}"))
            }
            (trouble, _) => trouble,
        }
    }

    /// Waits until a reply is whole.
    pub fn receive(&mut self) -> Result<(), RedisError> {
        while !self.has_reply()? {
            self.make_room();
            let room = self.input.get_mut(self.end..).unwrap_or_default();
            let read = match self.way.read(room) {
                Ok(0) => Err(RedisError::Broken(
                    "the server closed the connection".into(),
                )),
                read => read,
            };
            self.end += read.map_err(|trouble| self.explained(trouble))?;
            self.moved = Instant::now();
            self.silence = None;
        }
        Ok(())
    }

    /// The error that a server sent before it closed the connection for writing. Earlier answers are lost.
    pub fn last_words(&mut self) -> Option<String> {
        let until = Instant::now() + SLICE;
        loop {
            self.patiently(until, Self::receive).ok()?;
            let said = self.take(|reply| match reply {
                Reply::Error(said) => Some(String::from_utf8_lossy(said).into_owned()),
                _ => None,
            });
            match said.ok()? {
                None => {}
                said => return said,
            }
        }
    }

    /// Whether a reply is whole already.
    pub fn has_reply(&mut self) -> Result<bool, RedisError> {
        let bytes = self.input.get(self.start..self.end).unwrap_or_default();
        match self.scan.whole(bytes) {
            Ok(whole) => Ok(whole.is_some()),
            Err(_) if bytes.starts_with(&TLS_ALERT) => Err(RedisError::Broken(SPEAKS_TLS.into())),
            Err(found) => Err(RedisError::Broken(format!(
                "not a Redis server, or damaged data: it sent {}",
                found.0
            ))),
        }
    }

    /// Gives the reply that is whole.
    pub fn take<T>(&mut self, take: impl FnOnce(Reply<'_>) -> T) -> Result<T, RedisError> {
        let bytes = self.input.get(self.start..self.end).unwrap_or_default();
        let whole = self.scan.whole(bytes).ok().flatten();
        let reply = whole.and_then(|whole| Some((Reply::of(bytes.get(..whole)?)?, whole)));
        let Some((reply, whole)) = reply else {
            return Err(RedisError::Broken(
                "not a Redis server, or damaged data".into(),
            ));
        };
        let taken = take(reply);
        self.scan = Scan::default();
        self.start += whole;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if self.input.len() > KEPT {
                self.input = Vec::new();
            }
        }
        Ok(taken)
    }

    /// Makes space after the received bytes: never more than twice as much as that.
    fn make_room(&mut self) {
        if self.start > 0 {
            self.input.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let wanted = self.end + READ.max(self.end);
        if self.input.len() < self.end + READ {
            self.input.resize(wanted, 0);
        }
    }

    /// Whether nothing is on its way: a connection that may be used by others.
    pub fn is_idle(&self) -> bool {
        self.unsent() == 0 && self.start == self.end
    }
}

impl Transport {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, RedisError> {
        loop {
            let written = match self {
                Self::Plain(stream) => stream.write(bytes),
                Self::Tls(stream) => stream.write(bytes),
            };
            match written {
                Ok(0) => return Err(RedisError::Broken("the server accepts no data".into())),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => return written.map_err(trouble),
            }
        }
    }

    fn flush(&mut self) -> Result<(), RedisError> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush().map_err(trouble),
        }
    }

    fn read(&mut self, room: &mut [u8]) -> Result<usize, RedisError> {
        loop {
            let read = match self {
                Self::Plain(stream) => stream.read(room),
                Self::Tls(stream) => stream.read(room),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read.map_err(trouble),
            }
        }
    }
}

fn trouble(error: std::io::Error) -> RedisError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => RedisError::Quiet,
        _ => RedisError::Broken(error.to_string()),
    }
}

fn connect(address: &Address, until: Instant) -> Result<TcpStream, RedisError> {
    let found = addresses(address, until, |host, port| {
        Ok((host, port).to_socket_addrs()?.collect())
    })?;
    let mut last = "no address found".to_owned();
    for place in found {
        let left = until.saturating_duration_since(Instant::now());
        // The system treats 0 as no timeout.
        match TcpStream::connect_timeout(&place, left.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.to_string(),
        }
    }
    Err(RedisError::Broken(last))
}

/// The addresses of a host. What the system takes to look for them nothing bounds but its configuration: it is done by a
/// thread, which is left to itself if it takes too long.
fn addresses(
    address: &Address,
    until: Instant,
    look: impl FnOnce(&str, u16) -> std::io::Result<Vec<SocketAddr>> + Send + 'static,
) -> Result<Vec<SocketAddr>, RedisError> {
    let Address { host, port } = address.clone();
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let (sender, receiver) = channel();
    let name = "femtobarn-lookup".to_owned();
    let thread = thread::Builder::new().name(name).spawn(move || {
        let _ = sender.send(look(&host, port)); // the caller may have given up
    });
    let broken = |why: String| RedisError::Broken(format!("no address: {why}"));
    thread.map_err(|error| broken(error.to_string()))?;
    match receiver.recv_timeout(until.saturating_duration_since(Instant::now())) {
        Ok(found) => found.map_err(|error| broken(error.to_string())),
        Err(RecvTimeoutError::Timeout) => Err(broken("the name service does not answer".into())),
        Err(RecvTimeoutError::Disconnected) => Err(broken("the lookup thread failed".into())),
    }
}

fn secure(
    address: &Address,
    config: &Arc<ClientConfig>,
    stream: TcpStream,
    until: Instant,
    cause: &dyn Fn(&std::io::Error) -> Option<String>,
) -> Result<StreamOwned<ClientConnection, TcpStream>, RedisError> {
    let broken = |error: String| RedisError::Broken(format!("TLS: {error}"));
    let name =
        ServerName::try_from(address.host.clone()).map_err(|error| broken(error.to_string()))?;
    let tls =
        ClientConnection::new(config.clone(), name).map_err(|error| broken(error.to_string()))?;
    let mut stream = StreamOwned::new(tls, stream);
    while stream.conn.is_handshaking() {
        match stream.conn.complete_io(&mut stream.sock) {
            Ok(_) => {}
            Err(error) if matches!(trouble_of(&error), RedisError::Quiet) => {
                if Instant::now() >= until {
                    let why = "no answer: if this is not its TLS port, connect with redis://";
                    return Err(broken(why.into()));
                }
            }
            Err(error) => {
                let why = cause(&error).map(RedisError::Broken);
                return Err(why.unwrap_or_else(|| broken(error.to_string())));
            }
        }
    }
    Ok(stream)
}

fn trouble_of(error: &std::io::Error) -> RedisError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => RedisError::Quiet,
        _ => RedisError::Broken(String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_service_that_does_not_answer_is_not_waited_for() {
        let host = Address::parse("somewhere:6379").unwrap();
        let started = Instant::now();
        let until = started + Duration::from_millis(100);
        let hangs = |_: &str, _| {
            thread::sleep(Duration::from_secs(20));
            Ok(Vec::new())
        };
        let Err(RedisError::Broken(why)) = addresses(&host, until, hangs) else {
            panic!("it has an address");
        };
        assert!(why.contains("name service"), "{why}");
        assert!(started.elapsed() < Duration::from_secs(10));
        // An IP address needs no lookup.
        let address = Address::parse("[::1]:7").unwrap();
        let found = addresses(&address, started, |_, _| panic!("it is an address"));
        assert_eq!(found.unwrap(), ["[::1]:7".parse().unwrap()]);
        let local = Address::parse("localhost:7").unwrap();
        let until = Instant::now() + Duration::from_secs(10);
        let looked = addresses(&local, until, |host, port| {
            Ok((host, port).to_socket_addrs()?.collect())
        });
        assert!(looked.unwrap().iter().all(|at| at.ip().is_loopback()));
    }
}
