//! Ways to servers that can be made bad, by Toxiproxy.

use std::fmt::Write;

use crate::{Servers, can_store, free_port};

/// Ways to servers, each a port of this machine; they end with the test.
#[derive(Debug)]
pub struct Ways(Servers);

impl Ways {
    /// None if Toxiproxy is not there, which is said.
    pub fn start() -> Option<Self> {
        can_store("toxiproxy-server").then(|| Self(Servers::start("toxiproxy")))
    }

    /// Opens a way to the server that has a port; gives that of the way.
    pub fn before(&mut self, server: u16) -> u16 {
        let way = free_port();
        self.0.tell(&format!("before {server} {way}"));
        way
    }

    /// Makes what comes from the server bad, in Toxiproxy's words.
    pub fn poison(&mut self, way: u16, kind: &str, attributes: &[(&str, u64)]) {
        self.poison_stream(way, kind, "downstream", attributes);
    }

    /// Makes what goes to the server (`upstream`) or comes from it (`downstream`) bad.
    pub fn poison_stream(&mut self, way: u16, kind: &str, stream: &str, how: &[(&str, u64)]) {
        let mut command = format!("poison {way} {kind} {stream}");
        for (name, number) in how {
            write!(command, " {name}={number}").unwrap();
        }
        self.0.tell(&command);
    }

    /// Ends a way and opens it anew, as a good one.
    pub fn heal(&mut self, way: u16) {
        self.0.tell(&format!("heal {way}"));
    }

    /// Ends a way's connections, and refuses others.
    pub fn close(&mut self, way: u16) {
        self.0.tell(&format!("close_way {way}"));
    }

    /// Opens a way again.
    pub fn open(&mut self, way: u16) {
        self.0.tell(&format!("open_way {way}"));
    }
}
