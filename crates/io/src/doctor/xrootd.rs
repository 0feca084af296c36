//! Diagnosis for XRootD servers.

use std::sync::Arc;

use femtobarn_xrootd::{Client, File, OpenOptions, Trace, XrootdError, XrootdUrl};

use super::network::{self, Place, agreed, untrusted};
use super::{FailedStep, Found, Opened, Way};
use crate::runtime::wait_for;
use crate::source::{xrootd_client, xrootd_failed};
use crate::url::public;
use crate::{Settings, open_remote, with_causes};

pub fn examine(way: &mut Way, url: &str, settings: &Settings) -> Option<Opened> {
    let shown = public(url);
    let target = way.step("URL", || {
        let target = XrootdUrl::parse(url).map_err(|error| xrootd_failed(url, error))?;
        let client = xrootd_client(settings)?;
        Ok(Found::new((target, client), shown.clone()).taking(None))
    });
    let place = target.as_ref().map(|(target, _)| Place {
        host: target.server.host.clone(),
        port: target.server.port,
    });
    let nowhere = || Place {
        host: String::new(),
        port: 0,
    };
    network::reach(way, &shown, &place.unwrap_or_else(nowhere), settings);
    handshake(way, &shown, target.as_ref());
    let file = way.step("redirects", || {
        let Some((target, client)) = target.as_ref() else {
            return Ok(Found::new(None, ""));
        };
        let opened = File::open(client, target.clone(), OpenOptions::Read);
        let file = wait_for(&shown, opened)?.map_err(|error| xrootd_failed(url, error))?;
        let server = wait_for(&shown, file.server())?;
        let note = match server == target.server.to_string() {
            true => "none: this server has the file".to_owned(),
            false => format!("to {server}"),
        };
        Ok(Found::new(Some(Arc::new(file)), note))
    });
    let checksum = || {
        let (target, client) = target.as_ref()?;
        let found = wait_for(&shown, client.checksum(target)).ok()?.ok()?;
        Some(format!("{} {}", found.0, found.1))
    };
    let source = way.file_with(|| open_remote(url, settings), checksum);
    way.step("vector reads", || {
        let Some(Some(file)) = &file else {
            return Ok(Found::new((), ""));
        };
        let limits = wait_for(&shown, file.limits())?;
        let limits = limits.map_err(|error| xrootd_failed(url, error))?;
        let note = format!(
            "up to {} ranges (readv_iov_max) of {} bytes (readv_ior_max)",
            limits.most_elements, limits.largest_element
        );
        Ok(Found::new((), note))
    });
    source
}

/// Connects to check the server's version, TLS, and authentication.
fn handshake(way: &mut Way, shown: &str, target: Option<&(XrootdUrl, Client)>) {
    let probed = way.step("protocol", || {
        let Some((target, client)) = target else {
            return Ok(Found::new((Trace::default(), None), ""));
        };
        let (trace, error) = wait_for(shown, client.probe(&target.server))?;
        let Some((protocol, time)) = trace.protocol else {
            let why = error.map_or_else(String::new, |error| with_causes(&error));
            let advice = "check that an XRootD server listens on this port";
            return Err(FailedStep::new(why, advice));
        };
        let version = protocol.version;
        let role = match protocol.flags.is_manager() {
            true => "a redirector",
            false => "a file server",
        };
        let software = match &error {
            None => software(shown, target, client),
            Some(_) => String::new(),
        };
        let note = format!(
            "XRootD {}.{}.{}, {role}{software}",
            version >> 8 & 0xf,
            version >> 4 & 0xf,
            version & 0xf
        );
        Ok(Found::new((trace, error), note).taking(Some(time)))
    });
    let (trace, error) = probed.unwrap_or_default();
    way.step("TLS", || match (&trace.tls, &error) {
        (Some((session, _)), Some(XrootdError::Tls { why, .. })) => {
            Err(untrusted(session, why.clone()))
        }
        (None, Some(error @ XrootdError::Tls { .. })) => Err(FailedStep::new(
            with_causes(error),
            "use root:// instead of roots:// if others may see the data",
        )),
        (Some((session, time)), _) => Ok(Found::new((), agreed(session)).taking(Some(*time))),
        (None, _) => {
            let has = trace.protocol.is_some_and(|(p, _)| p.flags.has_tls());
            let note = match has {
                true => "not used, but available: use roots://",
                false => "not used: the server does not support it",
            };
            Ok(Found::new((), note).taking(None))
        }
    });
    way.step("authentication", || {
        let offered = match trace.offered.as_slice() {
            [] => "not required".to_owned(),
            offered => format!("accepted: {}", offered.join(", ")),
        };
        match (&error, &trace.used) {
            (Some(error), _) => Err(FailedStep::new(
                format!("{offered}; {}", with_causes(error)),
                "see the guide on remote files for where tokens, keys and proxies are searched",
            )),
            (None, Some(used)) => {
                let note = format!("{offered}; used: {used}");
                Ok(Found::new((), note).taking(trace.login))
            }
            (None, None) => Ok(Found::new((), offered).taking(trace.login)),
        }
    });
}

/// The version of the server software, if it reports that.
fn software(shown: &str, target: &XrootdUrl, client: &Client) -> String {
    let asked = wait_for(shown, client.configuration(&target.server, &["version"]));
    let lines = asked.ok().and_then(Result::ok).unwrap_or_default();
    match lines.first() {
        Some(version) if version != "version" => format!(", {version}"),
        _ => String::new(),
    }
}
