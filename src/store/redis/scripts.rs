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
    include_str!("scripts/prelude/claims.lua"),
    include_str!("scripts/prelude/stays.lua"),
    include_str!("scripts/prelude/last_seen.lua"),
    include_str!("scripts/prelude/members.lua"),
    include_str!("scripts/prelude/records.lua"),
    include_str!("scripts/prelude/events.lua"),
    include_str!("scripts/prelude/jobs.lua"),
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
    APPLY_CHANGES = "apply_changes.lua",
    PASS_SLICE = "pass_slice.lua",
    INSPECT_SLICE = "inspect_slice.lua",
    RENEW_LEASE = "renew_lease.lua",
    END_LEASE = "end_lease.lua",
    READ_CLOCK = "read_clock.lua",
    CLAIM_LIVE = "claim_live.lua",
    RELEASE_LIVE = "release_live.lua",
    CLOSE_SLICE = "close_slice.lua",
    OPEN_LIVE = "open_live.lua",
    KEEP_LIVE = "keep_live.lua",
    BEGIN_LIVE_CLOSE = "begin_live_close.lua",
    FINISH_LIVE_CLOSE = "finish_live_close.lua",
    CHANGE_LIVE = "change_live.lua",
    WRITE_STREAMS = "write_streams.lua",
    WRITE_COUNTS = "write_counts.lua",
    ADD_PAST_LIVE = "add_past_live.lua",
    RANK_LIVES = "rank_lives.lua",
    LIST_LIVE = "list_live.lua",
    DELIST_LIVE = "delist_live.lua",
    TAKE_WALK_TURN = "take_walk_turn.lua",
    REMOVE_VIEWER = "remove_viewer.lua",
    DROP_OLD_EVENTS = "drop_old_events.lua",
    LIFT_BAN = "lift_ban.lua",
    READ_REMOVALS = "read_removals.lua",
    RESTORE_BANS = "restore_bans.lua",
    DROP_OLD_REMOVALS = "drop_old_removals.lua",
    FOLLOW = "follow.lua",
    UNFOLLOW = "unfollow.lua",
    BEGIN_CHANGE = "begin_change.lua",
    END_CHANGE = "end_change.lua",
    CLAIM_LOGIN = "claim_login.lua",
    FREE_LOGIN = "free_login.lua",
    WRITE_PROFILE = "write_profile.lua",
    PAGE_SORTED_SET = "page_sorted_set.lua",
    NOTE_SEEN = "note_seen.lua",
    FORGET_SEEN = "forget_seen.lua",
    COUNT_ONLINE = "count_online.lua",
    READ_PRESENCE = "read_presence.lua",
    READ_WHEREABOUTS = "read_whereabouts.lua",
    INSPECT_USERS = "inspect_users.lua",
    ADD_STATUSES = "add_statuses.lua",
    PUT_POST = "put_post.lua",
    DROP_POST = "drop_post.lua",
    PUT_IN_LIST = "put_in_list.lua",
    ENQUEUE_FANOUT = "enqueue_fanout.lua",
    TAKE_FANOUTS = "take_fanouts.lua",
    KEEP_FANOUT = "keep_fanout.lua",
    FINISH_FANOUT = "finish_fanout.lua",
    KEEP_ANSWER = "keep_answer.lua",
    END_SESSIONS = "end_sessions.lua",
    READ_SESSION_ENDS = "read_session_ends.lua",
    SHARE_SECRETS = "share_secrets.lua",
    ASK_ERASURE = "ask_erasure.lua",
    READ_ERASURES = "read_erasures.lua",
    CLEAR_BIT = "clear_bit.lua",
    ERASE_LIVE = "erase_live.lua",
    FINISH_ERASURE = "finish_erasure.lua",
    ERASE_STATUSES = "erase_statuses.lua",
    ERASE_STAYS = "erase_stays.lua",
    FIND_ATTENDEES = "find_attendees.lua",
    WRITE_ATTENDANCE = "write_attendance.lua",
    LIST_ATTENDANCE = "list_attendance.lua",
    STRAY_SESSIONS = "stray_sessions.lua",
    PROBE_MASTER = "probe_master.lua",
    TRY_COMMANDS = "try_commands.lua",
    NOTE_COUNTS = "note_counts.lua",
    APPEND_EVENTS = "append_events.lua",
    READ_EVENTS = "read_events.lua",
    BURY_EVENT = "bury_event.lua",
    END_SENDING = "end_sending.lua",
    REPLAY_DEAD = "replay_dead.lua",
    NOTE_DELIVERIES = "note_deliveries.lua",
    READ_WEBHOOK = "read_webhook.lua",
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
        let text = format!("\n{}", PASS_SLICE.text());
        let at = |name: &str| text.find(&format!("\nlocal function {name}("));
        assert!(
            at("read_fence").is_some()
                && at("end_stays").is_some()
                && at("end_stays") < at("drop_members")
        );
        assert!(at("begin_stays").is_none() && at("forget_ended").is_none());
        assert_eq!(
            (functions(&TAKE_WALK_TURN), PROBE_MASTER.text()),
            (0, include_str!("scripts/probe_master.lua"))
        );
        assert!(text.ends_with(include_str!("scripts/pass_slice.lua")));
    }
}
