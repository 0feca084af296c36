//! Relays connections to servers through this process, so that a test can observe and change the traffic.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Bytes that pass the relay.
#[derive(Debug)]
pub struct Passing<'a> {
    /// Number of the connection, in the order in which clients connected.
    pub connection: usize,
    /// Whether the bytes come from the server, rather than from the client.
    pub is_answer: bool,
    /// Number of bytes of the connection that passed before, in this direction.
    pub at: u64,
    /// The bytes to forward.
    pub bytes: &'a mut Vec<u8>,
}

/// Relays to a port of this machine for the lifetime of the process; returns the port of the relay.
///
/// `watch` is called with all bytes before they are forwarded. If it returns a break, the connection is closed
/// after these bytes.
pub fn relay(
    server: u16,
    watch: impl Fn(&mut Passing<'_>) -> ControlFlow<()> + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let watch = Arc::new(watch);
    std::thread::spawn(move || {
        let clients = listener.incoming().map_while(Result::ok);
        for (connection, client) in clients.enumerate() {
            let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else {
                return;
            };
            let (back, forth) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            for (from, to, is_answer) in [(client, forth, false), (server, back, true)] {
                let watch = watch.clone();
                std::thread::spawn(move || pass(from, to, connection, is_answer, &*watch));
            }
        }
    });
    port
}

fn pass(
    mut from: TcpStream,
    mut to: TcpStream,
    connection: usize,
    is_answer: bool,
    watch: &impl Fn(&mut Passing<'_>) -> ControlFlow<()>,
) {
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        let mut bytes = buffer[..n].to_vec();
        let goes_on = watch(&mut Passing {
            connection,
            is_answer,
            at,
            bytes: &mut bytes,
        });
        at += n as u64;
        if to.write_all(&bytes).is_err() || goes_on.is_break() {
            break;
        }
    }
    // each side may be closed already
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
