//! What chaos knows of the keys in Redis: their names, which of them may exist, and where they name
//! a gateway. A change of the gateways' keys changes this file and no other of chaos.

use super::store::ChaosStore;

/// The slices' keys of a live.
pub(crate) fn slice_keys(live_id: &str, slices: u32) -> Vec<String> {
    match slices {
        1 => vec![format!("online-fans:{live_id}")],
        n => (1..=n)
            .map(|k| format!("online-fans:{live_id}_slice{k}"))
            .collect(),
    }
}

/// The keys of all viewers of a live, slice by slice.
pub(crate) fn viewer_keys(live_id: &str, slices: u32) -> Vec<String> {
    slice_keys(live_id, slices)
        .iter()
        .map(|key| format!("{{{key}}}:viewers"))
        .collect()
}

/// The keys of the users online on the platform.
pub(crate) fn online_keys() -> Vec<String> {
    (1..=64).map(|k| format!("online-users_slice{k}")).collect()
}

/// Every key with the name of one of the lives, on any server.
pub(crate) fn of_lives(store: &ChaosStore) -> Vec<String> {
    let found = store.on_masters(&["KEYS", "*chaos-l*"]);
    found
        .iter()
        .flat_map(|keys| keys.lines())
        .filter(|key| !key.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Whether a key may exist, given each live's slices, if it is open.
pub(crate) fn may_exist(key: &str, lives: &[(String, Option<u32>)]) -> bool {
    // Fences, histories and what is kept of attendance outlive their epoch by design.
    let companion = key.strip_prefix('{').and_then(|rest| rest.split_once("}:"));
    if companion.is_some_and(|(_, what)| outlives_epoch(what)) || key.starts_with("attendance:") {
        return true;
    }
    let base = companion.map_or(key, |(base, _)| base);
    for (id, slices) in lives {
        if key == format!("live:{id}") {
            return true;
        }
        let Some(slices) = slices else { continue };
        // The removed users and the bans.
        if base == format!("live:{id}") {
            return true;
        }
        let is_slice = slice_keys(id, *slices).iter().any(|slice| slice == base);
        let is_known = match companion {
            Some((_, what)) => {
                ["viewers", "who", "gateways", "uniques", "unique-fans"].contains(&what)
            }
            None => true,
        };
        if is_slice && is_known {
            return true;
        }
    }
    false
}

/// Keys whose name has a gateway's id in it, and hashes of gateways' entries that do.
const NAMING: &str = "local found = redis.call('KEYS', '*' .. ARGV[1] .. '*') \
    for _, key in ipairs(redis.call('KEYS', '*:gateways')) do \
      local words = redis.call('TYPE', key).ok == 'hash' and redis.call('HGETALL', key) or {} \
      for _, word in ipairs(words) do \
        if string.find(word, ARGV[1], 1, true) then found[#found + 1] = key break end \
      end \
    end \
    return found";

/// The keys that name a gateway, on any server. The list of leases may name dead gateways, and is
/// left out.
pub(crate) fn naming(store: &ChaosStore, gateway_id: &str) -> Vec<String> {
    let found = store.on_masters(&["EVAL", NAMING, "0", gateway_id]);
    found
        .iter()
        .flat_map(|keys| keys.lines())
        .filter(|key| !key.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Whether a companion of a slice outlives its epoch.
fn outlives_epoch(what: &str) -> bool {
    what == "fence"
        || ["history@", "stays@", "sessions@"]
            .iter()
            .any(|start| what.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::support::redis_server::RedisServer;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_gateway_is_found_in_names_and_in_entries_and_nowhere_else() {
        let server = RedisServer::start().await;
        let store = ChaosStore::Single(Box::new(server));
        for command in [
            &["SET", "other:gw-old", "1"][..],
            &["HSET", "{online-fans:1}:gateways", "gw-old", "1:2"],
            &["HSET", "{online-fans:2}:gateways", "gw-new", "1:2"],
            &["HSET", "{online-users_slice1}:gateways", "#1", "gw-old"],
            &["HSET", "rollcall:leases", "gw-old", "dead:1"],
        ] {
            store.on_masters(command);
        }
        let mut named = naming(&store, "gw-old");
        named.sort_unstable();
        assert_eq!(
            named,
            [
                "other:gw-old",
                "{online-fans:1}:gateways",
                "{online-users_slice1}:gateways"
            ]
        );
        assert!(naming(&store, "gw-other").is_empty());
    }

    #[test]
    fn keys_are_those_of_the_contract() {
        assert_eq!(slice_keys("42", 1), ["online-fans:42"]);
        assert_eq!(
            slice_keys("42", 2),
            ["online-fans:42_slice1", "online-fans:42_slice2"]
        );
    }

    #[test]
    fn keys_of_what_is_open_fit_and_all_others_are_strays() {
        let lives = [
            ("chaos-l0".to_owned(), Some(2)),
            ("chaos-l1".to_owned(), None),
        ];
        for key in [
            "live:chaos-l0",
            "live:chaos-l1",
            "online-fans:chaos-l0_slice2",
            "{online-fans:chaos-l0_slice1}:gateways",
            "{online-fans:chaos-l0_slice2}:uniques",
            "{online-fans:chaos-l0_slice2}:unique-fans",
            "{online-fans:chaos-l0_slice7}:fence",
            "{live:chaos-l1}:history@1795370295",
            "{online-fans:chaos-l1}:stays@1795370295",
            "attendance:chaos-l1@1795370295:{p7}",
            "{online-fans:chaos-l0_slice2}:viewers",
            "{online-fans:chaos-l0_slice2}:who",
        ] {
            assert!(may_exist(key, &lives), "{key}");
        }
        for key in [
            "online-fans:chaos-l0",
            "online-fans:chaos-l0_slice3",
            "online-fans:chaos-l1",
            "{online-fans:chaos-l1}:gateways",
            "{online-fans:chaos-l1}:who",
            "{online-fans:chaos-l1}:viewers",
            "{online-fans:chaos-l0_slice3}:who",
            "{online-fans:chaos-l0_slice2}:since",
        ] {
            assert!(!may_exist(key, &lives), "{key}");
        }
    }
}
