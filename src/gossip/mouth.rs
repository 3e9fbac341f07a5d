//! Owns the telling: which words go out, and when. Counts at most once per flush interval and live, a quiet gateway's at
//! once; closes and follows at once; which streamers were heard, with each lease refresh. One attempt each: what could not be told is made good by the next lease refresh.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use super::AT_A_TIME;
use super::word::{Counts, SliceCard, Word};
use crate::clock::{Millis, millis};
use crate::core::Core;
use crate::rooms::Room;
use crate::rooms::tally::Heads;
use crate::store::{Channel, LiveRecord, StoreResult};

/// Runs until told to stop.
pub async fn run(core: Arc<Core>, stop: CancellationToken) {
    let flush = millis(core.config.flush);
    let mut next_round: Millis = 0;
    let mut woken = false;
    let mut said_until = 0;
    let mut streamers = tokio::time::interval(core.config.lease_refresh);
    streamers.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = streamers.tick() => {
                let now = core.clock.now();
                core.gossip.streamers(&core.streamers.heard_here(said_until));
                said_until = now;
                let kept = core.config.lease.max(core.config.streamer_seen_within());
                core.streamers.forget_elsewhere(now.saturating_sub(millis(kept)));
            }
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
    let telling = &room.telling;
    // Cleared before anything is read: what changes from here on marks the room again.
    telling.queued.store(false, Ordering::Release);
    if room.end().is_some() {
        return;
    }
    let anew = telling.anew.swap(false, Ordering::AcqRel);
    let ask = telling.ask.swap(false, Ordering::AcqRel);
    let number = core.gossip.next_number();
    let viewers = room.own_viewers();
    let slices: Vec<SliceCard> = room
        .slices()
        .iter()
        .filter_map(|slice| slice.take_news().map(|(card, at)| (slice.id.index, card, at)))
        .collect();
    let told = telling.viewers.lock().replace(viewers);
    let news = told != Some(viewers) || !slices.is_empty();
    if !anew && !news {
        return;
    }
    if news {
        telling.told.store(true, Ordering::Release);
    }
    let Heads { viewers, moving } = viewers;
    let counts = Counts { epoch: room.record.epoch, number, viewers, moving, slices };
    let word = if ask { Word::Hello(counts) } else { Word::Counts(counts) };
    if tell(core, &Channel::Live(room.record.live.clone()), &word).await.is_err() {
        *telling.viewers.lock() = None;
    }
}

async fn send_letters(core: &Core) {
    let letters = std::mem::take(&mut *core.gossip.letters.lock());
    stream::iter(letters)
        .for_each_concurrent(AT_A_TIME, |letter| async move {
            let (on, word) = &letter;
            if let Err(why) = tell(core, on, word).await {
                tracing::debug!(error = %why, "a word was not told");
            }
        })
        .await;
}

/// Takes back what this gateway said of a live, in the store and in words.
pub(super) async fn leave(core: &Core, room: &Room) -> StoreResult<()> {
    let LiveRecord { live, epoch, .. } = &room.record;
    let number = core.gossip.next_number();
    core.store.forget_viewers(live, &core.id, number).await?;
    let nobody = Counts { epoch: *epoch, number, viewers: 0, moving: 0, slices: Vec::new() };
    tell(core, &Channel::Live(live.clone()), &Word::Counts(nobody)).await
}

async fn tell(core: &Core, on: &Channel, word: &Word) -> StoreResult<()> {
    core.store.tell(on, word.text(&core.id)).await?;
    core.metrics.words_sent.inc();
    Ok(())
}
