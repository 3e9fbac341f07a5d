//! Signs the body of a webhook, so that its receiver knows who sent it and when: HMAC-SHA256 over the time, a dot and
//! the body, as `docs/events.md` shows.

use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use data_encoding::HEXLOWER;

use crate::base::secret::Secret;

/// The shortest secret, in bytes.
const SHORTEST: usize = 16;

/// The most secrets: the present one, and another while they change.
const MOST: usize = 2;

/// The secrets that sign. Every request has a signature by each.
pub struct Signer {
    keys: Vec<Key>,
}

impl Signer {
    /// Reads the text of a file: a secret a line. Blank lines do not count.
    ///
    /// # Errors
    /// What is wrong with it, without quoting it.
    pub fn parse(text: &Secret) -> Result<Self, String> {
        let lines = text.reveal().lines().map(str::trim).filter(|line| !line.is_empty());
        let secrets: Vec<&str> = lines.collect();
        if secrets.is_empty() || secrets.len() > MOST {
            return Err(format!("must have a secret, or {MOST} while they change, each on a line of its own"));
        }
        if secrets.iter().any(|secret| secret.len() < SHORTEST) {
            return Err(format!("has a secret of less than {SHORTEST} bytes"));
        }
        Ok(Self { keys: secrets.iter().map(|secret| Key::new(HMAC_SHA256, secret.as_bytes())).collect() })
    }

    /// The value of the header, at a Unix time in seconds.
    pub(super) fn sign(&self, at: u64, body: &str) -> String {
        let signed = format!("{at}.{body}");
        let signatures = self.keys.iter().map(|key| HEXLOWER.encode(sign(key, signed.as_bytes()).as_ref()));
        signatures.fold(format!("t={at}"), |header, signature| header + ",v1=" + &signature)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signer(text: &str) -> Result<Signer, String> {
        Signer::parse(&Secret::new(text))
    }

    #[test]
    fn the_signature_is_the_one_that_other_programs_compute() {
        // printf '1700000000.{"id":"1"}' | openssl dgst -sha256 -hmac 0123456789abcdef
        let right = "d5f5834972cbc6cf5590800c46ccaa0cd6c16f19c0c73dbdf9b4c56390cbc2a3";
        let signed = signer("0123456789abcdef\n").unwrap().sign(1_700_000_000, r#"{"id":"1"}"#);
        assert_eq!(signed, format!("t=1700000000,v1={right}"));
    }

    #[test]
    fn two_secrets_sign_while_they_change() {
        let signed = signer("0123456789abcdef\n\n fedcba9876543210 \n").unwrap().sign(7, "{}");
        let one = |secret| signer(secret).unwrap().sign(7, "{}").replacen("t=7,", "", 1);
        assert_eq!(signed, format!("t=7,{},{}", one("0123456789abcdef"), one("fedcba9876543210")));
    }

    #[test]
    fn a_file_without_a_good_secret_is_refused_and_not_quoted() {
        for text in
            ["", "\n \n", "short", "0123456789abcdef\nshort", "0123456789abcdef\n0123456789abcdeg\n0123456789abcdeh"]
        {
            let problem = signer(text).err().unwrap();
            assert!(!problem.contains("short") && !problem.contains("0123"), "{problem}");
        }
    }
}
