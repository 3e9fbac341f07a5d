//! Herds of handshakes, on a clock of their own.

use std::collections::BTreeMap;

use super::*;

const RATE: u32 = 100;

/// A herd of clients: which user asks when.
struct Herd {
    queue: HandshakeQueue,
    start: Instant,
    asks: BTreeMap<(Duration, u64), ()>,
    chance: u64,
}

impl Herd {
    fn new() -> Self {
        Self {
            queue: HandshakeQueue::new(RATE),
            start: Instant::now(),
            asks: BTreeMap::new(),
            chance: 1,
        }
    }

    fn comes(&mut self, users: std::ops::Range<u64>, at: Duration) {
        self.asks.extend(users.map(|user| ((at, user), ())));
    }

    /// Lets the herd come, and come back as told, until all are in; when each was let in, and how
    /// often it was refused.
    fn runs(&mut self) -> BTreeMap<u64, (Duration, u32)> {
        let mut in_at: BTreeMap<u64, (Duration, u32)> = BTreeMap::new();
        while let Some(((at, user), ())) = self.asks.pop_first() {
            // A chance that is even and always the same.
            self.chance = self
                .chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let chance = (self.chance >> 40) as f64 / (1u64 << 24) as f64;
            match self.queue.decide(user, self.start + at, chance) {
                Decision::Admit(wait) => in_at.entry(user).or_default().0 = at + wait,
                Decision::RetryAfter(told) => {
                    assert!((1..=MAX_RETRY).contains(&told), "{told}");
                    in_at.entry(user).or_default().1 += 1;
                    self.asks.insert((at + Duration::from_secs(told), user), ());
                }
            }
        }
        in_at
    }
}

fn most_in_a_second(in_at: &BTreeMap<u64, (Duration, u32)>) -> usize {
    let mut times: Vec<_> = in_at.values().map(|(at, _)| *at).collect();
    times.sort();
    let within =
        |i: usize| times[i..].partition_point(|at| *at < times[i] + Duration::from_secs(1));
    (0..times.len()).map(within).max().unwrap_or_default()
}

#[test]
fn below_the_rate_no_handshake_waits() {
    let mut queue = HandshakeQueue::new(RATE);
    let start = Instant::now();
    for i in 0..1_000 {
        let at = start + Duration::from_millis(11) * i;
        assert_eq!(
            queue.decide(i.into(), at, 0.5),
            Decision::Admit(Duration::ZERO)
        );
    }
}

#[test]
fn a_whole_herd_is_admitted_at_the_rate() {
    let mut herd = Herd::new();
    herd.comes(0..1_000, Duration::ZERO);
    let in_at = herd.runs();
    assert_eq!(in_at.len(), 1_000);
    let last = in_at.values().map(|(at, _)| *at).max().unwrap();
    assert!(
        last <= Duration::from_secs(13),
        "1,000 at 100 a second took {last:?}"
    );
    assert!(
        most_in_a_second(&in_at) <= 111,
        "{}",
        most_in_a_second(&in_at)
    );
    assert!(
        in_at.values().all(|(_, refusals)| *refusals <= 2),
        "who obeys is in with the second return at most"
    );
    assert!(herd.queue.tickets.is_empty(), "nobody in is remembered");
}

#[test]
fn refused_users_go_before_new_arrivals() {
    let mut herd = Herd::new();
    herd.comes(0..500, Duration::ZERO);
    // New arrivals at twice the rate, for as long as the refused come back.
    for i in 0..1_600 {
        herd.comes(10_000 + i..10_001 + i, Duration::from_millis(5) * i as u32);
    }
    let in_at = herd.runs();
    let refused: Vec<_> = in_at
        .range(..500)
        .filter(|(_, (_, refusals))| *refusals > 0)
        .collect();
    assert!(refused.len() > 300);
    assert!(
        refused
            .iter()
            .all(|(_, (at, _))| *at < Duration::from_secs(10)),
        "{:?}",
        refused.iter().max_by_key(|r| r.1)
    );
    let twice = refused
        .iter()
        .filter(|(_, (_, refusals))| *refusals > 1)
        .count();
    assert!(
        twice * 20 < refused.len(),
        "{twice} of {} were refused again",
        refused.len()
    );
}

#[test]
fn a_wait_grows_with_the_queue_up_to_its_bound() {
    let mut queue = HandshakeQueue::new(RATE);
    let now = Instant::now();
    let mut told = Vec::new();
    for user in 0..10_000 {
        if let Decision::RetryAfter(seconds) = queue.decide(user, now, (user % 101) as f64 / 101.0)
        {
            told.push(seconds);
        }
    }
    assert!(
        told[..50].iter().all(|seconds| *seconds <= 2),
        "{:?}",
        &told[..50]
    );
    assert!(
        told[1_500..1_550]
            .iter()
            .all(|seconds| (15..=17).contains(seconds)),
        "{:?}",
        &told[1_500..1_550]
    );
    let (_, far) = told.split_at(4_000);
    assert!(
        far.iter()
            .all(|seconds| (MAX_RETRY / 2..=MAX_RETRY).contains(seconds))
    );
    assert!(
        (MAX_RETRY / 2..=MAX_RETRY).all(|seconds| far.contains(&seconds)),
        "spread over the bound"
    );
}

#[test]
fn a_user_who_comes_too_early_is_told_the_rest_and_delays_nobody() {
    let mut queue = HandshakeQueue::new(RATE);
    let now = Instant::now();
    (0..300).for_each(|user| assert!(queue.decide(user, now, 0.0) != Decision::RetryAfter(0)));
    let Decision::RetryAfter(first) = queue.decide(1_000, now, 0.0) else {
        panic!("let in")
    };
    let line = queue.promised.wait(now);
    for _ in 0..100 {
        assert_eq!(queue.decide(1_000, now, 0.9), Decision::RetryAfter(first));
    }
    assert_eq!(queue.promised.wait(now), line);
}

#[test]
fn a_promised_place_that_nobody_claims_is_free() {
    let mut queue = HandshakeQueue::new(RATE);
    let now = Instant::now();
    (0..1_000).for_each(|user| assert!(queue.decide(user, now, 0.5) != Decision::RetryAfter(0)));
    // None of them comes back: after what waits in place is in, new arrivals have the whole rate.
    let later = now + FIRST_WAIT + Duration::from_millis(200);
    for i in 0..100 {
        let answer = queue.decide(5_000 + i, later + Duration::from_millis(10) * i as u32, 0.5);
        assert_eq!(answer, Decision::Admit(Duration::ZERO));
    }
}

#[test]
fn a_user_who_does_not_come_back_is_forgotten() {
    let mut queue = HandshakeQueue::new(1);
    let mut now = Instant::now();
    for round in 0..5 {
        for user in 0..(MAX_TICKETS as u64 * 2) {
            let _ = queue.decide(round * 1_000_000 + user, now, 0.5);
        }
        assert!(queue.tickets.len() <= MAX_TICKETS);
        now += Duration::from_secs(MAX_RETRY) + LATE + SWEEP_EVERY;
    }
    (0..5).for_each(|user| {
        assert!(queue.decide(9_999_999 + user, now, 0.5) != Decision::RetryAfter(0))
    });
    assert!(queue.tickets.len() <= 5, "{}", queue.tickets.len());
}

#[test]
fn when_a_herd_is_admitted_the_queue_takes_no_memory() {
    let mut herd = Herd::new();
    herd.comes(0..20_000, Duration::ZERO);
    assert_eq!(herd.runs().len(), 20_000);
    // The next one comes long after that, and needs no ticket.
    let later = herd.start + Duration::from_secs(3_600);
    assert_eq!(
        herd.queue.decide(1, later, 0.5),
        Decision::Admit(Duration::ZERO)
    );
    assert_eq!(herd.queue.tickets.capacity(), 0);
}

#[test]
fn a_client_that_asks_first_pays_for_one_place_only() {
    let mut queue = HandshakeQueue::new(RATE);
    let start = Instant::now();
    // As many as have room ask first, over and over.
    let asked: Vec<_> = (0..1_000)
        .map(|user| queue.reserve(user, start, 0.5))
        .collect();
    let placed = asked
        .iter()
        .filter(|decision| matches!(decision, Decision::Admit(_)))
        .count() as u64;
    assert!((50..100).contains(&placed), "{placed}");
    let due = |user: u64| match asked[user as usize] {
        Decision::Admit(wait) => wait,
        Decision::RetryAfter(_) => panic!("{user} has no place"),
    };
    for user in 0..placed {
        let again = queue.reserve(user, start + Duration::from_millis(100), 0.5);
        assert_eq!(
            again,
            Decision::Admit(due(user).saturating_sub(Duration::from_millis(100))),
            "{user}"
        );
    }
    // A handshake takes the place; the next one of the same user is a new arrival behind all
    // others.
    assert!(matches!(
        queue.decide(placed, start, 0.5),
        Decision::RetryAfter(_)
    ));
    assert_eq!(
        queue.decide(placed - 1, start, 0.5),
        Decision::Admit(due(placed - 1))
    );
    assert!(matches!(
        queue.decide(placed - 1, start, 0.5),
        Decision::RetryAfter(_)
    ));
    let later = start + Duration::from_secs(1);
    assert_eq!(queue.decide(0, later, 0.5), Decision::Admit(Duration::ZERO));
}

#[test]
fn a_place_is_kept_for_a_while_and_not_longer_by_asking() {
    let mut queue = HandshakeQueue::new(1);
    let start = Instant::now();
    assert_eq!(
        queue.reserve(1, start, 0.5),
        Decision::Admit(Duration::ZERO)
    );
    let last = start + PLACE_KEPT - Duration::from_millis(1);
    assert_eq!(queue.reserve(1, last, 0.5), Decision::Admit(Duration::ZERO));
    // Others take what has become free meanwhile.
    assert_eq!(queue.decide(2, last, 0.5), Decision::Admit(Duration::ZERO));
    assert!(matches!(
        queue.decide(3, last, 0.5),
        Decision::RetryAfter(_)
    ));
    let after = start + PLACE_KEPT;
    assert!(
        matches!(queue.decide(1, after, 0.5), Decision::RetryAfter(_)),
        "the place is gone"
    );
}

#[test]
fn who_asks_first_on_a_crowded_gateway_returns_as_told() {
    let mut queue = HandshakeQueue::new(1);
    let start = Instant::now();
    assert_eq!(queue.decide(1, start, 0.0), Decision::Admit(Duration::ZERO));
    let Decision::RetryAfter(told) = queue.reserve(2, start, 0.0) else {
        panic!("there was room")
    };
    let due = start + Duration::from_secs(told);
    let Decision::Admit(wait) = queue.reserve(2, due, 0.0) else {
        panic!("{told} s were not enough")
    };
    assert!(wait <= RETURN_WAIT);
    assert_eq!(
        queue.decide(2, due + wait, 0.0),
        Decision::Admit(Duration::ZERO)
    );
}
