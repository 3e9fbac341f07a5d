//! A digest in the place of a user's id: whoever has the id can tell that it is meant, and nobody
//! can read the id from it. It is no secret for somebody who can try all ids that there are.

use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use super::ids::UserId;

/// The first half of the SHA-256 of a user's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserDigest([u8; 16]);

impl UserDigest {
    /// The digest of this id.
    pub fn of(user: &UserId) -> Self {
        let whole: [u8; 32] = Sha256::digest(user.as_str()).into();
        let mut half = [0; 16];
        half.copy_from_slice(&whole[..16]);
        Self(half)
    }

    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok()?;
        Some(Self(bytes.try_into().ok()?))
    }
}

impl fmt::Display for UserDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_was_written_and_does_not_have_the_id_in_it() {
        let digest = UserDigest::of(&UserId::parse("ann").unwrap());
        // printf ann | sha256sum | head -c 32
        assert_eq!(digest.to_string(), ANN);
        assert_eq!(UserDigest::parse(ANN), Some(digest));
        assert_ne!(UserDigest::of(&UserId::parse("bob").unwrap()), digest);
        for wrong in ["", "ann", &ANN[2..], "zz"] {
            assert_eq!(UserDigest::parse(wrong), None, "{wrong}");
        }
    }

    const ANN: &str = "49915e0d7d4b402e3017d010bc1c0e83";
}
