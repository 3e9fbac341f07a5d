//! What many cases ask a store for, with what hardly any of them cares about.

use rollcall::features::WholeStore;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::clock::UnixMillis;
use rollcall::base::ids::{
    Epoch, GatewayId, Group, OnlineSet, STREAMERS_SLICES, SliceId, USERS_SLICES, UserId,
};
use rollcall::store::{
    Arrived, CloseReply, CountLive, DeadEvent, Event, Figures, Lease, LeaseReply, Leases, LiftBan,
    LiveRecord, OpenLive, Peaks, ReadEvents, ReadFrom, RecordStanding, RemoveUser, RenewLease,
    SenderTurn, StoreResult, StreamEvent, WebhookQueue,
};

use super::{LONG, end, finish_close, gateway, live, slice, user, wish};

/// How an open live stands of which nothing is known but the record.
pub const OPEN: RecordStanding = RecordStanding::Open {
    removals: 0,
    version: 0,
};

pub fn figures(viewers: u64, fans: u64) -> Figures {
    Figures {
        viewers,
        fans,
        guests: 0,
    }
}

pub fn peaks(viewers: u64, fans: u64) -> Peaks {
    Peaks { viewers, fans }
}

pub fn arrived(joins: u64, leaves: u64) -> Arrived {
    Arrived { joins, leaves }
}

/// A slice of the users online.
pub fn users_slice(index: u32) -> SliceId {
    SliceId {
        set: OnlineSet::Users,
        index,
        of: USERS_SLICES,
    }
}

/// A slice of the streamers who are connected.
pub fn streamers_slice(index: u32) -> SliceId {
    SliceId {
        set: OnlineSet::Streamers,
        index,
        of: STREAMERS_SLICES,
    }
}

/// A wish for a live of this user.
pub fn wish_of(name: &str, streamer: UserId) -> OpenLive {
    OpenLive {
        streamer,
        ..wish(name)
    }
}

/// The record of the live of this name.
pub async fn loaded(store: &Arc<dyn WholeStore>, name: &str) -> LiveRecord {
    let record = store.load_live(&live(name)).await.expect("an answer");
    record.expect("a record")
}

/// The same record of another live.
pub fn named(record: &LiveRecord, name: &str) -> LiveRecord {
    LiveRecord {
        live: live(name),
        ..record.clone()
    }
}

/// The same record so many epochs later.
pub fn later(record: &LiveRecord, epochs: u64) -> LiveRecord {
    LiveRecord {
        epoch: Epoch(record.epoch.0 + epochs),
        ..record.clone()
    }
}

/// Begins the close of an open live.
pub async fn closing(store: &Arc<dyn WholeStore>, record: &LiveRecord) -> LiveRecord {
    match store.begin_close(&end(record)).await.expect("an answer") {
        CloseReply::Closing(closing) => closing,
        other => panic!("{other:?}"),
    }
}

/// Ends a close in which nobody was counted. The record stays for long.
pub async fn finish(store: &Arc<dyn WholeStore>, record: &LiveRecord) -> Option<LiveRecord> {
    finish_close(store, &record.live, record.epoch, LONG)
        .await
        .expect("an answer")
}

/// A renewal of a gateway that hears everybody and buries nobody.
pub fn renewal(name: &str, held: Option<Lease>, number: u64) -> RenewLease {
    RenewLease {
        gateway: gateway(name),
        held,
        number,
        unheard: BTreeSet::new(),
        burials: Vec::new(),
    }
}

/// The removal of user `n` from live 42, of which an event tells.
pub fn removal(epoch: Epoch, n: usize, ban: Option<Duration>) -> RemoveUser {
    RemoveUser {
        live: live("42"),
        epoch,
        user: user(n),
        ban,
        by: None,
        is_told: true,
        message: String::new(),
    }
}

/// The end of a ban of user `n` in live 42, of which an event tells.
pub fn lifting(epoch: Epoch, n: usize) -> LiftBan {
    LiftBan {
        live: live("42"),
        epoch,
        user: user(n),
        by: None,
        is_told: true,
        message: String::new(),
    }
}

/// Whether user `n` is a fan who is in live 42.
pub async fn is_fan(store: &Arc<dyn WholeStore>, n: usize) -> bool {
    let answer = store.is_member(&slice(), Group::Fans, &user(n)).await;
    answer.expect("an answer")
}

/// Figures of an open live to be written.
pub fn counting(
    record: &LiveRecord,
    figures: Figures,
    peaks: Peaks,
    arrived: Arrived,
) -> CountLive {
    CountLive {
        live: record.live.clone(),
        epoch: record.epoch,
        figures,
        peaks,
        arrived,
    }
}

/// Renews a lease of a gateway that lives.
pub async fn renewed(store: &Arc<dyn WholeStore>, renewal: &RenewLease) -> Leases {
    match store.renew_lease(renewal).await.expect("an answer") {
        LeaseReply::Renewed(leases) => leases,
        LeaseReply::Dead => panic!("the gateway is dead: {renewal:?}"),
    }
}

/// A user was seen at this time.
pub async fn is_seen(store: &Arc<dyn WholeStore>, user: &UserId, at: UnixMillis) {
    let seen = [(user.clone(), at)];
    let noted = store.note_seen(&seen, Duration::ZERO).await;
    noted.expect("an answer");
}

/// An event that a webhook did not take.
pub fn given_up(event: Event) -> DeadEvent {
    DeadEvent {
        event,
        why: "it answered 500".to_owned(),
        attempts: 3,
    }
}

/// What a gateway has to send that it has not read yet. It has the turn of the queue.
pub async fn reads_new(
    store: &Arc<dyn WholeStore>,
    queue: &WebhookQueue,
    gateway: &GatewayId,
) -> Vec<StreamEvent> {
    let request = ReadEvents {
        queue: queue.clone(),
        gateway: gateway.clone(),
        turn: LONG,
        begin: 0,
        from: ReadFrom::New,
        count: 10,
    };
    match store.read_events(&request).await.expect("an answer") {
        SenderTurn::Mine { events, .. } => events,
        other => panic!("{other:?}"),
    }
}

/// All pages of a list, each asked for with the last item so far.
pub async fn paged<T>(mut page: impl AsyncFnMut(Option<&T>) -> StoreResult<Vec<T>>) -> Vec<T> {
    let mut all = Vec::new();
    loop {
        let next = page(all.last()).await.expect("a page");
        if next.is_empty() {
            return all;
        }
        all.extend(next);
        assert!(all.len() < 100_000, "the list has an end");
    }
}
