//! The stores that all sources and sinks of a process share, one per configuration.

use std::collections::BTreeMap;
use std::path::Path as FilePath;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey as S3Key};
use object_store::azure::{AzureConfigKey as AzureKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey as GoogleKey};
use object_store::multipart::MultipartStore;
use object_store::{ObjectStore, RetryConfig};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::client::Connector;
use super::failure::NO_CREDENTIALS;
use super::{Address, Kind, Options, failure};
use crate::IoError;
use crate::runtime::{PerSettings, wait_for};
use femtobarn_xrootd::Rate;

static STORES: PerSettings<Options, Arc<Store>> = PerSettings::new();

/// A bucket, with its credentials.
pub(crate) struct Store {
    pub objects: Arc<dyn ObjectStore>,
    pub parts: Arc<dyn MultipartStore>,
    /// Limits concurrent requests.
    pub slots: Arc<Semaphore>,
    /// Minimum rate of answers.
    pub rate: Rate,
    /// Number of retries.
    pub most_retries: usize,
}

/// The store of an object with these options.
///
/// # Errors
/// If there are no credentials, or the configuration is invalid.
pub(crate) fn store(address: &Address, options: &Options) -> Result<Arc<Store>, IoError> {
    if let Some(known) = STORES.known(options) {
        return Ok(known);
    }
    if let Some(places) = asks_machine(options) {
        find_machine(address, &places)?;
    }
    STORES.get(options, || match make(options) {
        Ok(made) => Ok(Arc::new(made)),
        Err(error) => Err(failure::read(address, error)),
    })
}

/// Configures a builder with the common options; the builders have the same methods, but no common trait.
macro_rules! configured {
    ($builder:ty, $key:ty, $options:expr, $connector:expr, $retry:expr) => {{
        let new = <$builder>::new().with_client_options($connector.options());
        pairs::<$key>(&$options.config)?
            .into_iter()
            .fold(new, |builder, (key, value)| builder.with_config(key, value))
            .with_retry($retry)
            .with_http_connector($connector)
    }};
}

fn make(options: &Options) -> object_store::Result<Store> {
    let connector = Connector {
        limits: options.limits,
        authorities: options.authorities.clone(),
    };
    let retry = RetryConfig {
        max_retries: options.limits.most_retries,
        ..RetryConfig::default()
    };
    let (objects, parts): (Arc<dyn ObjectStore>, Arc<dyn MultipartStore>) = match options.kind {
        Kind::S3 => {
            let builder = configured!(AmazonS3Builder, S3Key, options, connector, retry);
            both(builder.with_bucket_name(&options.bucket).build()?)
        }
        Kind::Google => {
            let builder = configured!(
                GoogleCloudStorageBuilder,
                GoogleKey,
                options,
                connector,
                retry
            );
            both(builder.with_bucket_name(&options.bucket).build()?)
        }
        Kind::Azure => {
            let builder = configured!(MicrosoftAzureBuilder, AzureKey, options, connector, retry);
            let builder = match &options.host {
                // the URL contains the account
                Some(host) => builder.with_url(format!("abfss://{}@{host}/", options.bucket)),
                None => builder.with_container_name(&options.bucket),
            };
            both(builder.build()?)
        }
    };
    Ok(Store {
        objects,
        parts,
        rate: options.limits.rate(),
        slots: Arc::new(Semaphore::new(options.at_once)),
        most_retries: options.limits.most_retries,
    })
}

fn both<S: ObjectStore + MultipartStore>(
    store: S,
) -> (Arc<dyn ObjectStore>, Arc<dyn MultipartStore>) {
    let store = Arc::new(store);
    (store.clone(), store)
}

/// The configuration with parsed keys.
fn pairs<K: FromStr<Err = object_store::Error>>(
    config: &BTreeMap<String, String>,
) -> object_store::Result<Vec<(K, String)>> {
    let pair = |(name, value): (&String, &String)| Ok((name.parse()?, value.clone()));
    config.iter().map(pair).collect()
}

/// The addresses of cloud metadata servers to ask for credentials, if no others are given.
fn asks_machine(options: &Options) -> Option<Vec<String>> {
    let has = |name: &str| options.config.contains_key(name);
    let is_set = |name: &str| {
        let value = options.config.get(name);
        value.is_some_and(|value| value.parse() == Ok(true))
    };
    let usual = "169.254.169.254:80".to_owned();
    match options.kind {
        Kind::S3 => {
            let others = [
                S3Key::AccessKeyId,
                S3Key::SecretAccessKey,
                S3Key::WebIdentityTokenFile,
                S3Key::ContainerCredentialsRelativeUri,
                S3Key::ContainerCredentialsFullUri,
            ];
            let is_known = others.iter().any(|key| has(key.as_ref()));
            let own = options.config.get(S3Key::MetadataEndpoint.as_ref());
            let place = own.map_or(usual, |own| host_of(own));
            (!is_known && !is_set(S3Key::SkipSignature.as_ref())).then(|| vec![place])
        }
        Kind::Google => {
            let others = [GoogleKey::ServiceAccount, GoogleKey::ServiceAccountKey];
            let others = others.map(|key| has(key.as_ref()));
            let is_known = others.contains(&true)
                || has(GoogleKey::ApplicationCredentials.as_ref())
                || has_google_file();
            let places = vec!["metadata.google.internal:80".to_owned(), usual];
            (!is_known && !is_set(GoogleKey::SkipSignature.as_ref())).then_some(places)
        }
        Kind::Azure => {
            let others = [
                AzureKey::AccessKey,
                AzureKey::SasKey,
                AzureKey::Token,
                AzureKey::ClientSecret,
                AzureKey::FederatedTokenFile,
                AzureKey::FabricTokenServiceUrl,
                AzureKey::MsiEndpoint,
                AzureKey::CredentialType,
            ];
            let is_known = others.iter().any(|key| has(key.as_ref()))
                || [
                    AzureKey::UseAzureCli,
                    AzureKey::UseEmulator,
                    AzureKey::SkipSignature,
                ]
                .iter()
                .any(|key| is_set(key.as_ref()));
            (!is_known).then(|| vec![usual])
        }
    }
}

/// Whether the credentials file of `gcloud auth application-default login` exists.
fn has_google_file() -> bool {
    let home = std::env::var_os("HOME").unwrap_or_default();
    let place = ".config/gcloud/application_default_credentials.json";
    FilePath::new(&home).join(place).exists()
}

/// Host and port of a URL.
fn host_of(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let host = rest.split('/').next().unwrap_or_default();
    match host.contains(':') {
        true => host.to_owned(),
        false => format!("{host}:80"),
    }
}

/// Checks whether a cloud provides credentials to this machine. Outside a cloud nothing answers, and the retries of the
/// crate would take long.
fn find_machine(address: &Address, places: &[String]) -> Result<(), IoError> {
    let is_off = std::env::var("AWS_EC2_METADATA_DISABLED");
    let is_off = address.kind == Kind::S3 && is_off.is_ok_and(|value| value == "true");
    let look = async {
        for place in places {
            let connected = tokio::time::timeout(Duration::from_secs(1), TcpStream::connect(place));
            if matches!(connected.await, Ok(Ok(_))) {
                return true;
            }
        }
        false
    };
    if !is_off && wait_for(&address.url, look)? {
        return Ok(());
    }
    let what = match address.kind {
        Kind::S3 => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile of ~/.aws",
        Kind::Google => "GOOGLE_APPLICATION_CREDENTIALS, or gcloud auth application-default login",
        Kind::Azure => "AZURE_STORAGE_ACCOUNT_KEY, or AZURE_STORAGE_SAS_TOKEN",
    };
    Err(IoError::Refused {
        url: address.url.clone(),
        why: format!("{NO_CREDENTIALS} ({what})"),
    })
}
