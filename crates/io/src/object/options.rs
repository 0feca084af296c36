//! Configuration of a store, from settings, the environment and profiles, in this order. Equal configurations share a
//! store.

use std::collections::BTreeMap;
use std::io::ErrorKind::PermissionDenied;
use std::path::PathBuf;

use object_store::aws::AmazonS3ConfigKey as S3Key;
use object_store::azure::AzureConfigKey as AzureKey;
use object_store::gcp::GoogleConfigKey as GoogleKey;

use femtobarn_xrootd::read_unwritable;

use super::profile::Profile;
use super::{Address, Kind, failure};
use crate::settings::Limits;
use crate::url::public;
use crate::{IoError, Settings};

/// Maximum number of concurrent requests to one store. One request has 100 to 200 ms latency and then 85 to 90 MB/s.
/// With this number, the baskets of a tree (60 kB) reach 50 MB/s, and pages of 8 MiB saturate any network.
const AT_ONCE: usize = 128;

/// Environment variables.
pub(crate) type Environment = BTreeMap<String, String>;

/// Configuration of a store.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub kind: Kind,
    pub bucket: String,
    pub host: Option<String>,
    /// The options of the crate `object_store`, by its names.
    pub config: BTreeMap<String, String>,
    pub limits: Limits,
    pub at_once: usize,
    pub authorities: Option<PathBuf>,
}

/// Keys of an AWS account.
#[derive(Default)]
struct Keys {
    id: Option<String>,
    secret: Option<String>,
    token: Option<String>,
}

impl Options {
    /// The options for an object in this process.
    ///
    /// # Errors
    /// If a setting is invalid, or a named profile does not exist.
    pub fn of(address: &Address, settings: &Settings) -> Result<Self, IoError> {
        let text = |variable: (std::ffi::OsString, std::ffi::OsString)| {
            Some((
                variable.0.into_string().ok()?,
                variable.1.into_string().ok()?,
            ))
        };
        let environment = std::env::vars_os().filter_map(text).collect();
        Self::with(address, settings, &environment)
    }

    /// The options for an object with the given environment variables.
    pub fn with(
        address: &Address,
        settings: &Settings,
        environment: &Environment,
    ) -> Result<Self, IoError> {
        let limits = settings.limits()?;
        let mut config = match address.kind {
            Kind::S3 => s3(address, settings, environment)?,
            Kind::Google => google(settings, environment)?,
            Kind::Azure => azure(address, settings, environment)?,
        };
        check_servers(&address.url, &config)?;
        let mut endpoints = ENDPOINTS.iter().filter_map(|name| config.get(*name));
        if endpoints
            .next()
            .is_some_and(|endpoint| endpoint.starts_with("http://"))
        {
            config.insert("allow_http".to_owned(), "true".to_owned());
        }
        hide_secrets(&config);
        Ok(Self {
            kind: address.kind,
            bucket: address.bucket.clone(),
            host: address.host.clone(),
            config,
            limits,
            at_once: settings.number("requests_at_once")?.unwrap_or(AT_ONCE),
            authorities: settings.text("authorities")?.map(PathBuf::from),
        })
    }
}

/// Endpoint settings, by the names of `object_store`.
const ENDPOINTS: [&str; 4] = [
    "aws_endpoint_url_s3",
    "aws_endpoint",
    "google_base_url",
    "azure_storage_endpoint",
];

/// Checks that servers are given as URLs: `object_store` panics on requests to anything else.
fn check_servers(url: &str, config: &BTreeMap<String, String>) -> Result<(), IoError> {
    let given = ENDPOINTS.iter().filter_map(|name| config.get(*name));
    for text in given {
        let parsed = reqwest::Url::parse(text).ok();
        // `object_store` does not accept URLs that need normalization
        let is_plain = text.starts_with("http://") || text.starts_with("https://");
        let is_plain = is_plain && text.bytes().all(|byte| byte.is_ascii_graphic());
        let is_fine = is_plain && parsed.is_some_and(|parsed| parsed.has_host());
        if !is_fine {
            let example = match text.contains(['/', ' ', '@', '?']) || text.is_empty() {
                true => "https://s3.cern.ch".to_owned(),
                false => format!("http://{text} or https://{text}"),
            };
            let what = format!(
                "invalid endpoint {:?}: expected a URL, e.g. {example}",
                public(text)
            );
            let url = url.to_owned();
            return Err(IoError::Setting { url, what });
        }
    }
    Ok(())
}

/// Registers all credentials, so that errors do not show them, even if servers repeat them.
fn hide_secrets(config: &BTreeMap<String, String>) {
    let names = [
        S3Key::SecretAccessKey.as_ref(),
        S3Key::Token.as_ref(),
        AzureKey::AccessKey.as_ref(),
        AzureKey::Token.as_ref(),
        AzureKey::ClientSecret.as_ref(),
    ];
    failure::hide(
        names
            .iter()
            .filter_map(|name| config.get(*name))
            .map(String::as_str),
    );
    // only the signature of a shared access signature is secret
    let signed = config.get(AzureKey::SasKey.as_ref()).map(String::as_str);
    let parts = signed.unwrap_or_default().split('&');
    failure::hide(parts.filter_map(|part| part.trim_start_matches('?').strip_prefix("sig=")));
}

/// Settings from the environment, by the names of `object_store`.
fn of_environment<K: std::str::FromStr + AsRef<str>>(
    environment: &Environment,
    prefix: &str,
) -> BTreeMap<String, String> {
    let own = environment
        .iter()
        .filter(|(name, value)| name.starts_with(prefix) && !value.is_empty());
    own.filter_map(|(name, value)| {
        let key: K = name.to_ascii_lowercase().parse().ok()?;
        Some((key.as_ref().to_owned(), value.clone()))
    })
    .collect()
}

/// Overrides the environment with settings.
fn replace(
    config: &mut BTreeMap<String, String>,
    settings: &Settings,
    names: &[(&str, &str)],
) -> Result<(), IoError> {
    for (setting, name) in names {
        if let Some(value) = settings.text(setting)? {
            config.insert((*name).to_owned(), value);
        }
    }
    Ok(())
}

fn s3(
    address: &Address,
    settings: &Settings,
    environment: &Environment,
) -> Result<BTreeMap<String, String>, IoError> {
    let mut config = of_environment::<S3Key>(environment, "AWS_");
    // the bucket in the URL takes precedence
    config.remove(S3Key::Bucket.as_ref());
    let given = settings.text("profile")?;
    let named = given.clone().or_else(|| {
        let named = environment.get("AWS_PROFILE");
        named.filter(|name| !name.is_empty()).cloned()
    });
    let profile = profile(address, named.as_deref(), environment)?;
    if let Some(region) = profile.get("region")
        && !config.contains_key(S3Key::Region.as_ref())
    {
        let region = region.to_owned();
        config
            .entry(S3Key::DefaultRegion.as_ref().to_owned())
            .or_insert(region);
    }
    if let Some(endpoint) = profile.get("endpoint_url")
        && !config.contains_key(S3Key::S3Endpoint.as_ref())
    {
        let endpoint = endpoint.to_owned();
        config
            .entry(S3Key::Endpoint.as_ref().to_owned())
            .or_insert(endpoint);
    }
    let names = [
        ("endpoint", S3Key::S3Endpoint.as_ref()),
        ("region", S3Key::Region.as_ref()),
    ];
    replace(&mut config, settings, &names)?;
    if let Some(endpoint) = &address.endpoint {
        config.insert(S3Key::S3Endpoint.as_ref().to_owned(), endpoint.clone());
        config.remove(S3Key::VirtualHostedStyleRequest.as_ref());
    }
    // TLS protects what is sent: signing it would need its SHA-256, which takes as long as all else of an upload
    let endpoints = [S3Key::S3Endpoint, S3Key::Endpoint];
    let endpoint = endpoints.iter().find_map(|key| config.get(key.as_ref()));
    if endpoint.is_none_or(|endpoint| endpoint.starts_with("https://")) {
        let unsigned = S3Key::UnsignedPayload.as_ref().to_owned();
        config.entry(unsigned).or_insert("true".to_owned());
    }
    if settings.flag("anonymous")? {
        set_keys(&mut config, Keys::default());
        config.insert(S3Key::SkipSignature.as_ref().to_owned(), "true".to_owned());
        return Ok(config);
    }
    if let Some(keys) = keys(&config, settings, &profile, given.is_some())? {
        set_keys(&mut config, keys);
    } else if named.is_some()
        && !config.contains_key(S3Key::AccessKeyId.as_ref())
        && let Some(way) = profile.other_way()
    {
        let name = named.unwrap_or_default();
        return Err(refused(
            address,
            &format!(
                "the profile {name} uses {way}, which is not supported: give keys, e.g. with eval \"$(aws configure \
                 export-credentials --profile {name} --format env)\""
            ),
        ));
    }
    if address.is_set {
        add_keys_of_root(&mut config, environment);
    }
    Ok(config)
}

/// Adds the keys and the region of ROOT's variables (`S3_ACCESS_KEY`, `S3_SECRET_KEY`, `S3_REGION`), unless others are
/// set. Only ntuples as objects use them.
fn add_keys_of_root(config: &mut BTreeMap<String, String>, environment: &Environment) {
    let given = |name: &str| environment.get(name).filter(|value| !value.is_empty());
    let others = [S3Key::AccessKeyId, S3Key::WebIdentityTokenFile];
    if !others.iter().any(|key| config.contains_key(key.as_ref()))
        && let (Some(id), Some(secret)) = (given("S3_ACCESS_KEY"), given("S3_SECRET_KEY"))
    {
        let keys = Keys {
            id: Some(id.clone()),
            secret: Some(secret.clone()),
            token: None,
        };
        set_keys(config, keys);
    }
    if let Some(region) = given("S3_REGION")
        && !config.contains_key(S3Key::Region.as_ref())
    {
        config.insert(S3Key::Region.as_ref().to_owned(), region.clone());
    }
}

/// Credentials that take precedence over the environment, or replace missing ones there: from the settings, from the
/// profile named in the settings, or from another profile.
fn keys(
    config: &BTreeMap<String, String>,
    settings: &Settings,
    profile: &Profile,
    is_given: bool,
) -> Result<Option<Keys>, IoError> {
    let own = Keys {
        id: settings.text("access_key_id")?,
        secret: settings.text("secret_access_key")?,
        token: settings.text("session_token")?,
    };
    if own.id.is_some() || own.secret.is_some() {
        return Ok(Some(own));
    }
    let others = [S3Key::AccessKeyId, S3Key::WebIdentityTokenFile];
    let has_others = others.iter().any(|key| config.contains_key(key.as_ref()));
    if profile.get("aws_access_key_id").is_none() || (has_others && !is_given) {
        return Ok(None);
    }
    let text = |name| profile.get(name).map(str::to_owned);
    Ok(Some(Keys {
        id: text("aws_access_key_id"),
        secret: text("aws_secret_access_key"),
        token: text("aws_session_token"),
    }))
}

/// Sets all three together: a session token belongs to one pair of keys.
fn set_keys(config: &mut BTreeMap<String, String>, keys: Keys) {
    for (key, value) in [
        (S3Key::AccessKeyId, keys.id),
        (S3Key::SecretAccessKey, keys.secret),
        (S3Key::Token, keys.token),
    ] {
        match value {
            Some(value) => config.insert(key.as_ref().to_owned(), value),
            None => config.remove(key.as_ref()),
        };
    }
}

/// The named profile, which must exist; without a name, the default profile if it exists.
fn profile(
    address: &Address,
    name: Option<&str>,
    environment: &Environment,
) -> Result<Profile, IoError> {
    let home = environment.get("HOME").map(PathBuf::from);
    let read = |variable: &str, usual: &str| {
        let named = environment.get(variable).filter(|path| !path.is_empty());
        let place = match named {
            Some(path) => PathBuf::from(path),
            None => home.clone().unwrap_or_default().join(usual),
        };
        match read_unwritable(&place) {
            Ok(text) => Ok(text),
            // the file is readable, but its permissions make it untrusted
            Err(error) if error.kind() == PermissionDenied && error.raw_os_error().is_none() => {
                let url = place.display().to_string();
                let what = error.to_string();
                Err(IoError::Setting { url, what })
            }
            // a missing file is ignored
            Err(_) => Ok(String::new()),
        }
    };
    let credentials = read("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials")?;
    let config = read("AWS_CONFIG_FILE", ".aws/config")?;
    let found = Profile::find(name.unwrap_or("default"), &credentials, &config);
    match (found, name) {
        (Some(profile), _) => Ok(profile),
        (None, None) => Ok(Profile::default()),
        (None, Some(name)) => Err(IoError::Setting {
            url: address.url.clone(),
            what: format!(
                "profile {name} not found in ~/.aws/credentials, ~/.aws/config, or the files named by \
                 AWS_SHARED_CREDENTIALS_FILE and AWS_CONFIG_FILE"
            ),
        }),
    }
}

fn google(
    settings: &Settings,
    environment: &Environment,
) -> Result<BTreeMap<String, String>, IoError> {
    let mut config = of_environment::<GoogleKey>(environment, "GOOGLE_");
    config.remove(GoogleKey::Bucket.as_ref());
    let account = GoogleKey::ServiceAccount.as_ref();
    if let Some(path) = environment.get("SERVICE_ACCOUNT") {
        config.entry(account.to_owned()).or_insert(path.clone());
    }
    let key = GoogleKey::ServiceAccountKey.as_ref();
    if settings.text("secret_access_key")?.is_some() {
        config.remove(account);
    }
    let names = [
        ("endpoint", GoogleKey::BaseUrl.as_ref()),
        ("secret_access_key", key),
    ];
    replace(&mut config, settings, &names)?;
    if settings.flag("anonymous")? {
        let credentials = [account, key, GoogleKey::ApplicationCredentials.as_ref()];
        config.retain(|name, _| !credentials.contains(&name.as_str()));
        config.insert(
            GoogleKey::SkipSignature.as_ref().to_owned(),
            "true".to_owned(),
        );
    }
    Ok(config)
}

fn azure(
    address: &Address,
    settings: &Settings,
    environment: &Environment,
) -> Result<BTreeMap<String, String>, IoError> {
    let mut config = of_environment::<AzureKey>(environment, "AZURE_");
    config.remove(AzureKey::ContainerName.as_ref());
    for name in ["MSI_ENDPOINT", "IDENTITY_ENDPOINT"] {
        if let Some(endpoint) = environment.get(name) {
            let entry = config.entry(AzureKey::MsiEndpoint.as_ref().to_owned());
            entry.or_insert(endpoint.clone());
        }
    }
    let key = AzureKey::AccessKey.as_ref();
    let token = AzureKey::SasKey.as_ref();
    if settings.text("session_token")?.is_some() {
        // keys would take precedence
        config.remove(key);
    }
    let names = [
        ("endpoint", AzureKey::Endpoint.as_ref()),
        ("access_key_id", AzureKey::AccountName.as_ref()),
        ("secret_access_key", key),
        ("session_token", token),
    ];
    replace(&mut config, settings, &names)?;
    if settings.flag("anonymous")? {
        config.insert(
            AzureKey::SkipSignature.as_ref().to_owned(),
            "true".to_owned(),
        );
    }
    let accounts = [AzureKey::AccountName, AzureKey::UseEmulator];
    if address.host.is_none() && !accounts.iter().any(|key| config.contains_key(key.as_ref())) {
        return Err(IoError::Setting {
            url: address.url.clone(),
            what: "unknown storage account: give it with the setting access_key_id, the variable \
                   AZURE_STORAGE_ACCOUNT_NAME, or in the URL, e.g. abfss://container@account.dfs.core.windows.net/key".to_owned(),
        });
    }
    Ok(config)
}

fn refused(address: &Address, why: &str) -> IoError {
    IoError::Refused {
        url: address.url.clone(),
        why: why.to_owned(),
    }
}

#[cfg(test)]
mod tests;
