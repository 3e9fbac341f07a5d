//! The scripts. Each is one atomic step, in a file under `scripts/` whose head describes its keys
//! and arguments.

use std::sync::LazyLock;

/// A script's text and the name under which the server keeps it.
#[derive(Debug)]
pub(super) struct Script {
    text: LazyLock<String, fn() -> String>,
    sha1: LazyLock<String, fn() -> String>,
}

impl Script {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn sha1(&self) -> &str {
        &self.sha1
    }
}

/// Functions that scripts share, by subject. A function calls only earlier ones.
const PRELUDE: &str = concat!(
    include_str!("scripts/prelude/basics.lua"),
    include_str!("scripts/prelude/fences.lua"),
    include_str!("scripts/prelude/held_sets.lua"),
    include_str!("scripts/prelude/stays.lua"),
    include_str!("scripts/prelude/last_seen.lua"),
    include_str!("scripts/prelude/members.lua"),
    include_str!("scripts/prelude/records.lua"),
);

/// A script, with the functions of the prelude that it calls, directly or not, in front. Leaves out
/// the others, because Redis makes all functions of a script anew each time it runs.
fn with_prelude(script: &str) -> String {
    let mut starts: Vec<usize> = PRELUDE
        .match_indices("\nlocal function ")
        .map(|(at, _)| at + 1)
        .collect();
    starts.push(PRELUDE.len());
    let mut text = script.to_owned();
    // The last one first: a function calls only earlier ones.
    for function in starts
        .windows(2)
        .rev()
        .map(|ends| &PRELUDE[ends[0]..ends[1]])
    {
        let name = function.split([' ', '(']).nth(2).unwrap_or_default();
        if text.contains(&format!("{name}(")) {
            text.insert_str(0, function);
        }
    }
    text
}

macro_rules! scripts {
    ($($name:ident = $file:literal),* $(,)?) => {
        $(pub(super) static $name: Script = Script {
            text: LazyLock::new(|| with_prelude(include_str!(concat!("scripts/", $file)))),
            sha1: LazyLock::new(|| fred::util::sha1_hash(&$name.text)),
        };)*
    };
}

scripts! {
    APPLY = "apply.lua",
    READ = "read.lua",
    SWEEP = "sweep.lua",
    HELD = "held.lua",
    STRAYS = "strays.lua",
    COMPARE = "compare.lua",
    PUT_BACK = "put_back.lua",
    DROP_NOTES = "drop_notes.lua",
    SETTLE = "settle.lua",
    DROP_FOREIGN_KEYS = "drop_foreign_keys.lua",
    INSPECT = "inspect.lua",
    LEASE = "lease.lua",
    END_LEASE = "end_lease.lua",
    NOW = "now.lua",
    CLAIM_LIVE = "claim_live.lua",
    RELEASE_LIVE = "release_live.lua",
    CLOSE = "close.lua",
    OPEN = "open.lua",
    KEEP = "keep.lua",
    BEGIN_CLOSE = "begin_close.lua",
    FINISH_CLOSE = "finish_close.lua",
    WRITE_INFO = "write_info.lua",
    COUNT = "count.lua",
    ADD_PAST_LIVE = "add_past_live.lua",
    RANK = "rank.lua",
    LIST = "list.lua",
    DELIST = "delist.lua",
    TURN = "turn.lua",
    REMOVE = "remove.lua",
    LIFT = "lift.lua",
    REMOVALS = "removals.lua",
    RESTORE = "restore.lua",
    DROP_LEFT_OVERS = "drop_left_overs.lua",
    FOLLOW = "follow.lua",
    UNFOLLOW = "unfollow.lua",
    BEGIN_CHANGE = "begin_change.lua",
    END_CHANGE = "end_change.lua",
    CLAIM = "claim.lua",
    GIVE_BACK = "give_back.lua",
    PROFILE = "profile.lua",
    PAGE = "page.lua",
    NOTE_SEEN = "note_seen.lua",
    FORGET_SEEN = "forget_seen.lua",
    COUNT_ONLINE = "count_online.lua",
    PRESENCE = "presence.lua",
    WHEREABOUTS = "whereabouts.lua",
    INSPECT_USERS = "inspect_users.lua",
    ADD_STATUSES = "add_statuses.lua",
    PUT_POST = "put_post.lua",
    DROP_POST = "drop_post.lua",
    PUT_IN_LIST = "put_in_list.lua",
    ENQUEUE_FANOUT = "enqueue_fanout.lua",
    TAKE_FANOUTS = "take_fanouts.lua",
    KEEP_FANOUT = "keep_fanout.lua",
    FINISH_FANOUT = "finish_fanout.lua",
    ATTENDEES = "attendees.lua",
    WRITE_ATTENDED = "write_attended.lua",
    LIST_ATTENDED = "list_attended.lua",
    STRAY_SESSIONS = "stray_sessions.lua",
    PROBE = "probe.lua",
    TRIAL = "trial.lua",
    NOTE_COUNTS = "note_counts.lua",
    APPEND_EVENTS = "append_events.lua",
    READ_EVENTS = "read_events.lua",
    BURY_EVENT = "bury_event.lua",
    END_SENDING = "end_sending.lua",
    REPLAY_EVENT = "replay_event.lua",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_has_the_functions_that_it_calls_and_those_that_they_call() {
        let functions = |script: &Script| {
            format!("\n{}", script.text())
                .matches("\nlocal function ")
                .count()
        };
        let text = format!("\n{}", SWEEP.text());
        let at = |name: &str| text.find(&format!("\nlocal function {name}("));
        assert!(
            at("read_fence").is_some()
                && at("unheld").is_some()
                && at("unheld") < at("drop_unheld")
        );
        assert!(at("read_arrivals").is_none() && at("forget_ended").is_none());
        assert_eq!(
            (functions(&TURN), PROBE.text()),
            (0, include_str!("scripts/probe.lua"))
        );
        assert!(text.ends_with(include_str!("scripts/sweep.lua")));
    }
}
