//! Diagnosis for object stores.

use reqwest::Url;

use super::network::{self, Place};
use super::{Found, Opened, Way};
use crate::object::{Address, Options};
use crate::{Settings, open_remote};

pub fn examine(way: &mut Way, url: &str, settings: &Settings) -> Option<Opened> {
    let options = way.step("store", || {
        let address = Address::parse(url)?;
        let options = Options::of(&address, settings)?;
        let (note, endpoint) = (options.description(), options.endpoint());
        Ok(Found::new((options, endpoint, address.url), note).taking(None))
    });
    let endpoint = options.as_ref().map(|(_, endpoint, _)| endpoint.as_str());
    let endpoint = endpoint.and_then(|endpoint| Url::parse(endpoint).ok());
    let host = endpoint.as_ref().and_then(|endpoint| endpoint.host_str());
    let port = endpoint.as_ref().and_then(Url::port_or_known_default);
    let place = Place {
        host: host.unwrap_or_default().to_owned(),
        port: port.unwrap_or_default(),
    };
    let shown = options.as_ref().map_or("", |(_, _, shown)| shown);
    let found = network::reach(way, shown, &place, settings);
    if endpoint.is_none_or(|endpoint| endpoint.scheme() == "https") {
        let options = options.as_ref().map(|(options, _, _)| options);
        let authorities = options.and_then(|options| options.authorities.as_deref());
        network::tls(way, shown, &place, found, authorities, settings);
    }
    let source = way.file(|| open_remote(url, settings));
    way.step("vector reads", || {
        let note = "ranges, one per request";
        Ok(Found::new((), note).taking(None))
    });
    source
}
