//! Owns the trust in Redis over TLS: which authorities may vouch for a server. They are the
//! system's authorities, or the ones in one file and no other. Refuses a file without a
//! certificate: trusting no authority by mistake would look like a network failure.

use std::path::Path;

use fred::rustls::crypto::aws_lc_rs;
use fred::rustls::pki_types::CertificateDer;
use fred::rustls::pki_types::pem::PemObject;
use fred::rustls::{ClientConfig, RootCertStore};
use fred::rustls_native_certs::load_native_certs;
use fred::types::config::{TlsConfig, TlsConnector, TlsHostMapping};

/// Trust in the authorities of `ca`, or in the system's.
///
/// # Errors
/// Says what is wrong with the file, or that the system trusts nobody.
pub(crate) fn trust(ca: Option<&Path>) -> Result<TlsConfig, String> {
    let roots = match ca {
        Some(path) => of_file(path)?,
        None => of_system()?,
    };
    // Names the provider: the process has no default once another crate brings a second one.
    let config = ClientConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_safe_default_protocol_versions()
        .map_err(|why| why.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConfig {
        connector: TlsConnector::from(config),
        hostnames: TlsHostMapping::None,
    })
}

fn of_file(path: &Path) -> Result<RootCertStore, String> {
    let shown = path.display();
    let mut roots = RootCertStore::empty();
    let certificates = CertificateDer::pem_file_iter(path)
        .map_err(|why| format!("{shown} cannot be read: {why}"))?;
    for certificate in certificates {
        let added = match certificate {
            Ok(certificate) => roots.add(certificate).map_err(|why| why.to_string()),
            Err(why) => Err(why.to_string()),
        };
        added.map_err(|why| format!("{shown} has a certificate that cannot be used: {why}"))?;
    }
    if roots.is_empty() {
        Err(format!("{shown} has no certificate in PEM form"))
    } else {
        Ok(roots)
    }
}

/// Skips certificates that cannot be read or used: a system has many, and a few odd ones are usual.
fn of_system() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(load_native_certs().certs);
    if roots.is_empty() {
        return Err(
            "this system trusts no certificate authority; name one with redis-ca".to_owned(),
        );
    }
    Ok(roots)
}
