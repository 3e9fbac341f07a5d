//! What a soak knows of the keys in Redis: their kinds, and which may stay when every live has
//! closed and nobody is connected. The lifetimes are those of `docs/redis.md`, taken from where the
//! gateway takes them.

use std::collections::BTreeMap;
use std::time::Duration;

use rollcall::store::redis::keys::{
    ATTENDANCE_TTL, CLOSED_FENCE_TTL, LEASES_TTL, SLICE_TTL, TOTALS_TTL,
};

/// Whether a key may outlast its live and its users.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyStays {
    /// For so long at most; Redis must know the time of its end.
    For(Duration),
    /// For good: it is of the installation or of the platform, not of a live.
    ForGood,
    No,
}

/// The kind of a key: its name without ids and numbers.
pub(super) fn kind(key: &str) -> String {
    match key.strip_prefix('{').and_then(|rest| rest.split_once("}:")) {
        Some((base, what)) => {
            let what = what.split_inclusive(['@', ':']).next().unwrap_or_default();
            format!("{{{}}}:{what}", plain_kind(base))
        }
        None => plain_kind(key),
    }
}

/// The kind of a name without braces.
fn plain_kind(name: &str) -> String {
    match name.split_once(':') {
        Some(("rollcall", rest)) => match rest.split_once(':') {
            Some((what, _)) => format!("rollcall:{what}:"),
            None => name.to_owned(),
        },
        Some((what, _)) => format!("{what}:"),
        None => match name.split_once("_slice") {
            Some((what, _)) => what.to_owned(),
            None => name.to_owned(),
        },
    }
}

/// What may stay of a kind. Closed lives are remembered for `closed_ttl`.
pub(super) fn stays(kind: &str, closed_ttl: Duration) -> KeyStays {
    match kind {
        "live:" | "{live:}:history@" | "past-lives:" | "{past-lives:}:summaries" => {
            KeyStays::For(closed_ttl)
        }
        "{online-fans:}:fence" => KeyStays::For(CLOSED_FENCE_TTL),
        "attendance:" | "attended:" | "{online-fans:}:stays@" | "{online-fans:}:sessions@" => {
            KeyStays::For(ATTENDANCE_TTL)
        }
        // These sets never close: an entry stays while its gateway lives.
        "{online-users}:fence" | "{online-streamers}:fence" => KeyStays::For(TOTALS_TTL),
        "{online-users}:gateways" | "{online-streamers}:gateways" => KeyStays::For(SLICE_TTL),
        "rollcall:leases" => KeyStays::For(LEASES_TTL),
        // Two lease refreshes, however long these are.
        "rollcall:sweeper" => KeyStays::For(SLICE_TTL),
        "rollcall:attendance"
        | "rollcall:attendance-form"
        | "rollcall:canary"
        | "rollcall:events" => KeyStays::ForGood,
        "rollcall:fanout"
        | "rollcall:last-seen-ids"
        | "last-seen:"
        | "following:"
        | "followers:" => KeyStays::ForGood,
        _ => KeyStays::No,
    }
}

/// Keys by kind.
pub(super) fn counted<'a>(keys: impl IntoIterator<Item = &'a String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for key in keys {
        *counts.entry(kind(key)).or_default() += 1;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_a_name_without_ids() {
        for (key, expected) in [
            ("lives", "lives"),
            ("{lives}:by_fans", "{lives}:by_fans"),
            ("live:chaos-l0", "live:"),
            ("online-fans:chaos-l0_slice2", "online-fans:"),
            ("online-users_slice12", "online-users"),
            ("{online-users_slice12}:gateways", "{online-users}:gateways"),
            ("{online-fans:chaos-l0_slice2}:who", "{online-fans:}:who"),
            ("{live:chaos-l0}:history@1795370295", "{live:}:history@"),
            ("attendance:chaos-l0@1795370295:{p7}", "attendance:"),
            ("last-seen:{online-users_slice12}", "last-seen:"),
            (
                "{online-streamers_slice3}:fence",
                "{online-streamers}:fence",
            ),
            ("rollcall:leases", "rollcall:leases"),
            ("{rollcall:events}:sender", "{rollcall:events}:sender"),
        ] {
            assert_eq!(kind(key), expected, "{key}");
        }
    }

    #[test]
    fn nothing_of_an_open_live_may_stay() {
        let ttl = Duration::from_secs(600);
        for key in [
            "lives",
            "online-fans:42",
            "{online-fans:42}:who",
            "{live:42}:bans",
            "statuses:feed:u1",
        ] {
            assert_eq!(stays(&kind(key), ttl), KeyStays::No, "{key}");
        }
        assert_eq!(stays(&kind("live:42"), ttl), KeyStays::For(ttl));
        assert_eq!(stays(&kind("rollcall:canary"), ttl), KeyStays::ForGood);
    }
}
