//! The certificate of the public port: read at the start, and again on demand while connections
//! live on with the one that they began with. A file that cannot be used at the start is an error
//! of its setting; later it is logged, and the certificate stays as it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::{ServerConfig, version};

use crate::base::from_files::FromFiles;

/// What is wrong with the files; it quotes nothing of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {path} {problem}", path = path.display())]
pub struct CertificateError {
    /// Of the file that is wrong.
    pub setting: &'static str,
    path: PathBuf,
    problem: String,
}

/// The files, and what was last read from them.
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

/// A new certificate is for the connections to come.
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

/// What is wrong with each of the two files, or with both together.
pub fn wrong_files(chain: &Path, key: &Path) -> Vec<CertificateError> {
    let of_files = [read_chain(chain).err(), read_key(key).err()];
    let wrong: Vec<CertificateError> = of_files.into_iter().flatten().collect();
    if wrong.is_empty() {
        read(chain, key).err().into_iter().collect()
    } else {
        wrong
    }
}

fn read_chain(path: &Path) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let wrong = |problem| CertificateError {
        setting: "tls-cert",
        path: path.to_owned(),
        problem,
    };
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(none) if none.is_empty() => Err(wrong("has no certificate in PEM form".to_owned())),
        Ok(certificates) => Ok(certificates),
        Err(why) => Err(wrong(format!("cannot be read: {why}"))),
    }
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, CertificateError> {
    PrivateKeyDer::from_pem_file(path).map_err(|why| {
        let problem = format!("has no private key that can be read: {why}");
        CertificateError {
            setting: "tls-key",
            path: path.to_owned(),
            problem,
        }
    })
}

fn read(chain: &Path, key: &Path) -> Result<Arc<ServerConfig>, CertificateError> {
    let certificates = read_chain(chain)?;
    let of_key = |problem| CertificateError {
        setting: "tls-key",
        path: key.to_owned(),
        problem,
    };
    let key = read_key(key)?;
    let mut config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
        .with_protocol_versions(&[&version::TLS13, &version::TLS12])
        .and_then(|builder| {
            builder
                .with_no_client_auth()
                .with_single_cert(certificates, key)
        })
        .map_err(|why| of_key(format!("does not fit the certificate: {why}")))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A socket lives for hours: what resumption would save is not worth a session kept for each.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}
