//! Removals: numbered, of one epoch, gone with its close; bans that end by the store's clock;
//! numbers that leap when some were lost.

use rollcall::features::WholeStore;
use std::sync::Arc;
use std::time::Duration;

use rollcall::base::ids::{Epoch, UserId};
use rollcall::store::{
    Ban, ChangeKind, Happened, LEAP, LiftReply, LiveRecord, MAX_BANS, MAX_BATCH, RecordStanding,
    RemoveReply,
};

use super::{LONG, end, finish, later, lifting, live, loaded, on_each, opened, removal, user};

on_each!(
    removals_are_numbered_and_read_from_a_number_on,
    a_ban_ends_by_itself,
    a_ban_is_replaced_by_a_later_one_and_kept_by_a_plain_removal,
    a_ban_is_lifted_once,
    removals_are_of_an_open_epoch,
    a_close_forgets_them_and_the_next_epoch_begins_with_none,
    the_record_and_its_keeping_tell_the_last_number,
    numbers_leap_over_those_that_were_lost,
    what_is_restored_never_overrides_what_is_known,
    changes_come_in_batches,
    bans_are_paged_by_their_end,
    bans_are_bounded,
);

/// The epoch of live 42.
async fn epoch(store: &Arc<dyn WholeStore>) -> Epoch {
    store
        .load_live(&live("42"))
        .await
        .unwrap()
        .map_or(Epoch(1), |record| record.epoch)
}

async fn remove(store: &Arc<dyn WholeStore>, n: usize, ban: Option<Duration>) -> RemoveReply {
    remove_in(store, epoch(store).await, n, ban).await
}

async fn remove_in(
    store: &Arc<dyn WholeStore>,
    epoch: Epoch,
    n: usize,
    ban: Option<Duration>,
) -> RemoveReply {
    let wish = removal(epoch, n, ban);
    store.remove_user(&wish).await.unwrap()
}

async fn lift(store: &Arc<dyn WholeStore>, n: usize) -> LiftReply {
    lift_in(store, epoch(store).await, n).await
}

async fn lift_in(store: &Arc<dyn WholeStore>, epoch: Epoch, n: usize) -> LiftReply {
    let wish = lifting(epoch, n);
    store.lift_ban(&wish).await.unwrap()
}

async fn restore(store: &Arc<dyn WholeStore>, bans: &[(UserId, Duration)]) {
    store
        .restore_bans(&live("42"), epoch(store).await, bans)
        .await
        .unwrap();
}

/// A removal that must be noted: its number, and when the ban ends.
async fn removed(
    store: &Arc<dyn WholeStore>,
    n: usize,
    ban: Option<Duration>,
) -> (u64, Option<u64>) {
    match remove(store, n, ban).await {
        RemoveReply::Done { number, until, .. } => (number, until),
        other => panic!("{other:?}"),
    }
}

/// User, number, and whether the user may join; the last number.
async fn since(
    store: &Arc<dyn WholeStore>,
    number: u64,
) -> (Vec<(UserId, u64, &'static str)>, u64) {
    let read = store
        .removals_since(&live("42"), epoch(store).await, number)
        .await
        .unwrap()
        .expect("an open epoch");
    let changes = read.changes.into_iter().map(|change| {
        let word = match change.kind {
            ChangeKind::Removed(None) => "removed",
            ChangeKind::Removed(Some(left)) => {
                assert!(left <= LONG && !left.is_zero(), "{left:?}");
                "banned"
            }
            ChangeKind::Lifted => "lifted",
        };
        (change.user, change.number, word)
    });
    (changes.collect(), read.last)
}

async fn banned(store: &Arc<dyn WholeStore>) -> Vec<UserId> {
    let page = store.bans_page(&live("42"), None, MAX_BATCH).await.unwrap();
    page.into_iter().map(|ban| ban.user).collect()
}

async fn kept(store: &Arc<dyn WholeStore>, record: &LiveRecord, removals: u64) -> RecordStanding {
    let record = LiveRecord {
        removals,
        ..record.clone()
    };
    store.keep_live(&record, "").await.unwrap()
}

async fn removals_are_numbered_and_read_from_a_number_on(store: Arc<dyn WholeStore>) {
    opened(&store, "42").await;
    assert_eq!(since(&store, 0).await, (vec![], 0));
    assert_eq!(removed(&store, 1, None).await, (1, None));
    let (number, until) = removed(&store, 2, Some(LONG)).await;
    assert!(number == 2 && until.is_some());
    assert_eq!(removed(&store, 3, None).await.0, 3);
    // Once more: the last time counts.
    assert_eq!(removed(&store, 1, None).await.0, 4);
    let (second, third, first) = (
        (user(2), 2, "banned"),
        (user(3), 3, "removed"),
        (user(1), 4, "removed"),
    );
    assert_eq!(
        since(&store, 0).await,
        (vec![second.clone(), third.clone(), first.clone()], 4)
    );
    assert_eq!(since(&store, 2).await, (vec![third, first], 4));
    assert_eq!(since(&store, 4).await, (vec![], 4));
}

async fn a_ban_ends_by_itself(store: Arc<dyn WholeStore>) {
    opened(&store, "42").await;
    removed(&store, 1, Some(Duration::from_millis(1))).await;
    removed(&store, 2, Some(LONG)).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(5);
    while since(&store, 0).await.0 != [(user(1), 1, "removed"), (user(2), 2, "banned")] {
        assert!(
            tokio::time::Instant::now() < deadline,
            "{:?}",
            since(&store, 0).await
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(banned(&store).await, [user(2)]);
    assert_eq!(lift(&store, 1).await, LiftReply::NotBanned);
}

async fn a_ban_is_replaced_by_a_later_one_and_kept_by_a_plain_removal(store: Arc<dyn WholeStore>) {
    opened(&store, "42").await;
    let (_, long) = removed(&store, 1, Some(LONG)).await;
    assert_eq!(removed(&store, 1, None).await, (2, long));
    assert_eq!(since(&store, 0).await.0, [(user(1), 2, "banned")]);
    let (number, short) = removed(&store, 1, Some(Duration::from_secs(60))).await;
    assert!(number == 3 && short < long, "{short:?} and {long:?}");
    assert_eq!(banned(&store).await, [user(1)]);
}

async fn a_ban_is_lifted_once(store: Arc<dyn WholeStore>) {
    opened(&store, "42").await;
    assert_eq!(lift(&store, 1).await, LiftReply::NotBanned);
    removed(&store, 1, None).await;
    assert_eq!(lift(&store, 1).await, LiftReply::NotBanned);
    removed(&store, 1, Some(LONG)).await;
    assert_eq!(lift(&store, 1).await, LiftReply::Lifted { number: 3 });
    let record = loaded(&store, "42").await;
    let last = record.events.pending.last().unwrap();
    assert_eq!(last.what, Happened::Unbanned(user(1)));
    assert_eq!(lift(&store, 1).await, LiftReply::NotBanned);
    assert_eq!(since(&store, 1).await, (vec![(user(1), 3, "lifted")], 3));
    assert!(banned(&store).await.is_empty());
    removed(&store, 1, Some(LONG)).await;
    assert_eq!(since(&store, 0).await, (vec![(user(1), 4, "banned")], 4));
}

async fn removals_are_of_an_open_epoch(store: Arc<dyn WholeStore>) {
    assert_eq!(remove(&store, 1, None).await, RemoveReply::Absent);
    assert_eq!(lift(&store, 1).await, LiftReply::Absent);
    assert_eq!(
        store
            .removals_since(&live("42"), Epoch(1), 0)
            .await
            .unwrap(),
        None
    );
    let other = Epoch(opened(&store, "42").await.epoch.0 + 1);
    assert_eq!(
        remove_in(&store, other, 1, Some(LONG)).await,
        RemoveReply::Over
    );
    assert_eq!(lift_in(&store, other, 1).await, LiftReply::Over);
    assert_eq!(
        store.removals_since(&live("42"), other, 0).await.unwrap(),
        None
    );
    store
        .restore_bans(&live("42"), other, &[(user(1), LONG)])
        .await
        .unwrap();
    assert_eq!(
        (since(&store, 0).await, banned(&store).await),
        ((vec![], 0), vec![])
    );
}

async fn a_close_forgets_them_and_the_next_epoch_begins_with_none(store: Arc<dyn WholeStore>) {
    let first = opened(&store, "42").await;
    removed(&store, 1, Some(LONG)).await;
    store.begin_close(&end(&first)).await.unwrap();
    for _ in 0..2 {
        assert!(banned(&store).await.is_empty());
        assert_eq!(remove(&store, 1, Some(LONG)).await, RemoveReply::Over);
        assert_eq!(lift(&store, 1).await, LiftReply::Over);
        restore(&store, &[(user(1), LONG)]).await;
        assert!(banned(&store).await.is_empty());
        finish(&store, &first).await;
    }
    let next = opened(&store, "42").await;
    assert_eq!(next.removals, 0);
    assert_eq!(since(&store, 0).await, (vec![], 0));
    assert_eq!(
        remove_in(&store, first.epoch, 1, None).await,
        RemoveReply::Over
    );
}

async fn the_record_and_its_keeping_tell_the_last_number(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    assert_eq!(record.removals, 0);
    removed(&store, 1, None).await;
    removed(&store, 2, Some(LONG)).await;
    assert_eq!(loaded(&store, "42").await.removals, 2);
    for known in [0, 1, 2] {
        let RecordStanding::Open { removals, .. } = kept(&store, &record, known).await else {
            panic!("not open")
        };
        assert_eq!(removals, 2);
    }
}

async fn numbers_leap_over_those_that_were_lost(store: Arc<dyn WholeStore>) {
    let record = opened(&store, "42").await;
    removed(&store, 1, Some(LONG)).await;
    // The store fell back: a gateway knows of a seventh removal.
    let RecordStanding::Open { removals, .. } = kept(&store, &record, 7).await else {
        panic!("not open")
    };
    assert_eq!(removals, 7 + LEAP);
    let RecordStanding::Open { removals, .. } = kept(&store, &record, 7).await else {
        panic!("not open")
    };
    assert_eq!(removals, 7 + LEAP);
    assert_eq!(removed(&store, 2, None).await.0, 8 + LEAP);
    // The record is lost altogether, or of an older epoch.
    let newer = later(&record, 4);
    assert_eq!(kept(&store, &newer, 3).await, RecordStanding::Rewritten);
    let read = store
        .removals_since(&live("42"), newer.epoch, 0)
        .await
        .unwrap()
        .expect("an open epoch");
    assert_eq!((read.last, read.changes), (3 + LEAP, vec![]));
    assert!(banned(&store).await.is_empty());
    let last = later(&newer, 1);
    assert_eq!(kept(&store, &last, 0).await, RecordStanding::Rewritten);
    assert_eq!(loaded(&store, "42").await.removals, 0);
}

async fn what_is_restored_never_overrides_what_is_known(store: Arc<dyn WholeStore>) {
    opened(&store, "42").await;
    removed(&store, 1, None).await;
    removed(&store, 2, Some(LONG)).await;
    lift(&store, 2).await;
    let (_, until) = removed(&store, 3, Some(Duration::from_secs(60))).await;
    let all: Vec<_> = (1..=5).map(|n| (user(n), LONG)).collect();
    for _ in 0..2 {
        restore(&store, &all).await;
        let (changes, last) = since(&store, 4).await;
        assert_eq!(
            (changes, last),
            (vec![(user(4), 5, "banned"), (user(5), 6, "banned")], 6)
        );
        let bans = store.bans_page(&live("42"), None, 10).await.unwrap();
        assert_eq!(
            bans[0],
            Ban {
                user: user(3),
                until: until.expect("a ban")
            }
        );
        assert_eq!(bans.len(), 3);
    }
    assert_eq!(loaded(&store, "42").await.removals, 6);
}

async fn changes_come_in_batches(store: Arc<dyn WholeStore>) {
    opened(&store, "42").await;
    let many: Vec<_> = (1..=MAX_BATCH + 5).map(|n| (user(n), LONG)).collect();
    for some in many.chunks(MAX_BATCH) {
        restore(&store, some).await;
    }
    let (changes, last) = since(&store, 0).await;
    assert_eq!((changes.len(), last), (MAX_BATCH, 1_005));
    assert_eq!(changes[999].1, 1_000);
    let (rest, _) = since(&store, 1_000).await;
    assert_eq!(
        rest.iter().map(|change| change.1).collect::<Vec<_>>(),
        [1_001, 1_002, 1_003, 1_004, 1_005]
    );
}

async fn bans_are_paged_by_their_end(store: Arc<dyn WholeStore>) {
    opened(&store, "42").await;
    for n in [3, 1, 2] {
        removed(&store, n, Some(Duration::from_secs(60 * n as u64))).await;
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = store
            .bans_page(&live("42"), after.as_ref(), 2)
            .await
            .unwrap();
        seen.extend(page.iter().map(|ban| ban.user.clone()));
        match page.last() {
            Some(last) if page.len() == 2 => after = Some(last.clone()),
            _ => break,
        }
    }
    assert_eq!(seen, [user(1), user(2), user(3)]);
}

async fn bans_are_bounded(store: Arc<dyn WholeStore>) {
    opened(&store, "42").await;
    let many: Vec<_> = (1..=MAX_BANS).map(|n| (user(n), LONG)).collect();
    for some in many.chunks(MAX_BATCH) {
        restore(&store, some).await;
    }
    assert_eq!(remove(&store, 0, Some(LONG)).await, RemoveReply::Full);
    // Who is banned already may be banned anew, and anybody may be removed; the oldest change is
    // forgotten then.
    assert!(removed(&store, 7, Some(LONG)).await.1.is_some());
    assert_eq!(removed(&store, MAX_BANS + 1, None).await.1, None);
    assert_eq!(since(&store, 0).await.0[0].0, user(2));
    lift(&store, 8).await;
    assert!(removed(&store, 0, Some(LONG)).await.1.is_some());
}
