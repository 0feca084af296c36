//! TLS: trusted certificates, the client certificate, and explanations of errors.

use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{AlertDescription, CertificateError, ClientConfig, Error, RootCertStore};

use crate::Options;

/// The TLS configuration of a client, or a message about what is wrong.
pub fn config(options: &Options) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    match &options.ca {
        Some(path) => {
            roots.add_parsable_certificates(certificates(path)?);
            if roots.is_empty() {
                return Err(format!("no certificates in {}", path.display()));
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
    let config = match &options.identity {
        (Some(cert), Some(key)) => {
            let own = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| format!("cannot read {}: {error}", key.display()))?;
            builder
                .with_client_auth_cert(certificates(cert)?, own)
                .map_err(|error| format!("{} and its key: {error}", cert.display()))?
        }
        (None, None) => builder.with_no_client_auth(),
        _ => return Err("give cert and key together".into()),
    };
    Ok(Arc::new(config))
}

/// What a TLS error means, and what to do; none if it is another error.
pub fn cause(error: &std::io::Error, options: &Options) -> Option<String> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    let remedy = match error {
        Error::InvalidCertificate(why) => of_its_certificate(why, options),
        Error::AlertReceived(alert) => of_alert(*alert, options),
        Error::InvalidMessage(_) => NO_TLS.into(),
        Error::PeerIncompatible(_) => VERSIONS.into(),
        _ => return Some(format!("TLS: {error}")),
    };
    Some(format!("TLS: {error}: {remedy}"))
}

const NO_TLS: &str = "the server does not use TLS on this port: connect with redis://, or to its TLS port (tls-port)";
const VERSIONS: &str =
    "the server allows neither TLS 1.2 nor 1.3 (tls-protocols), or no supported cipher";

fn of_its_certificate(why: &CertificateError, options: &Options) -> String {
    use CertificateError as Why;
    match why {
        // another authority of the same name has a different key
        Why::UnknownIssuer | Why::BadSignature => match &options.ca {
            Some(ca) => format!(
                "its certificate is not signed by {}: give the certificate of the right authority (ca=FILE)",
                ca.display()
            ),
            None => "its certificate is signed by an unknown authority: give the certificate of that authority \
                     (ca=FILE)".into(),
        },
        Why::Expired | Why::ExpiredContext { .. } => {
            "its certificate has expired: renew it on the server (tls-cert-file)".into()
        }
        Why::NotValidYet | Why::NotValidYetContext { .. } => {
            "its certificate is not valid yet: check the clock of this machine".into()
        }
        Why::NotValidForName | Why::NotValidForNameContext { .. } => {
            "its certificate is for another name: connect with a name in the certificate, or add this name to it \
             (subjectAltName)".into()
        }
        why if format!("{why:?}").contains("CaUsedAsEndEntity") => {
            "its certificate is that of an authority: create a server certificate signed by it, or with \
             basicConstraints=CA:FALSE"
                .into()
        }
        _ => "renew its certificate (tls-cert-file)".into(),
    }
}

fn of_alert(alert: AlertDescription, options: &Options) -> String {
    use AlertDescription as Alert;
    match alert {
        Alert::ProtocolVersion | Alert::InsufficientSecurity => VERSIONS.into(),
        Alert::CertificateRequired
        | Alert::HandshakeFailure
        | Alert::BadCertificate
        | Alert::UnsupportedCertificate
        | Alert::CertificateRevoked
        | Alert::CertificateExpired
        | Alert::CertificateUnknown
        | Alert::UnknownCA
        | Alert::AccessDenied
        | Alert::DecryptError => of_ours(options).into(),
        _ => "see the server's log".into(),
    }
}

/// Why a TLS server closes a connection before it answers: it checks the client certificate only after the handshake.
pub fn of_ours(options: &Options) -> &'static str {
    match options.identity {
        (None, _) => {
            "the server requires a client certificate (tls-auth-clients): give cert=FILE and key=FILE"
        }
        (Some(_), _) => {
            "the server rejects the client certificate (cert=FILE): it must be signed by the server's authority \
             (tls-ca-cert-file) and not expired"
        }
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let failed =
        |error: rustls::pki_types::pem::Error| format!("cannot read {}: {error}", path.display());
    CertificateDer::pem_file_iter(path)
        .map_err(failed)?
        .collect::<Result<_, _>>()
        .map_err(failed)
}
