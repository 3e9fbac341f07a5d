//! The API keys of back ends. The file holds only the SHA-256 of each key, so neither the file nor
//! this process can tell anybody a key.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use data_encoding::HEXLOWER_PERMISSIVE;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::keys::{KeyError, read};
use super::permissions::Scopes;
use crate::base::from_files::FromFiles;
use crate::config::Config;

const SETTING: &str = "api-keys";

/// The longest name of a key, in bytes. Names are for logs and limits.
const LONGEST_NAME: usize = 64;

/// The most wrong lines that an error names.
const MOST_TOLD: usize = 20;

type Sha = [u8; 32];

/// One line of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiKey {
    pub(crate) name: Arc<str>,
    pub(crate) scopes: Scopes,
    pub(super) sha256: Sha,
}

#[cfg(any(test, fuzzing))]
impl ApiKey {
    /// The line of the file that holds this key.
    pub(super) fn line(&self) -> String {
        let Scopes {
            read,
            write,
            moderate,
        } = self.scopes;
        let mut scopes = Vec::new();
        if read {
            scopes.push("read");
        }
        if write {
            scopes.push("write");
        }
        if moderate {
            scopes.push("moderate");
        }
        format!(
            "{} {} {}",
            self.name,
            scopes.join(","),
            HEXLOWER_PERMISSIVE.encode(&self.sha256)
        )
    }
}

/// The keys of the file; none without a file.
#[derive(Debug, Default)]
pub(crate) struct ApiKeys {
    path: Option<PathBuf>,
    keys: ArcSwap<Vec<ApiKey>>,
}

impl ApiKeys {
    /// # Errors
    /// The file cannot be read, or a line of it is wrong.
    pub(crate) fn open(config: &Config) -> Result<Self, KeyError> {
        let keys = Self {
            path: config.api_keys.clone(),
            keys: ArcSwap::default(),
        };
        keys.reload()?;
        Ok(keys)
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// As of [`open`](Self::open); the keys then stay as they were.
    pub(crate) fn reload(&self) -> Result<(), KeyError> {
        if let Some(path) = &self.path {
            let text = String::from_utf8(read(SETTING, path)?);
            let text = text.map_err(|_| wrong("the file is not UTF-8".to_owned()))?;
            let new = Arc::new(parse(&text)?);
            // A file that is emptied is more often a mistake, or half of a change, than a wish.
            if new.is_empty() && !self.keys.load().is_empty() {
                return Err(wrong(
                    "the file names no key, so the keys in force stay; \
                     to revoke the last one, put a new key in its place"
                        .to_owned(),
                ));
            }
            let old = self.keys.swap(new.clone());
            let added = names_beside(&new, &old);
            let revoked = names_beside(&old, &new);
            if !added.is_empty() || !revoked.is_empty() {
                tracing::info!(keys = new.len(), added, revoked, "API keys are in force");
            }
        }
        Ok(())
    }

    /// Whether a key that was found is still in force, with the same scopes.
    pub(crate) fn has(&self, key: &ApiKey) -> bool {
        self.keys.load().contains(key)
    }

    /// The key that a caller presents. The duration of the search does not depend on which key
    /// matches, or how nearly.
    pub(crate) fn find(&self, presented: &str) -> Option<ApiKey> {
        let sha256: Sha = Sha256::digest(presented.as_bytes()).into();
        let mut found = None;
        // The loop compares with every key: its duration would tell the place of a match otherwise.
        for key in self.keys.load().iter() {
            if key.sha256.ct_eq(&sha256).into() {
                found = Some(key.clone());
            }
        }
        found
    }
}

impl FromFiles for ApiKeys {
    fn name(&self) -> &'static str {
        "the API keys"
    }

    fn files(&self) -> Vec<PathBuf> {
        self.path.iter().cloned().collect()
    }

    fn read_again(&self) -> Result<(), String> {
        self.reload().map_err(|why| why.to_string())
    }
}

/// The names of the keys that `others` does not hold unchanged, separated by commas.
fn names_beside(keys: &[ApiKey], others: &[ApiKey]) -> String {
    let names: Vec<&str> = keys
        .iter()
        .filter(|key| !others.contains(key))
        .map(|key| &*key.name)
        .collect();
    names.join(",")
}

fn wrong(problem: String) -> KeyError {
    KeyError {
        setting: SETTING,
        problem,
    }
}

/// Reads the text of the file.
///
/// # Errors
/// Names the lines that are wrong, up to [`MOST_TOLD`] of them.
pub(super) fn parse(text: &str) -> Result<Vec<ApiKey>, KeyError> {
    let mut keys: Vec<ApiKey> = Vec::new();
    let mut problems = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match new_key(line, &keys) {
            Ok(key) => keys.push(key),
            Err(problem) => problems.push(format!("line {number}: {problem}")),
        }
    }
    problems.truncate(MOST_TOLD);
    if problems.is_empty() {
        Ok(keys)
    } else {
        Err(wrong(problems.join("; ")))
    }
}

/// Reads a line, which must not repeat the name or the key of an earlier line.
fn new_key(line: &str, earlier: &[ApiKey]) -> Result<ApiKey, &'static str> {
    let key = key(line)?;
    if earlier.iter().any(|other| other.name == key.name) {
        return Err("an earlier line has the same name");
    }
    if earlier.iter().any(|other| other.sha256 == key.sha256) {
        return Err("an earlier line has the same key");
    }
    Ok(key)
}

/// Reads a line. The error does not quote the line, which may hold a key by mistake.
fn key(line: &str) -> Result<ApiKey, &'static str> {
    const NO_DIGEST: &str = "the third field is the SHA-256 of the key, in 64 hexadecimal digits";
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let [name, scopes, sha256] = fields[..] else {
        return Err("a line is: name scopes sha256, separated by spaces");
    };
    if name.len() > LONGEST_NAME || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("a name is 1 to 64 printable ASCII characters without spaces");
    }
    let mut allowed = Scopes::default();
    for scope in scopes.split(',') {
        match scope {
            "read" => allowed.read = true,
            "write" => allowed.write = true,
            "moderate" => allowed.moderate = true,
            _ => return Err("scopes are a comma-separated list of read, write and moderate"),
        }
    }
    let decoded = HEXLOWER_PERMISSIVE
        .decode(sha256.as_bytes())
        .map_err(|_| NO_DIGEST)?;
    let sha256 = Sha::try_from(decoded).map_err(|_| NO_DIGEST)?;
    Ok(ApiKey {
        name: name.into(),
        scopes: allowed,
        sha256,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    const ALL: Scopes = Scopes {
        read: true,
        write: true,
        moderate: true,
    };

    fn sha(key: &str) -> String {
        HEXLOWER_PERMISSIVE.encode(&Sha256::digest(key.as_bytes()))
    }

    fn open(path: &Path) -> Result<ApiKeys, KeyError> {
        ApiKeys::open(&Config {
            api_keys: Some(path.to_owned()),
            ..Config::default()
        })
    }

    #[test]
    fn a_key_is_found_by_its_hash_with_its_scopes() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let lines = format!(
            "# the shop\n\n  shop\tread,write   {}  \r\nall read,write,moderate {}\n",
            sha("k1"),
            sha("k2").to_uppercase()
        );
        fs::write(&file, lines).unwrap();
        let keys = open(file.path()).unwrap();
        let found = keys.find("k1").unwrap();
        assert_eq!(
            (&*found.name, found.scopes),
            (
                "shop",
                Scopes {
                    moderate: false,
                    ..ALL
                }
            )
        );
        assert_eq!(keys.find("k2").unwrap().scopes, ALL);
        for unknown in ["", "k3", "K1", "k1 ", &sha("k1")] {
            assert_eq!(keys.find(unknown), None, "{unknown:?}");
        }
        assert_eq!(ApiKeys::default().find("k1"), None);
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number_and_never_quoted() {
        let ok = |name: &str, key: &str| format!("{name} read {}\n", sha(key));
        let cases = [
            (2, "secret"),
            (2, "secret read"),
            (2, &format!("secret read {} more", sha("k9"))),
            (2, &format!("secret read,secret {}", sha("k9"))),
            (2, &format!("secret read, {}", sha("k9"))),
            (2, &format!("secret READ {}", sha("k9"))),
            (2, "secret read secret"),
            (2, &format!("secret read {}", &sha("k9")[1..])),
            (2, &format!("secret read {}00", sha("k9"))),
            (2, &format!("secré read {}", sha("k9"))),
            (2, &format!("{} read {}", "n".repeat(65), sha("k9"))),
            (2, &format!("first write {}", sha("k9"))),
            (2, &format!("second read {}", sha("k1"))),
        ];
        for (number, line) in cases {
            let why = parse(&format!(
                "{}{line}\n{}",
                ok("first", "k1"),
                ok("last", "k2")
            ))
            .unwrap_err();
            let said = why.to_string();
            assert!(
                said.starts_with(&format!("api-keys: line {number}: ")),
                "{said}"
            );
            assert!(
                !said.contains("secret") && !said.contains(&sha("k9")),
                "{said}"
            );
        }
    }

    #[test]
    fn a_reload_takes_new_keys_and_keeps_the_old_ones_if_the_file_is_bad() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, format!("a read {}", sha("k1"))).unwrap();
        let keys = open(file.path()).unwrap();
        fs::write(&file, format!("b write {}", sha("k2"))).unwrap();
        assert_eq!(keys.find("k2"), None);
        keys.reload().unwrap();
        assert_eq!(
            (keys.find("k1"), &*keys.find("k2").unwrap().name),
            (None, "b")
        );
        for bad in ["nonsense".as_bytes(), &[0xff, 0xfe], b"", b"# b\n"] {
            fs::write(&file, bad).unwrap();
            keys.reload().unwrap_err();
            assert_eq!(&*keys.find("k2").unwrap().name, "b");
        }
        fs::remove_file(file.path()).unwrap();
        assert_eq!(keys.reload().unwrap_err().setting, "api-keys");
        assert!(keys.find("k2").is_some());
    }
}
