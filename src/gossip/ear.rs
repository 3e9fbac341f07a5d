//! Owns what becomes of words that are heard. Never waits for the store but to look at a live that is said to be over or
//! to have sent somebody out, and that beside the hearing, a bounded number at a time.
//!
//! A word is a hint from a program that may be of another version: counts are taken as they are said, bounded by their
//! epoch and their time; that a live is over, or who was sent out, is believed only of the store.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::TICK;
use super::word::{self, Counts, Said, Word};
use crate::clock::millis;
use crate::core::Core;
use crate::ids::{GatewayId, LiveId, UserId};
use crate::metrics::Metrics;
use crate::removals;
use crate::rooms::Room;
use crate::store::{Channel, Heard};

/// Lives looked at at a time; words about more than these are left to the next touch.
const MAX_CHECKS: usize = 256;

/// The most viewers or fans that a word can tell of.
const MAX_FIGURE: u64 = 1 << 34;

/// What is read in the store because a word said that it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    /// Whether the live is over.
    Record,
    /// Who was sent out.
    Removals,
}

/// What is being read, of which lives.
#[derive(Default)]
struct Checks {
    /// True: a word came meanwhile that the reading may not have seen.
    under_way: HashMap<(What, LiveId), bool>,
    tasks: JoinSet<(What, LiveId)>,
}

/// Runs until told to stop.
pub async fn run(core: Arc<Core>, stop: CancellationToken) {
    let mut hearing = core.store.hear();
    let mut checks = Checks::default();
    let mut deaf_until = 0;
    let mut missed = false;
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            heard = hearing.next() => match heard {
                Some(Heard::Word { on, text }) => word(&core, &on, &text, &mut checks),
                Some(Heard::Ready(Channel::Live(live))) => ready(&core, &live, &mut checks),
                // What was missed of follows is made good by the next fan check.
                Some(Heard::Ready(Channel::Gateways)) => {}
                Some(Heard::Deaf) => core.gossip.note_deaf(),
                Some(Heard::Lost) => missed = true,
                None => return,
            },
            Some(done) = checks.tasks.join_next(), if !checks.tasks.is_empty() => {
                // A check that panicked is a bug, and the wiring stops the process.
                let Ok((what, live)) = done else { return };
                if checks.under_way.remove(&(what, live.clone())) == Some(true) {
                    // There is room: this one has just ended.
                    let _ = check(&core, what, &live, &mut checks);
                }
            }
            _ = tick.tick() => {
                // At most once per lease refresh: an ear that falls behind must not make all others speak at once.
                if missed && core.clock.now() >= deaf_until {
                    (missed, deaf_until) = (false, core.clock.now() + millis(core.config.lease_refresh));
                    lost(&core);
                }
                for room in core.gossip.silences(core.clock.now()) {
                    core.changed.mark(&room);
                }
            }
        }
    }
}

/// A room's words are heard from now on; earlier ones were not. A new room has read the store just now, but who was sent
/// out since then finds the door open.
fn ready(core: &Arc<Core>, live: &LiveId, checks: &mut Checks) {
    let Some(room) = core.rooms.get(live) else { return };
    core.gossip.note_ready(&room);
    core.gossip.hello(&room);
    if room.was_touched() {
        core.upkeep.look_soon(vec![room]);
    } else if let Err(why) = check(core, What::Removals, live, checks) {
        // The first touch finds out.
        Metrics::count(&core.metrics.words_ignored, why);
    }
}

fn lost(core: &Core) {
    core.metrics.words_lost.inc();
    // The look reads from the store all that the words said.
    core.upkeep.look_soon(core.rooms.all());
}

fn word(core: &Arc<Core>, on: &Channel, text: &str, checks: &mut Checks) {
    let ignored = match word::read(text) {
        Ok(Said { gateway, .. }) if gateway == core.id => return,
        Ok(said) => act(core, on, said, checks).err(),
        Err(why) => Some(why.label()),
    };
    match ignored {
        None => drop(core.metrics.words_heard.inc()),
        Some(why) => Metrics::count(&core.metrics.words_ignored, why),
    }
}

/// Does what a word asks for; `Err` is why it is ignored.
fn act(core: &Arc<Core>, on: &Channel, said: Said, checks: &mut Checks) -> Result<(), &'static str> {
    match (on, said.word) {
        (Channel::Gateways, Word::Follow { user, streamer }) => {
            let (Ok(user), Ok(streamer)) = (UserId::parse(&user), UserId::parse(&streamer)) else {
                return Err("malformed");
            };
            core.check_again(&user, &streamer);
            Ok(())
        }
        (Channel::Gateways, Word::Streamers { users }) => {
            let users: Result<Vec<UserId>, _> = users.iter().map(|user| UserId::parse(user)).collect();
            core.streamers.heard_elsewhere(users.map_err(|_| "malformed")?, core.clock.now());
            Ok(())
        }
        (Channel::Live(live), Word::Counts(counts)) => {
            hear_counts(core, live, &said.gateway, &counts, checks).map(drop)
        }
        (Channel::Live(live), Word::Hello(counts)) => {
            let room = hear_counts(core, live, &said.gateway, &counts, checks)?;
            core.gossip.repeat(&room);
            Ok(())
        }
        (Channel::Live(live), Word::Over { epoch }) => {
            let room = core.rooms.get(live).ok_or("no_room")?;
            if room.record.epoch > epoch {
                return Err("old_epoch");
            }
            check(core, What::Record, live, checks)
        }
        (Channel::Live(live), Word::Removal { epoch, number }) => {
            let room = core.rooms.get(live).ok_or("no_room")?;
            match room.record.epoch.cmp(&epoch) {
                std::cmp::Ordering::Less => return Err("newer_epoch"),
                std::cmp::Ordering::Greater => return Err("old_epoch"),
                std::cmp::Ordering::Equal if number <= room.bans.last() => return Ok(()),
                std::cmp::Ordering::Equal => {}
            }
            check(core, What::Removals, live, checks)
        }
        _ => Err("unknown"),
    }
}

fn hear_counts(
    core: &Arc<Core>,
    live: &LiveId,
    peer: &GatewayId,
    counts: &Counts,
    checks: &mut Checks,
) -> Result<Arc<Room>, &'static str> {
    let room = core.rooms.get(live).ok_or("no_room")?;
    // Figures beyond mankind come from a bug, and would stay in the record as a peak that nobody can read.
    let most = std::iter::once(counts.viewers).chain(counts.slices.iter().map(|(_, card, _)| *card)).max();
    if most > Some(MAX_FIGURE) {
        return Err("malformed");
    }
    if counts.epoch < room.record.epoch {
        return Err("old_epoch");
    }
    if counts.epoch > room.record.epoch {
        // The peer knows of a newer opening: this room's epoch must be over.
        check(core, What::Record, live, checks)?;
        return Err("newer_epoch");
    }
    if core.gossip.note_word(&room, peer, counts) {
        core.changed.mark(&room);
    }
    for (index, card, at) in &counts.slices {
        let place = (*index as usize).checked_sub(1).filter(|place| *place < room.slices().len());
        core.hear_card(&room, place.ok_or("malformed")?, (*card, *at));
    }
    Ok(room)
}

/// Reads in the store what a word says has changed, and does what follows from it.
fn check(core: &Arc<Core>, what: What, live: &LiveId, checks: &mut Checks) -> Result<(), &'static str> {
    let this = (what, live.clone());
    if let Some(again) = checks.under_way.get_mut(&this) {
        *again = true;
        return Ok(());
    }
    if checks.under_way.len() >= MAX_CHECKS {
        return Err("busy");
    }
    checks.under_way.insert(this, false);
    let (core, live) = (core.clone(), live.clone());
    checks.tasks.spawn(async move {
        let looked = match (what, core.rooms.get(&live)) {
            (What::Record, _) => core.lives.look_again(&live).await,
            (What::Removals, Some(room)) => removals::catch_up(&core, &room, u64::MAX).await,
            (What::Removals, None) => Ok(()),
        };
        if let Err(why) = looked {
            // The next touch finds out.
            tracing::debug!(live_id = %live, error = %why, "could not look at what a live is said to have become");
        }
        (what, live)
    });
    Ok(())
}
