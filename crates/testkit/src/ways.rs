//! Connections to servers that Toxiproxy can disturb.

use std::fmt::Write;

use crate::{Servers, can_store, free_port};

/// Proxies before servers, each with a port of this machine. They end with the test.
#[derive(Debug)]
pub struct Ways(Servers);

impl Ways {
    /// None, with a message, if Toxiproxy is not installed.
    pub fn start() -> Option<Self> {
        can_store("toxiproxy-server").then(|| Self(Servers::start("toxiproxy")))
    }

    /// Creates a proxy before the server with this port; returns the port of the proxy.
    pub fn before(&mut self, server: u16) -> u16 {
        let way = free_port();
        self.0.tell(&format!("before {server} {way}"));
        way
    }

    /// Adds a toxic to data from the server, in Toxiproxy's terms.
    pub fn poison(&mut self, way: u16, kind: &str, attributes: &[(&str, u64)]) {
        self.poison_stream(way, kind, "downstream", attributes);
    }

    /// Adds a toxic to data to the server (`upstream`) or from it (`downstream`).
    pub fn poison_stream(&mut self, way: u16, kind: &str, stream: &str, how: &[(&str, u64)]) {
        let mut command = format!("poison {way} {kind} {stream}");
        for (name, number) in how {
            write!(command, " {name}={number}").unwrap();
        }
        self.0.tell(&command);
    }

    /// Replaces a proxy by one without toxics.
    pub fn heal(&mut self, way: u16) {
        self.0.tell(&format!("heal {way}"));
    }

    /// Closes the connections of a proxy, and refuses new ones.
    pub fn close(&mut self, way: u16) {
        self.0.tell(&format!("close_way {way}"));
    }

    /// Accepts connections again.
    pub fn open(&mut self, way: u16) {
        self.0.tell(&format!("open_way {way}"));
    }
}
