//! Reads the keys that tokens are checked with from the files of the settings.

use std::fs::File;
use std::io::{self, Read};
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

/// Why keys cannot be read. The text quotes nothing of them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{setting}: {problem}")]
pub struct KeyError {
    /// The setting that names the file.
    pub setting: &'static str,
    /// The problem with the file.
    pub problem: String,
}

/// The keys in the files of the settings; the keys of a URL are fetched elsewhere.
pub(super) fn of_files(config: &Config) -> Result<Vec<Key>, KeyError> {
    let files: Vec<Vec<Key>> = each_file(config).into_iter().collect::<Result<_, _>>()?;
    Ok(files.into_iter().flatten().collect())
}

/// The paths of the files with keys that the settings name.
pub(super) fn files(config: &Config) -> Vec<PathBuf> {
    let mut files = Vec::new();
    files.extend(config.jwt_hs256_secret_file.clone());
    files.extend(config.jwt_public_key.clone());
    if let Some(Jwks::File(path)) = &config.jwt_jwks {
        files.push(path.clone());
    }
    files
}

/// The keys in each file.
pub(super) fn each_file(config: &Config) -> Vec<Result<Vec<Key>, KeyError>> {
    let mut files = Vec::new();
    if let Some(path) = &config.jwt_hs256_secret_file {
        files.push(of_secret_file(path));
    }
    if let Some(path) = &config.jwt_public_key {
        files.push(of_public_key_file(path));
    }
    if let Some(Jwks::File(path)) = &config.jwt_jwks {
        files.push(of_set_file(path));
    }
    files
}

fn of_secret_file(path: &Path) -> Result<Vec<Key>, KeyError> {
    let secret = secret(path)?;
    Ok(vec![Key {
        id: None,
        algorithm: Algorithm::HS256,
        key: DecodingKey::from_secret(&secret),
    }])
}

fn of_public_key_file(path: &Path) -> Result<Vec<Key>, KeyError> {
    let pem = read(PUBLIC_KEY, path)?;
    Ok(vec![public_key(&pem)?])
}

fn of_set_file(path: &Path) -> Result<Vec<Key>, KeyError> {
    let set = read(JWKS, path)?;
    jwks::parse(&set, Origin::File).map_err(|why| KeyError {
        setting: JWKS,
        problem: format!("the file {why}"),
    })
}

/// The HS256 secret in a file, without spaces and line ends around it.
pub(super) fn secret(path: &Path) -> Result<Vec<u8>, KeyError> {
    let secret = read(SECRET_FILE, path)?.trim_ascii().to_vec();
    let problem = if secret.len() < SHORTEST_SECRET {
        format!("the secret is shorter than {SHORTEST_SECRET} bytes")
    } else if secret.starts_with(b"-----BEGIN ") {
        // Everybody who has a public key could make tokens with it.
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
    let problem = match read_start(path) {
        Ok(content) if content.len() <= LONGEST => return Ok(content),
        Ok(_) => format!("the file is longer than 1 MiB ({})", path.display()),
        Err(why) => format!(
            "the file cannot be read: {} ({})",
            why.kind(),
            path.display()
        ),
    };
    Err(KeyError { setting, problem })
}

/// The content of a file; of a file that is too long, the first [`LONGEST`] bytes and one more.
fn read_start(path: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?
        .take(LONGEST as u64 + 1)
        .read_to_end(&mut content)?;
    Ok(content)
}

fn public_key(pem: &[u8]) -> Result<Key, KeyError> {
    match from_pem(pem) {
        Some((algorithm, key)) if is_sound(algorithm, &key) => Ok(Key {
            id: None,
            algorithm,
            key,
        }),
        _ => Err(KeyError {
            setting: PUBLIC_KEY,
            problem:
                "the file is not a public key in PEM: RSA of 2048 bits or more, P-256 or Ed25519"
                    .to_owned(),
        }),
    }
}

/// Reads a key of the first kind that fits.
fn from_pem(pem: &[u8]) -> Option<(Algorithm, DecodingKey)> {
    if let Ok(key) = DecodingKey::from_rsa_pem(pem) {
        return Some((Algorithm::RS256, key));
    }
    if let Ok(key) = DecodingKey::from_ec_pem(pem) {
        return Some((Algorithm::ES256, key));
    }
    let key = DecodingKey::from_ed_pem(pem).ok()?;
    Some((Algorithm::EdDSA, key))
}

#[cfg(test)]
mod tests;
