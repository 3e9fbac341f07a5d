//! Tells the store in which lives each user of this gateway is: on change, batched, as absolute values. What the store
//! was told is asked for again after a doubt and once in `check-every`, and a part of it is read back then. Where the
//! store has something else it is told again, slice by slice under the [`ResyncLimit`]. Changes do not wait for that.
//! Whoever asked for their friends in a live hears of a user who came or left after the store has.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, stream};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use crate::base::backoff::RETRY;
use crate::base::clock::{Clock, Millis};
use crate::base::ids::{GatewayId, LiveId, UserId};
use crate::base::metrics::Metrics;
use crate::peers::Outbox;
use crate::presence::Rooms;
use crate::presence::gateways::Gateways;
use crate::presence::own_lease::Incarnation;
use crate::presence::whereabouts::{Moved, Whereabouts};
use crate::store::{Store, StoreError, StoreResult, TellWhereabouts, ToldWhereabouts};
use crate::sync::resync_limit::ResyncLimit;
use crate::sync::user_upkeep::forget_the_dead;

/// Calls under way at a time.
const AT_A_TIME: usize = 16;

/// Words that all gateways together read back with each check, at least: the store says what it has, and where that is
/// not what it was told, it is told again.
const READ_BACK: usize = 10_000;

pub struct WhereaboutsTeller {
    /// `None`: nobody wants to know.
    pub whereabouts: Option<Arc<Whereabouts>>,
    pub gateways: Arc<Gateways>,
    pub rooms: Arc<Rooms>,
    pub outbox: Arc<Outbox>,
    pub store: Arc<dyn Store>,
    pub flush: Duration,
    pub check_every: Duration,
    pub clock: Clock,
    pub resync_limit: Arc<ResyncLimit>,
    pub metrics: Arc<Metrics>,
}

/// When a slice has to be looked at again, because its time has not come.
type Again = Option<(Millis, u32)>;

impl WhereaboutsTeller {
    pub async fn run(self, stop: CancellationToken) {
        let Some(whereabouts) = self.whereabouts.clone() else { return stop.cancelled().await };
        let mut doubts = self.store.doubts();
        let mut checks = tokio::time::interval(self.check_every);
        checks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut failed = false;
        let mut read_next = 1;
        let mut later: Vec<(Millis, u32)> = Vec::new();
        loop {
            let next = later.iter().map(|(at, _)| *at).min();
            tokio::select! {
                () = stop.cancelled() => {
                    self.tell(&whereabouts).await;
                    return;
                }
                Some(_) = doubts.next() => whereabouts.doubt_all(),
                _ = checks.tick() => {
                    whereabouts.doubt_all();
                    let each = READ_BACK / self.gateways.roster().living.len().max(1);
                    read_next = whereabouts.read_back(read_next, each);
                }
                () = whereabouts.changes() => {}
                () = tokio::time::sleep(Duration::from_millis(RETRY)), if failed => {}
                () = self.clock.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
            }
            let now = self.clock.now();
            later.iter().filter(|(at, _)| *at <= now).for_each(|(_, slice)| whereabouts.doubt(*slice));
            later.retain(|(at, _)| *at > now);
            let (again, failures) = self.tell(&whereabouts).await;
            later.retain(|(_, slice)| again.iter().all(|(_, other)| other != slice));
            later.extend(again);
            failed = failures > 0;
            // What changes meanwhile goes with the next calls.
            tokio::select! {
                () = stop.cancelled() => {}
                () = tokio::time::sleep(self.flush) => {}
            }
        }
    }

    /// Makes the calls that are due. Which slices must wait until when, and how many calls failed.
    async fn tell(&self, whereabouts: &Whereabouts) -> (Vec<(Millis, u32)>, usize) {
        let own = self.gateways.own.incarnation();
        let calls = whereabouts.calls(&own).into_iter();
        let calls = stream::iter(calls.map(|call| self.tell_slice(whereabouts, &own, call)));
        let told: Vec<StoreResult<Again>> = calls.buffer_unordered(AT_A_TIME).collect().await;
        let (mut again, mut errors): (Vec<_>, Vec<StoreError>) = (Vec::new(), Vec::new());
        for told in told {
            match told {
                Ok(later) => again.extend(later),
                Err(why) => errors.push(why),
            }
        }
        if let Some(why) = errors.first() {
            tracing::debug!(error = %why, calls = errors.len(), "whereabouts were not told, will try again");
        }
        (again, errors.len())
    }

    async fn tell_slice(
        &self,
        whereabouts: &Whereabouts,
        own: &Incarnation,
        call: TellWhereabouts,
    ) -> StoreResult<Again> {
        match self.store.tell_whereabouts(&call).await {
            Ok(ToldWhereabouts::Noted(chain)) => {
                let noted = whereabouts.noted(&call, own, chain);
                self.pass_on(noted.moved);
                if noted.must_read {
                    let now = self.clock.now();
                    if let Some(at) = whereabouts.resync_at(call.slice, now, |users| self.resync_limit.book(users)) {
                        return Ok(Some((at, call.slice)));
                    }
                    let named = self.named(&own.id, call.slice).await;
                    let named = named.inspect_err(|_| whereabouts.doubt(call.slice))?;
                    let wrong = whereabouts.found(call.slice, named);
                    if wrong > 0 {
                        self.metrics.drifted("missing", wrong as u64);
                        tracing::warn!(
                            slice = call.slice,
                            users = wrong,
                            "the store did not have where users are as it was told; telling it again"
                        );
                    }
                }
            }
            // The next call has a higher number.
            Ok(ToldWhereabouts::Old) => whereabouts.failed(&call),
            Err(why) => {
                whereabouts.failed(&call);
                return Err(why);
            }
        }
        Ok(None)
    }

    /// Has the gateways that want to know told who came to lives and who left them.
    fn pass_on(&self, moved: Moved) {
        if moved.anybody {
            self.rooms.anybody_moved();
        }
        // The room is gone by now, and with it the knowledge of whether anybody wants to know.
        let mut elsewhere: HashMap<LiveId, Vec<UserId>> = HashMap::new();
        for (live, user) in self.rooms.moved(moved.users) {
            elsewhere.entry(live).or_default().push(user);
        }
        elsewhere.into_iter().for_each(|(live, users)| self.outbox.moved(&live, &users));
    }

    /// The words of this gateway that the store has, by user. Drops what the dead say: a gateway that was buried while
    /// it was frozen may have told something under its former id after everybody else had looked for that.
    async fn named(&self, own: &GatewayId, slice: u32) -> StoreResult<HashMap<UserId, Vec<LiveId>>> {
        let mut all: HashMap<UserId, Vec<LiveId>> = HashMap::new();
        let mut cursor = Some(0);
        while let Some(from) = cursor {
            let page = self.store.whereabouts_page(slice, from).await?;
            // What is read is paid for by the slices that come after.
            self.resync_limit.book(u32::try_from(page.said.len()).unwrap_or(u32::MAX));
            forget_the_dead(self.store.as_ref(), &self.gateways.roster(), slice, &page).await?;
            for (user, words) in page.said {
                let lives: Vec<LiveId> =
                    words.into_iter().filter(|(gateway, _)| gateway == own).map(|(_, live)| live).collect();
                if !lives.is_empty() {
                    all.insert(user, lives);
                }
            }
            cursor = page.next;
        }
        Ok(all)
    }
}
