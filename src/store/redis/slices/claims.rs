//! Reads the entries of gateways, and what these claim of users. The scripts write both, see
//! `scripts/prelude/claims.lua`.

use std::collections::HashMap;

use fred::types::Value;

use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::store::redis::reply::Reply;
use crate::store::slice::entry::{EntryToken, GatewayEntry};
use crate::store::{Claim, ClaimedUser, SliceEntry, StoreResult};

/// Reads `<token>:<number>`, the same with `+` behind it, or `<token>:dead`. `None` if no script
/// wrote it.
pub(crate) fn read_entry(text: &str) -> Option<GatewayEntry> {
    let (token, state) = text.split_once(':')?;
    let state = if state == "dead" {
        SliceEntry::Dead
    } else {
        let number = state.strip_suffix('+').unwrap_or(state);
        SliceEntry::At {
            number: number.parse().ok()?,
            is_complete: number == state,
        }
    };
    Some(GatewayEntry {
        token: token.parse().ok()?,
        state,
    })
}

/// The entries of a slice.
pub(crate) struct AllEntries {
    /// How many fields the hash has.
    pub(crate) count: u64,
    /// Those that scripts wrote.
    pub(crate) read: Vec<(GatewayId, GatewayEntry)>,
}

/// Reads the answer to HGETALL of the entries.
pub(crate) fn read_entries(answer: Value) -> StoreResult<AllEntries> {
    let fields = Reply::of(answer)?.pairs()?;
    let mut entries = AllEntries {
        count: fields.len() as u64,
        read: Vec::new(),
    };
    for (gateway, entry) in fields {
        if let Ok(gateway) = GatewayId::parse(&gateway)
            && let Some(entry) = read_entry(&entry)
        {
            entries.read.push((gateway, entry));
        }
    }
    Ok(entries)
}

/// The gateways of claims.
pub(crate) struct GatewayTokens(HashMap<EntryToken, GatewayId>);

impl GatewayTokens {
    pub(crate) fn of(entries: AllEntries) -> Self {
        let mut tokens = HashMap::new();
        for (gateway, entry) in entries.read {
            tokens.insert(entry.token, gateway);
        }
        Self(tokens)
    }

    /// Reads the claims on a user.
    pub(crate) fn claimed(&self, user: UserId, value: &str) -> ClaimedUser {
        let claims = value.split(' ').skip(1).filter(|claim| !claim.is_empty());
        ClaimedUser {
            user,
            since: read_since(value),
            by: claims.map(|claim| self.read_claim(claim)).collect(),
        }
    }

    /// Reads `<token>` and what is behind it.
    fn read_claim(&self, claim: &str) -> (Option<GatewayId>, Claim) {
        let end = claim.find(['f', '=']).unwrap_or(claim.len());
        let (token, what) = claim.split_at(end);
        let gateway = token.parse().ok().and_then(|token| self.0.get(&token));
        let claim = match what.strip_prefix('=') {
            Some(lives) => Claim::In(read_lives(lives)),
            None if what.is_empty() => Claim::Member,
            None => Claim::Fan,
        };
        (gateway.cloned(), claim)
    }
}

/// Reads since when the user of a live is there.
pub(crate) fn read_since(value: &str) -> Option<UnixMillis> {
    value.split(' ').next()?.parse().ok()
}

/// Reads ids of lives with commas between; skips those that are none.
fn read_lives(words: &str) -> Vec<LiveId> {
    words
        .split(',')
        .filter_map(|word| LiveId::parse(word).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_scripts_write_it() {
        let at = |number, is_complete| {
            Some(GatewayEntry {
                token: 3,
                state: SliceEntry::At {
                    number,
                    is_complete,
                },
            })
        };
        let dead = Some(GatewayEntry {
            token: 3,
            state: SliceEntry::Dead,
        });
        assert_eq!(read_entry("3:17"), at(17, true));
        assert_eq!(read_entry("3:17+"), at(17, false));
        assert_eq!(read_entry("3:dead"), dead);
        for other in ["", "17", "3:", "3:+", "a:1", "3:17++", "3:dead+"] {
            assert_eq!(read_entry(other), None, "{other}");
        }
    }

    #[test]
    fn claims_are_read_with_their_gateways_in_their_order() {
        let gateway = GatewayId::parse("gw-1").unwrap();
        let tokens = GatewayTokens([(3, gateway.clone())].into());
        let read = |value: &str| {
            let claimed = tokens.claimed(UserId::parse("u1").unwrap(), value);
            (claimed.since, claimed.by)
        };
        let lives = ["l1", "l2"].map(|live| LiveId::parse(live).unwrap());
        let here = Some(gateway);
        assert_eq!(
            read("1700 31f 3"),
            (
                Some(1700),
                vec![(None, Claim::Fan), (here.clone(), Claim::Member)]
            )
        );
        assert_eq!(
            read(" 3=l1,l2 4="),
            (
                None,
                vec![
                    (here, Claim::In(lives.into())),
                    (None, Claim::In(Vec::new()))
                ]
            )
        );
        assert_eq!(read("what"), (None, vec![]));
    }
}
