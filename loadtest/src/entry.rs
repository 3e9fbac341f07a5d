//! How a client gets into a gateway that asks for TLS and tokens: the authority that vouches for
//! the gateway, and the secret with which this program makes the tokens of its own users. One run
//! has one of each.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, ensure};
use jsonwebtoken::{EncodingKey, Header, encode};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};
use tokio_util::either::Either;

/// No run takes longer.
const TOKENS_LIVE: Duration = Duration::from_secs(24 * 3_600);

/// A connection; boxed, because few runs have TLS and each has thousands of connections.
pub(crate) type ClientStream = Either<TcpStream, Box<TlsStream<TcpStream>>>;

/// What a gateway asks of a client; by default nothing.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct EntryTerms {
    /// The name in the gateway's certificate; `None`: no TLS.
    pub(crate) name: Option<String>,
    /// A PEM file of the authorities that vouch for the gateway.
    pub(crate) ca: Option<PathBuf>,
    /// The file with the secret of HS256 tokens; `None`: `--auth off`.
    pub(crate) secret: Option<PathBuf>,
    /// There is a secret, which did not travel with the plan.
    #[serde(default)]
    pub(crate) wants_token: bool,
}

impl EntryTerms {
    /// What another machine may know of it: it has its own files.
    pub(crate) fn without_files(&self) -> Self {
        Self {
            name: self.name.clone(),
            wants_token: self.secret.is_some(),
            ..Self::default()
        }
    }

    /// Reads the files, so that a run does not begin with a wrong one.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.name.is_none() || self.ca.is_some(),
            "wss:// and https:// need --ca"
        );
        if self.name.is_some() {
            self.connector()?;
        }
        self.query("user_id=u1&role=viewer").map(drop)
    }

    /// Makes a connection speak TLS, if the gateway does.
    pub(crate) async fn secure(&self, stream: TcpStream) -> anyhow::Result<ClientStream> {
        let Some(name) = &self.name else {
            return Ok(Either::Left(stream));
        };
        let name = ServerName::try_from(name.clone())?;
        Ok(Either::Right(Box::new(
            self.connector()?.connect(name, stream).await?,
        )))
    }

    /// The query of an upgrade: `user_id`, `role` and `count` become a token, if the gateway wants
    /// one.
    pub(crate) fn query(&self, plain: &str) -> anyhow::Result<String> {
        let Some(secret) = &self.secret else {
            return Ok(plain.to_owned());
        };
        let mut user = "";
        let mut role = "viewer";
        let mut rest = String::new();
        for field in plain.split('&') {
            match field.split_once('=') {
                Some(("user_id", value)) => user = value,
                Some(("role", value)) => role = value,
                _ => rest = format!("{rest}&{field}"),
            }
        }
        Ok(format!("token={}{rest}", token(secret, user, role)?))
    }

    fn connector(&self) -> anyhow::Result<&'static TlsConnector> {
        static CONNECTOR: OnceLock<TlsConnector> = OnceLock::new();
        if let Some(connector) = CONNECTOR.get() {
            return Ok(connector);
        }
        let file = self.ca.as_deref().context("TLS needs --ca")?;
        let mut roots = RootCertStore::empty();
        for certificate in
            CertificateDer::pem_file_iter(file).with_context(|| file.display().to_string())?
        {
            roots.add(certificate?)?;
        }
        ensure!(
            !roots.is_empty(),
            "{} has no certificate in PEM",
            file.display()
        );
        let config = ClientConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(CONNECTOR.get_or_init(|| TlsConnector::from(std::sync::Arc::new(config))))
    }
}

/// A token of a user, or of a guest, whose id begins with `~`; signed with the secret in the file.
pub(crate) fn token(secret: &Path, user: &str, role: &str) -> anyhow::Result<String> {
    static KEY: OnceLock<EncodingKey> = OnceLock::new();
    let key = match KEY.get() {
        Some(key) => key,
        None => {
            let secret = std::fs::read(secret).with_context(|| secret.display().to_string())?;
            KEY.get_or_init(|| EncodingKey::from_secret(secret.trim_ascii()))
        }
    };
    let expires = UNIX_EPOCH.elapsed()? + TOKENS_LIVE;
    let mut claims = json!({"sub": user, "role": role, "exp": expires.as_secs()});
    if let Some(guest) = user.strip_prefix('~') {
        claims["sub"] = guest.into();
        claims["guest"] = true.into();
    }
    Ok(encode(&Header::default(), &claims, key)?)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_token_takes_the_place_of_the_name_and_the_role() {
        let plain = "user_id=u1&role=streamer&live_id=42";
        assert_eq!(EntryTerms::default().query(plain).unwrap(), plain);
        let mut file = tempfile::NamedTempFile::new().unwrap();
        writeln!(file, "0123456789abcdef0123456789abcdef").unwrap();
        let entry = EntryTerms {
            secret: Some(file.path().to_owned()),
            ..EntryTerms::default()
        };
        let query = entry.query(plain).unwrap();
        let (token, rest) = query.split_once('&').unwrap();
        assert_eq!((token.split('.').count(), rest), (3, "live_id=42"));
        assert!(
            !query.contains("user_id") && !query.contains("role="),
            "{query}"
        );
        let lost = EntryTerms {
            secret: Some("/nowhere/secret".into()),
            ..EntryTerms::default()
        };
        // The key is kept once it was read; another process finds that there is none.
        assert!(
            EntryTerms {
                name: Some("localhost".to_owned()),
                ..lost
            }
            .check()
            .is_err()
        );
    }
}
