//! Histories of one slice: three gateways, two epochs and more, calls that come late or twice or
//! follow a wrong number, gateways that let go, die and are swept, passes whose pages have other
//! calls in between, slices that forget and are rebuilt, lost data, a clock that goes on and back,
//! and other programs that write to any key. The pure [`StoredSlice`] and the Redis store must give the
//! same answer at every step, and hold the same after it.

use std::collections::BTreeSet;

use proptest::prelude::*;
use rollcall::base::clock::{UnixMillis, unix_now};
use rollcall::base::ids::{Epoch, GatewayId, Group, UserId};
use rollcall::store::slice::StoredSlice;
use rollcall::store::{
    Apply, ApplyRefusal, ApplyReply, Claim, ClaimedUser, Entries, Fence, Pass, PassCursor, Passed,
    SliceEntry, SliceLook, SliceSize, SliceTotals,
};

use super::{Redis, agree_on};
use crate::conformance::{claims, gateway, look, members, slice};

/// A user; each third one is a guest.
fn user(n: usize) -> UserId {
    let name = format!("u{n}");
    let user = match n % 3 {
        2 => UserId::guest(&name),
        _ => UserId::parse(&name),
    };
    user.expect("an id")
}

const GATEWAYS: [&str; 3] = ["a", "b", "c"];

/// The clock goes on or back by so much, in ms. Two such steps are longer than a rebuild.
const STEP: i64 = 3_000;

#[derive(Debug, Clone)]
enum Step {
    /// A gateway's next call, in the epoch that many below the current one.
    Call {
        gateway: usize,
        behind: u64,
        follows: Follows,
        known: Known,
        kind: Kind,
        joins: BTreeSet<usize>,
        leaves: BTreeSet<usize>,
    },
    /// An earlier call arrives again, or for the first time.
    Late {
        which: prop::sample::Index,
    },
    /// A call is numbered and sent, but arrives only as a `Late` one.
    Delayed {
        gateway: usize,
        follows: Follows,
        joins: BTreeSet<usize>,
    },
    /// A page of a pass: the first one, or the next of the pass that the gateway has begun.
    Page {
        gateway: usize,
        goes_on: bool,
        known: Known,
        complains: bool,
        dead: BTreeSet<usize>,
        only_claims: bool,
    },
    Close {
        behind: u64,
    },
    /// The live opens again.
    Reopen,
    Clock {
        steps: i64,
    },
    /// The store comes back empty.
    LoseData,
    /// Another program writes.
    Foreign(Foreign),
}

/// Which number a call follows.
#[derive(Debug, Clone, Copy)]
enum Follows {
    /// None: it makes the entry.
    Nothing,
    /// That of the gateway's entry, if it has one.
    Entry,
    /// One so far from it.
    Other(u64),
}

/// What a gateway knows of the slice.
#[derive(Debug, Clone, Copy)]
enum Known {
    Nothing,
    /// What it was told last in this epoch.
    Last,
    /// The slice has lost the last change, or users who came, or users who left.
    LaterVersion,
    MoreJoins,
    MoreLeaves,
}

/// What else a call says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Fans,
    Members,
    /// The gateway has more to say.
    More,
    /// The gateway lets go, and names nobody.
    Bye,
}

#[derive(Debug, Clone)]
enum Foreign {
    Add(Group, usize),
    TakeOut(Group, usize),
    LoseSet(Group),
    LoseClaims(usize),
    Claim {
        user: usize,
        by: Option<usize>,
        is_fan: bool,
    },
    LoseEntry(usize),
    ChangeEntry(usize, u64),
    LoseFence,
}

fn some_users() -> impl Strategy<Value = BTreeSet<usize>> {
    prop::collection::btree_set(0..6_usize, 0..4)
}

fn follows() -> impl Strategy<Value = Follows> {
    prop_oneof![
        3 => Just(Follows::Nothing),
        6 => Just(Follows::Entry),
        1 => (1..3_u64).prop_map(Follows::Other),
    ]
}

fn known() -> impl Strategy<Value = Known> {
    prop_oneof![
        8 => Just(Known::Last),
        12 => Just(Known::Nothing),
        1 => Just(Known::LaterVersion),
        1 => Just(Known::MoreJoins),
        1 => Just(Known::MoreLeaves),
    ]
}

fn calls() -> impl Strategy<Value = Step> {
    let behind = prop_oneof![8 => Just(0_u64), 1 => Just(1)];
    let kind = prop_oneof![
        4 => Just(Kind::Fans),
        2 => Just(Kind::Members),
        1 => Just(Kind::More),
        1 => Just(Kind::Bye),
    ];
    let (joins, leaves) = (some_users(), some_users());
    (0..3_usize, behind, follows(), known(), kind, joins, leaves).prop_map(
        |(gateway, behind, follows, known, kind, joins, leaves)| {
            let leaves = &leaves - &joins;
            Step::Call {
                gateway,
                behind,
                follows,
                known,
                kind,
                joins,
                leaves,
            }
        },
    )
}

fn pages() -> impl Strategy<Value = Step> {
    let rarely = || prop::bool::weighted(0.2);
    let dead = prop::collection::btree_set(0..3_usize, 0..2);
    (0..3_usize, any::<bool>(), known(), rarely(), dead, rarely()).prop_map(
        |(gateway, goes_on, known, complains, dead, only_claims)| Step::Page {
            gateway,
            goes_on,
            known,
            complains,
            dead,
            only_claims,
        },
    )
}

fn foreign() -> impl Strategy<Value = Foreign> {
    let group = || prop_oneof![Just(Group::All), Just(Group::Fans)];
    let by = prop::option::of(0..3_usize);
    prop_oneof![
        3 => (group(), 0..7_usize).prop_map(|(group, user)| Foreign::Add(group, user)),
        3 => (group(), 0..7_usize).prop_map(|(group, user)| Foreign::TakeOut(group, user)),
        1 => group().prop_map(Foreign::LoseSet),
        2 => (0..6_usize).prop_map(Foreign::LoseClaims),
        3 => (0..6_usize, by, any::<bool>())
            .prop_map(|(user, by, is_fan)| Foreign::Claim { user, by, is_fan }),
        1 => (0..3_usize).prop_map(Foreign::LoseEntry),
        1 => (0..3_usize, 1..40_u64).prop_map(|(who, number)| Foreign::ChangeEntry(who, number)),
        1 => Just(Foreign::LoseFence),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let delayed = (0..3_usize, follows(), some_users());
    prop_oneof![
        28 => calls(),
        4 => any::<prop::sample::Index>().prop_map(|which| Step::Late { which }),
        3 => delayed.prop_map(|(gateway, follows, joins)| Step::Delayed { gateway, follows, joins }),
        14 => pages(),
        1 => prop_oneof![2 => Just(0_u64), 1 => Just(1)].prop_map(|behind| Step::Close { behind }),
        1 => Just(Step::Reopen),
        4 => prop_oneof![3 => Just(1_i64), 3 => Just(2), 1 => Just(-1)]
            .prop_map(|steps| Step::Clock { steps }),
        1 => Just(Step::LoseData),
    ]
}

/// The same steps, and what other programs write.
fn steps_with_others() -> impl Strategy<Value = Step> {
    prop_oneof![8 => steps(), 1 => foreign().prop_map(Step::Foreign)]
}

/// Where a slice is.
enum Place<'a> {
    /// The model, and by how much its clock is off.
    Model {
        slice: Box<StoredSlice>,
        off: i64,
    },
    Redis(&'a Redis),
}

/// One of the two, and what its gateways remember of it.
struct Side<'a> {
    place: Place<'a>,
    /// What each gateway was told last, in the present epoch.
    told: [SliceSize; 3],
    /// The pass that each gateway has begun.
    passes: [Option<Pass>; 3],
    /// The incarnations that the slice had, oldest first. They differ between the two.
    incarnations: Vec<u64>,
    /// What a look found last.
    found: SliceLook,
    /// Whether the clock went back. The versions of the model are ahead of it since.
    went_back: bool,
}

impl<'a> Side<'a> {
    fn of(place: Place<'a>) -> Self {
        Self {
            place,
            told: [SliceSize::default(); 3],
            passes: [const { None }; 3],
            incarnations: Vec::new(),
            found: SliceLook::default(),
            went_back: false,
        }
    }

    fn entry(&self, who: usize) -> Option<u64> {
        let (_, entry) = self
            .found
            .entries
            .iter()
            .find(|(gateway, _)| gateway.as_str() == GATEWAYS[who])?;
        match entry {
            SliceEntry::At { number, .. } => Some(*number),
            SliceEntry::Dead => None,
        }
    }

    fn known(&self, who: usize, known: Known) -> SliceSize {
        let there = self.found.size;
        match known {
            Known::Nothing => SliceSize::default(),
            Known::Last => self.told[who],
            Known::LaterVersion => SliceSize {
                version: there.version + 1,
                ..there
            },
            Known::MoreJoins => SliceSize {
                card: there.card + 2,
                ..there
            },
            Known::MoreLeaves => SliceSize {
                leaves: there.leaves + 2,
                ..there
            },
        }
    }

    /// A size without its version.
    fn size(&mut self, who: Option<usize>, size: SliceSize) -> String {
        if let Some(who) = who {
            self.told[who] = size;
        }
        let incarnation = match size.incarnation {
            0 => 0,
            incarnation => self.number_of(incarnation),
        };
        let SliceSize {
            card,
            fans,
            guests,
            leaves,
            rebuild,
            differs,
            ..
        } = size;
        format!(
            "{card} {fans} ~{guests} -{leaves} @{incarnation} rebuild {rebuild} differs {differs}"
        )
    }

    fn number_of(&mut self, incarnation: u64) -> usize {
        if !self.incarnations.contains(&incarnation) {
            self.incarnations.push(incarnation);
        }
        let place = self.incarnations.iter().position(|of| *of == incarnation);
        place.map_or(0, |place| place + 1)
    }

    /// The model, and the time by its clock, in which no two calls come in the same millisecond.
    fn model(&mut self) -> Option<(&mut StoredSlice, UnixMillis)> {
        match &mut self.place {
            Place::Model { slice, off } => {
                *off += 1;
                Some((slice, unix_now().saturating_add_signed(*off)))
            }
            Place::Redis(_) => None,
        }
    }

    fn redis(&self) -> Option<&'a Redis> {
        match self.place {
            Place::Redis(redis) => Some(redis),
            Place::Model { .. } => None,
        }
    }

    async fn apply(&mut self, who: usize, call: &Apply) -> String {
        let reply = match (self.redis(), self.model()) {
            (Some(redis), _) => redis.store.apply(call).await.unwrap(),
            (None, Some((slice, now))) => slice.apply(call, UnixMillis::MAX, now),
            (None, None) => unreachable!(),
        };
        match reply {
            ApplyReply::Done(size) => format!("done {}", self.size(Some(who), size)),
            ApplyReply::Refused(ApplyRefusal { entry, size }) => {
                let size = size.map(|size| self.size(Some(who), size));
                format!("refused {entry:?} {size:?}")
            }
            other => format!("{other:?}"),
        }
    }

    async fn page(&mut self, who: usize, pass: Pass) -> String {
        let passed = match (self.redis(), self.model()) {
            (Some(redis), _) => redis.store.pass(&pass).await.unwrap(),
            (None, Some((slice, now))) => slice.pass(&pass, now),
            (None, None) => unreachable!(),
        };
        let Some(Passed {
            next,
            size,
            released,
            drift,
        }) = passed
        else {
            self.passes[who] = None;
            return "no pass".to_owned();
        };
        let phase = next.map(|PassCursor { phase, .. }| phase);
        self.passes[who] = next.map(|next| Pass {
            from: Some(next),
            ..pass
        });
        let size = self.size(Some(who), size);
        format!("{phase:?} released {released} {drift:?} {size}")
    }

    async fn close(&mut self, epoch: Epoch) -> SliceTotals {
        match (self.redis(), self.model()) {
            (Some(redis), _) => redis.store.close_slice(&slice(), epoch).await.unwrap(),
            (None, Some((slice, _))) => slice.close(epoch).0,
            (None, None) => unreachable!(),
        }
    }

    /// Moves the clock. Redis's own stays, so the begin of a rebuild moves the other way.
    fn move_clock(&mut self, by: i64) {
        self.went_back |= by < 0;
        self.forget_versions();
        match &mut self.place {
            Place::Model { off, .. } => *off += by,
            Place::Redis(redis) => {
                let fence = redis.ask(&["GET", "{online-fans:42}:fence"]);
                let parts: Vec<&str> = fence.split(':').collect();
                if let [rest @ .., since] = &parts[..]
                    && rest.len() == 11
                {
                    let since = since.parse::<i64>().unwrap() - by;
                    let fence = format!("{}:{since}", rest.join(":"));
                    redis.ask(&["SET", "{online-fans:42}:fence", &fence]);
                }
            }
        }
    }

    /// Gateways know nothing of versions that the clock has not reached again.
    fn forget_versions(&mut self) {
        if self.went_back {
            self.told = [SliceSize::default(); 3];
        }
    }

    fn lose_data(&mut self) {
        self.forget_versions();
        match &mut self.place {
            Place::Model { slice, .. } => **slice = StoredSlice::default(),
            Place::Redis(redis) => redis.empty(),
        }
    }

    fn written_by_another(&mut self, what: &Foreign) {
        self.forget_versions();
        match &mut self.place {
            Place::Model { slice, .. } => write_model(slice, what),
            Place::Redis(redis) => redis.written_by_another(what),
        }
    }

    /// What the slice holds now, by the answers of the store.
    async fn stands(&mut self) -> (String, Vec<ClaimedUser>, [Vec<UserId>; 2]) {
        let (found, claims, sets) = match (self.redis(), self.model()) {
            (Some(Redis { store, .. }), _) => (
                look(store, &slice(), "a").await,
                claims(store, &slice()).await,
                [
                    members(store, &slice(), Group::All).await,
                    members(store, &slice(), Group::Fans).await,
                ],
            ),
            (None, Some((slice, _))) => {
                let mut claims = slice.claims_page(0).users;
                claims.sort_by(|one, other| one.user.cmp(&other.user));
                let members = |group| {
                    let mut users: Vec<UserId> = slice.members(group).cloned().collect();
                    users.sort();
                    users
                };
                (
                    slice.look(&gateway("a"), Entries::All),
                    claims,
                    [members(Group::All), members(Group::Fans)],
                )
            }
            (None, None) => unreachable!(),
        };
        let has_moved = found.size.version != self.found.size.version;
        let said = format!(
            "{:?} intact {} keys {} {:?} {:?} {} moved {has_moved}",
            found.fence,
            found.is_intact,
            found.has_keys,
            found.entry,
            found.entries,
            self.size(None, found.size),
        );
        self.found = found;
        (said, claims, sets)
    }
}

fn write_model(slice: &mut StoredSlice, what: &Foreign) {
    let name = |who: usize| gateway(GATEWAYS[who]);
    match what {
        Foreign::Add(group, n) => slice.add_stranger(*group, &user(*n)),
        Foreign::TakeOut(group, n) => slice.take_out(*group, &user(*n)),
        Foreign::LoseSet(group) => slice.lose_set(*group),
        Foreign::LoseClaims(n) => slice.lose_claims(&user(*n)),
        Foreign::Claim {
            user: n,
            by,
            is_fan,
        } => {
            let by: Option<GatewayId> = by.map(name);
            let claim = if *is_fan { Claim::Fan } else { Claim::Member };
            slice.invent_claim(&user(*n), by.as_ref(), claim);
        }
        Foreign::LoseEntry(who) => slice.lose_entry(&name(*who)),
        Foreign::ChangeEntry(who, number) => slice.change_entry(&name(*who), *number),
        Foreign::LoseFence => slice.lose_fence(),
    }
}

impl Redis {
    fn ask(&self, words: &[&str]) -> String {
        self.server.cli(words).trim_end_matches('\n').to_owned()
    }

    fn written_by_another(&self, what: &Foreign) {
        let set = |group: &Group| match group {
            Group::All => "{online-fans:42}:viewers",
            Group::Fans => "online-fans:42",
        };
        let (who, gateways) = ("{online-fans:42}:who", "{online-fans:42}:gateways");
        let token_of = |place: usize| {
            let entry = self.ask(&["HGET", gateways, GATEWAYS[place]]);
            Some(entry.split_once(':')?.0.to_owned())
        };
        match what {
            Foreign::Add(group, n) => self.ask(&["SADD", set(group), user(*n).as_str()]),
            Foreign::TakeOut(group, n) => self.ask(&["SREM", set(group), user(*n).as_str()]),
            Foreign::LoseSet(group) => self.ask(&["DEL", set(group)]),
            Foreign::LoseClaims(n) => self.ask(&["HDEL", who, user(*n).as_str()]),
            Foreign::Claim {
                user: n,
                by,
                is_fan,
            } => {
                let token = by.and_then(token_of).unwrap_or("0".to_owned());
                let value = self.ask(&["HGET", who, user(*n).as_str()]);
                let mut words = value.split(' ');
                let mut claims = vec![words.next().unwrap_or_default().to_owned()];
                for claim in words {
                    if claim.trim_end_matches('f') != token {
                        claims.push(claim.to_owned());
                    }
                }
                claims.push(token + if *is_fan { "f" } else { "" });
                self.ask(&["HSET", who, user(*n).as_str(), &claims.join(" ")])
            }
            Foreign::LoseEntry(place) => self.ask(&["HDEL", gateways, GATEWAYS[*place]]),
            Foreign::ChangeEntry(place, number) => match token_of(*place) {
                Some(token) => {
                    let entry = format!("{token}:{number}");
                    self.ask(&["HSET", gateways, GATEWAYS[*place], &entry])
                }
                None => String::new(),
            },
            Foreign::LoseFence => self.ask(&["DEL", "{online-fans:42}:fence"]),
        };
    }
}

/// What gateways have sent so far.
#[derive(Default)]
struct Sent {
    epoch: u64,
    numbers: [u64; 3],
    calls: Vec<(usize, Apply)>,
}

impl Sent {
    fn call(
        &mut self,
        from: usize,
        (behind, kind): (u64, Kind),
        follows: Option<u64>,
        users: [&BTreeSet<usize>; 2],
    ) -> Apply {
        self.numbers[from] += 1;
        let number = self.numbers[from];
        let [mut joins, mut leaves]: [Vec<UserId>; 2] =
            users.map(|users| users.iter().map(|n| user(*n)).collect());
        if kind == Kind::Bye {
            joins.clear();
            leaves.clear();
        }
        let mut fans = Vec::new();
        if kind != Kind::Members {
            std::mem::swap(&mut joins, &mut fans);
        }
        let call = Apply {
            slice: slice(),
            epoch: Epoch(self.epoch.saturating_sub(behind)),
            gateway: gateway(GATEWAYS[from]),
            number,
            follows,
            known: SliceSize::default(),
            more: kind == Kind::More,
            bye: kind == Kind::Bye,
            uniques: true,
            since: vec![100 - number; joins.len() + fans.len()],
            lives: Vec::new(),
            joins,
            fans,
            left: None,
            leaves,
        };
        self.calls.push((from, call.clone()));
        call
    }
}

fn followed(side: &Side<'_>, who: usize, follows: Follows) -> Option<u64> {
    let entry = side.entry(who);
    match follows {
        Follows::Nothing => None,
        Follows::Entry => entry.or(Some(1)),
        Follows::Other(far) => Some(entry.map_or(far, |entry| entry + far)),
    }
}

/// Takes one step on both sides. Returns the answers.
async fn take(step: &Step, sides: &mut [Side<'_>; 2], sent: &mut Sent) -> [String; 2] {
    let mut answers = [String::new(), String::new()];
    match step {
        Step::Call {
            gateway,
            behind,
            follows,
            known,
            kind,
            joins,
            leaves,
        } => {
            let follows = followed(&sides[0], *gateway, *follows);
            let call = sent.call(*gateway, (*behind, *kind), follows, [joins, leaves]);
            for (side, answer) in sides.iter_mut().zip(&mut answers) {
                let known = if *behind == 0 {
                    side.known(*gateway, *known)
                } else {
                    SliceSize::default()
                };
                let call = Apply {
                    known,
                    ..call.clone()
                };
                *answer = side.apply(*gateway, &call).await;
            }
        }
        Step::Delayed {
            gateway,
            follows,
            joins,
        } => {
            let follows = followed(&sides[0], *gateway, *follows);
            sent.call(
                *gateway,
                (0, Kind::Fans),
                follows,
                [joins, &BTreeSet::new()],
            );
        }
        Step::Late { .. } if sent.calls.is_empty() => {}
        Step::Late { which } => {
            let (who, call) = which.get(&sent.calls);
            for (side, answer) in sides.iter_mut().zip(&mut answers) {
                *answer = side.apply(*who, call).await;
            }
        }
        Step::Page {
            gateway: who,
            goes_on,
            known,
            complains,
            dead,
            only_claims,
        } => {
            for (side, answer) in sides.iter_mut().zip(&mut answers) {
                let begun = side.passes[*who].take().filter(|_| *goes_on);
                let pass = begun.unwrap_or_else(|| Pass {
                    slice: slice(),
                    epoch: Epoch(sent.epoch),
                    known: side.known(*who, *known),
                    wrong: complains.then_some(side.found.size.incarnation),
                    dead: dead
                        .iter()
                        .map(|who| (gateway(GATEWAYS[*who]), 7))
                        .collect(),
                    from: None,
                    only_claims: *only_claims,
                });
                *answer = side.page(*who, pass).await;
            }
        }
        Step::Close { behind } => {
            let epoch = Epoch(sent.epoch - behind);
            for (side, answer) in sides.iter_mut().zip(&mut answers) {
                *answer = format!("{:?}", side.close(epoch).await);
            }
        }
        Step::Reopen => {
            sent.epoch += 1;
            for side in sides {
                side.told = [SliceSize::default(); 3];
            }
        }
        Step::Clock { steps } => {
            for side in sides {
                side.move_clock(*steps * STEP);
            }
        }
        Step::LoseData => sides.iter_mut().for_each(Side::lose_data),
        // A closed slice has nothing to write to.
        Step::Foreign(_) if matches!(sides[0].found.fence, Some(Fence::Closed(_))) => {}
        Step::Foreign(what) => {
            for side in sides {
                side.written_by_another(what);
            }
        }
    }
    answers
}

/// What holds as long as only gateways write: outside a rebuild, the public sets are what the
/// claims say, and so are the figures.
fn shows_the_claims(side: &Side<'_>, claims: &[ClaimedUser], sets: &[Vec<UserId>; 2]) -> bool {
    let mut expected = [Vec::new(), Vec::new()];
    let mut guests = 0;
    for claimed in claims {
        if claimed.user.is_guest() {
            guests += 1;
            continue;
        }
        expected[0].push(claimed.user.clone());
        if claimed.by.iter().any(|(_, claim)| *claim == Claim::Fan) {
            expected[1].push(claimed.user.clone());
        }
    }
    let size = side.found.size;
    if size.rebuild || size.differs {
        let mut both = sets.iter().zip(&expected);
        return both.all(|(set, expected)| expected.iter().all(|user| set.contains(user)));
    }
    let counted = [size.card - size.guests, size.fans, size.guests];
    let [members, fans] = expected.each_ref().map(|users| users.len() as u64);
    let is_counted = counted == [members, fans, guests] || side.found.fence.is_none();
    side.found.is_intact && *sets == expected && is_counted
}

async fn run(history: &[Step], redis: &Redis) -> Result<(), TestCaseError> {
    redis.empty();
    let slice = Box::default();
    let mut sides = [
        Side::of(Place::Model { slice, off: 0 }),
        Side::of(Place::Redis(redis)),
    ];
    let mut sent = Sent {
        epoch: 2,
        ..Sent::default()
    };
    let mut only_gateways = true;
    for (at, step) in history.iter().enumerate() {
        only_gateways &= !matches!(step, Step::Foreign(_));
        let [wanted, got] = take(step, &mut sides, &mut sent).await;
        prop_assert_eq!(wanted, got, "the answer to step {}", at);
        let (wanted, got) = (sides[0].stands().await, sides[1].stands().await);
        prop_assert_eq!(&wanted, &got, "after step {}", at);
        let (_, claims, sets) = wanted;
        let shows = shows_the_claims(&sides[0], &claims, &sets);
        prop_assert!(shows || !only_gateways, "after step {}: {:?}", at, claims);
    }
    Ok(())
}

#[test]
fn both_stores_agree_on_the_history_of_a_slice() {
    let histories = prop::collection::vec(steps(), 1..70);
    agree_on(&histories, &async |history, redis| {
        run(&history, redis).await
    });
}

#[test]
fn both_stores_agree_on_a_slice_that_other_programs_write_to() {
    let histories = prop::collection::vec(steps_with_others(), 1..70);
    agree_on(&histories, &async |history, redis| {
        run(&history, redis).await
    });
}
