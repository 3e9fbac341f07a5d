//! Finds files of the settings that hold secrets and that every user of the machine may read.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::settings::Config;
use super::values::Jwks;

/// The permission of every other user to read a file.
const READ_BY_OTHERS: u32 = 0o004;

/// The type of symmetric keys in a JSON Web Key Set.
const SYMMETRIC: &str = "\"oct\"";

impl Config {
    /// A warning for each file with a secret that every user of the machine may read.
    pub(super) fn open_secrets(&self) -> Vec<String> {
        let mut files: Vec<(&str, &Path)> = Vec::new();
        for (setting, file) in [
            ("jwt-hs256-secret-file", &self.jwt_hs256_secret_file),
            ("tls-key", &self.tls_key),
            ("fan-secret-file", &self.fan_secret_file),
            ("webhook-secret-file", &self.webhook_secret_file),
            ("presence-secret-file", &self.presence_secret_file),
            ("config", &self.file_with_secrets),
        ] {
            if let Some(file) = file {
                files.push((setting, file));
            }
        }
        if let Some(Jwks::File(file)) = &self.jwt_jwks
            && std::fs::read_to_string(file).is_ok_and(|set| set.contains(SYMMETRIC))
        {
            files.push(("jwt-jwks", file));
        }
        let mut warnings = Vec::new();
        for (setting, file) in files {
            warnings.extend(warning(setting, file));
        }
        for server in &self.media {
            for (key, file) in server.secret_files() {
                warnings.extend(warning(&format!("media.{}.{key}", server.name), file));
            }
        }
        for webhook in &self.webhooks {
            let setting = format!("webhooks.{}.secret-file", webhook.name);
            warnings.extend(warning(&setting, &webhook.secret_file));
        }
        warnings
    }
}

/// A warning if every user of the machine may read the file.
fn warning(setting: &str, file: &Path) -> Option<String> {
    if !is_read_by_all(file) {
        return None;
    }
    Some(format!(
        "{setting}: every user of this machine may read {}; chmod o-r takes that away",
        file.display()
    ))
}

/// False if the file cannot be inspected. The code that reads the file reports the reason.
fn is_read_by_all(file: &Path) -> bool {
    std::fs::metadata(file).is_ok_and(|about| about.permissions().mode() & READ_BY_OTHERS != 0)
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};

    use super::*;

    #[test]
    fn a_secret_that_everybody_may_read_is_warned_of() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = dir.path().join(name);
            write(&path, text).unwrap();
            Some(path)
        };
        let config = Config {
            jwt_hs256_secret_file: file("jwt", "x"),
            tls_key: file("key", "x"),
            tls_cert: file("certificate", "x"),
            fan_secret_file: file("fans", "x"),
            webhook_secret_file: file("hooks", "x"),
            file_with_secrets: file("settings", "x"),
            jwt_public_key: file("public", "x"),
            jwt_jwks: file("jwks", r#"{"keys":[{"kty":"oct","k":"x"}]}"#).map(Jwks::File),
            ..Config::default()
        };
        let all = [
            "jwt",
            "key",
            "certificate",
            "fans",
            "hooks",
            "settings",
            "public",
            "jwks",
        ];
        let allow = |mode| {
            for name in all {
                set_permissions(dir.path().join(name), Permissions::from_mode(mode)).unwrap();
            }
        };
        allow(0o640);
        assert_eq!(config.open_secrets(), Vec::<String>::new());
        allow(0o644);
        let warnings = config.open_secrets();
        assert_eq!(warnings.len(), 6, "{warnings:?}");
        assert!(
            warnings[0].starts_with("jwt-hs256-secret-file: ") && warnings[0].contains("/jwt"),
            "{warnings:?}"
        );
        write(dir.path().join("jwks"), r#"{"keys":[{"kty":"EC"}]}"#).unwrap();
        assert_eq!(config.open_secrets().len(), 5, "a public key is no secret");
        std::fs::remove_file(dir.path().join("jwt")).unwrap();
        assert_eq!(config.open_secrets().len(), 4);
    }
}
