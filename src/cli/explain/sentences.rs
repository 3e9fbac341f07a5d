//! The sentences of an explanation. They only put into words what the command has read.

use std::time::Duration;

use super::explanation::{EntryStatus, SliceStatus};
use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::config::FanSource;
use crate::edge::http::gateway::ViewerKnown;
use crate::store::fans::{FanAnswers, FanError};
use crate::store::{LiveRecord, LiveState};

pub(super) fn about(record: &LiveRecord, listed: bool) -> String {
    let LiveRecord {
        live,
        streamer,
        epoch,
        slices,
        opened_at,
        ..
    } = record;
    let mut said = match record.state {
        LiveState::Open => format!(
            "Live {live} of {streamer} is open, epoch {epoch}, over {slices} slices, since {}",
            time(*opened_at)
        ),
        LiveState::Closing => {
            format!(
                "Live {live} of {streamer} is closing, epoch {epoch}: a close has begun and is not finished yet"
            )
        }
        LiveState::Closed => {
            let at = record.closure.map_or(0, |closure| closure.at);
            format!(
                "Live {live} of {streamer} is closed, epoch {epoch}, since {}",
                time(at)
            )
        }
    };
    match (record.state, listed) {
        (LiveState::Open, false) => said.push_str(". It is missing from lives, which is wrong"),
        (LiveState::Closed, true) => said.push_str(". It is still in lives, which is wrong"),
        _ => {}
    }
    said + "."
}

/// Whether a user is counted, and why, by what the store holds.
pub(super) fn verdict(
    user: &UserId,
    index: u32,
    counted: bool,
    slice: Option<&SliceStatus>,
) -> String {
    let holders: Vec<&EntryStatus> = slice
        .into_iter()
        .flat_map(|slice| &slice.gateways)
        .filter(|gateway| gateway.holds_user == Some(true))
        .collect();
    let names = holders
        .iter()
        .map(|holder| format!("{} ({})", holder.gateway_id, holder.standing()));
    let names = names.collect::<Vec<_>>().join(" and ");
    match (counted, holders.is_empty()) {
        (true, false) => format!("{user} is counted as a fan, in slice {index}: held by {names}."),
        (true, true) => format!(
            "{user} is counted as a fan, in slice {index}, but no gateway holds them: a ghost, which the gateways that \
             hold the slice will remove."
        ),
        (false, false) => format!(
            "{user} is not counted, although held by {names}: they are missing from slice {index} until a gateway \
             reads back what it holds."
        ),
        (false, true) => format!(
            "{user} is not counted: they are not in slice {index}, and no gateway holds them."
        ),
    }
}

/// Whether gateways take the user for a fan of the streamer, by what the fan source answers them.
pub(super) fn fan_check(
    user: &UserId,
    streamer: &UserId,
    (source, answer, since): (FanSource, &Result<FanAnswers, FanError>, Option<UnixMillis>),
) -> String {
    let source = source.as_str();
    match answer
        .as_ref()
        .map(|answers| answers.first().copied().flatten())
    {
        Ok(Some(true)) => {
            let since = since
                .map(|at| format!(", since {}", time(at)))
                .unwrap_or_default();
            format!("{user} follows {streamer}{since}, says the fan source ({source}).")
        }
        Ok(Some(false)) => {
            format!(
                "{user} does not follow {streamer}, says the fan source ({source}), so gateways count them as no fan."
            )
        }
        Ok(None) => {
            format!(
                "Whether {user} is a fan of {streamer} is for the user's token to say (fan-source {source})."
            )
        }
        Err(why) => format!(
            "The fan source ({source}) does not say whether {user} is a fan of {streamer}: {why}."
        ),
    }
}

/// What a gateway knows of a user, in a sentence.
pub(super) fn known(user: &UserId, knows: &ViewerKnown) -> String {
    let ViewerKnown {
        gateway_id,
        sockets,
        ..
    } = knows;
    if !knows.joined {
        let here = if knows.live_here {
            "nobody with that id has joined there"
        } else {
            "nobody is in this live there"
        };
        return format!("{gateway_id} does not know {user}: {here}.");
    }
    let heard = knows.heard_ms_ago.unwrap_or(0) as f64 / 1_000.0;
    let fan = match (knows.wanted, knows.counted, knows.fan) {
        (true, ..) => "a fan, so the store should hold them",
        (false, false, _) => "not to be counted (count=false or invisible=true)",
        (false, true, None) => "a viewer whose fan check has not finished yet",
        (false, true, Some(_)) => "a viewer, and no fan by its last fan check",
    };
    format!("{gateway_id} has {user} with {sockets} sockets, last heard {heard:.1} s ago: {fan}.")
}

pub(super) fn time(at: UnixMillis) -> String {
    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + Duration::from_millis(at)).to_string()
}
