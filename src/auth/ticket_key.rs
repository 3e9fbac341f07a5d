//! The key that seals tickets of sessions without a socket; `ticket.rs` says what they hold.

use aws_lc_rs::aead::{AES_256_GCM_SIV, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

use crate::base::session_key::SessionKey;

/// Seals tickets and opens them, with a key that all gateways share. The nonces are random: this
/// cipher stays safe if two tickets get the same one.
pub(super) struct TicketKey(Option<LessSafeKey>);

impl TicketKey {
    pub(super) fn new(key: &[u8; 32]) -> Self {
        // A key of this length is never refused.
        let key = UnboundKey::new(&AES_256_GCM_SIV, key);
        Self(key.ok().map(LessSafeKey::new))
    }

    /// The nonce, and after it what is sealed.
    pub(super) fn seal(&self, mut bytes: Vec<u8>, session: &SessionKey) -> Option<Vec<u8>> {
        let nonce: [u8; NONCE_LEN] = rand::random();
        let sealed_for = Aad::from(session.as_bytes());
        self.0
            .as_ref()?
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), sealed_for, &mut bytes)
            .ok()?;
        Some([&nonce, bytes.as_slice()].concat())
    }

    /// What was sealed for this session; `None` if this is nothing of the kind.
    pub(super) fn open(&self, sealed: &[u8], session: &SessionKey) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk()?;
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let mut bytes = sealed.to_vec();
        let sealed_for = Aad::from(session.as_bytes());
        let opened = self
            .0
            .as_ref()?
            .open_in_place(nonce, sealed_for, &mut bytes);
        let length = opened.ok()?.len();
        bytes.truncate(length);
        Some(bytes)
    }
}
