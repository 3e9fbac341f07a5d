//! Reads the keys that tokens are checked with from the files of the settings.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use jsonwebtoken::{Algorithm, DecodingKey};

use super::jwks::{self, KeysFrom, MOST_KEYS};
use super::key::{SHORTEST_SECRET, VerifyingKey, is_sound};
use crate::config::{Config, Jwks};

/// The longest file or answer with keys, in bytes.
pub(super) const LONGEST: usize = 1 << 20;

/// What stands before each key in PEM.
const BEGIN: &str = "-----BEGIN ";

const NO_PEM: &str =
    "the file must have public keys in PEM: RSA of 2048 bits or more, P-256 or Ed25519";

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
pub(super) fn of_files(config: &Config) -> Result<Vec<VerifyingKey>, KeyError> {
    let files: Vec<Vec<VerifyingKey>> = each_file(config).into_iter().collect::<Result<_, _>>()?;
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
pub(super) fn each_file(config: &Config) -> Vec<Result<Vec<VerifyingKey>, KeyError>> {
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

fn of_secret_file(path: &Path) -> Result<Vec<VerifyingKey>, KeyError> {
    let secret = secret(path)?;
    Ok(vec![VerifyingKey {
        id: None,
        algorithm: Algorithm::HS256,
        key: DecodingKey::from_secret(&secret),
    }])
}

fn of_public_key_file(path: &Path) -> Result<Vec<VerifyingKey>, KeyError> {
    let pem = read(PUBLIC_KEY, path)?;
    public_keys(&pem).map_err(|problem| KeyError {
        setting: PUBLIC_KEY,
        problem,
    })
}

fn of_set_file(path: &Path) -> Result<Vec<VerifyingKey>, KeyError> {
    let set = read(JWKS, path)?;
    jwks::parse(&set, KeysFrom::File).map_err(|why| KeyError {
        setting: JWKS,
        problem: format!("the file {why}"),
    })
}

/// The HS256 secret in a file, without spaces and line ends around it.
pub(super) fn secret(path: &Path) -> Result<Vec<u8>, KeyError> {
    let secret = read(SECRET_FILE, path)?.trim_ascii().to_vec();
    let problem = if secret.len() < SHORTEST_SECRET {
        format!("the secret is shorter than {SHORTEST_SECRET} bytes")
    } else if secret.starts_with(BEGIN.as_bytes()) {
        // Everybody who has a public key could make tokens with it.
        "the file is a key or a certificate in PEM, not a secret; see jwt-public-key".to_owned()
    } else if str::from_utf8(&secret).is_ok_and(|text| text.contains('\n')) {
        "the file has more than one line; a key set (jwt-jwks) may have two secrets".to_owned()
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

/// The keys of a PEM file, which has nothing else in it but blank lines and comments.
fn public_keys(pem: &[u8]) -> Result<Vec<VerifyingKey>, String> {
    let text = str::from_utf8(pem).map_err(|_| NO_PEM.to_owned())?;
    let mut keys = Vec::new();
    let mut block = String::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if block.is_empty() && (line.is_empty() || line.starts_with('#')) {
            continue;
        }
        if block.is_empty() && !line.starts_with(BEGIN) {
            return Err(format!(
                "line {number} of the file is no part of a key; {NO_PEM}"
            ));
        }
        block.push_str(line);
        block.push('\n');
        if line.starts_with("-----END ") {
            let key = public_key(&block)
                .map_err(|why| format!("the key that ends in line {number} of the file {why}"))?;
            keys.push(key);
            block.clear();
        }
    }
    if !block.is_empty() {
        return Err("the last key of the file is cut off".to_owned());
    }
    match keys.len() {
        0 => Err(NO_PEM.to_owned()),
        1..=MOST_KEYS => Ok(keys),
        _ => Err(format!("the file has more than {MOST_KEYS} keys")),
    }
}

fn public_key(block: &str) -> Result<VerifyingKey, &'static str> {
    if block.starts_with("-----BEGIN CERTIFICATE") {
        return Err(
            "is a certificate, not a public key; openssl x509 -pubkey -noout takes the key out of it",
        );
    }
    if !block.starts_with("-----BEGIN PUBLIC KEY")
        && !block.starts_with("-----BEGIN RSA PUBLIC KEY")
    {
        return Err("is something else than a public key");
    }
    match from_pem(block.as_bytes()) {
        Some((algorithm, key)) if is_sound(algorithm, &key) => Ok(VerifyingKey {
            id: None,
            algorithm,
            key,
        }),
        _ => Err("is not RSA of 2048 bits or more, P-256 or Ed25519, or is damaged"),
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
