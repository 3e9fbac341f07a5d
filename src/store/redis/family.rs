//! Families of keys: the keys of a family differ in ids and numbers only. The core declares its
//! families in [`super::keys`], and a feature those that nothing else writes in its own folder. A
//! declaration says the name, the type of the keys, whether other services may read them, and how
//! they may name a user; the lifetime stands in its doc. Everything that knows keys by their names
//! goes by the declarations: what makes them, what reads them back, globs, erasures, the trial of a
//! server, and the test of the tables in `docs/redis.md`.

use std::fmt::{Display, Write};
use std::sync::OnceLock;

use super::slice_name::{read_number, read_slice};
use crate::store::{LiveEpoch, PersonalData};

/// The type of a key. What Redis calls a string is a text here, as `String` is something else in Rust.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// A text, a number, bits, or a HyperLogLog.
    Text,
    /// A set.
    Set,
    /// A sorted set.
    Zset,
    /// A hash.
    Hash,
    /// A stream.
    Stream,
}

/// What an erasure does with keys that are named after the user. It deletes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Own {
    /// The keys are not named after users.
    No,
    /// Another key tells the report how much there is.
    Untold,
    /// This command counts what the report tells.
    Told(PersonalData, &'static str),
}

/// How keys may name users, apart from those that are named after a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// They name nobody.
    Nobody,
    /// Users are the members of a sorted set, some with `+` before them.
    Members(Option<PersonalData>),
    /// Users who are online are the members of a set, or the fields of a hash. Their gateways take
    /// them away.
    Online,
    /// A hash of jobs or changes that end by themselves, with users somewhere in their names.
    Unfinished,
    /// As their owner says, see [`super::erasing::ErasesKeys`].
    Otherwise,
    /// One large key of the installation knows many users. An erasure goes over it page by page, as
    /// the owner says.
    Large,
}

/// A family of keys.
#[derive(Debug)]
pub struct Family {
    /// The name, as `docs/redis.md` has it: `<…>` stands for an id or a number, `<slice>` for the
    /// name of a slice, `<live_slice>` for that of a slice of a live, `<live_epoch>` for a live and its
    /// epoch with an `@`, and `<:webhook>` for the name of a webhook behind a colon, or nothing.
    pub name: &'static str,
    /// The type of the keys.
    pub kind: KeyType,
    /// Whether other services may read the keys.
    pub is_contract: bool,
    pub(crate) own: Own,
    pub(crate) names: Names,
    parts: OnceLock<NameParts>,
}

/// A name, taken apart.
#[derive(Debug)]
struct NameParts {
    /// What stands before another key in braces, which begins with the prefix, too.
    before_key: &'static str,
    begin: &'static str,
    /// What each id is called, and the text behind it.
    ids: Vec<(&'static str, &'static str)>,
}

/// Each name is declared once.
impl PartialEq for Family {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Family {
    pub(crate) const fn new(kind: KeyType, name: &'static str) -> Self {
        Self {
            name,
            kind,
            is_contract: false,
            own: Own::No,
            names: Names::Nobody,
            parts: OnceLock::new(),
        }
    }

    /// Other services may read the keys.
    pub(crate) const fn contract(mut self) -> Self {
        self.is_contract = true;
        self
    }

    /// The last id in the name is a user, who owns the key.
    pub(crate) const fn own(mut self, own: Own) -> Self {
        self.own = own;
        self
    }

    pub(crate) const fn names(mut self, names: Names) -> Self {
        self.names = names;
        self
    }

    /// The parts of the name, found out once.
    fn parts(&self) -> &NameParts {
        self.parts.get_or_init(|| {
            let (before_key, name) = split_before_key(self.name);
            let mut pieces = name.split('<');
            NameParts {
                before_key,
                begin: pieces.next().unwrap_or_default(),
                ids: pieces.filter_map(|piece| piece.split_once('>')).collect(),
            }
        })
    }

    /// The key with these ids, in the order of the name.
    pub(crate) fn make(&self, prefix: &str, ids: impl Iterator<Item = impl Display>) -> String {
        let parts = self.parts();
        let mut key = String::with_capacity(64);
        key.push_str(prefix);
        if !parts.before_key.is_empty() {
            key.push_str(parts.before_key);
            key.push_str(prefix);
        }
        key.push_str(parts.begin);
        for ((_, text), id) in parts.ids.iter().zip(ids) {
            // A text takes everything.
            let _ = write!(key, "{id}{text}");
        }
        key
    }

    /// The ids in a key; `None` for a key of another family or installation.
    pub(crate) fn read<'k>(&self, prefix: &str, key: &'k str) -> Option<Vec<&'k str>> {
        let parts = self.parts();
        let mut rest = key.strip_prefix(prefix)?;
        if !parts.before_key.is_empty() {
            rest = rest.strip_prefix(parts.before_key)?.strip_prefix(prefix)?;
        }
        rest = rest.strip_prefix(parts.begin)?;
        let mut ids = Vec::new();
        for (what, text) in &parts.ids {
            let end = match *text {
                "" => rest.len(),
                text => rest.find(text)?,
            };
            let (id, after) = rest.split_at(end);
            if !may_be(id, what) {
                return None;
            }
            ids.push(id);
            rest = &after[text.len()..];
        }
        rest.is_empty().then_some(ids)
    }

    /// What the ids in the name are called.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &'static str> {
        self.parts().ids.iter().map(|(what, _)| *what)
    }
}

/// Splits a name or a glob: what stands before another key in braces, and the rest. Ids and numbers
/// in braces are no keys.
pub(crate) fn split_before_key(name: &str) -> (&str, &str) {
    match name.find('{') {
        Some(at) if at == 0 || name.starts_with("last-seen:") => name.split_at(at + 1),
        _ => ("", name),
    }
}

/// Whether a text may stand for an id. This tells families apart; whether the id is valid is for
/// the reader to find out.
fn may_be(text: &str, what: &str) -> bool {
    match what {
        "slice" => read_slice(text).is_some(),
        "live_slice" => read_slice(text).is_some_and(|(set, _)| set.live().is_some()),
        "live_epoch" => LiveEpoch::parse(text).is_some(),
        "epoch" | "k" | "p" | "b" | "n" => read_number::<u64>(text).is_some(),
        ":webhook" => text.is_empty() || text.starts_with(':'),
        _ => !text.is_empty(),
    }
}

/// All families of keys. The list is put together above the core, because features have families
/// of their own.
pub trait AllFamilies {
    /// The families of the core, and those of each feature.
    fn families(&self) -> Vec<&'static Family>;
}

/// Declares families with their docs, and lists them, so that none can be forgotten. The function
/// behind a name becomes a method of [`super::keys::Keys`], which makes the keys of the family of the
/// ids in its name, in this order.
macro_rules! families {
    ($(
        $(#[$doc:meta])*
        $name:ident $(, fn $make:ident($($id:ident: $type:ty),*))? = $family:expr;
    )*) => {
        $($(#[$doc])* pub(crate) static $name: Family = $family;)*

        /// The families that are declared here.
        pub(crate) static FAMILIES: &[&Family] = &[$(&$name),*];

        impl Keys {
            $($(
                #[doc = concat!("A key of the family `", stringify!($name), "`.")]
                pub fn $make(&self, $($id: $type),*) -> String {
                    self.make(&$name, &[$(&$id),*])
                }
            )?)*
        }
    };
}
pub(crate) use families;
