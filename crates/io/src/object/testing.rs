//! What tests of sources and sinks share.

use std::collections::BTreeMap;

use femtobarn_testkit::Servers;

use crate::Settings;

/// Settings with which a server is asked, and others, which count more.
pub(crate) fn settings(server: &Servers, more: &[(&str, &str)]) -> Settings {
    let usual = [
        ("endpoint", server.endpoint.as_str()),
        ("region", "us-east-1"),
        ("access_key_id", &server.keys.0),
        ("secret_access_key", &server.keys.1),
        ("most_retries", "1"),
    ];
    let all = usual.iter().chain(more);
    let given = all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let mut given: BTreeMap<String, String> = given.collect();
    given.retain(|_, value| !value.is_empty());
    Settings::new("s3://private", given).unwrap()
}
