//! Monitoring: when a file is closed, one datagram of JSON says what was read of it, with the fields of CMS's software.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};

use femtobarn_fork::PerProcess;
use serde_json::{Map, Value};

use femtobarn_xrootd::notice;

use crate::runtime::PerSettings;
use crate::url::local_path;
use crate::usage::Origin;
use crate::{IoError, Settings};

/// Where datagrams of a process go.
static SOCKETS: PerSettings<String, Option<Arc<UdpSocket>>> = PerSettings::new();

/// Variables that name a job, the first one that is set.
const JOBS: [&str; 2] = ["CRAB_UNIQUE_JOB_ID", "DashboardJobId"];

/// Tells a collector what was read of files.
#[derive(Debug, Clone)]
pub(crate) struct Monitor {
    socket: Arc<UdpSocket>,
    site: Option<String>,
    is_fallback: bool,
}

/// The collector that settings name; none if they name none. A fallback is not the first source of its file.
///
/// # Errors
/// If it is not an address.
pub(crate) fn monitor_of(
    settings: &Settings,
    is_fallback: bool,
) -> Result<Option<Monitor>, IoError> {
    let Some(place) = settings.text("monitor")? else {
        return Ok(None);
    };
    let failed = |why: &str| IoError::Setting {
        url: "monitor".to_owned(),
        what: format!("invalid monitor {place:?}: {why}"),
    };
    let address = place
        .strip_prefix("udp://")
        .map(|address| address.trim_end_matches('/'));
    let address = address.ok_or_else(|| failed("expected udp://HOST:PORT"))?;
    let socket = SOCKETS.get(&place, || {
        // a job goes on without its collector
        let made = connected(address).map_err(|error| {
            let text = format!("nothing is sent to the monitor {place}: {error}");
            notice(&format!("monitor {place}"), &text);
        });
        Ok::<_, IoError>(made.ok().map(Arc::new))
    })?;
    let site = settings.text("site")?;
    Ok(socket.map(|socket| Monitor {
        socket,
        site,
        is_fallback,
    }))
}

fn connected(address: &str) -> std::io::Result<UdpSocket> {
    use std::net::ToSocketAddrs as _;
    let mut last = std::io::Error::from(std::io::ErrorKind::NotFound);
    for address in address.to_socket_addrs()? {
        let any = if address.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        let made = UdpSocket::bind(any).and_then(|socket| {
            socket.connect(address)?;
            // a datagram that cannot be sent at once is lost
            socket.set_nonblocking(true)?;
            Ok(socket)
        });
        match made {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

impl Monitor {
    /// Sends what was read of a file. Nobody waits for it, and nobody learns whether it arrived.
    pub fn closed(&self, origin: &Origin, opened: SystemTime) {
        let packet = self.packet(origin, opened).to_string();
        let _ = self.socket.send(packet.as_bytes());
    }

    fn packet(&self, origin: &Origin, opened: SystemTime) -> Value {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut out = Map::new();
        let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
        if let Some(site) = &self.site {
            put("site_name", site.as_str().into());
        }
        put("fallback", self.is_fallback.into());
        put("user_dn", "unknown".into());
        for (names, full) in [("client", client_name()), ("server", host(&origin.server))] {
            let (host, domain) = host_and_domain(&full);
            put(&format!("{names}_host"), host.into());
            put(&format!("{names}_domain"), domain.into());
        }
        let number = NUMBER.fetch_add(1, Relaxed);
        put("unique_id", format!("{}-{number}", guid()).into());
        put("file_lfn", logical_name(origin.source.url()).into());
        let job = JOBS.iter().find_map(|name| std::env::var(name).ok());
        if let Some(job) = job {
            put("app_info", job.into());
        }
        put("file_size", origin.source.meta().size.into());
        let reads = origin.reads();
        for (name, spread) in [
            ("read_single", reads.single),
            ("read_vector", reads.vector),
            ("read_vector_count", reads.ranges),
        ] {
            if let (Some(mean), Some(sigma)) = (spread.mean(), spread.sigma()) {
                put(&format!("{name}_sigma"), sigma.into());
                put(&format!("{name}_average"), mean.into());
            }
        }
        put("read_bytes", reads.bytes().into());
        put("read_bytes_at_close", reads.bytes().into());
        put("read_single_operations", reads.single.n.into());
        put("read_single_bytes", reads.single.sum.into());
        put("read_vector_operations", reads.vector.n.into());
        put("read_vector_bytes", reads.vector.sum.into());
        put("start_time", seconds(opened).into());
        put("end_time", seconds(SystemTime::now()).into());
        out.into()
    }
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// The name of this machine.
fn client_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    let name = name.unwrap_or_default().trim().to_owned();
    if name.is_empty() {
        "unknown".to_owned()
    } else {
        name
    }
}

/// The host of a server, without scheme and port.
fn host(server: &str) -> String {
    let host = server.split_once("://").map_or(server, |(_, host)| host);
    let port = host.rsplit_once(':');
    let port = port.filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    port.map_or(host, |(host, _)| host).to_owned()
}

/// The name of a host in its domain, and the domain. Addresses have none.
fn host_and_domain(full: &str) -> (&str, &str) {
    let is_address = full.parse::<Ipv4Addr>().is_ok() || full.starts_with('[');
    let split = full.split_once('.').filter(|_| !is_address);
    split.unwrap_or((full, "unknown"))
}

/// The logical name of a file: its path from `/store/` on, or its path.
fn logical_name(url: &str) -> String {
    let path = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').and_then(|at| rest.get(at..)).unwrap_or(rest),
        None => &local_path(url),
    };
    match path.find("/store/") {
        Some(at) => path.get(at..).unwrap_or(path).to_owned(),
        None => path.replacen("//", "/", 1),
    }
}

/// A random identity of this process.
fn guid() -> String {
    static GUID: PerProcess<String> = PerProcess::new();
    let made = GUID.get(|| {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        let digits = bytes.map(|byte| format!("{byte:02X}"));
        let groups = [0..4, 4..6, 6..8, 8..10, 10..16];
        let group = |range| digits.get(range).map(<[String]>::concat);
        Ok::<_, getrandom::Error>(
            groups
                .into_iter()
                .filter_map(group)
                .collect::<Vec<_>>()
                .join("-"),
        )
    });
    made.unwrap_or_else(|_| format!("{}", std::process::id()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files_and_hosts() {
        for (url, name) in [
            ("root://h:1//store/a/b", "/store/a/b"),
            ("root://h//eos/cms/store/a", "/store/a"),
            ("https://h/a/b", "/a/b"),
            ("s3://bucket/key", "/key"),
        ] {
            assert_eq!(logical_name(url), name);
        }
        assert_eq!(host("root://[::1]:1094"), "[::1]");
        assert_eq!(host("s3://bucket"), "bucket");
        assert_eq!(host_and_domain("a.b.org"), ("a", "b.org"));
        for alone in ["127.0.0.1", "[::ffff:127.0.0.1]", "localhost"] {
            assert_eq!(host_and_domain(alone), (alone, "unknown"));
        }
        assert_eq!(guid().len(), 36);
        assert_eq!(guid(), guid());
    }
}
