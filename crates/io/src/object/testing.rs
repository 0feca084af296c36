//! Shared parts of the tests of sources and sinks.

use std::collections::BTreeMap;

use femtobarn_testkit::Servers;

use crate::Settings;

/// Settings to connect to a server; `more` override them.
pub(crate) fn settings(server: &Servers, more: &[(&str, &str)]) -> Settings {
    let usual = [
        ("endpoint", server.endpoint.as_str()),
        ("region", "us-east-1"),
        ("access_key_id", &server.keys.0),
        ("secret_access_key", &server.keys.1),
        ("most_retries", "1"),
    ];
    let mut given: BTreeMap<&str, &str> = usual.iter().chain(more).copied().collect();
    given.retain(|_, value| !value.is_empty());
    let given: Vec<(&str, &str)> = given.into_iter().collect();
    Settings::with("s3://private", &given).unwrap()
}
