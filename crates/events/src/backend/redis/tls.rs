//! Whose certificates are trusted, and which is ours.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::settings::Settings;

/// The configuration of a client; what is wrong with it, in words.
pub fn config(settings: &Settings) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match &settings.ca {
        Some(path) => {
            roots.add_parsable_certificates(certificates(path)?);
            if roots.is_empty() {
                return Err(format!("{} has no certificates", path.display()));
            }
        }
        None => {
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots);
    let config = match &settings.identity {
        (Some(cert), Some(key)) => {
            let own = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| format!("cannot read {}: {error}", key.display()))?;
            builder
                .with_client_auth_cert(certificates(cert)?, own)
                .map_err(|error| format!("{} and its key: {error}", cert.display()))?
        }
        (None, None) => builder.with_no_client_auth(),
        _ => return Err("cert and key go together".into()),
    };
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed =
        |error: rustls::pki_types::pem::Error| format!("cannot read {}: {error}", path.display());
    CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)
}
