//! Owns what another program does by mistake to the keys that belong to the gateways: it removes or
//! adds a member, deletes, renames or overwrites a key, lets it expire, or restores it from a
//! backup. Who has a connection to Redis sends the commands that this file makes.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "several test binaries share this file, none uses all of it"
)]

/// A member that no gateway ever wrote.
pub const STRANGER: &str = "stranger";

/// What happens to a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Meddling {
    /// One member or field is removed.
    RemoveOne,
    /// Somebody is added whom no gateway holds.
    AddStranger,
    /// One is removed and another is added, so the size stays.
    Swap,
    /// DEL.
    Delete,
    /// RENAME: the key has another name from now on.
    Rename,
    /// PEXPIRE: the key is gone after a moment.
    Expire,
    /// The key has another type.
    Overwrite,
    /// RESTORE … REPLACE, from the DUMP that [`back_up`] took.
    RestoreOlder,
}

impl Meddling {
    /// All that can happen to a set, or to the hash of claims.
    pub const ALL: &'static [Self] = &[
        Self::RemoveOne,
        Self::AddStranger,
        Self::Swap,
        Self::Delete,
        Self::Rename,
        Self::Expire,
        Self::Overwrite,
        Self::RestoreOlder,
    ];

    /// What can happen to the entries of the gateways: who adds one there invents a gateway.
    pub const OF_ENTRIES: &'static [Self] = &[
        Self::RemoveOne,
        Self::Delete,
        Self::Rename,
        Self::Expire,
        Self::Overwrite,
        Self::RestoreOlder,
    ];

    /// What can happen to a fence, which has no members.
    pub const OF_A_FENCE: &'static [Self] = &[
        Self::Delete,
        Self::Rename,
        Self::Expire,
        Self::Overwrite,
        Self::RestoreOlder,
    ];

    /// Its name in ids of lives and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::RemoveOne => "remove-one",
            Self::AddStranger => "add-stranger",
            Self::Swap => "swap",
            Self::Delete => "delete",
            Self::Rename => "rename",
            Self::Expire => "expire",
            Self::Overwrite => "overwrite",
            Self::RestoreOlder => "restore-older",
        }
    }

    /// The command that does it to a key of whatever type. It answers what it did, in words.
    pub fn command(self, key: &str) -> Vec<String> {
        script(MEDDLE, key, &[self.name(), STRANGER])
    }
}

/// The command that takes a backup of a key, for [`Meddling::RestoreOlder`].
pub fn back_up(key: &str) -> Vec<String> {
    script(BACK_UP, key, &[])
}

/// The command that removes what [`back_up`] and [`Meddling::Rename`] left beside a key.
pub fn tidy(key: &str) -> Vec<String> {
    vec![
        "DEL".to_owned(),
        beside("backup", key),
        beside("renamed", key),
    ]
}

fn script(text: &str, key: &str, args: &[&str]) -> Vec<String> {
    let keys = [
        key.to_owned(),
        beside("backup", key),
        beside("renamed", key),
    ];
    let head = ["EVAL".to_owned(), text.to_owned(), keys.len().to_string()];
    head.into_iter()
        .chain(keys)
        .chain(args.iter().map(|&arg| arg.to_owned()))
        .collect()
}

/// A key of the other program's own, in the same hash slot.
fn beside(what: &str, key: &str) -> String {
    if key.contains('{') {
        format!("other:{what}:{key}")
    } else {
        format!("other:{what}:{{{key}}}")
    }
}

/// KEYS: the key, its backup, its other name.
const BACK_UP: &str = r"
local dump = redis.call('DUMP', KEYS[1])
if not dump then return 'nothing there' end
redis.call('SET', KEYS[2], dump)
return 'backed up'
";

/// KEYS: the key, its backup, its other name. ARGV: what to do, the stranger.
const MEDDLE: &str = r"
local key, what, stranger = KEYS[1], ARGV[1], ARGV[2]
local kind = redis.call('TYPE', key).ok

local function remove_one()
  local who
  if kind == 'set' then
    who = redis.call('SRANDMEMBER', key)
    if who then redis.call('SREM', key, who) end
  elseif kind == 'hash' then
    who = redis.call('HRANDFIELD', key)
    if who then redis.call('HDEL', key, who) end
  end
  return 'removed ' .. tostring(who)
end

local function add_stranger()
  if kind == 'hash' then
    redis.call('HSET', key, stranger, '1')
  elseif kind == 'set' or kind == 'none' then
    redis.call('SADD', key, stranger)
  end
  return 'added ' .. stranger
end

if what == 'remove-one' then return remove_one() end
if what == 'add-stranger' then return add_stranger() end
if what == 'swap' then return remove_one() .. ', ' .. add_stranger() end
if kind == 'none' and what ~= 'restore-older' then return 'nothing there' end
if what == 'delete' then redis.call('DEL', key) end
if what == 'rename' then redis.call('RENAME', key, KEYS[3]) end
if what == 'expire' then redis.call('PEXPIRE', key, 100) end
if what == 'overwrite' then
  redis.call('DEL', key)
  if kind == 'string' then redis.call('RPUSH', key, 'not a string') else redis.call('SET', key, 'not a set') end
end
if what == 'restore-older' then
  local dump = redis.call('GET', KEYS[2])
  if not dump then return 'no backup' end
  redis.call('RESTORE', key, 0, dump, 'REPLACE')
end
return what .. ' of a ' .. kind
";
