//! Signs the body of a webhook, so that its receiver knows who sent it and when: HMAC-SHA256 over
//! the time, a dot and the body, as `docs/events.md` shows.

use std::path::{Path, PathBuf};

use arc_swap::ArcSwap;
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use data_encoding::HEXLOWER;

use crate::base::secret_lines;

/// The secrets of a file: one, or two while it changes. Every request has a signature by each, in the
/// order of the file.
pub struct WebhookSigner {
    /// How the settings name the file.
    setting: String,
    path: PathBuf,
    keys: ArcSwap<Vec<Key>>,
}

impl WebhookSigner {
    /// # Errors
    /// The file cannot be read, or has no good secret.
    pub fn open(setting: String, path: PathBuf) -> Result<Self, String> {
        let signer = Self {
            setting,
            path,
            keys: ArcSwap::default(),
        };
        signer.reload()?;
        Ok(signer)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many secrets sign.
    pub(crate) fn count(&self) -> usize {
        self.keys.load().len()
    }

    /// Reads the file again.
    ///
    /// # Errors
    /// The file is wrong; the text says how and does not quote it. The earlier secrets stay.
    pub fn reload(&self) -> Result<(), String> {
        let secrets = secret_lines::read(&self.setting, &self.path)?;
        let keys: Vec<Key> = secrets
            .iter()
            .map(|secret| Key::new(HMAC_SHA256, secret.reveal().as_bytes()))
            .collect();
        self.keys.store(keys.into());
        Ok(())
    }

    /// The value of the header, at a Unix time in seconds.
    pub(crate) fn sign(&self, at: u64, body: &str) -> String {
        let signed = format!("{at}.{body}");
        let mut header = format!("t={at}");
        for key in self.keys.load().iter() {
            let signature = sign(key, signed.as_bytes());
            header.push_str(",v1=");
            header.push_str(&HEXLOWER.encode(signature.as_ref()));
        }
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(file: &tempfile::NamedTempFile) -> Result<WebhookSigner, String> {
        WebhookSigner::open("webhook-secret-file".to_owned(), file.path().to_owned())
    }

    fn signer(text: &str) -> Result<WebhookSigner, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        open(&file)
    }

    #[test]
    fn the_signature_is_the_one_that_other_programs_compute() {
        // printf '1700000000.{"id":"1"}' | openssl dgst -sha256 -hmac 0123456789abcdef
        let right = "d5f5834972cbc6cf5590800c46ccaa0cd6c16f19c0c73dbdf9b4c56390cbc2a3";
        let signed = signer("0123456789abcdef\n")
            .unwrap()
            .sign(1_700_000_000, r#"{"id":"1"}"#);
        assert_eq!(signed, format!("t=1700000000,v1={right}"));
    }

    #[test]
    fn two_secrets_sign_while_they_change() {
        let signed = signer("0123456789abcdef\n\n fedcba9876543210 \n")
            .unwrap()
            .sign(7, "{}");
        let one = |secret| {
            signer(secret)
                .unwrap()
                .sign(7, "{}")
                .replacen("t=7,", "", 1)
        };
        assert_eq!(
            signed,
            format!(
                "t=7,{},{}",
                one("0123456789abcdef"),
                one("fedcba9876543210")
            )
        );
    }

    #[test]
    fn a_file_that_became_bad_changes_nothing() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "0123456789abcdef").unwrap();
        let signer = open(&file).unwrap();
        let before = signer.sign(7, "{}");
        std::fs::write(file.path(), "short").unwrap();
        signer.reload().unwrap_err();
        assert_eq!(signer.sign(7, "{}"), before);
        std::fs::write(file.path(), "fedcba9876543210").unwrap();
        signer.reload().unwrap();
        assert_ne!(signer.sign(7, "{}"), before);
    }

    #[test]
    fn a_file_without_a_good_secret_is_refused_and_not_quoted() {
        for text in [
            "",
            "\n \n",
            "short",
            "0123456789abcdef\nshort",
            "0123456789abcdef\n0123456789abcdeg\n0123456789abcdeh",
        ] {
            let problem = signer(text).err().unwrap();
            assert!(problem.starts_with("webhook-secret-file /"), "{problem}");
            assert!(
                !problem.contains("short") && !problem.contains("0123"),
                "{problem}"
            );
        }
    }
}
