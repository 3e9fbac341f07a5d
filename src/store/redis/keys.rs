//! Owns every key in Redis and every lifetime: what is there, of which type, for how long. Nothing else in the program
//! spells a key. The contract's keys (read by other services) and the gateways' own are marked as such.
//!
//! A slice's companions carry the slice's key in braces as their hash tag, so they live in the slice's hash slot and
//! one script may change them together. Ids contain no braces, so no id can move a key to another slot.

use std::time::Duration;

use crate::base::ids::{GatewayId, LiveId, SliceId, UserId};
use crate::store::{Channel, Edge, MAX_BAN};

/// ZSET, contract: the open lives, scored by `opened_at` in Unix milliseconds. Never expires.
pub const LIVES: &str = "lives";

/// STRING: the gateway that walks over all open lives. Expires unless that gateway renews it.
pub const WALKER: &str = "rollcall:sweeper";

/// HASH: gateway → its lease, `<start, Unix ms>:<last renewal, Unix ms>:<renewals>`; after a burial `dead:<Unix ms>`,
/// for a day.
pub const LEASES: &str = "rollcall:leases";

/// How long the leases outlive the last renewal of any of them.
pub const LEASES_TTL: Duration = Duration::from_secs(2 * 24 * 3600);

/// STRING: a random text that some gateway wrote, never changed. A server with another text, or none, has lost its data
/// or is another server. On one server `rollcall:canary`; in a cluster each master has one, [`canary`] with a small
/// number. Never expires; one that a moved slot took to another master is left there.
pub const CANARY: &str = "rollcall:canary";

/// HASH: gateway → `1`, for each gateway on which a streamer has a socket.
pub fn streamer(streamer: &UserId) -> String {
    format!("rollcall:streamer:{streamer}")
}

/// How long keys of gateways outlive their last write: slices with their companions, viewers, streamers.
pub const SLICE_TTL: Duration = Duration::from_secs(6 * 3600);

/// How long a closed slice's fence outlives the close.
pub const CLOSED_FENCE_TTL: Duration = Duration::from_secs(24 * 3600);

/// How long removals and bans outlive the last of them, unless the live closes before: as long as the longest ban.
pub const REMOVALS_TTL: Duration = MAX_BAN;

/// A master's own [`CANARY`] in a cluster; the number is one whose slot that master serves.
pub fn canary(number: u32) -> String {
    format!("{CANARY}:{{{number}}}")
}

/// HASH, contract: the record of a live.
///
/// | field | what |
/// | --- | --- |
/// | `state` | `open`, `closing` or `closed` |
/// | `streamer_id` | who owns it |
/// | `epoch` | which opening this is; at least the Unix time in seconds of the opening |
/// | `slices` | over how many slices its fans are spread |
/// | `opened_at` | Unix milliseconds |
/// | `opened_by` | `streamer` or `service` |
/// | `peak_viewers`, `peak_fans` | the highest counts of the epoch so far |
/// | `removals` | the number of the last removal or lifting of a ban; absent while there was none |
/// | `closed_at`, `reason` | when and why its close began; absent while open |
pub fn live(live: &LiveId) -> String {
    format!("live:{live}")
}

/// ZSET: users who were sent out of an open live, or whose ban was lifted (`+` before the user), scored by the number
/// of the change. The last [`crate::store::MAX_CHANGES`] users.
pub fn removals(live: &LiveId) -> String {
    format!("{{{}}}:removals", self::live(live))
}

/// ZSET: who may not join an open live, scored by when that ends, in Unix milliseconds.
pub fn bans(live: &LiveId) -> String {
    format!("{{{}}}:bans", self::live(live))
}

/// SET, contract: the fans online in a slice. One key for a live of one slice, numbered from 1 otherwise.
pub fn slice(slice: &SliceId) -> String {
    match slice.of {
        0 | 1 => format!("online-fans:{}", slice.live),
        _ => format!("online-fans:{}_slice{}", slice.live, slice.index),
    }
}

/// SET: the fans whose sockets a gateway holds. Scripts find other gateways' sets by the part before the gateway.
pub fn held(slice: &SliceId, gateway: &GatewayId) -> String {
    format!("{}{gateway}", held_prefix(slice))
}

/// What all held sets of a slice begin with.
pub fn held_prefix(slice: &SliceId) -> String {
    format!("{{{}}}:held:", self::slice(slice))
}

/// HASH: gateway → number of its last applied call. A living gateway's entry stays after the gateway let go of the
/// slice.
pub fn gateways(slice: &SliceId) -> String {
    format!("{{{}}}:gateways", self::slice(slice))
}

/// STRING: `open:<epoch>:<version of the slice>` or `closed:<epoch>`.
pub fn fence(slice: &SliceId) -> String {
    format!("{{{}}}:fence", self::slice(slice))
}

/// HASH: gateway → `<viewers>:<number of the announcement>`, the users that each gateway has in an open live. Absolute
/// values, of which those of living gateways count.
pub fn viewers(live: &LiveId) -> String {
    format!("{{{}}}:viewers", self::live(live))
}

/// A glob that every key of a live matches, and few others do.
pub const LIVE_KEYS: &str = "*li[nv]e*";

/// What a key of a live is, read back from its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveKey {
    /// `live:<live_id>`
    Record,
    /// A key of a slice: which slice (`None` in a live of one), and which of its keys.
    Slice(Option<u32>, SliceKey),
    /// How many viewers each gateway has.
    Viewers,
    /// Who was sent out, or who may not come back.
    Removals,
}

/// Which key of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SliceKey {
    /// The set itself.
    Members,
    /// What a gateway holds.
    Held(GatewayId),
    /// The gateways' entries.
    Gateways,
    /// The fence.
    Fence,
}

/// Reads a key's name back; `None` for what is no key of a live, or none that a gateway would have spelled so.
pub fn read_key(key: &str) -> Option<(LiveId, LiveKey)> {
    if let Some(live) = key.strip_prefix("live:") {
        return Some((LiveId::parse(live).ok()?, LiveKey::Record));
    }
    if let Some((live, companion)) = key.strip_prefix("{live:").and_then(|rest| rest.split_once("}:")) {
        let companion = match companion {
            "removals" | "bans" => LiveKey::Removals,
            "viewers" => LiveKey::Viewers,
            _ => return None,
        };
        return Some((LiveId::parse(live).ok()?, companion));
    }
    if let Some(name) = key.strip_prefix("online-fans:") {
        let (live, index) = read_slice(name)?;
        return Some((live, LiveKey::Slice(index, SliceKey::Members)));
    }
    let (name, companion) = key.strip_prefix("{online-fans:")?.split_once("}:")?;
    let (live, index) = read_slice(name)?;
    let companion = match companion {
        "gateways" => SliceKey::Gateways,
        "fence" => SliceKey::Fence,
        held => SliceKey::Held(GatewayId::parse(held.strip_prefix("held:")?).ok()?),
    };
    Some((live, LiveKey::Slice(index, companion)))
}

fn read_slice(name: &str) -> Option<(LiveId, Option<u32>)> {
    if let Ok(live) = LiveId::parse(name) {
        return Some((live, None));
    }
    let (live, index) = name.rsplit_once("_slice")?;
    let read: u32 = index.parse().ok()?;
    // One name a slice: `_slice007` is no gateway's.
    (read.to_string() == index).then_some((LiveId::parse(live).ok()?, Some(read)))
}

/// The channel on which every gateway listens (sharded pub/sub, as all of them).
pub const GATEWAYS_CHANNEL: &str = "rollcall:gateways";

const LIVE_CHANNEL: (&str, &str) = ("rollcall:{live:", "}");

/// Where messages between gateways are published. A live's channel shares the hash slot of its record, so that a script
/// which changes the record publishes in the same step.
pub fn channel(channel: &Channel) -> String {
    match channel {
        Channel::Gateways => GATEWAYS_CHANNEL.to_owned(),
        Channel::Live(live) => format!("{}{live}{}", LIVE_CHANNEL.0, LIVE_CHANNEL.1),
    }
}

/// Reads a channel's name back.
pub fn read_channel(name: &str) -> Option<Channel> {
    if name == GATEWAYS_CHANNEL {
        return Some(Channel::Gateways);
    }
    let live = name.strip_prefix(LIVE_CHANNEL.0)?.strip_suffix(LIVE_CHANNEL.1)?;
    LiveId::parse(live).ok().map(Channel::Live)
}

/// ZSET, contract: the follow graph from one end, scored by the time of the follow; the platform may write it too.
/// Never expires.
pub fn edge(user: &UserId, edge: Edge) -> String {
    match edge {
        Edge::Following => format!("following:{user}"),
        Edge::Followers => format!("followers:{user}"),
    }
}

/// SET, contract: the users with any socket now, those of one of [`crate::store::ONLINE_SLICES`] slices.
pub fn online_users(slice: u32) -> String {
    format!("online-users_slice{slice}")
}

/// ZSET, contract: when each user of a slice who is not online was seen last, in Unix milliseconds. In the hash slot of
/// the users online, so that one script may look at both. Never expires: users are forgotten one by one.
pub fn last_seen(slice: u32) -> String {
    format!("last-seen:{{{}}}", online_users(slice))
}

/// HASH: user of a slice → `<gateway> <live>` for each gateway on which the user is in a live, with commas between; and
/// `#<gateway>` → the number of the gateway's last call.
pub fn whereabouts(slice: u32) -> String {
    format!("{{{}}}:lives", online_users(slice))
}

/// STRING: `text` or `u32`, how members of the keys of [`last_seen`] are written. Never expires.
pub const LAST_SEEN_IDS: &str = "rollcall:last-seen-ids";

#[cfg(test)]
mod tests {
    use super::*;

    fn id(index: u32, of: u32) -> SliceId {
        SliceId { live: LiveId::parse("42").unwrap(), index, of }
    }

    #[test]
    fn slices_are_named_as_the_contract_says() {
        assert_eq!(slice(&id(1, 1)), "online-fans:42");
        assert_eq!(slice(&id(3, 8)), "online-fans:42_slice3");
    }

    #[test]
    fn a_key_is_read_back_as_it_was_named() {
        let (live_id, gateway) = (LiveId::parse("my_slice").unwrap(), GatewayId::random());
        let id = |index, of| SliceId { live: live_id.clone(), index, of };
        let mut named = vec![
            (live(&live_id), LiveKey::Record),
            (viewers(&live_id), LiveKey::Viewers),
            (bans(&live_id), LiveKey::Removals),
        ];
        for (slice_id, index) in [(id(1, 1), None), (id(12, 16), Some(12))] {
            named.push((slice(&slice_id), LiveKey::Slice(index, SliceKey::Members)));
            named.push((held(&slice_id, &gateway), LiveKey::Slice(index, SliceKey::Held(gateway.clone()))));
            named.push((gateways(&slice_id), LiveKey::Slice(index, SliceKey::Gateways)));
            named.push((fence(&slice_id), LiveKey::Slice(index, SliceKey::Fence)));
        }
        for (key, what) in named {
            assert_eq!(read_key(&key), Some((live_id.clone(), what)), "{key}");
        }
        for other in ["lives", "live:a b", "online-fans:a_slice007", "{online-fans:a}:other", "following:x", ""] {
            assert_eq!(read_key(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_known_of_the_users_of_a_slice_shares_a_hash_slot() {
        let slot = |key: &str| fred::util::redis_keyslot(key.as_bytes());
        assert_eq!(online_users(7), "online-users_slice7");
        assert_eq!(last_seen(7), "last-seen:{online-users_slice7}");
        for key in [last_seen(7), whereabouts(7)] {
            assert_eq!(slot(&key), slot(&online_users(7)), "{key}");
            assert_eq!(read_key(&key), None, "{key} is no key of a live");
        }
    }

    #[test]
    fn a_record_and_what_is_noted_beside_it_share_a_hash_slot() {
        let slot = |key: &str| fred::util::redis_keyslot(key.as_bytes());
        let id = LiveId::parse("42").unwrap();
        for key in [removals(&id), bans(&id), viewers(&id), channel(&Channel::Live(id.clone()))] {
            assert_eq!(slot(&key), slot(&live(&id)), "{key}");
        }
    }

    #[test]
    fn a_channel_is_read_back_as_it_was_named() {
        // A live may be called as the gateways' channel is.
        for there in [Channel::Gateways, Channel::Live(LiveId::parse("gateways").unwrap())] {
            assert_eq!(read_channel(&channel(&there)), Some(there));
        }
        for other in
            ["", "rollcall:", "rollcall:{live:}", "rollcall:{live:a b}", "rollcall:{live:42", "rollcall:{42}", "42"]
        {
            assert_eq!(read_channel(other), None, "{other}");
        }
    }

    #[test]
    fn a_slice_and_its_companions_share_a_hash_slot() {
        let slot = |key: &str| fred::util::redis_keyslot(key.as_bytes());
        let gateway = GatewayId::random();
        for slice_id in [id(1, 1), id(3, 8)] {
            let home = slot(&slice(&slice_id));
            for key in [held(&slice_id, &gateway), gateways(&slice_id), fence(&slice_id)] {
                assert_eq!(slot(&key), home, "{key}");
            }
        }
    }
}
