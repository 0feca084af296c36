//! Ways to servers through this process, where a test sees and changes what passes.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Some bytes on their way.
#[derive(Debug)]
pub struct Passing<'a> {
    /// Which of the connections they are of, in the order in which clients made them.
    pub connection: usize,
    /// Whether they come from the server; others go to it.
    pub is_answer: bool,
    /// How many bytes of their connection have gone before them, this way.
    pub at: u64,
    /// What is sent on.
    pub bytes: &'a mut Vec<u8>,
}

/// Opens a way to the server of this machine that has a port, as long as the process is; gives the way's port.
///
/// All that passes is given to `watch` before it is sent on. A break ends the connection once it is sent.
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
    // each may be closed already
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
