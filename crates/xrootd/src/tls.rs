//! TLS with the certificates of the system, of the grid, or of a folder or file that is named.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::{Options, Server, XrootdError};

/// Where the grid's certificates are.
const GRID: &str = "/etc/grid-security/certificates";

/// Changes a connection to TLS.
pub(crate) async fn upgrade(
    stream: TcpStream,
    server: &Server,
    options: &Options,
) -> Result<TlsStream<TcpStream>, XrootdError> {
    let failed = |why: String| XrootdError::Tls {
        server: server.to_string(),
        why,
    };
    let config = config(options.authorities.as_deref()).map_err(failed)?;
    let name = ServerName::try_from(server.host.clone())
        .map_err(|_| failed("its name is none that a certificate can have".to_owned()))?;
    let connector = TlsConnector::from(Arc::new(config));
    let connected = connector.connect(name, stream).await;
    connected.map_err(|error| failed(error.to_string()))
}

/// TLS with the certificates of these authorities (a file or a folder), or of those of the system and of the grid.
///
/// # Errors
/// If there are none, in words.
pub fn config(authorities: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    match authorities {
        Some(place) => {
            if add(&mut roots, place) == 0 {
                return Err(format!("{} has no certificates", place.display()));
            }
        }
        None => {
            let found = rustls_native_certs::load_native_certs();
            roots.add_parsable_certificates(found.certs);
            add(&mut roots, Path::new(GRID));
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// Adds the certificates of a file, or of the files of a folder; gives how many there were.
fn add(roots: &mut RootCertStore, place: &Path) -> usize {
    let files: Vec<PathBuf> = match std::fs::read_dir(place) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => vec![place.to_owned()],
    };
    let certificates = files.iter().flat_map(|file| {
        let found = CertificateDer::pem_file_iter(file);
        found.into_iter().flatten().filter_map(Result::ok)
    });
    let (added, _) = roots.add_parsable_certificates(certificates);
    added
}
