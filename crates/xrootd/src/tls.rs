//! TLS with certificates of the system, of the grid, or of a configured file or directory.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::{Options, Server, XrootdError};

/// The directory of the grid's certificates.
const GRID: &str = "/etc/grid-security/certificates";

/// The parameters of a TLS session, as far as its set-up came.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsSession {
    /// The version, for example `TLSv1_3`.
    pub version: Option<String>,
    /// The cipher suite.
    pub cipher: Option<String>,
    /// The server's certificate (DER), even if it is not trusted.
    pub certificate: Option<Vec<u8>>,
}

/// Upgrades a connection to TLS, and records its parameters in `session`.
pub(crate) async fn upgrade(
    stream: TcpStream,
    server: &Server,
    options: &Options,
    session: &mut TlsSession,
) -> Result<TlsStream<TcpStream>, XrootdError> {
    let authorities = options.authorities.as_deref();
    let connected = connect(stream, &server.host, authorities, session).await;
    connected.map_err(|why| XrootdError::Tls {
        server: server.to_string(),
        why: format!("{why}: {}", advice(&why)),
    })
}

/// Advice after TLS failed, by the reason.
pub fn advice(why: &str) -> &'static str {
    // signed by an unknown authority, or by one with the name of a known authority
    if why.contains("UnknownIssuer") || why.contains("BadSignature") {
        "set authorities (FEMTOBARN_AUTHORITIES) to a file or directory with the certificate of the authority that signed the server's certificate"
    } else if why.contains("Expired") {
        "the server's certificate has expired, or the clock of this machine is wrong"
    } else if why.contains("NotValidForName") {
        "use a server name that is in its certificate"
    } else if why.contains("no certificates") {
        "check the setting authorities (FEMTOBARN_AUTHORITIES), and X509_CERT_DIR"
    } else {
        "check that the port uses TLS, and which authorities are trusted (FEMTOBARN_AUTHORITIES)"
    }
}

/// Sets up TLS on a connection for diagnosis. Returns the parameters, and the error if it failed.
pub async fn tls_session(
    stream: TcpStream,
    host: &str,
    authorities: Option<&Path>,
) -> (TlsSession, Option<String>) {
    let mut session = TlsSession::default();
    let connected = connect(stream, host, authorities, &mut session).await;
    (session, connected.err())
}

async fn connect(
    stream: TcpStream,
    host: &str,
    authorities: Option<&Path>,
    session: &mut TlsSession,
) -> Result<TlsStream<TcpStream>, String> {
    let name = ServerName::try_from(host.to_owned())
        .map_err(|_| "the server's name is not a valid DNS name".to_owned())?;
    let (provider, roots) = trusted(authorities)?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    let seen = Arc::new(Mutex::new(None));
    let watching = Watching {
        inner: verifier,
        seen: seen.clone(),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(watching))
        .with_no_client_auth();
    let connected = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let connected = connected.await.map_err(|error| error.to_string());
    session.certificate = seen.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Ok(stream) = &connected {
        let (_, agreed) = stream.get_ref();
        let version = agreed.protocol_version();
        session.version = version.and_then(|version| Some(version.as_str()?.to_owned()));
        let suite = agreed.negotiated_cipher_suite();
        session.cipher = suite.and_then(|suite| Some(suite.suite().as_str()?.to_owned()));
    }
    connected
}

/// A configuration that trusts these authorities (a file or a directory), or those of the system and of the grid.
///
/// # Errors
/// A message if there are no certificates.
pub fn config(authorities: Option<&Path>) -> Result<ClientConfig, String> {
    let (provider, roots) = trusted(authorities)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

/// The cryptography, and the trusted authorities.
fn trusted(authorities: Option<&Path>) -> Result<(Arc<CryptoProvider>, RootCertStore), String> {
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
    Ok((Arc::new(rustls::crypto::ring::default_provider()), roots))
}

/// Verifies certificates as usual, and keeps the server's certificate, so that errors can name an untrusted server.
#[derive(Debug)]
struct Watching {
    inner: Arc<WebPkiServerVerifier>,
    seen: Arc<Mutex<Option<Vec<u8>>>>,
}

impl ServerCertVerifier for Watching {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        status: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Some(certificate.to_vec());
        drop(seen);
        let inner = &self.inner;
        inner.verify_server_cert(certificate, others, name, status, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// Adds the certificates of a file, or of all files of a directory. Returns their number.
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
