//! The certificate of the public port. The gateway reads it at the start, and again on demand;
//! connections keep the certificate that they began with. A file that cannot be used at the start
//! is an error of its setting. Later the log says so, and the certificate stays as it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::{self, ServerConfig, version};

use crate::base::from_files::FromFiles;

/// The problem with a file. The text quotes nothing of the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {path} {problem}", path = path.display())]
pub struct CertificateError {
    /// The setting that names the file.
    pub setting: &'static str,
    path: PathBuf,
    problem: String,
}

impl CertificateError {
    fn new(setting: &'static str, path: &Path, problem: String) -> Self {
        Self {
            setting,
            path: path.to_owned(),
            problem,
        }
    }
}

/// The files, and the configuration that was last read from them.
#[derive(Debug)]
pub(crate) struct Certificate {
    chain: PathBuf,
    key: PathBuf,
    current: ArcSwap<ServerConfig>,
}

impl Certificate {
    /// Reads the chain and the key from PEM files.
    pub(crate) fn open(chain: &Path, key: &Path) -> Result<Self, CertificateError> {
        let current = ArcSwap::new(read(chain, key)?);
        Ok(Self {
            chain: chain.to_owned(),
            key: key.to_owned(),
            current,
        })
    }

    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(self.current.load_full())
    }
}

/// New connections use the new certificate.
impl FromFiles for Certificate {
    fn name(&self) -> &'static str {
        "the TLS certificate"
    }

    fn files(&self) -> Vec<PathBuf> {
        vec![self.chain.clone(), self.key.clone()]
    }

    fn read_again(&self) -> Result<(), String> {
        let new = read(&self.chain, &self.key).map_err(|why| why.to_string())?;
        self.current.store(new);
        Ok(())
    }
}

/// The problems of the two files, each by itself; or, if there are none, of both together.
pub fn wrong_files(chain: &Path, key: &Path) -> Vec<CertificateError> {
    let mut wrong = Vec::new();
    if let Err(why) = read_chain(chain) {
        wrong.push(why);
    }
    if let Err(why) = read_key(key) {
        wrong.push(why);
    }
    if wrong.is_empty()
        && let Err(why) = read(chain, key)
    {
        wrong.push(why);
    }
    wrong
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    match read_certificates(path) {
        Ok(certificates) if certificates.is_empty() => Err(CertificateError::new(
            "tls-cert",
            path,
            "has no certificate in PEM form".to_owned(),
        )),
        Ok(certificates) => Ok(certificates),
        Err(why) => Err(CertificateError::new(
            "tls-cert",
            path,
            format!("cannot be read: {why}"),
        )),
    }
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, pem::Error> {
    CertificateDer::pem_file_iter(path)?.collect()
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    let wrong = |problem| CertificateError::new("tls-key", path, problem);
    let no_key = |why| wrong(format!("has no private key that can be read: {why}"));
    let keys: Result<Vec<_>, _> = PrivateKeyDer::pem_file_iter(path)
        .map_err(no_key)?
        .collect();
    let mut keys = keys.map_err(no_key)?;
    match (keys.pop(), keys.is_empty()) {
        (Some(key), true) => Ok(key),
        (Some(_), false) => Err(wrong("has more than one private key".to_owned())),
        (None, _) => Err(no_key(pem::Error::NoItemsFound)),
    }
}

fn read(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, CertificateError> {
    let certificates = read_chain(chain)?;
    let private_key = read_key(key)?;
    let mut config = server_config(certificates, private_key).map_err(|why| {
        let problem = format!("does not fit the certificate: {why}");
        CertificateError::new("tls-key", key, problem)
    })?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A socket lives for hours, so resumption would save less than its stored sessions cost.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

fn server_config(
    certificates: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
) -> Result<ServerConfig, rustls::Error> {
    ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
}
