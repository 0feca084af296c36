//! Addresses, connections and TLS, for all protocols.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use femtobarn_xrootd::{TlsSession, tls_advice, tls_session};
use futures_util::future::join_all;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

use super::{FailedStep, Found, Way, certificate};
use crate::Settings;
use crate::runtime::wait_for;

/// A server to connect to.
pub struct Place {
    pub host: String,
    pub port: u16,
}

/// Resolves the server and connects to each address; returns the one that answers first.
pub fn reach(way: &mut Way, url: &str, place: &Place, settings: &Settings) -> Option<SocketAddr> {
    let (host, port) = (place.host.trim_matches(['[', ']']), place.port);
    let found = way.step("addresses", || {
        let limit = settings.limits()?.connect_timeout;
        let found = wait_for(url, async {
            timeout(limit, lookup_host((host, port))).await
        })?;
        let advice = "check the server's name, and the network of this machine";
        let found = match found {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => return Err(FailedStep::new(format!("{host}: {error}"), advice)),
            Err(_) => {
                let why = format!("{host}: no answer for {} s", limit.as_secs_f32());
                return Err(FailedStep::new(why, advice));
            }
        };
        let mut addresses: Vec<SocketAddr> = found.collect();
        addresses.dedup();
        let shown: Vec<String> = addresses.iter().map(|a| a.ip().to_string()).collect();
        let note = format!("{host} is {}", shown.join(", "));
        Ok(Found::new(addresses, note))
    });
    way.step("connection", || {
        let limit = settings.limits()?.connect_timeout;
        let addresses = found.unwrap_or_default();
        let tries = addresses.iter().map(|&address| connect(address, limit));
        let results = wait_for(url, join_all(tries))?;
        let all = addresses.iter().zip(&results);
        let shown = all.map(|(address, result)| match result {
            Ok(time) => format!("{address} in {:.1} ms", time.as_secs_f64() * 1e3),
            Err(why) => format!("{address}: {why}"),
        });
        let shown: Vec<String> = shown.collect();
        let fine = addresses.iter().zip(results).filter_map(|(address, result)| {
            let time = result.ok()?;
            Some((time, *address))
        });
        match fine.min() {
            Some((time, address)) => {
                Ok(Found::new(address, shown.join(", ")).taking(Some(time)))
            }
            None => Err(FailedStep::new(
                shown.join(", "),
                format!(
                    "check the port ({port}); if nothing answers, a firewall may block it, or a proxy may be needed"
                ),
            )),
        }
    })
}

async fn connect(address: SocketAddr, limit: Duration) -> Result<Duration, String> {
    let start = Instant::now();
    match timeout(limit, TcpStream::connect(address)).await {
        Ok(Ok(_)) => Ok(start.elapsed()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer for {} s", limit.as_secs_f32())),
    }
}

/// Starts TLS with a server that uses it from the beginning.
pub fn tls(
    way: &mut Way,
    url: &str,
    place: &Place,
    address: Option<SocketAddr>,
    authorities: Option<&Path>,
    settings: &Settings,
) {
    way.step("TLS", || {
        let Some(address) = address else {
            return Ok(Found::new((), ""));
        };
        let limit = settings.limits()?.connect_timeout;
        let shake = async {
            let stream = TcpStream::connect(address).await;
            let stream = stream.map_err(|error| error.to_string())?;
            let start = Instant::now();
            let host = place.host.trim_matches(['[', ']']);
            let (session, why) = tls_session(stream, host, authorities).await;
            Ok::<_, String>((session, why, start.elapsed()))
        };
        let done = wait_for(url, async { timeout(limit, shake).await })?;
        let waited = format!("no answer for {} s", limit.as_secs_f32());
        let done = done.unwrap_or(Err(waited));
        match done {
            Ok((session, None, time)) => Ok(Found::new((), agreed(&session)).taking(Some(time))),
            Ok((session, Some(why), _)) => Err(untrusted(&session, why)),
            Err(why) => Err(untrusted(&TlsSession::default(), why)),
        }
    });
}

/// The negotiated parameters.
pub fn agreed(session: &TlsSession) -> String {
    let shown = session.certificate.as_deref();
    let certificate = shown.and_then(certificate::describe);
    let parts = [
        session.version.clone(),
        session.cipher.clone(),
        certificate.map(|shown| format!("certificate {shown}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The reason for a TLS failure, with the certificate of the server.
pub fn untrusted(session: &TlsSession, why: String) -> FailedStep {
    let advice = tls_advice(&why);
    let shown = agreed(session);
    let why = match shown.is_empty() {
        true => why,
        false => format!("{why}; {shown}"),
    };
    FailedStep::new(why, advice)
}
