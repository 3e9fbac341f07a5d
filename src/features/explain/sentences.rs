//! The sentences of an explanation. They put into words what the command has read, and nothing more.

use std::time::Duration;

use crate::base::clock::UnixMillis;
use crate::base::ids::UserId;
use crate::config::FanSource;
use crate::edge::http::gateway::ViewerKnown;
use crate::features::explain::explanation::{EntryStatus, SliceStatus};
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

/// Whether the store counts a user, as a viewer and as a fan, and why.
pub(super) fn verdict(
    user: &UserId,
    index: u32,
    is_viewer: bool,
    is_fan: bool,
    slice: Option<&SliceStatus>,
) -> String {
    let entries: &[EntryStatus] = match slice {
        Some(slice) => &slice.gateways,
        None => &[],
    };
    let holders: Vec<String> = entries
        .iter()
        .filter(|entry| entry.holds_user == Some(true))
        .map(|entry| format!("{} ({})", entry.gateway_id, entry.standing()))
        .collect();
    let names = holders.join(" and ");
    match (is_fan, holders.is_empty()) {
        (true, false) => format!("{user} is counted as a fan, in slice {index}: held by {names}."),
        (true, true) => format!(
            "{user} is counted as a fan, in slice {index}, but no gateway holds them: a ghost, which the gateways that \
             hold the slice will remove."
        ),
        (false, false) => format!(
            "{user} is not counted as a fan, although held by {names}: they are missing from slice {index} until a \
             gateway reads back what it holds."
        ),
        (false, true) if is_viewer => format!(
            "{user} is counted as a viewer, in slice {index}, and not as a fan: no gateway holds them as one."
        ),
        (false, true) => format!(
            "{user} is not counted: they are not in slice {index}, and no gateway holds them."
        ),
    }
}

/// Whether gateways take the user for a fan of the streamer, according to the fan source.
pub(super) fn fan_check(
    user: &UserId,
    streamer: &UserId,
    source: FanSource,
    answer: &Result<FanAnswers, FanError>,
    since: Option<UnixMillis>,
) -> String {
    let source = source.as_str();
    let answers = match answer {
        Ok(answers) => answers,
        Err(why) => {
            return format!(
                "The fan source ({source}) does not say whether {user} is a fan of {streamer}: {why}."
            );
        }
    };
    match answers.first().copied().flatten() {
        Some(true) => {
            let since = match since {
                Some(at) => format!(", since {}", time(at)),
                None => String::new(),
            };
            format!("{user} follows {streamer}{since}, says the fan source ({source}).")
        }
        Some(false) => {
            format!(
                "{user} does not follow {streamer}, says the fan source ({source}), so gateways count them as no fan."
            )
        }
        None => {
            format!(
                "Whether {user} is a fan of {streamer} is for the user's token to say (fan-source {source})."
            )
        }
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
    let heard = knows.silent_ms.unwrap_or(0) as f64 / 1_000.0;
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
