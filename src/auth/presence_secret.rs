//! The secret by which the gateways of a platform recognise each other's sessions without a socket.
//! A session's id and its keys are derived from it, so any gateway can check them without having
//! seen the session.
//!
//! Each use has a key of its own, by HKDF-SHA256 (RFC 5869), so that what one use reveals helps
//! with no other.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::hmac::{HMAC_SHA256, Key, sign};
use data_encoding::BASE64URL_NOPAD;
use jsonwebtoken::{DecodingKey, EncodingKey};
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

use super::ticket_key::TicketKey;
use crate::base::address_prefix::AddressPrefix;
use crate::base::from_files::FromFiles;
use crate::base::ids::{Epoch, LiveId};
use crate::base::secret_lines;
use crate::base::session_key::{KEY_BYTES, RANDOM_BYTES, SessionKey};

const SETTING: &str = "presence-secret-file";

/// The salt of HKDF, which only separates this use of a secret from all others.
const SALT: &[u8] = b"rollcall presence";

/// The length of a derived key, in bytes: that of the hash.
const DERIVED: usize = 32;

/// The key with which a session's datagrams are authenticated.
pub(crate) type DatagramKeyBytes = [u8; DERIVED];

/// The keys that follow from one secret.
struct Derived {
    /// Makes the tags of session keys.
    tags: Key,
    /// From it follow the keys of datagrams.
    datagrams: Prk,
    signs_guests: EncodingKey,
    checks_guests: DecodingKey,
    signs_ids: EncodingKey,
    checks_ids: DecodingKey,
    tickets: TicketKey,
    /// From it follow the keys that name networks.
    networks: Prk,
}

/// Names networks within one opening of a live.
pub(crate) struct NetworkNames(Key);

impl NetworkNames {
    pub(crate) fn name(&self, network: AddressPrefix) -> u64 {
        let tag = sign(&self.0, network.as_bytes());
        let mut name = [0; 8];
        name.copy_from_slice(&tag.as_ref()[..8]);
        u64::from_be_bytes(name)
    }
}

impl Derived {
    fn from(secret: &[u8]) -> Self {
        let root = Salt::new(HKDF_SHA256, SALT).extract(secret);
        let ids = expand(&root, &[b"session ids"]);
        let guests = expand(&root, &[b"guests"]);
        let datagrams = expand(&root, &[b"datagrams"]);
        Self {
            tags: Key::new(HMAC_SHA256, &expand(&root, &[b"session keys"])),
            datagrams: Prk::new_less_safe(HKDF_SHA256, &datagrams),
            signs_guests: EncodingKey::from_secret(&guests),
            checks_guests: DecodingKey::from_secret(&guests),
            signs_ids: EncodingKey::from_secret(&ids),
            checks_ids: DecodingKey::from_secret(&ids),
            tickets: TicketKey::new(&expand(&root, &[b"tickets"])),
            networks: Prk::new_less_safe(HKDF_SHA256, &expand(&root, &[b"networks"])),
        }
    }

    fn has_made(&self, key: &SessionKey) -> bool {
        let tag = sign(&self.tags, key.random_part());
        let tag = &tag.as_ref()[..KEY_BYTES - RANDOM_BYTES];
        tag.ct_eq(key.tag()).into()
    }
}

/// The output of HKDF-Expand for this use.
fn expand(root: &Prk, info: &[&[u8]]) -> [u8; DERIVED] {
    let mut key = [0; DERIVED];
    // A length of one hash is never too long.
    if let Ok(output) = root.expand(info, HKDF_SHA256) {
        let _ = output.fill(&mut key);
    }
    key
}

pub(crate) struct PresenceSecret {
    /// `None`: there is no file, or it is not looked at again.
    path: Option<PathBuf>,
    /// The present secret first; others follow while it changes.
    derived: ArcSwap<Vec<Derived>>,
    /// The same secrets as texts, if gateways made them up; empty if a file has them.
    made_up: Mutex<Vec<String>>,
}

/// A secret that no other gateway knows yet.
impl Default for PresenceSecret {
    fn default() -> Self {
        let secret = BASE64URL_NOPAD.encode(&rand::random::<[u8; DERIVED]>());
        Self {
            path: None,
            derived: ArcSwap::from_pointee(vec![Derived::from(secret.as_bytes())]),
            made_up: Mutex::new(vec![secret]),
        }
    }
}

impl PresenceSecret {
    /// Reads the file of the setting. Without one, makes a secret up, which gateways share.
    ///
    /// # Errors
    /// The file cannot be used; the text says why.
    pub(crate) fn open(path: Option<PathBuf>) -> Result<Self, String> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let derived = ArcSwap::from_pointee(read(&path)?);
        Ok(Self {
            path: Some(path),
            derived,
            made_up: Mutex::default(),
        })
    }

    /// As [`Self::open`], and the file is not looked at again.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_once(path: Option<PathBuf>) -> Result<Self, String> {
        let opened = Self::open(path)?;
        Ok(Self {
            path: None,
            ..opened
        })
    }

    /// The secrets that this gateway and others made up, the present one first; none if a file has
    /// the secret.
    pub(crate) fn made_up(&self) -> Vec<String> {
        self.made_up.lock().clone()
    }

    /// Takes these in place of the ones that were made up.
    pub(crate) fn adopt(&self, secrets: Vec<String>) {
        let mut made_up = self.made_up.lock();
        if secrets.is_empty() || *made_up == secrets {
            return;
        }
        let derived = secrets
            .iter()
            .map(|secret| Derived::from(secret.as_bytes()));
        self.derived.store(Arc::new(derived.collect()));
        *made_up = secrets;
    }

    /// A key for a new session.
    pub(crate) fn new_key(&self) -> SessionKey {
        let mut key = [0; KEY_BYTES];
        key[..RANDOM_BYTES].copy_from_slice(&rand::random::<[u8; RANDOM_BYTES]>());
        if let Some(newest) = self.derived.load().first() {
            let tag = sign(&newest.tags, &key[..RANDOM_BYTES]);
            key[RANDOM_BYTES..].copy_from_slice(&tag.as_ref()[..KEY_BYTES - RANDOM_BYTES]);
        }
        SessionKey::from_bytes(key)
    }

    /// The key of a session's datagrams. `None` if no gateway made the session's key; that costs
    /// one hash.
    pub(crate) fn datagram_key(&self, key: &SessionKey) -> Option<DatagramKeyBytes> {
        let derived = self.derived.load();
        let maker = derived.iter().find(|derived| derived.has_made(key))?;
        Some(expand(&maker.datagrams, &[key.as_bytes()]))
    }

    /// Names networks in an opening of a live: on all gateways with this secret alike, and in other
    /// openings otherwise. `None` if the secret is gone, which it never is.
    pub(crate) fn network_names(&self, live: &LiveId, epoch: Epoch) -> Option<NetworkNames> {
        let derived = self.derived.load();
        let epoch = epoch.0.to_be_bytes();
        let of: [&[u8]; 3] = [live.as_str().as_bytes(), b" ", &epoch];
        let key = expand(&derived.first()?.networks, &of);
        Some(NetworkNames(Key::new(HMAC_SHA256, &key)))
    }

    /// Seals the content of a ticket for its session.
    pub(super) fn seal_ticket(&self, content: Vec<u8>, session: &SessionKey) -> Option<Vec<u8>> {
        let derived = self.derived.load();
        derived.first()?.tickets.seal(content, session)
    }

    /// The content of a ticket. `None` if no gateway sealed it for this session.
    pub(super) fn open_ticket(&self, sealed: &[u8], session: &SessionKey) -> Option<Vec<u8>> {
        let derived = self.derived.load();
        derived
            .iter()
            .find_map(|derived| derived.tickets.open(sealed, session))
    }

    /// Does something with the key that signs session ids.
    pub(super) fn with_signing_key<T>(&self, sign: impl FnOnce(&EncodingKey) -> T) -> Option<T> {
        self.derived
            .load()
            .first()
            .map(|newest| sign(&newest.signs_ids))
    }

    /// Does something with the key that signs the tokens of guests.
    pub(super) fn with_guest_key<T>(&self, sign: impl FnOnce(&EncodingKey) -> T) -> Option<T> {
        self.derived
            .load()
            .first()
            .map(|newest| sign(&newest.signs_guests))
    }

    /// The first answer of `check` for one of the keys that tokens of guests may be signed with.
    pub(super) fn check_guest_with<T>(
        &self,
        check: impl Fn(&DecodingKey) -> Option<T>,
    ) -> Option<T> {
        self.derived
            .load()
            .iter()
            .find_map(|derived| check(&derived.checks_guests))
    }

    /// The first answer of `check` for one of the keys that session ids may be signed with.
    pub(super) fn check_with<T>(&self, check: impl Fn(&DecodingKey) -> Option<T>) -> Option<T> {
        self.derived
            .load()
            .iter()
            .find_map(|derived| check(&derived.checks_ids))
    }
}

fn read(path: &std::path::Path) -> Result<Vec<Derived>, String> {
    let secrets = secret_lines::read(SETTING, path)?;
    Ok(secrets
        .iter()
        .map(|secret| Derived::from(secret.reveal().as_bytes()))
        .collect())
}

impl FromFiles for PresenceSecret {
    fn name(&self) -> &'static str {
        "the secret of sessions without a socket"
    }

    fn files(&self) -> Vec<PathBuf> {
        self.path.iter().cloned().collect()
    }

    fn read_again(&self) -> Result<(), String> {
        if let Some(path) = &self.path {
            self.derived.store(read(path)?.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(text: &str) -> PresenceSecret {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        PresenceSecret::open(Some(file.path().to_owned())).unwrap()
    }

    #[test]
    fn gateways_with_the_same_secret_know_each_others_sessions_and_derive_the_same_key() {
        let one = secret("0123456789abcdef");
        let other = secret("0123456789abcdef\n");
        let key = one.new_key();
        let derived = one.datagram_key(&key).unwrap();
        assert_eq!(other.datagram_key(&key), Some(derived));
        assert_ne!(one.datagram_key(&one.new_key()), Some(derived));
    }

    #[test]
    fn a_key_that_no_gateway_made_is_of_no_use() {
        let one = secret("0123456789abcdef");
        let stranger = secret("fedcba9876543210");
        assert_eq!(one.datagram_key(&stranger.new_key()), None);
        let mut bytes = *one.new_key().as_bytes();
        bytes[0] ^= 1;
        assert_eq!(one.datagram_key(&SessionKey::from_bytes(bytes)), None);
    }

    #[test]
    fn while_the_secret_changes_sessions_of_the_former_one_go_on() {
        let before = secret("0123456789abcdef");
        let during = secret("fedcba9876543210\n0123456789abcdef");
        let after = secret("fedcba9876543210");
        let old = before.new_key();
        let new = during.new_key();
        assert_eq!(during.datagram_key(&old), before.datagram_key(&old));
        assert_eq!(after.datagram_key(&new), during.datagram_key(&new));
        assert_eq!(after.datagram_key(&old), None);
    }

    #[test]
    fn a_network_has_one_name_in_one_opening_of_a_live_on_all_gateways() {
        let live = |id: &str| LiveId::parse(id).unwrap();
        let network = AddressPrefix::of("198.51.100.7".parse().unwrap());
        let name = |secret: &PresenceSecret, id: &str, epoch| {
            let names = secret.network_names(&live(id), Epoch(epoch)).unwrap();
            names.name(network)
        };
        let (one, other) = (secret("0123456789abcdef"), secret("0123456789abcdef"));
        let here = name(&one, "42", 1);
        assert_eq!(here, name(&other, "42", 1));
        for elsewhere in [
            name(&one, "42", 2),
            name(&one, "43", 1),
            name(&secret("fedcba9876543210"), "42", 1),
        ] {
            assert_ne!(here, elsewhere);
        }
    }

    #[test]
    fn without_a_file_every_gateway_has_a_secret_of_its_own_at_first() {
        let one = PresenceSecret::open(None).unwrap();
        let other = PresenceSecret::open(None).unwrap();
        assert_eq!(other.datagram_key(&one.new_key()), None);
    }

    #[test]
    fn a_bad_file_is_named_and_not_quoted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "short").unwrap();
        let why = PresenceSecret::open(Some(file.path().to_owned()))
            .err()
            .unwrap();
        assert!(why.starts_with("presence-secret-file /"), "{why}");
        assert!(!why.contains("short"), "{why}");
    }
}
