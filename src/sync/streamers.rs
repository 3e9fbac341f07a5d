//! Tells the store when a streamer's first socket connects to this gateway and when the last one leaves. The store is
//! told the present state, not the change, so a failed call is simply made again.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio_util::sync::CancellationToken;

use crate::base::backoff::RETRY;
use crate::base::clock::{Clock, Millis, millis};
use crate::base::ids::{LiveId, UserId};
use crate::peers::Outbox;
use crate::presence::Rooms;
use crate::presence::gateways::Gateways;
use crate::presence::streamers::Streamers;
use crate::store::{Presence, Store, StoreResult};

/// Calls under way at a time.
const AT_A_TIME: usize = 64;

/// The store is told everything again this often, since its keys have a lifetime of hours.
const TELL_AGAIN: Duration = Duration::from_secs(3_600);

pub struct StreamerPresence {
    pub streamers: Arc<Streamers>,
    pub gateways: Arc<Gateways>,
    pub rooms: Arc<Rooms>,
    pub store: Arc<dyn Store>,
    pub outbox: Arc<Outbox>,
    pub clock: Clock,
    /// A socket that is silent for this long is closed.
    pub timeout: Duration,
    /// How long streamers may be gone from lives that they opened.
    pub streamer_timeout: Option<Duration>,
}

impl StreamerPresence {
    pub async fn run(self, stop: CancellationToken) {
        let mut again = tokio::time::interval(TELL_AGAIN);
        let mut failed: HashMap<UserId, Millis> = HashMap::new();
        again.tick().await;
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.streamers.changes() => {}
                () = tokio::time::sleep(Duration::from_millis(RETRY)), if !failed.is_empty() => {}
                _ = again.tick() => self.streamers.tell_all_again(),
            }
            let mut changed = self.streamers.take_changed();
            for (user, heard) in failed.drain() {
                changed.entry(user).or_insert(heard);
            }
            let mut told = stream::iter(changed)
                .map(|(user, heard)| {
                    let this = &self;
                    async move { (this.tell(&user, heard).await, user, heard) }
                })
                .buffer_unordered(AT_A_TIME);
            while let Some((done, user, heard)) = told.next().await {
                if let Err(why) = done {
                    tracing::debug!(
                        user_id = %user, error = %why,
                        "could not tell the store of a streamer, will try again"
                    );
                    failed.insert(user, heard);
                }
            }
            drop(told);
            self.streamers.forget_left(self.clock.now());
        }
    }

    async fn tell(&self, user: &UserId, heard: Millis) -> StoreResult<()> {
        let own = self.gateways.own.incarnation();
        let Some(news) = self.streamers.news(user, own.number) else { return Ok(()) };
        if news.presence == Presence::Here {
            // The call may be carried out although its answer is lost: then the store must be told of the leaving, too.
            self.streamers.note_told(user, news, 0, self.clock.now());
        }
        self.store.note_streamer(user, &own.id, news.presence).await?;
        self.streamers.note_told(user, news, own.number, self.clock.now());
        if news.presence == Presence::Gone && !news.again {
            self.start_timeouts(user, heard);
        }
        Ok(())
    }

    /// Starts the timeouts of a streamer's lives, here and on the gateway that walks: the streamer left.
    fn start_timeouts(&self, user: &UserId, heard: Millis) {
        let of_streamer = self.rooms.of_streamer(user).into_iter();
        let lives: Vec<LiveId> = of_streamer
            .filter(|room| room.record.streamer_timeout(self.streamer_timeout).is_some())
            .map(|room| room.record.live.clone())
            .collect();
        if !lives.is_empty() {
            let now = self.clock.now();
            // A streamer whose presence was being told again has no time here: the whole timeout begins now.
            let silent = if heard == 0 { 0 } else { now.saturating_sub(heard).min(millis(self.timeout)) };
            self.streamers.left(&lives, now.saturating_sub(silent));
            self.outbox.streamer_gone(&lives, silent);
        }
    }
}
