//! The scripts. Each is one atomic step, in a file under `scripts/` whose head describes its keys
//! and arguments.

use std::sync::OnceLock;

/// A script.
#[derive(Debug)]
pub(crate) struct Script {
    /// Its file.
    file: &'static str,
    whole: OnceLock<WholeScript>,
}

/// A script's text, with what it needs of the prelude, and the name under which the server keeps it.
#[derive(Debug)]
struct WholeScript {
    text: String,
    sha1: String,
}

impl Script {
    pub(crate) const fn new(file: &'static str) -> Self {
        Self {
            file,
            whole: OnceLock::new(),
        }
    }

    fn whole(&self) -> &WholeScript {
        self.whole.get_or_init(|| {
            let text = with_prelude(self.file);
            let sha1 = fred::util::sha1_hash(&text);
            WholeScript { text, sha1 }
        })
    }

    pub(crate) fn text(&self) -> &str {
        &self.whole().text
    }

    pub(crate) fn sha1(&self) -> &str {
        &self.whole().sha1
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

/// Declares scripts, each with its file in the folder `scripts` beside the declaring file.
macro_rules! scripts {
    ($($name:ident = $file:literal),* $(,)?) => {
        $(pub(crate) static $name: $crate::store::redis::scripts::Script =
            $crate::store::redis::scripts::Script::new(include_str!(concat!("scripts/", $file)));)*
    };
}
pub(crate) use scripts;

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
    WRITE_COUNTS = "write_counts.lua",
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
    FREE_LOGIN = "free_login.lua",
    BEGIN_CHANGE = "begin_change.lua",
    END_CHANGE = "end_change.lua",
    PAGE_SORTED_SET = "page_sorted_set.lua",
    NOTE_SEEN = "note_seen.lua",
    FORGET_SEEN = "forget_seen.lua",
    COUNT_ONLINE = "count_online.lua",
    READ_PRESENCE = "read_presence.lua",
    READ_WHEREABOUTS = "read_whereabouts.lua",
    TAKE_JOBS = "take_jobs.lua",
    KEEP_JOB = "keep_job.lua",
    FINISH_JOB = "finish_job.lua",
    KEEP_ANSWER = "keep_answer.lua",
    END_SESSIONS = "end_sessions.lua",
    READ_SESSION_ENDS = "read_session_ends.lua",
    SHARE_SECRETS = "share_secrets.lua",
    PROBE_MASTER = "probe_master.lua",
    TRY_COMMANDS = "try_commands.lua",
    NOTE_COUNTS = "note_counts.lua",
    APPEND_EVENTS = "append_events.lua",
    READ_EVENTS = "read_events.lua",
    BURY_EVENT = "bury_event.lua",
    END_SENDING = "end_sending.lua",
    REPLAY_DEAD = "replay_dead.lua",
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
