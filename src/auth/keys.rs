//! Reads the keys that tokens are checked with from the files of the settings.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use jsonwebtoken::{Algorithm, DecodingKey};

use super::jwks::{self, Origin};
use super::key::{Key, SHORTEST_SECRET, is_sound};
use crate::config::{Config, Jwks};

/// The longest file or answer with keys, in bytes.
pub(super) const LONGEST: usize = 1 << 20;

const SECRET_FILE: &str = "jwt-hs256-secret-file";
const PUBLIC_KEY: &str = "jwt-public-key";
pub(super) const JWKS: &str = "jwt-jwks";

/// Why keys cannot be had. It quotes nothing of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct KeyError {
    /// The setting that names the file.
    pub setting: &'static str,
    /// What is wrong with the file.
    pub problem: String,
}

/// The keys in the files of the settings; the keys of a URL are fetched elsewhere.
pub(super) fn of_files(config: &Config) -> Result<Vec<Key>, KeyError> {
    let files: Vec<Vec<Key>> = each_file(config).into_iter().collect::<Result<_, _>>()?;
    Ok(files.into_iter().flatten().collect())
}

/// The files of the settings.
pub(super) fn files(config: &Config) -> Vec<PathBuf> {
    let mut files = Vec::new();
    files.extend(config.jwt_hs256_secret_file.clone());
    files.extend(config.jwt_public_key.clone());
    if let Some(Jwks::File(path)) = &config.jwt_jwks {
        files.push(path.clone());
    }
    files
}

/// What each file has.
pub(super) fn each_file(config: &Config) -> Vec<Result<Vec<Key>, KeyError>> {
    let mut files = Vec::new();
    if let Some(path) = &config.jwt_hs256_secret_file {
        files.push(secret(path).map(|secret| {
            let key = DecodingKey::from_secret(&secret);
            vec![Key {
                id: None,
                algorithm: Algorithm::HS256,
                key,
            }]
        }));
    }
    if let Some(path) = &config.jwt_public_key {
        files.push(read(PUBLIC_KEY, path).and_then(|pem| Ok(vec![public_key(&pem)?])));
    }
    if let Some(Jwks::File(path)) = &config.jwt_jwks {
        let wrong = |why| KeyError {
            setting: JWKS,
            problem: format!("the file {why}"),
        };
        files.push(read(JWKS, path).and_then(|set| jwks::parse(&set, Origin::File).map_err(wrong)));
    }
    files
}

/// The HS256 secret in a file, without spaces and line ends around it.
pub(super) fn secret(path: &Path) -> Result<Vec<u8>, KeyError> {
    let secret = read(SECRET_FILE, path)?.trim_ascii().to_vec();
    let problem = if secret.len() < SHORTEST_SECRET {
        format!("the secret is shorter than {SHORTEST_SECRET} bytes")
    } else if secret.starts_with(b"-----BEGIN ") {
        // Whoever has a public key could make tokens with it.
        "the file is a key or a certificate in PEM, not a secret; see jwt-public-key".to_owned()
    } else {
        return Ok(secret);
    };
    Err(KeyError {
        setting: SECRET_FILE,
        problem,
    })
}

pub(super) fn read(setting: &'static str, path: &Path) -> Result<Vec<u8>, KeyError> {
    let mut content = Vec::new();
    let done =
        File::open(path).and_then(|file| file.take(LONGEST as u64 + 1).read_to_end(&mut content));
    let refuse = |problem| Err(KeyError { setting, problem });
    match done {
        Ok(length) if length <= LONGEST => Ok(content),
        Ok(_) => refuse(format!(
            "the file is longer than 1 MiB ({})",
            path.display()
        )),
        Err(why) => refuse(format!(
            "the file cannot be read: {} ({})",
            why.kind(),
            path.display()
        )),
    }
}

fn public_key(pem: &[u8]) -> Result<Key, KeyError> {
    let rsa = DecodingKey::from_rsa_pem(pem).map(|key| (Algorithm::RS256, key));
    let ec = |_| DecodingKey::from_ec_pem(pem).map(|key| (Algorithm::ES256, key));
    let ed = |_| DecodingKey::from_ed_pem(pem).map(|key| (Algorithm::EdDSA, key));
    let found = rsa
        .or_else(ec)
        .or_else(ed)
        .ok()
        .filter(|(algorithm, key)| is_sound(*algorithm, key));
    let (algorithm, key) = found.ok_or_else(|| KeyError {
        setting: PUBLIC_KEY,
        problem: "the file is not a public key in PEM: RSA of 2048 bits or more, P-256 or Ed25519"
            .to_owned(),
    })?;
    Ok(Key {
        id: None,
        algorithm,
        key,
    })
}

#[cfg(test)]
mod tests;
