//! One connection to one server: TCP or TLS, and authentication.
//!
//! If the server does not accept or send data within [`SLICE`], the result is [`ConnectionError::Quiet`]. The caller may
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

use crate::protocol::{Scan, packed};
use crate::{Address, ConnectionError, Options, Reply, tls};

/// Duration of a wait, after which the caller can check whether to continue.
const SLICE: Duration = Duration::from_millis(500);
/// Number of bytes per read.
const READ: usize = 256 << 10;
/// Larger buffers are freed after a reply was received.
const KEPT: usize = 8 << 20;
/// The first bytes from a TLS server that rejects a client without TLS: an alert.
const TLS_ALERT: [u8; 2] = [0x15, 0x03];
const SPEAKS_TLS: &str = "if this is its TLS port, connect with rediss://";

enum Transport {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

/// One connection to one server.
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
    /// When data were sent or received last.
    pub(crate) moved: Instant,
    /// Whether the guard has checked the connection.
    pub(crate) is_checked: bool,
    /// The most likely reason if the connection ends before anything was received.
    silence: Option<&'static str>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connection")
    }
}

impl Connection {
    /// Connects to a server, with TLS and authentication as in the options. No client is needed.
    ///
    /// # Errors
    ///
    /// If it does not answer within [`Options::connect_timeout`], or refuses.
    pub fn open(address: &Address, options: &Options) -> Result<Self, ConnectionError> {
        let tls = match options.has_tls {
            true => Some(tls::config(options).map_err(ConnectionError::Broken)?),
            false => None,
        };
        Self::open_with(address, options, tls.as_ref())
    }

    /// The same, with the TLS configuration of a client.
    pub(crate) fn open_with(
        address: &Address,
        options: &Options,
        tls: Option<&Arc<ClientConfig>>,
    ) -> Result<Self, ConnectionError> {
        let until = Instant::now() + options.connect_timeout;
        let stream = connect(address, until)?;
        let broken = |error: std::io::Error| ConnectionError::Broken(error.to_string());
        stream.set_nodelay(true).map_err(broken)?;
        stream.set_read_timeout(Some(SLICE)).map_err(broken)?;
        stream.set_write_timeout(Some(SLICE)).map_err(broken)?;
        let way = match tls {
            Some(config) => {
                let cause = |error: &std::io::Error| tls::cause(error, options);
                Transport::Tls(Box::new(secure(address, config, stream, until, &cause)?))
            }
            None => Transport::Plain(stream),
        };
        let silence = match &way {
            Transport::Tls(_) => tls::of_ours(options),
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
        connection.say_who(options, until)?;
        Ok(connection)
    }

    fn say_who(&mut self, options: &Options, until: Instant) -> Result<(), ConnectionError> {
        let (user, password) = (&options.user, &options.password);
        let Some(password) = password else {
            return match user {
                Some(user) => Err(ConnectionError::Refused(format!(
                    "NOAUTH user {user:?} has no password"
                ))),
                None => Ok(()),
            };
        };
        let mut args = vec![b"AUTH".as_slice()];
        args.extend(user.as_ref().map(|user| user.as_bytes()));
        args.push(password.0.as_bytes());
        self.ask(&args, until, |reply| match reply {
            Reply::Error(said) => Err(ConnectionError::Refused(
                String::from_utf8_lossy(said).into(),
            )),
            _ => Ok(()),
        })?
    }

    /// Sends one command and waits for its answer, which `take` receives, even if it is an error.
    ///
    /// # Errors
    ///
    /// If there is no answer before `until`, or the connection breaks.
    pub fn ask<T>(
        &mut self,
        args: &[&[u8]],
        until: Instant,
        take: impl FnOnce(Reply<'_>) -> T,
    ) -> Result<T, ConnectionError> {
        self.push(&packed(args));
        self.patiently(until, Self::flush)?;
        self.patiently(until, Self::receive)?;
        self.take(take)
    }

    fn patiently(
        &mut self,
        until: Instant,
        mut work: impl FnMut(&mut Self) -> Result<(), ConnectionError>,
    ) -> Result<(), ConnectionError> {
        loop {
            match work(self) {
                Err(ConnectionError::Quiet) if Instant::now() < until => {}
                Err(ConnectionError::Quiet) => {
                    return Err(ConnectionError::Broken("no answer".into()));
                }
                done => return done,
            }
        }
    }

    /// Appends bytes to send.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Number of bytes still to be sent.
    pub(crate) fn unsent(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Sends the pending bytes.
    pub(crate) fn flush(&mut self) -> Result<(), ConnectionError> {
        while self.unsent() > 0 {
            let rest = self.out.get(self.sent..).unwrap_or_default();
            let sent = self.way.write(rest);
            self.sent += sent.map_err(|error| self.explained(error))?;
            self.moved = Instant::now();
        }
        self.out.clear();
        self.sent = 0;
        if self.out.capacity() > KEPT {
            self.out = Vec::new();
        }
        let flushed = self.way.flush();
        flushed.map_err(|error| self.explained(error))
    }

    /// Adds the likely reason to the error of a connection that ended before anything was received.
    fn explained(&self, error: ConnectionError) -> ConnectionError {
        match (error, self.silence) {
            (ConnectionError::Broken(why), Some(silence)) if !why.starts_with("TLS") => {
                ConnectionError::Broken(format!("{why}, before it has answered: {silence}"))
            }
            (error, _) => error,
        }
    }

    /// Waits for a complete reply.
    pub(crate) fn receive(&mut self) -> Result<(), ConnectionError> {
        while !self.has_reply()? {
            self.make_room();
            let room = self.input.get_mut(self.end..).unwrap_or_default();
            let read = match self.way.read(room) {
                Ok(0) => Err(ConnectionError::Broken(
                    "the server closed the connection".into(),
                )),
                read => read,
            };
            self.end += read.map_err(|error| self.explained(error))?;
            self.moved = Instant::now();
            self.silence = None;
        }
        Ok(())
    }

    /// The error that a server sent before it closed a connection that can no longer be written to. Earlier answers are
    /// lost.
    pub(crate) fn last_words(&mut self) -> Option<String> {
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

    /// Whether there is a complete reply.
    pub(crate) fn has_reply(&mut self) -> Result<bool, ConnectionError> {
        let bytes = self.input.get(self.start..self.end).unwrap_or_default();
        match self.scan.whole(bytes) {
            Ok(whole) => Ok(whole.is_some()),
            Err(_) if bytes.starts_with(&TLS_ALERT) => {
                Err(ConnectionError::Broken(SPEAKS_TLS.into()))
            }
            Err(found) => Err(ConnectionError::Broken(format!(
                "not a Redis server, or damaged data: {}",
                found.0
            ))),
        }
    }

    /// Passes on the complete reply.
    pub(crate) fn take<T>(
        &mut self,
        take: impl FnOnce(Reply<'_>) -> T,
    ) -> Result<T, ConnectionError> {
        let bytes = self.input.get(self.start..self.end).unwrap_or_default();
        let whole = self.scan.whole(bytes).ok().flatten();
        let reply = whole.and_then(|whole| Some((Reply::of(bytes.get(..whole)?)?, whole)));
        let Some((reply, whole)) = reply else {
            return Err(ConnectionError::Broken(
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

    /// Makes space after the received bytes: at most twice as much as they take.
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

    /// Whether nothing is in flight, so that others may use the connection.
    pub(crate) fn is_idle(&self) -> bool {
        self.unsent() == 0 && self.start == self.end
    }
}

impl Transport {
    fn write(&mut self, bytes: &[u8]) -> Result<usize, ConnectionError> {
        loop {
            let written = match self {
                Self::Plain(stream) => stream.write(bytes),
                Self::Tls(stream) => stream.write(bytes),
            };
            match written {
                Ok(0) => return Err(ConnectionError::Broken("the server accepts no data".into())),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                written => return written.map_err(error),
            }
        }
    }

    fn flush(&mut self) -> Result<(), ConnectionError> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush().map_err(error),
        }
    }

    fn read(&mut self, room: &mut [u8]) -> Result<usize, ConnectionError> {
        loop {
            let read = match self {
                Self::Plain(stream) => stream.read(room),
                Self::Tls(stream) => stream.read(room),
            };
            match read {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => return read.map_err(error),
            }
        }
    }
}

fn error(error: std::io::Error) -> ConnectionError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => ConnectionError::Quiet,
        _ => ConnectionError::Broken(error.to_string()),
    }
}

fn connect(address: &Address, until: Instant) -> Result<TcpStream, ConnectionError> {
    let found = addresses(address, until, |host, port| {
        Ok((host, port).to_socket_addrs()?.collect())
    })?;
    let mut last = "no address found".to_owned();
    for place in found {
        let left = until.saturating_duration_since(Instant::now());
        // the system treats 0 as no timeout
        match TcpStream::connect_timeout(&place, left.max(Duration::from_millis(1))) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error.to_string(),
        }
    }
    Err(ConnectionError::Broken(last))
}

/// The addresses of a host. Only the system's configuration limits the time of a lookup. So a thread makes it, which is
/// abandoned if it takes too long.
fn addresses(
    address: &Address,
    until: Instant,
    look: impl FnOnce(&str, u16) -> std::io::Result<Vec<SocketAddr>> + Send + 'static,
) -> Result<Vec<SocketAddr>, ConnectionError> {
    let Address { host, port } = address.clone();
    if let Ok(ip) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let (sender, receiver) = channel();
    let name = "femtobarn-lookup".to_owned();
    let thread = thread::Builder::new().name(name).spawn(move || {
        let _ = sender.send(look(&host, port)); // the caller may have given up
    });
    let broken = |why: String| ConnectionError::Broken(format!("no address: {why}"));
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
) -> Result<StreamOwned<ClientConnection, TcpStream>, ConnectionError> {
    let broken = |error: String| ConnectionError::Broken(format!("TLS: {error}"));
    let name =
        ServerName::try_from(address.host.clone()).map_err(|error| broken(error.to_string()))?;
    let tls =
        ClientConnection::new(config.clone(), name).map_err(|error| broken(error.to_string()))?;
    let mut stream = StreamOwned::new(tls, stream);
    while stream.conn.is_handshaking() {
        match stream.conn.complete_io(&mut stream.sock) {
            Ok(_) => {}
            Err(error) if matches!(trouble_of(&error), ConnectionError::Quiet) => {
                if Instant::now() >= until {
                    let why = "no answer: if this is not its TLS port, connect with redis://";
                    return Err(broken(why.into()));
                }
            }
            Err(error) => {
                let why = cause(&error).map(ConnectionError::Broken);
                return Err(why.unwrap_or_else(|| broken(error.to_string())));
            }
        }
    }
    Ok(stream)
}

fn trouble_of(error: &std::io::Error) -> ConnectionError {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
            ConnectionError::Quiet
        }
        _ => ConnectionError::Broken(String::new()),
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
        let Err(ConnectionError::Broken(why)) = addresses(&host, until, hangs) else {
            panic!("it has an address");
        };
        assert!(why.contains("name service"), "{why}");
        assert!(started.elapsed() < Duration::from_secs(10));
        // an IP address needs no lookup
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
