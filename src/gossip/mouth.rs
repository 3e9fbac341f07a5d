//! The telling: which words go out, and when. Counts at most once per flush interval and live, a quiet gateway's at once;
//! everything else at once. One attempt each. A live whose counts could not be told is checked a moment later, and told
//! again then.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::word::{Counts, SliceCard, Word};
use super::{AT_A_TIME, Told};
use crate::clock::{Millis, millis};
use crate::core::Core;
use crate::rooms::Room;
use crate::rooms::tally::Heads;
use crate::store::{Channel, SayReply, SayViewers, StoreResult};

/// What could not be told is told again after so long, in ms.
const AGAIN: Millis = 1_000;

/// Runs until told to stop.
pub async fn run(core: Arc<Core>, stop: CancellationToken) {
    let flush = millis(core.config.flush);
    let mut next_round: Millis = 0;
    let mut woken = false;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            () = core.gossip.letters_wait.notified() => send_letters(&core).await,
            () = core.gossip.rooms_wait.notified(), if !woken => woken = true,
            () = core.clock.sleep_until(next_round), if woken => {
                woken = false;
                next_round = core.clock.now() + flush;
                let rooms = std::mem::take(&mut *core.gossip.rooms.lock());
                stream::iter(rooms).for_each_concurrent(AT_A_TIME, |room| speak(&core, room)).await;
            }
        }
    }
}

/// Says a room's counts, if there is anything to say.
async fn speak(core: &Core, room: Arc<Room>) {
    // Cleared before anything is read: what changes from here on marks the room again.
    room.telling.queued.store(false, Ordering::Release);
    if room.end().is_some() {
        return;
    }
    let slices: Vec<SliceCard> = room
        .slices()
        .iter()
        .filter_map(|slice| slice.take_news().map(|(card, version)| (slice.id.index, card, version)))
        .collect();
    let places: Vec<usize> = slices.iter().map(|(index, ..)| *index as usize - 1).collect();
    if let Err(why) = say(core, &room, slices).await {
        tracing::debug!(live_id = %room.record.live, error = %why, "counts were not told, will try again");
        places.into_iter().for_each(|place| room.slices()[place].has_news());
        room.telling.forget();
        room.telling.must.store(true, Ordering::Release);
        core.upkeep.check_at(&room, core.clock.now() + AGAIN);
    }
}

async fn say(core: &Core, room: &Arc<Room>, slices: Vec<SliceCard>) -> StoreResult<()> {
    let own = core.own_lease.incarnation();
    let must = room.telling.must.swap(false, Ordering::AcqRel);
    // The number before the viewers: whatever changes them later is said later, with a higher number.
    let number = core.gossip.next_number();
    let heads = room.own_viewers();
    let counts = |number, Heads { viewers, moving }| {
        Word::Counts(Counts { epoch: room.record.epoch, number, viewers, moving, slices: slices.clone() }).text(&own.id)
    };
    if !must && !room.telling.is_due(own.number, heads) {
        if slices.is_empty() {
            return Ok(());
        }
        let (viewers, number) = room.telling.stored(own.number).unwrap_or_default();
        let told = Heads { viewers, moving: heads.moving.min(viewers) };
        core.store.publish(&Channel::Live(room.record.live.clone()), counts(number, told)).await?;
        core.metrics.words_sent.inc();
        return Ok(());
    }
    if room.telling.stored(own.number).is_none() {
        // Before it learned of its burial, this gateway may have said a last word after its words were dropped.
        core.store.forget_viewers(&room.record.live, &core.own_lease.former()).await?;
    }
    let say = SayViewers {
        live: room.record.live.clone(),
        epoch: room.record.epoch,
        gateway: own.id.clone(),
        viewers: heads.viewers,
        number,
        message: counts(number, heads),
    };
    match core.store.say_viewers(&say).await? {
        SayReply::Said => {
            core.metrics.words_sent.inc();
            let told = Told { heads, number, at: core.clock.now(), incarnation: own.number };
            *room.telling.told.lock() = Some(told);
        }
        // The record tells what has become of the live.
        SayReply::NotOpen => core.upkeep.check_soon(vec![room.clone()]),
    }
    Ok(())
}

async fn send_letters(core: &Core) {
    let letters = std::mem::take(&mut *core.gossip.letters.lock());
    stream::iter(letters)
        .for_each_concurrent(AT_A_TIME, |(on, word)| async move {
            match core.store.publish(&on, word.text(&core.id())).await {
                Ok(()) => drop(core.metrics.words_sent.inc()),
                Err(why) => tracing::debug!(error = %why, "a word was not told"),
            }
        })
        .await;
}

/// Takes back what this gateway said of a live.
pub(super) async fn leave(core: &Core, room: Arc<Room>) {
    let own = core.own_lease.incarnation();
    if room.telling.stored(own.number).is_none_or(|(viewers, _)| viewers == 0) {
        return;
    }
    let (epoch, number) = (room.record.epoch, core.gossip.next_number());
    let nobody = Counts { epoch, number, viewers: 0, moving: 0, slices: Vec::new() };
    let say = SayViewers {
        live: room.record.live.clone(),
        epoch,
        gateway: own.id.clone(),
        viewers: 0,
        number,
        message: Word::Counts(nobody).text(&own.id),
    };
    if let Err(why) = core.store.say_viewers(&say).await {
        tracing::debug!(live_id = %room.record.live, error = %why, "could not say goodbye");
    }
}
