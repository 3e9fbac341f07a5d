//! Checks of a live with two slices, over a store that loses keys and does not always answer.

use std::time::Duration;

use super::*;
use crate::base::ids::{LiveId, UserId};
use crate::config::Config;
use crate::gateway::wiring::GatewayParts;
use crate::presence::checks::Due;
use crate::presence::desired_state::Standing;
use crate::store::{Arrived, CloseLive, FinishClose, LiveStore, OpenedBy, Peaks, Slices, Terms};
use crate::sync::lives::OpenRequest;
use crate::testing::{FaultyStore, parts_on};

/// A gateway with a room of live 42. Its tasks do not run.
struct Scene {
    parts: GatewayParts,
    store: Arc<FaultyStore>,
    room: Arc<Room>,
}

impl Scene {
    async fn new() -> Self {
        let store = Arc::new(FaultyStore::new());
        let parts = parts_on(&Config::default(), store.clone());
        let room = open(&parts).await;
        Self { parts, store, room }
    }

    fn checker(&self) -> &Checker {
        &self.parts.upkeep.checker
    }

    /// Makes the check that is due, and tells how long it is until the next one.
    async fn check(&self) -> Millis {
        assert!(self.room.schedule.check.take(Moment::NEVER - 1));
        self.checker().check(vec![self.room.clone()]).await;
        let due = self.room.schedule.check.at();
        due.since(self.parts.app.core.clock.now())
    }

    /// Another gateway brings a user into this slice.
    fn comes_to(&self, place: usize) {
        let is_there = |user: &UserId| user.slice_index(2) as usize == place + 1;
        let user = (0..)
            .map(|n| UserId::parse(&format!("u{n}")).unwrap())
            .find(is_there)
            .unwrap();
        self.store.comes("42", user.as_str());
    }

    /// Closes the live, but not its slices: as if a failover brought them back afterwards, on
    /// another node.
    async fn closes_the_record_alone(&self) {
        let closed = self.another_gateway_closes().await;
        assert!(self.room.close(closed));
        self.parts.app.core.rooms.remove(&self.room);
    }

    /// Another gateway closes the live, and this one does not hear of it.
    async fn another_gateway_closes(&self) -> LiveRecord {
        let LiveRecord { live, epoch, .. } = self.room.record.clone();
        let (peaks, reason, message) = (Peaks::default(), CloseReason::Requested, String::new());
        let wish = CloseLive {
            live: live.clone(),
            epoch,
            reason,
            peaks,
            uniques: false,
            message,
        };
        self.store.begin_close(&wish).await.unwrap();
        let (arrived, keep) = (Arrived::default(), Duration::from_secs(60));
        let finish = FinishClose {
            live,
            epoch,
            arrived,
            uniques: None,
            keep,
        };
        let closed = self.store.finish_close(&finish).await.unwrap().unwrap();
        self.store.delist(&closed.live).await.unwrap();
        closed
    }

    /// The fences and sizes of the slices of fans in the store.
    async fn slices(&self) -> Vec<(Option<Fence>, u64)> {
        let slices: Vec<SliceId> = self.room.record.all_slices().take(2).collect();
        let found = self
            .store
            .look(&slices, &GatewayId::random(), Entries::Own)
            .await
            .into_iter()
            .collect::<StoreResult<Vec<_>>>()
            .unwrap();
        found
            .into_iter()
            .map(|found| (found.fence, found.size.card))
            .collect()
    }

    /// What a look finds in a slice.
    async fn look(&self, slice: &SliceId) -> SliceLook {
        let slices = std::slice::from_ref(slice);
        let gateway = GatewayId::random();
        let mut found = self.store.look(slices, &gateway, Entries::Own).await;
        found.remove(0).unwrap()
    }

    /// The live of the room, which has ended.
    fn ended(&self) -> EndedLive {
        EndedLive::new(&self.room)
    }

    /// How many further looks at ended lives are due within this time.
    fn looks_within(&self, span: Millis) -> usize {
        let due = self
            .parts
            .upkeep
            .core
            .checks
            .due(self.parts.app.core.clock.now() + span);
        due.iter()
            .filter(|due| matches!(due, Due::Ended(_) | Due::EndedAgain(_)))
            .count()
    }
}

/// The room of live 42, of two slices.
async fn open(parts: &GatewayParts) -> Arc<Room> {
    let (live, streamer) = (LiveId::parse("42").unwrap(), UserId::parse("s1").unwrap());
    let (by, terms) = (OpenedBy::Service, Terms::default());
    parts
        .app
        .lives
        .open(OpenRequest {
            live: live.clone(),
            streamer,
            slices: Some(2),
            by,
            terms,
        })
        .await
        .unwrap();
    parts.app.core.rooms.get(&live).unwrap()
}

#[tokio::test]
async fn slices_of_a_closed_live_that_are_open_again_are_closed_once_more() {
    let scene = Scene::new().await;
    (0..2).for_each(|place| scene.comes_to(place));
    let epoch = scene.room.record.epoch;
    scene.closes_the_record_alone().await;
    assert_eq!(scene.slices().await, [(Some(Fence::Open(epoch)), 1); 2]);
    scene.checker().check_ended(vec![scene.ended()]).await;
    assert_eq!(scene.slices().await, [(Some(Fence::Closed(epoch)), 0); 2]);
}

#[tokio::test]
async fn slices_of_a_closed_live_are_closed_once_more_although_it_is_open_in_a_newer_epoch() {
    let scene = Scene::new().await;
    (0..2).for_each(|place| scene.comes_to(place));
    scene.closes_the_record_alone().await;
    let newer = open(&scene.parts).await.record.epoch;
    scene.comes_to(1);
    scene.checker().check_ended(vec![scene.ended()]).await;
    let closed = Fence::Closed(scene.room.record.epoch);
    assert_eq!(
        scene.slices().await,
        [(Some(closed), 0), (Some(Fence::Open(newer)), 1)]
    );
}

#[tokio::test]
async fn a_look_after_a_close_that_gets_no_answer_is_made_again() {
    let scene = Scene::new().await;
    scene
        .parts
        .app
        .lives
        .close(&scene.room.record.live, None, CloseReason::Requested)
        .await
        .unwrap();
    assert_eq!(scene.looks_within(2_000), 0);
    scene.store.fails_once("load_live", 0);
    scene.checker().check_ended(vec![scene.ended()]).await;
    assert_eq!(scene.looks_within(5_000), 1);
    scene.checker().check_ended(vec![scene.ended()]).await;
    assert_eq!(scene.looks_within(9_000), 0, "it was answered");
}

#[tokio::test]
async fn a_live_that_is_let_go_of_again_and_again_has_one_look_that_is_made_again() {
    let scene = Scene::new().await;
    assert!(scene.parts.app.core.rooms.evict_if_idle(&scene.room));
    scene.store.breaks();
    for _ in 0..10 {
        scene
            .checker()
            .check_ended(vec![scene.ended(), scene.ended()])
            .await;
    }
    assert_eq!(scene.looks_within(100_000), 1);
}

#[tokio::test(start_paused = true)]
async fn looks_without_an_answer_wait_up_to_a_minute() {
    let scene = Scene::new().await;
    let (checks, clock) = (&scene.parts.upkeep.core.checks, scene.parts.app.core.clock);
    assert!(scene.parts.app.core.rooms.evict_if_idle(&scene.room));
    checks.due(clock.now() + 1_000);
    scene.store.breaks();
    let (mut look, mut waits) = (Some(scene.ended()), Vec::new());
    while let Some(live) = look.take().filter(|_| waits.len() < 8) {
        let before = clock.now();
        scene.checker().check_ended(vec![live]).await;
        while look.is_none() && clock.now() < before + 70_000 {
            tokio::time::advance(Duration::from_millis(100)).await;
            look = checks
                .due(clock.now())
                .into_iter()
                .find_map(|due| match due {
                    Due::EndedAgain(of) => checks.take_retried(&of),
                    _ => None,
                });
        }
        waits.push(clock.now().since(before) / 1_000);
    }
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60]);
}

#[tokio::test]
async fn a_garbled_slice_of_a_closed_live_keeps_no_other_from_being_looked_at_again() {
    let scene = Scene::new().await;
    (0..2).for_each(|place| scene.comes_to(place));
    scene.closes_the_record_alone().await;
    let [garbled, away] = [0, 1].map(|place| scene.room.slices()[place].id.clone());
    scene.store.garbles(&garbled);
    scene.store.loses(&away);
    scene.checker().check_ended(vec![scene.ended()]).await;
    assert_eq!(scene.looks_within(5_000), 1);
}

#[tokio::test]
async fn a_garbled_slice_keeps_no_other_from_being_closed() {
    let scene = Scene::new().await;
    let (live, streamer) = (LiveId::parse("many").unwrap(), UserId::parse("s1").unwrap());
    let (by, terms) = (OpenedBy::Service, Terms::default());
    let wish = OpenRequest {
        live: live.clone(),
        streamer,
        slices: Some(128),
        by,
        terms,
    };
    scene.parts.app.lives.open(wish).await.unwrap();
    let room = scene.parts.app.core.rooms.get(&live).unwrap();
    scene.store.garbles(&room.slices()[0].id);
    scene
        .parts
        .app
        .lives
        .close(&live, None, CloseReason::Requested)
        .await
        .unwrap_err();
    let slices: Vec<SliceId> = room.record.all_slices().skip(1).collect();
    let found = scene
        .store
        .look(&slices, &GatewayId::random(), Entries::Own)
        .await
        .into_iter()
        .map(|found| found.unwrap().fence);
    assert!(
        found
            .into_iter()
            .all(|fence| fence == Some(Fence::Closed(room.record.epoch)))
    );
}

#[tokio::test(start_paused = true)]
async fn what_a_check_finds_is_repaired_although_a_slice_has_no_answer() {
    let scene = Scene::new().await;
    let known = |place: usize| scene.room.slices()[place].size().card;
    (0..2).for_each(|place| scene.comes_to(place));
    let confirmed = scene.room.schedule.confirmed_open_at();
    tokio::time::advance(Duration::from_secs(5)).await;
    scene.store.loses(&scene.room.slices()[0].id);
    assert_eq!(scene.check().await, 1_000);
    assert_eq!((known(0), known(1)), (0, 1));
    assert_eq!(
        scene.room.schedule.confirmed_open_at(),
        confirmed,
        "such a check confirms nothing"
    );
    scene.store.heals();
    scene.check().await;
    assert_eq!((known(0), known(1)), (1, 1));
    assert!(scene.room.schedule.confirmed_open_at() > confirmed);
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_is_not_in_order_is_put_right_although_something_is_unsettled_there() {
    let scene = Scene::new().await;
    let slice = Audience::from(&scene.room).slices().next().unwrap();
    scene.comes_to(0);
    let stranger = UserId::parse("stranger").unwrap();
    scene.store.adds_stranger(&slice.id, &stranger);
    let found = scene.look(&slice.id).await;
    assert!(found.size.differs);
    scene.checker().passer.note_size(&slice, found.size);
    // No flusher runs, so this user waits for the whole check.
    let newcomer = UserId::parse("newcomer").unwrap();
    slice.lock().want(&newcomer, Standing::Member);
    scene.check().await;
    assert!(slice.is_dirty());
    assert!(scene.look(&slice.id).await.size.is_in_order());
}

#[tokio::test(start_paused = true)]
async fn a_live_that_another_gateway_closed_is_not_listed_again() {
    let scene = Scene::new().await;
    scene.another_gateway_closes().await;
    scene.room.schedule.check.doubt();
    scene.check().await;
    assert!(scene.room.end().is_some());
    let lives = [scene.room.record.live.clone()];
    assert_eq!(scene.store.are_listed(&lives).await, Ok(vec![false]));
}

#[tokio::test(start_paused = true)]
async fn a_doubt_about_the_list_lasts_until_the_list_was_read() {
    let scene = Scene::new().await;
    scene.store.loses_the_list();
    scene.room.schedule.check.doubt();
    for _ in 0..2 {
        assert!(
            scene.check().await > 10_000,
            "the rest of the check is complete"
        );
    }
    scene.store.heals();
    assert!(scene.room.schedule.check.take_doubt());
    scene.room.schedule.check.doubt();
    scene.check().await;
    assert!(!scene.room.schedule.check.take_doubt());
}

#[tokio::test(start_paused = true)]
async fn a_check_without_an_answer_is_made_again_later_each_time_until_one_is_answered() {
    let scene = Scene::new().await;
    scene.store.breaks();
    for wait in [1_000, 2_000, 4_000, 8_000, 10_000, 10_000] {
        assert_eq!(scene.check().await, wait);
    }
    scene.store.heals();
    assert!(scene.check().await > 10_000, "it was answered");
    scene.store.breaks();
    assert_eq!(scene.check().await, 1_000);
    scene.check().await;
    // A part of the store is back.
    scene
        .parts
        .upkeep
        .core
        .checks
        .check_soon(vec![scene.room.clone()]);
    assert_eq!(scene.check().await, 1_000);
}
