//! The keys that tokens are checked with. Each key pins its algorithm, so a token cannot choose one: a token signed
//! with HS256 and the text of a public key fails, and so does one without a signature.

use std::path::Path;

use jsonwebtoken::{Algorithm, DecodingKey};

use crate::config::Config;

/// The shortest HS256 secret, in bytes: RFC 7518, 3.2.
const SHORTEST_SECRET: usize = 32;

/// A key with the one algorithm that it is good for. It cannot be printed.
pub(crate) struct Key {
    /// `None`: for tokens that name no key, or any.
    pub(crate) id: Option<String>,
    pub(crate) algorithm: Algorithm,
    pub(crate) key: DecodingKey,
}

/// Why keys cannot be had. It quotes nothing of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct KeyError {
    /// The setting that names the file.
    pub setting: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

/// The keys in the files of the settings.
///
/// # Errors
/// A file cannot be read, or holds no such key.
pub(crate) fn of_files(config: &Config) -> Result<Vec<Key>, KeyError> {
    let mut keys = Vec::new();
    if let Some(path) = &config.jwt_hs256_secret_file {
        let secret = read("jwt-hs256-secret-file", path)?;
        let secret = secret.trim_ascii();
        if secret.len() < SHORTEST_SECRET {
            let problem = format!("the secret is shorter than {SHORTEST_SECRET} bytes");
            return Err(KeyError { setting: "jwt-hs256-secret-file", problem });
        }
        keys.push(Key { id: None, algorithm: Algorithm::HS256, key: DecodingKey::from_secret(secret) });
    }
    if let Some(path) = &config.jwt_public_key {
        keys.push(public_key(&read("jwt-public-key", path)?)?);
    }
    Ok(keys)
}

pub(super) fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, KeyError> {
    std::fs::read(path).map_err(|why| KeyError { setting, problem: format!("the file cannot be read: {}", why.kind()) })
}

fn public_key(pem: &[u8]) -> Result<Key, KeyError> {
    let rsa = DecodingKey::from_rsa_pem(pem).map(|key| (Algorithm::RS256, key));
    let ec = |_| DecodingKey::from_ec_pem(pem).map(|key| (Algorithm::ES256, key));
    let ed = |_| DecodingKey::from_ed_pem(pem).map(|key| (Algorithm::EdDSA, key));
    let (algorithm, key) = rsa.or_else(ec).or_else(ed).map_err(|_| KeyError {
        setting: "jwt-public-key",
        problem: "the file is not an RSA, P-256 or Ed25519 public key in PEM".to_owned(),
    })?;
    Ok(Key { id: None, algorithm, key })
}
