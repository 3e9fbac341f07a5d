//! What becomes of words that are heard. Never waits for the store but to look at a live whose record changed, and that
//! beside the hearing, a bounded number at a time.
//!
//! A word is a hint from a program that may be of another version: counts are taken as they are said, bounded by their
//! epoch and their number; what became of a live, or who was sent out, is believed only of the store. Whoever may have
//! missed words checks the lives that these would have been about.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::word::{self, Counts, Said, Word};
use crate::core::Core;
use crate::ids::{GatewayId, LiveId, UserId};
use crate::metrics::Metrics;
use crate::removals;
use crate::rooms::tally::Heads;
use crate::store::{BusEvent, Channel, StoreResult};

/// Lives looked at at a time; words about more than these put their live in line for a check.
const MAX_LOOKS: usize = 256;

/// The most viewers or fans that a word can tell of.
const MAX_FIGURE: u64 = 1 << 34;

/// The lives that are being looked at.
#[derive(Default)]
struct Looks {
    /// True: a word came meanwhile that the look may not have seen.
    under_way: HashMap<LiveId, bool>,
    tasks: JoinSet<LiveId>,
}

/// Runs until told to stop.
pub async fn run(core: Arc<Core>, stop: CancellationToken) {
    let mut hearing = core.store.events();
    let mut looks = Looks::default();
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            heard = hearing.next() => match heard {
                Some(BusEvent::Message { channel: on, text }) => word(&core, &on, &text, &mut looks),
                // Earlier words were not heard. What was missed of follows is made good by the next fan check.
                Some(BusEvent::Ready(Channel::Live(live))) => {
                    let room = core.rooms.get(&live);
                    if let Some(room) = &room {
                        room.set_deaf(false);
                    }
                    core.upkeep.check_soon(room.into_iter().collect());
                }
                Some(BusEvent::Ready(Channel::Gateways)) => {}
                Some(BusEvent::Deaf(there)) => {
                    let mut rooms = core.rooms.all();
                    rooms.retain(|room| there.covers(core.store.slot_of_live(&room.record.live)));
                    rooms.iter().for_each(|room| core.upkeep.set_deaf(room));
                }
                Some(BusEvent::Lost) => {
                    core.metrics.words_lost.inc();
                    core.upkeep.check_soon(core.rooms.all());
                }
                None => return,
            },
            Some(done) = looks.tasks.join_next(), if !looks.tasks.is_empty() => {
                // A look that panicked is a bug, and the wiring stops the process.
                let Ok(live) = done else { return };
                if looks.under_way.remove(&live) == Some(true) {
                    look(&core, &live, &mut looks);
                }
            }
        }
    }
}

fn word(core: &Arc<Core>, on: &Channel, text: &str, looks: &mut Looks) {
    let ignored = match word::read(text) {
        // But for what became of a live: a call of this gateway's may be carried out long after it gave it up.
        Ok(Said { gateway, word }) if word != Word::Record && core.own_lease.is_own(&gateway) => return,
        Ok(said) => {
            if !core.own_lease.is_own(&said.gateway) && core.liveness.heard(&said.gateway) {
                core.roster_changed();
            }
            act(core, on, said, looks).err()
        }
        Err(why) => Some(why.label()),
    };
    match ignored {
        None => drop(core.metrics.words_heard.inc()),
        Some(why) => Metrics::count(&core.metrics.words_ignored, why),
    }
}

/// Does what a word asks for; `Err` is why it is ignored.
fn act(core: &Arc<Core>, on: &Channel, said: Said, looks: &mut Looks) -> Result<(), &'static str> {
    match (on, said.word) {
        (Channel::Gateways, Word::Follow { user, streamer }) => {
            let (Ok(user), Ok(streamer)) = (UserId::parse(&user), UserId::parse(&streamer)) else {
                return Err("malformed");
            };
            core.check_again(&user, &streamer);
            Ok(())
        }
        (Channel::Gateways, Word::Gone { lives, silent }) => {
            let lives: Result<Vec<LiveId>, _> = lives.iter().map(|live| LiveId::parse(live)).collect();
            core.walk.heard_streamer_gone(&lives.map_err(|_| "malformed")?, core.clock.now().saturating_sub(silent));
            Ok(())
        }
        (Channel::Live(live), Word::Counts(counts)) => hear_counts(core, live, &said.gateway, &counts),
        (Channel::Live(live), Word::Record) => {
            core.rooms.get(live).ok_or("no_room")?;
            look(core, live, looks);
            Ok(())
        }
        (Channel::Live(live), Word::Doubt) => {
            core.upkeep.check_soon(vec![core.rooms.get(live).ok_or("no_room")?]);
            Ok(())
        }
        _ => Err("unknown"),
    }
}

fn hear_counts(core: &Core, live: &LiveId, peer: &GatewayId, counts: &Counts) -> Result<(), &'static str> {
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
        core.upkeep.check_soon(vec![room]);
        return Err("newer_epoch");
    }
    let heads = Heads { viewers: counts.viewers, moving: counts.moving };
    if room.peers.heard(peer, heads, counts.number, &core.liveness.roster()) {
        room.note_peers();
        core.changed.mark(&room);
    }
    for (index, card, version) in &counts.slices {
        let place = (*index as usize).checked_sub(1).filter(|place| *place < room.slices().len());
        core.hear_card(&room, place.ok_or("malformed")?, (*card, *version));
    }
    Ok(())
}

/// Reads in the store what became of a live, and does what follows from it.
fn look(core: &Arc<Core>, live: &LiveId, looks: &mut Looks) {
    if let Some(again) = looks.under_way.get_mut(live) {
        *again = true;
        return;
    }
    if looks.under_way.len() >= MAX_LOOKS {
        return core.upkeep.check_soon(core.rooms.get(live).into_iter().collect());
    }
    looks.under_way.insert(live.clone(), false);
    let (core, live) = (core.clone(), live.clone());
    looks.tasks.spawn(async move {
        if let Err(why) = look_at_record(&core, &live).await {
            tracing::debug!(live_id = %live, error = %why, "could not look at what has become of a live, will try again");
            core.upkeep.check_soon(core.rooms.get(&live).into_iter().collect());
        }
        live
    });
}

async fn look_at_record(core: &Core, live: &LiveId) -> StoreResult<()> {
    let removals = core.lives.look_again(live).await?;
    match (removals, core.rooms.get(live)) {
        (Some(removals), Some(room)) => removals::catch_up(core, &room, removals).await,
        _ => Ok(()),
    }
}
