//! A file with a secret, or with two while it changes, each on a line of its own.

use std::path::Path;

use super::secret::Secret;

/// The shortest secret, in bytes.
const SHORTEST: usize = 16;

/// The most secrets: the present one, and another one during a change.
const MOST: usize = 2;

/// Reads a file of secrets. Blank lines, and spaces around a secret, do not count.
///
/// # Errors
/// The file cannot be read, or has no good secrets. The text names the setting and the file, and
/// quotes nothing of it.
pub(crate) fn read(setting: &str, path: &Path) -> Result<Vec<Secret>, String> {
    let wrong = match std::fs::read_to_string(path) {
        Ok(text) => match parse(&Secret::new(text)) {
            Ok(secrets) => return Ok(secrets),
            Err(why) => why,
        },
        Err(why) => why.to_string(),
    };
    Err(format!("{setting} {}: {wrong}", path.display()))
}

fn parse(text: &Secret) -> Result<Vec<Secret>, String> {
    let mut secrets = Vec::new();
    for line in text.reveal().lines() {
        let secret = line.trim();
        if !secret.is_empty() {
            secrets.push(Secret::new(secret));
        }
    }
    if secrets.is_empty() || secrets.len() > MOST {
        return Err(format!(
            "must have a secret, or {MOST} while they change, each on a line of its own"
        ));
    }
    if secrets
        .iter()
        .any(|secret| secret.reveal().len() < SHORTEST)
    {
        return Err(format!("has a secret of less than {SHORTEST} bytes"));
    }
    Ok(secrets)
}
