//! The rate at which whole slices are sent again, on a clock that the test moves.

use super::*;
use crate::base::clock::moment;
use crate::base::ids::{LiveId, SliceId, UserId};
use crate::presence::desired_state::Standing;
use crate::presence::turn::{TurnContext, TurnStep};
use crate::store::MAX_BATCH;

/// A slice that says this many members again.
fn lost(members: usize) -> Slice {
    lost_of(
        SliceId::of_live(LiveId::parse("42").unwrap(), 1, 1),
        members,
    )
}

fn lost_of(id: SliceId, members: usize) -> Slice {
    const CONTEXT: TurnContext = TurnContext {
        known_open: true,
        most_users: MAX_BATCH,
    };
    let slice = Slice::new(id, moment(0));
    let mut state = slice.lock();
    for i in 0..members {
        state.want(&UserId::parse(&format!("u{i}")).unwrap(), Standing::Member);
    }
    // The gateway goes on under a new id.
    let mut turn = state.begin_turn(1, CONTEXT);
    if let TurnStep::Call(draft) = state.next_step(&mut turn) {
        state.failed(&draft, moment(0));
    }
    state.begin_turn(2, CONTEXT);
    drop(state);
    slice
}

#[tokio::test(start_paused = true)]
async fn whole_slices_are_sent_at_the_rate_and_none_is_left_out() {
    const EACH: usize = 500;
    let rate = ResyncLimit::default();
    let clock = crate::base::clock::Clock::start();
    let mut waiting: Vec<Slice> = (0..200).map(|_| lost(EACH)).collect();
    let all = (EACH * waiting.len()) as Millis;
    let mut gone: Vec<Moment> = Vec::new();
    while !waiting.is_empty() {
        let now = clock.now();
        waiting.retain(|slice| {
            let goes = rate.at(slice, now).is_none();
            gone.extend(goes.then_some(now));
            !goes
        });
        tokio::time::advance(Duration::from_millis(10)).await;
    }
    // No second exceeds the rate, the burst, and one whole slice.
    let most = RESYNC_RATE as usize
        + (RESYNC_RATE as f64 * RESYNC_BURST.as_secs_f64()) as usize
        + 2 * EACH;
    for (i, start) in gone.iter().enumerate() {
        let members = gone[i..].partition_point(|at| *at < *start + 1_000) * EACH;
        assert!(members <= most, "{members} from {start:?} on");
    }
    let took = gone.last().unwrap().as_millis();
    assert!(
        took <= all * 1_000 / Millis::from(RESYNC_RATE) + 50,
        "{all} members took {took} ms"
    );
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_asks_again_keeps_its_time() {
    let rate = ResyncLimit::default();
    let (large, first, second) = (lost(50_000), lost(10), lost(10));
    assert_eq!(
        rate.at(&large, moment(0)),
        None,
        "no slice is too large to go"
    );
    let at = rate.at(&first, moment(0)).unwrap();
    assert!((2_000..2_600).contains(&at.as_millis()), "{at:?}");
    let after = rate.at(&second, moment(0)).unwrap();
    for _ in 0..1_000 {
        assert_eq!(
            rate.at(&first, moment(1)),
            Some(at),
            "asking again changes nothing"
        );
    }
    assert_eq!(rate.at(&second, after), None);
    assert_eq!(rate.at(&first, at), None);
}

#[tokio::test(start_paused = true)]
async fn an_empty_slice_does_not_wait() {
    let rate = ResyncLimit::default();
    assert_eq!(rate.at(&lost(60_000), moment(0)), None);
    assert_eq!(rate.at(&lost(0), moment(0)), None);
}

#[tokio::test(start_paused = true)]
async fn a_user_of_the_platform_counts_twice() {
    let rate = ResyncLimit::default();
    let id = SliceId {
        set: OnlineSet::Users,
        index: 1,
        of: 1,
    };
    let slice = lost_of(id, RESYNC_RATE as usize);
    assert_eq!(rate.at(&slice, moment(0)), None);
    let next = rate.book(1);
    assert!((1_750..=2_000).contains(&next), "{next}");
}
