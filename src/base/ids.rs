//! Ids: which strings are valid, and which slice of a live a user falls into.
//!
//! Every id in the program went through one of the `parse` functions here, so no brace, space, `*`
//! or control byte ever reaches a key, and each id can stand in the path of a URL. The edges
//! (WebSocket, HTTP) and the stores call them.

use std::fmt;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// The longest id, in bytes.
const MAX_ID_LEN: usize = 64;

/// Texts that are no ids: clients and proxies remove such a segment from the path of a URL,
/// together with the segment before it.
pub(crate) const DOTS: [&str; 2] = [".", ".."];

/// The most slices one live can have.
pub(crate) const MAX_SLICES: u32 = 256;

/// The slices of [`OnlineSet::Users`].
pub const USERS_SLICES: u32 = 64;

/// The slices of [`OnlineSet::Streamers`].
pub const STREAMERS_SLICES: u32 = 16;

/// Why a string is not an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// Empty, or too long.
    #[error("an id must have 1 to 64 bytes")]
    Length,
    /// A byte outside the alphabet.
    #[error("an id may contain A-Z a-z 0-9 _ . - only (a user id also : and @)")]
    Alphabet,
    /// `.` or `..`, which no URL can carry.
    #[error("an id must not be . or .., which URLs cannot carry")]
    Dots,
    /// A live id that ends in `_slice` and digits would share a key with a slice of another live.
    #[error("a live id must not end in _slice and digits")]
    SliceSuffix,
    /// A name in the settings file has other characters, none or too many.
    #[error("a name in the settings has 1 to 32 characters of a-z 0-9 -")]
    Name,
}

fn check(id: &str, extra: &[u8]) -> Result<(), InvalidId> {
    if id.is_empty() || id.len() > MAX_ID_LEN {
        return Err(InvalidId::Length);
    }
    if DOTS.contains(&id) {
        return Err(InvalidId::Dots);
    }
    if id.bytes().all(|byte| fits(byte, extra)) {
        Ok(())
    } else {
        Err(InvalidId::Alphabet)
    }
}

/// The longest name of a table in the settings file, in bytes.
const MAX_NAME_LEN: usize = 32;

/// Checks the name of a table in the settings file: 1 to 32 bytes of `[a-z0-9-]`.
pub(super) fn check_name(name: &str) -> Result<(), InvalidId> {
    let has_length = (1..=MAX_NAME_LEN).contains(&name.len());
    if has_length && name.bytes().all(fits_name) {
        Ok(())
    } else {
        Err(InvalidId::Name)
    }
}

fn fits_name(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-')
}

fn fits(byte: u8, extra: &[u8]) -> bool {
    byte.is_ascii_alphanumeric() || b"_.-".contains(&byte) || extra.contains(&byte)
}

/// Begins the id of a guest. No id from outside has it, and it needs no percent-encoding in a URL.
const GUEST: char = '~';

/// The bytes that only ids of users and logins may have.
const OF_USERS: &[u8] = b":@";

/// The letters of ids that are made here; each is worth 5 bits.
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// 80 random bits in lower-case letters and digits.
pub(super) fn random_name() -> String {
    (0..16)
        .map(|_| char::from(ALPHABET[rand::random_range(0..32)]))
        .collect()
}

macro_rules! id_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String")]
        pub struct $name(std::sync::Arc<str>);

        impl TryFrom<String> for $name {
            type Error = $crate::base::ids::InvalidId;

            fn try_from(id: String) -> Result<Self, $crate::base::ids::InvalidId> {
                Self::parse(&id)
            }
        }

        impl $name {
            /// The id as in keys and messages.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}
pub(super) use id_type;

id_type!(
    /// Names one live-stream session in a room; may be used again after the live has closed.
    LiveId
);
id_type!(
    /// Names a user: a viewer, a fan, a streamer.
    UserId
);
id_type!(
    /// Names one running gateway; new at every start.
    GatewayId
);

id_type!(
    /// The name that finds a user, as the user writes it.
    Login
);

id_type!(
    /// Names an announcement among those of its author.
    PostId
);

id_type!(
    /// Names a user's list of other users.
    ListName
);

id_type!(
    /// Names the erasure of a user, without naming the user.
    ErasureId
);

id_type!(
    /// Names a session of a media server among those of all servers.
    StreamId
);

impl StreamId {
    /// The session of this name on an instance of a server.
    pub fn of(server: &str, instance: &str, session: &str) -> Self {
        let digest = Sha256::digest([server, instance, session].join("\0"));
        Self(HEXLOWER.encode(&digest[..8]).into())
    }

    /// Takes 1 to 64 bytes of `[A-Za-z0-9_.-]`, other than `.` and `..`.
    pub fn parse(id: &str) -> Result<Self, InvalidId> {
        check(id, b"")?;
        Ok(Self(id.into()))
    }
}

impl ErasureId {
    /// A new id: 80 random bits in lower-case letters and digits.
    pub fn random() -> Self {
        Self(format!("er-{}", random_name()).into())
    }

    /// Takes 1 to 64 bytes of `[A-Za-z0-9_.-]`, other than `.` and `..`.
    pub fn parse(id: &str) -> Result<Self, InvalidId> {
        check(id, b"")?;
        Ok(Self(id.into()))
    }
}

impl PostId {
    /// A new id: 80 random bits in lower-case letters and digits.
    pub fn random() -> Self {
        Self(random_name().into())
    }

    /// Takes 1 to 64 bytes of `[A-Za-z0-9_.-]`, other than `.` and `..`.
    pub fn parse(id: &str) -> Result<Self, InvalidId> {
        check(id, b"")?;
        Ok(Self(id.into()))
    }
}

impl ListName {
    /// Takes 1 to 64 bytes of `[A-Za-z0-9_.-]`, other than `.` and `..`.
    pub fn parse(name: &str) -> Result<Self, InvalidId> {
        check(name, b"")?;
        Ok(Self(name.into()))
    }
}

impl Login {
    /// Takes 1 to 64 bytes of `[A-Za-z0-9_.:@-]`, other than `.` and `..`.
    pub fn parse(login: &str) -> Result<Self, InvalidId> {
        check(login, OF_USERS)?;
        Ok(Self(login.into()))
    }

    /// The form for comparisons: two logins with the same folded form are the same. A login is
    /// ASCII, so this needs no table of Unicode that changes from version to version.
    #[must_use]
    pub fn folded(&self) -> Self {
        Self(self.0.to_ascii_lowercase().into())
    }
}

impl LiveId {
    /// Takes 1 to 64 bytes of `[A-Za-z0-9_.-]` that do not end in `_slice` and digits, other than
    /// `.` and `..`.
    pub fn parse(id: &str) -> Result<Self, InvalidId> {
        check(id, b"")?;
        let stem = id.trim_end_matches(|c: char| c.is_ascii_digit());
        if stem.len() < id.len() && stem.ends_with("_slice") {
            return Err(InvalidId::SliceSuffix);
        }
        Ok(Self(id.into()))
    }
}

impl UserId {
    /// A new id: 80 random bits in lower-case letters and digits.
    pub fn random() -> Self {
        Self(format!("u-{}", random_name()).into())
    }

    /// Takes 1 to 64 bytes of `[A-Za-z0-9_.:@-]`, other than `.` and `..`. No guest has such an id:
    /// where ids come from outside, nobody can name a guest.
    pub fn parse(id: &str) -> Result<Self, InvalidId> {
        check(id, OF_USERS)?;
        Ok(Self(id.into()))
    }

    /// The id of a guest, who has this name. It is no longer than other ids, with the mark that
    /// makes it a guest's.
    pub fn guest(name: &str) -> Result<Self, InvalidId> {
        check(name, OF_USERS)?;
        let id = format!("{GUEST}{name}");
        if id.len() > MAX_ID_LEN {
            return Err(InvalidId::Length);
        }
        Ok(Self(id.into()))
    }

    /// The id of a new guest: 80 random bits in lower-case letters and digits.
    pub fn random_guest() -> Self {
        Self(format!("{GUEST}{}", random_name()).into())
    }

    /// Takes the id of a user or of a guest, where a gateway has written it.
    pub fn read(id: &str) -> Result<Self, InvalidId> {
        match id.strip_prefix(GUEST) {
            Some(name) => Self::guest(name),
            None => Self::parse(id),
        }
    }

    /// The name of a guest; `None` for a user.
    pub fn guest_name(&self) -> Option<&str> {
        self.0.strip_prefix(GUEST)
    }

    /// Whether this is a viewer without an account.
    pub fn is_guest(&self) -> bool {
        self.0.starts_with(GUEST)
    }

    /// Whether ids of users may begin with `prefix`.
    pub(crate) fn may_begin_with(prefix: &str) -> bool {
        prefix.len() <= MAX_ID_LEN && prefix.bytes().all(|byte| fits(byte, OF_USERS))
    }

    /// The id that sorts before all others.
    pub(crate) fn least() -> Self {
        Self("-".into())
    }
}

impl GatewayId {
    /// A new id: 80 random bits in lower-case letters and digits.
    pub fn random() -> Self {
        Self(format!("gw-{}", random_name()).into())
    }

    /// Takes 1 to 64 bytes of `[A-Za-z0-9_.-]`, other than `.` and `..`.
    pub fn parse(id: &str) -> Result<Self, InvalidId> {
        check(id, b"")?;
        Ok(Self(id.into()))
    }
}

/// Counts the openings of one `live_id`. The store refuses a call with an old epoch.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of users who are online. It is spread over slices.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OnlineSet {
    /// The viewers of a live, and the fans among them.
    Live(LiveId),
    /// All users on the platform. This set is always open, in one epoch, and has [`USERS_SLICES`]
    /// slices.
    Users,
    /// The streamers with a socket. This set is always open, in one epoch, and has
    /// [`STREAMERS_SLICES`] slices.
    Streamers,
}

impl OnlineSet {
    /// The live, if the set belongs to one.
    pub fn live(&self) -> Option<&LiveId> {
        match self {
            Self::Live(live) => Some(live),
            Self::Users | Self::Streamers => None,
        }
    }

    /// Whether the store keeps a note on each user of the set: the time since which a viewer is
    /// there, or the lives that a user of the platform is in.
    pub fn keeps_notes(&self) -> bool {
        matches!(self, Self::Live(_) | Self::Users)
    }
}

impl fmt::Display for OnlineSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live(live) => write!(f, "viewers of {live}"),
            Self::Users => f.write_str("users"),
            Self::Streamers => f.write_str("streamers"),
        }
    }
}

/// A group of the users of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// All users of the set.
    All,
    /// The users who follow the streamer. Only lives have such a group.
    Fans,
}

impl OnlineSet {
    /// The groups of the set.
    pub fn groups(&self) -> &'static [Group] {
        match self {
            Self::Live(_) => &[Group::All, Group::Fans],
            Self::Users | Self::Streamers => &[Group::All],
        }
    }
}

impl Group {
    /// Its name in messages, answers and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Fans => "fans",
        }
    }
}

/// The one epoch of the sets that belong to no live.
pub const PLATFORM_EPOCH: Epoch = Epoch(1);

/// One of the slices of a set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SliceId {
    /// The set.
    pub set: OnlineSet,
    /// The number of the slice, 1 to `of`.
    pub index: u32,
    /// The number of slices of the set.
    pub of: u32,
}

impl SliceId {
    /// A slice of a live.
    pub fn of_live(live: LiveId, index: u32, of: u32) -> Self {
        Self {
            set: OnlineSet::Live(live),
            index,
            of,
        }
    }

    /// The slice of a user in a set that has `of` of them.
    pub fn of_user(set: OnlineSet, user: &UserId, of: u32) -> Self {
        Self {
            set,
            index: user.slice_index(of),
            of,
        }
    }

    /// Every slice of a set that has `of` of them.
    pub fn all(set: OnlineSet, of: u32) -> impl Iterator<Item = Self> {
        (1..=of).map(move |index| Self {
            set: set.clone(),
            index,
            of,
        })
    }

    /// The live, if the slice belongs to one.
    pub fn live(&self) -> Option<&LiveId> {
        self.set.live()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_has_a_mark_that_no_id_from_outside_has() {
        let guest = UserId::guest("abc").unwrap();
        assert_eq!((guest.as_str(), guest.guest_name()), ("~abc", Some("abc")));
        assert!(guest.is_guest() && UserId::random_guest().is_guest());
        assert_eq!(UserId::read("~abc"), Ok(guest));
        assert!(!UserId::read("abc").unwrap().is_guest());
        for outside in ["~abc", "~", "a~b"] {
            assert!(UserId::parse(outside).is_err(), "{outside}");
        }
        for wrong in ["~", "~~abc", "~.."] {
            assert!(UserId::read(wrong).is_err(), "{wrong}");
        }
        assert!(UserId::guest(&"x".repeat(MAX_ID_LEN - 1)).is_ok());
        assert_eq!(
            UserId::guest(&"x".repeat(MAX_ID_LEN)),
            Err(InvalidId::Length)
        );
    }

    #[test]
    fn ids_outside_the_alphabet_are_refused() {
        for bad in [
            "",
            " ",
            "a b",
            "{42}",
            "42\n",
            "42*",
            "42:1",
            "ä",
            &"x".repeat(65),
        ] {
            assert!(LiveId::parse(bad).is_err(), "{bad:?}");
        }
        assert!(LiveId::parse(&"x".repeat(64)).is_ok());
        assert!(UserId::parse("mail@example.org:tab-1").is_ok());
        assert!(UserId::parse("{u}").is_err());
    }

    #[test]
    fn names_of_the_settings_have_letters_digits_and_dashes() {
        let longest = "a".repeat(MAX_NAME_LEN);
        for name in ["main", "eu-1", "7", longest.as_str()] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let too_long = "a".repeat(MAX_NAME_LEN + 1);
        for name in [
            "",
            "Main",
            "a b",
            "a/b",
            "a_b",
            "a:b",
            "ä",
            too_long.as_str(),
        ] {
            assert_eq!(check_name(name), Err(InvalidId::Name), "{name}");
        }
    }

    #[test]
    fn ids_that_urls_cannot_carry_are_refused() {
        for dots in DOTS {
            assert_eq!(LiveId::parse(dots), Err(InvalidId::Dots));
            assert_eq!(UserId::parse(dots), Err(InvalidId::Dots));
            assert_eq!(GatewayId::parse(dots), Err(InvalidId::Dots));
            assert_eq!(PostId::parse(dots), Err(InvalidId::Dots));
            assert_eq!(ListName::parse(dots), Err(InvalidId::Dots));
            assert_eq!(Login::parse(dots), Err(InvalidId::Dots));
            assert!(serde_json::from_str::<UserId>(&format!("{dots:?}")).is_err());
            assert!(UserId::may_begin_with(dots));
        }
        for good in ["...", ".a", "a..", "..a", ".-"] {
            assert!(
                LiveId::parse(good).is_ok() && UserId::parse(good).is_ok(),
                "{good}"
            );
        }
        assert!(
            UserId::may_begin_with("")
                && !UserId::may_begin_with("{")
                && !UserId::may_begin_with(&"x".repeat(65))
        );
    }

    #[test]
    fn live_ids_that_look_like_a_slice_are_refused() {
        for bad in ["42_slice1", "_slice0", "a_slice_slice12"] {
            assert_eq!(LiveId::parse(bad), Err(InvalidId::SliceSuffix), "{bad}");
        }
        for good in ["42_slice", "42slice1", "slice1", "42_slice1x", "1"] {
            assert!(LiveId::parse(good).is_ok(), "{good}");
        }
    }

    #[test]
    fn a_user_falls_into_the_slice_that_the_contract_names() {
        // From the reference implementation: xxh3_64("u1") = 11367126444297510385.
        for (user, of_8, of_256) in [("u1", 2, 242), ("mail@example.org", 5, 85)] {
            let user = UserId::parse(user).unwrap();
            assert_eq!(
                (
                    user.slice_index(1),
                    user.slice_index(8),
                    user.slice_index(256)
                ),
                (1, of_8, of_256)
            );
        }
    }
}
