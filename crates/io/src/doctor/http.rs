//! Diagnosis for HTTP servers.

use super::network::{self, Place};
use super::{FailedStep, Found, Opened, Way};
use crate::source::{HttpProbe, http_probe, http_start};
use crate::{Settings, open_remote, with_causes};

pub fn examine(way: &mut Way, url: &str, settings: &Settings) -> Option<Opened> {
    let start = way.step("URL", || {
        let start = http_start(url, settings)?;
        Ok(Found::new(start.clone(), start.url).taking(None))
    });
    let start = start.unwrap_or_default();
    let place = Place {
        host: start.host.clone(),
        port: start.port,
    };
    let address = network::reach(way, &start.url, &place, settings);
    if start.has_tls {
        let authorities = start.authorities.as_deref();
        network::tls(way, &start.url, &place, address, authorities, settings);
    }
    let probe = way.step("protocol", || {
        let probe = http_probe(url, settings)?;
        let note = match &probe {
            Ok(probe) => probe.protocol.clone(),
            Err(error) if error.status().is_some() => "HTTP".to_owned(),
            Err(error) => {
                let advice = "check that an HTTP server listens on this port";
                return Err(FailedStep::new(with_causes(error), advice));
            }
        };
        Ok(Found::new(probe, note))
    });
    way.step("authentication", || match &probe {
        Some(Err(error)) if matches!(error.status(), Some(401 | 403)) => Err(FailedStep::new(
            with_causes(error),
            "give a token (setting bearer_token, or BEARER_TOKEN), or a user in the URL; the given credentials were \
             refused",
        )),
        Some(Ok(probe)) => Ok(Found::new((), probe.credentials).taking(None)),
        _ => Ok(Found::new((), "").taking(None)),
    });
    let probe = probe.and_then(Result::ok);
    if let Some(place) = probe.as_ref().and_then(|probe| probe.moved_to.clone()) {
        way.step("redirects", || {
            Ok(Found::new((), format!("to {place}")).taking(None))
        });
    }
    let source = way.file(|| open_remote(url, settings));
    way.step("vector reads", || {
        let probe = probe.as_ref();
        Ok(Found::new((), probe.map_or("", ranges)).taking(None))
    });
    source
}

fn ranges(probe: &HttpProbe) -> &'static str {
    match (probe.gives_ranges, probe.gives_many) {
        (false, _) => "no ranges: the file is read as a whole",
        (true, true) => "ranges, several per request",
        (true, false) => "ranges, one per request",
    }
}
