//! The walk over all open lives, and the sets of users of the platform. One gateway at a time
//! walks, once per `check-every` and at once after a burial. The walk sweeps the dead, finishes
//! closes that another gateway began, closes slices of older epochs, notes gateways that have an
//! entry without a lease, finds lives whose streamer is gone, and compares the public sets with the
//! claims. It also finishes changes of the follow graph and of logins that a gateway left half done,
//! and tells the features which lives are open.
//!
//! This file takes the turn and goes over the list. `visit` works on the lives, `slices` on their
//! slices, `platform` on the sets of the platform; `finish` completes what gateways left half done,
//! and `state` is what the walker remembers.
//!
//! The walk goes on after an error in one live: a node that is away hides only its own lives.

mod finish;
mod platform;
mod slices;
mod state;
mod visit;

use std::collections::HashSet;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use self::state::{Occasion, WalkState};
use crate::base::clock::millis;
use crate::base::ids::LiveId;
use crate::peers::core::Core;
use crate::store::{EventAges, ListedLive, StoreResult};
use crate::sync::events::count_events::CountEvents;
use crate::sync::features::Features;
use crate::sync::follows::FollowGraph;
use crate::sync::lives::Lives;
use crate::sync::pass::Passer;
use crate::sync::streamer_timeout::StreamerTimeout;
use crate::sync::user_upkeep::UserUpkeep;

/// How many lives are read from the list with one call.
const PAGE: usize = 500;

pub struct Walk {
    pub core: Arc<Core>,
    pub lives: Arc<Lives>,
    pub passer: Arc<Passer>,
    pub features: Features,
    pub follows: Arc<FollowGraph>,
    pub streamer_timeout: Arc<StreamerTimeout>,
    /// `None` if the gateway does not track who is online on the platform.
    pub users: Option<UserUpkeep>,
    /// `None` if counts are no events.
    pub count_events: Option<Arc<CountEvents>>,
}

impl Walk {
    /// Runs until told to stop: walks when it is this gateway's turn.
    pub async fn run(self, stop: CancellationToken) {
        let mut turn = tokio::time::interval(self.core.config.lease_refresh);
        turn.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut memory = WalkState::default();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                _ = turn.tick() => {}
                () = self.core.gateways.next_burial() => {}
            }
            self.take_turn(&mut memory).await;
        }
    }

    async fn take_turn(&self, memory: &mut WalkState) {
        match self.keep_turn().await {
            Ok(true) => self.core.absent_streamers.judge_all(true),
            Ok(false) => return self.lose_turn(memory),
            Err(why) => return tracing::debug!(error = %why, "the turn to walk was not taken"),
        }
        let now = self.core.clock.now();
        let buried = self.core.gateways.unswept();
        let is_regular_due = memory.next.is_none_or(|next| next <= now);
        let roster = self.core.gateways.roster();
        let someone_died = !buried.is_subset(&memory.known_dead);
        let late_calls_over = memory.note_living(&roster, now);
        let walked = if is_regular_due {
            memory.known_dead.clone_from(&buried);
            memory.next = Some(now + millis(self.core.config.check_every));
            self.walk_regularly(memory).await
        } else if memory.ended_early || someone_died || late_calls_over {
            memory.known_dead.clone_from(&buried);
            self.visit_platform(memory, Occasion::Extra).await;
            self.walk_list(memory, Occasion::Extra).await
        } else {
            self.visit_again(memory).await;
            Ok(())
        };
        memory.ended_early = walked.is_err();
        match walked {
            // Until every live was reached, the dead may still have members in the others.
            Ok(()) if memory.failed.is_empty() && !memory.platform_failed => {
                self.core.gateways.swept(&buried)
            }
            Ok(()) => {}
            Err(why) => {
                tracing::debug!(error = %why, "could not walk the open lives, will try again")
            }
        }
    }

    /// The regular walk, with the upkeep of users and of what features keep.
    async fn walk_regularly(&self, memory: &mut WalkState) -> StoreResult<()> {
        self.visit_platform(memory, Occasion::Regular).await;
        let walked = self.walk_list(memory, Occasion::Regular).await;
        if let Some(users) = &self.users
            && let Err(why) = users.run_round().await
        {
            tracing::debug!(error = %why, "could not look after users, will try again");
        }
        self.features.walk_ended().await;
        let ages = EventAges {
            events: self.core.config.events_max_age,
            audit: self.core.config.audit_max_age,
        };
        // Events become old where none comes, too.
        if let Err(why) = self.core.store.drop_old_events(&ages).await {
            tracing::debug!(error = %why, "old events were not removed, will try again");
        }
        walked
    }

    /// Visits again what the last visits could not reach, or left out of order.
    async fn visit_again(&self, memory: &mut WalkState) {
        if memory.platform_failed || memory.platform_open {
            self.visit_platform(memory, Occasion::Extra).await;
        }
        let mut lives = std::mem::take(&mut memory.failed);
        lives.append(&mut memory.open);
        self.visit_lives(memory, lives, Occasion::Extra).await;
    }

    async fn keep_turn(&self) -> StoreResult<bool> {
        let roster = self.core.gateways.roster();
        self.core
            .store
            .take_walk_turn(
                &self.core.gateways.id(),
                self.core.config.lease_refresh * 2,
                &roster.dead,
            )
            .await
    }

    /// Forgets the last walk: a gateway that gets the turn back walks at once and sweeps all the
    /// dead.
    fn lose_turn(&self, memory: &mut WalkState) {
        *memory = WalkState::default();
        self.core.absent_streamers.judge_all(false);
        self.core.gateways.forget_unswept();
    }

    /// One walk over the list of open lives.
    async fn walk_list(&self, memory: &mut WalkState, occasion: Occasion) -> StoreResult<()> {
        self.finish_changes().await;
        let mut after: Option<ListedLive> = None;
        memory.failed.clear();
        memory.open.clear();
        // The remembered lives that this walk does not find on the list.
        let mut gone: HashSet<LiveId> = memory.unrecorded.keys().cloned().collect();
        for slice in memory.cursors.keys() {
            gone.extend(slice.live().cloned());
        }
        loop {
            let page = self.core.store.lives_page(after.as_ref(), PAGE).await?;
            let Some(last) = page.last().cloned() else {
                break;
            };
            for listed in &page {
                gone.remove(&listed.live);
            }
            let lives = page.into_iter().map(|listed| listed.live).collect();
            self.visit_lives(memory, lives, occasion).await;
            after = Some(last);
            // A long walk keeps its turn.
            if !self.keep_turn().await? {
                self.lose_turn(memory);
                return Ok(());
            }
        }
        memory.cursors.retain(|slice, _| match slice.live() {
            Some(live) => !gone.contains(live),
            None => true,
        });
        memory.unrecorded.retain(|live, _| !gone.contains(live));
        self.delist_unrecorded(memory).await;
        Ok(())
    }

    /// Takes lives off the list that have had no record for the length of a lease: a gateway that
    /// holds such a live open would have written the record again by then.
    async fn delist_unrecorded(&self, memory: &mut WalkState) {
        let now = self.core.clock.now();
        let mut gone: Vec<LiveId> = Vec::new();
        for (live, since) in &memory.unrecorded {
            if now.since(*since) > millis(self.core.config.lease) {
                gone.push(live.clone());
            }
        }
        for live in gone {
            match self.core.store.delist(&live).await {
                Ok(()) => {
                    memory.unrecorded.remove(&live);
                }
                Err(why) => {
                    tracing::debug!(
                        live_id = %live, error = %why,
                        "a live was not taken off the list"
                    )
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;
    use crate::base::ids::{GatewayId, OnlineSet, SliceId, USERS_SLICES, UserId};
    use crate::config::Config;
    use crate::gateway::wiring::GatewayParts;
    use crate::store::{Entries, Lease, Leases, LiveStore, OpenedBy, Slices, Terms};
    use crate::sync::lives::OpenRequest;
    use crate::testing::{ELSEWHERE, FaultyStore, open_live, parts_on};
    use std::time::Duration;

    /// A gateway beside one that was buried. Its tasks do not run.
    fn beside_a_dead_one() -> (GatewayParts, Arc<FaultyStore>) {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let (own, dead) = (
            Lease { born: 0, count: 1 },
            vec![(GatewayId::parse(ELSEWHERE).unwrap(), 0)],
        );
        let gateways = &parts.walk.core.gateways;
        gateways.looked(
            &gateways.id(),
            &Leases {
                own,
                living: Vec::new(),
                dead,
            },
            moment(0),
            moment(0),
        );
        (parts, store)
    }

    /// How many members these slices have.
    async fn cards(store: &FaultyStore, slices: impl Iterator<Item = SliceId>) -> Vec<u64> {
        let slices: Vec<SliceId> = slices.collect();
        let own = GatewayId::random();
        let found = store.look(&slices, &own, Entries::Own).await;
        found
            .into_iter()
            .map(|found| found.unwrap().size.card)
            .collect()
    }

    #[tokio::test]
    async fn a_node_that_is_away_keeps_no_slice_on_another_from_being_swept() {
        let (parts, store) = beside_a_dead_one();
        let (live, streamer) = (LiveId::parse("42").unwrap(), UserId::parse("s1").unwrap());
        let terms = Terms {
            streamer_timeout: Some(Duration::from_secs(60)),
            ..Terms::default()
        };
        let wish = OpenRequest {
            live: live.clone(),
            streamer,
            slices: Some(2),
            by: OpenedBy::Service,
            terms,
        };
        parts.app.lives.open(wish).await.unwrap();
        let record = store.load_live(&live).await.unwrap().unwrap();
        let slices: Vec<SliceId> = record.all_slices().collect();
        (0..10).for_each(|n| store.comes("42", &format!("u{n}")));

        let mut memory = WalkState::default();
        store.fails_once("is_member", 0);
        store.loses(&slices[0]);
        parts.walk.take_turn(&mut memory).await;
        assert_eq!(cards(&store, slices[1..2].iter().cloned()).await, [0]);
        assert_eq!(memory.failed, [live]);
        assert!(!parts.walk.core.gateways.unswept().is_empty());
        store.heals();
        assert_ne!(
            cards(&store, slices[..2].iter().cloned()).await,
            [0, 0],
            "one could not be reached"
        );
        parts.walk.take_turn(&mut memory).await;
        assert_eq!(cards(&store, slices[..2].iter().cloned()).await, [0, 0]);
        assert!(parts.walk.core.gateways.unswept().is_empty());
    }

    #[tokio::test]
    async fn a_garbled_slice_does_not_hide_that_another_could_not_be_reached() {
        for (garbled, away) in [(0, 1), (1, 0)] {
            let (parts, store) = beside_a_dead_one();
            let (live, streamer) = (LiveId::parse("42").unwrap(), UserId::parse("s1").unwrap());
            let (by, terms) = (OpenedBy::Service, Terms::default());
            let wish = OpenRequest {
                live: live.clone(),
                streamer,
                slices: Some(2),
                by,
                terms,
            };
            parts.app.lives.open(wish).await.unwrap();
            let record = store.load_live(&live).await.unwrap().unwrap();
            let users = SliceId::all(OnlineSet::Users, USERS_SLICES);
            for slices in [record.all_slices().collect::<Vec<_>>(), users.collect()] {
                let mut memory = WalkState::default();
                store.garbles(&slices[garbled]);
                store.loses(&slices[away]);
                parts.walk.take_turn(&mut memory).await;
                let failed = memory
                    .failed
                    .iter()
                    .map(LiveId::as_str)
                    .chain(memory.platform_failed.then_some("users"));
                let expected = if slices[0].live().is_some() {
                    "42"
                } else {
                    "users"
                };
                assert_eq!(failed.collect::<Vec<_>>(), [expected]);
                assert!(!parts.walk.core.gateways.unswept().is_empty());
            }
        }
    }

    #[tokio::test]
    async fn a_walk_that_ends_early_begins_anew_before_the_dead_are_called_swept() {
        let (parts, store) = beside_a_dead_one();
        for n in 0..=PAGE {
            open_live(&parts.app.sessions, &format!("L{n}")).await;
            store.comes(&format!("L{n}"), "u1");
        }
        let members = async || {
            let listed = store.lives_page(None, PAGE + 1).await.unwrap();
            let slices = listed
                .into_iter()
                .map(|listed| SliceId::of_live(listed.live, 1, 1));
            cards(&store, slices).await.into_iter().sum::<u64>()
        };
        assert_eq!(members().await, PAGE as u64 + 1);
        let mut memory = WalkState::default();
        store.fails_once("take_walk_turn", 1);
        parts.walk.take_turn(&mut memory).await;
        assert_eq!(members().await, 1, "the walk ended after the first page");
        let next = memory.next;
        parts.walk.take_turn(&mut memory).await;
        assert_eq!(members().await, 0);
        assert!(parts.walk.core.gateways.unswept().is_empty());
        assert_eq!(
            memory.next, next,
            "it is no regular walk, which costs much more"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_walk_that_ends_early_does_not_put_off_the_end_of_a_live_without_a_record() {
        let (parts, store) = beside_a_dead_one();
        store
            .list_live(&LiveId::parse("42").unwrap(), 1)
            .await
            .unwrap();
        let is_listed = async || !store.lives_page(None, 1).await.unwrap().is_empty();
        let mut memory = WalkState::default();
        parts.walk.take_turn(&mut memory).await;
        tokio::time::advance(parts.walk.core.config.check_every).await;
        store.fails_once("take_walk_turn", 1);
        parts.walk.take_turn(&mut memory).await;
        assert!(is_listed().await);
        tokio::time::advance(parts.walk.core.config.lease_refresh).await;
        parts.walk.take_turn(&mut memory).await;
        assert!(!is_listed().await);
    }
}
