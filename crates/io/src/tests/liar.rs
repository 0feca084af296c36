//! A fake server with a behaviour defined by the test: real ones do not fail, stall or redirect on
//! command.

use std::io::{BufRead, BufReader, Read};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The behaviour for a request, given its index and its head.
type Does = dyn Fn(usize, &str, &mut TcpStream) + Send + Sync;

/// A server on its own port.
pub(crate) struct Liar {
    pub port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Liar {
    pub fn start(does: impl Fn(usize, &str, &mut TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, does): (Arc<Mutex<Vec<String>>>, Arc<Does>) = (Arc::default(), Arc::new(does));
        let all = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (asked, does) = (all.clone(), does.clone());
                std::thread::spawn(move || serve(stream, &asked, &*does));
            }
        });
        Self { port, asked }
    }

    /// The URL without a path.
    pub fn place(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The heads of the received requests.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    pub fn forget(&self) {
        self.asked.lock().unwrap().clear();
    }
}

fn serve(mut stream: TcpStream, asked: &Mutex<Vec<String>>, does: &Does) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    loop {
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let mut line = String::new();
            if !matches!(reader.read_line(&mut line), Ok(1..)) {
                return;
            }
            if let Some(said) = line.to_lowercase().strip_prefix("content-length:") {
                length = said.trim().parse().unwrap();
            }
            head.push_str(&line);
        }
        if std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink()).is_err() {
            return;
        }
        let number = {
            let mut asked = asked.lock().unwrap();
            asked.push(head.clone());
            asked.len() - 1
        };
        does(number, &head, &mut stream);
    }
}
