//! Another program writes into the sets of a live, by mistake. Whatever it does to whichever key,
//! the gateways find out by themselves and everything is right again within [`bound`], whether the
//! live is quiet or people come and go.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rollcall::base::ids::UserId;
use rollcall::config::Config;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::audit::nothing_is_wrong;
use crate::support::foreign::{Meddling, back_up, tidy};
use crate::support::redis_view::Redis;
use crate::support::stores::story;
use crate::support::viewer::Viewer;
use crate::support::wait::{PATIENCE, becomes, fits, same, throughout, until};
use crate::support::witness::{Truth, Witness};
use crate::support::world::World;

/// The fans who stay in each live, on all gateways in turn.
const FANS: usize = 6;
/// A viewer who does not follow the streamer.
const PLAIN: &str = "w0";
/// At most so many things happen in one trial.
const MOST_PLACES: usize = 64;
/// A little longer than a flush, so that a join and the leave after it are in two of them.
const BETWEEN_FLUSHES: Duration = Duration::from_millis(60);
/// How many slices the users online are spread over.
const ONLINE_SLICES: u32 = 64;

fn quick_checks(config: &mut Config) {
    config.check_every = Duration::from_secs(3);
    // The same people are in many lives.
    config.message_rate = 0;
    config.sockets_per_user = 0;
}

/// A foreign write is repaired within this time.
pub(super) fn bound(world: &World) -> Duration {
    world.config.check_every + Duration::from_secs(15)
}

/// Whose set it is to which something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    /// The fans in a slice of a live.
    Fans,
    /// All viewers in it.
    Viewers,
    /// The users in a slice of the platform.
    Users,
}

impl Of {
    /// The key of the set, by that of the slice.
    pub(super) fn set(self, slice: &str) -> String {
        match self {
            Self::Fans | Self::Users => slice.to_owned(),
            Self::Viewers => format!("{{{slice}}}:viewers"),
        }
    }
}

/// The key to which something happens, named after the slice to which it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Set,
    /// The claims.
    Who,
    Entries,
    Fence,
}

impl Target {
    /// What every slice has.
    const ALL: &'static [Self] = &[Self::Set, Self::Who, Self::Entries, Self::Fence];

    /// The key, given the slice.
    pub(super) fn key(self, of: Of, slice: &str) -> String {
        match self {
            Self::Set => of.set(slice),
            Self::Who => format!("{{{slice}}}:who"),
            Self::Entries => format!("{{{slice}}}:gateways"),
            Self::Fence => format!("{{{slice}}}:fence"),
        }
    }

    /// What can happen to it.
    pub(super) fn meddlings(self) -> &'static [Meddling] {
        match self {
            Self::Set | Self::Who => Meddling::ALL,
            Self::Entries => Meddling::OF_ENTRIES,
            Self::Fence => Meddling::OF_A_FENCE,
        }
    }
}

/// Whether people come and go while the other program writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    Quiet,
    /// Somebody comes or leaves in nearly every flush, so that sizes change for good reason, too.
    Busy,
}

/// A slice, and what happens to one of its keys.
#[derive(Debug)]
struct Place {
    target: Target,
    meddling: Meddling,
    of: Of,
    slice: String,
    /// The live; none for the users online.
    live: Option<String>,
    /// Who belongs there for good, by gateway.
    members: BTreeMap<String, BTreeSet<String>>,
    /// Who comes and goes.
    comer: String,
    /// Who leaves between the backup and its return.
    older: String,
}

impl Place {
    /// The key to which it happens.
    fn key(&self) -> String {
        self.target.key(self.of, &self.slice)
    }

    /// The key of its set.
    fn set(&self) -> String {
        self.of.set(&self.slice)
    }

    fn everybody(&self) -> BTreeSet<String> {
        self.members.values().flatten().cloned().collect()
    }

    /// Nothing if the slice and its companions hold exactly who should be there; otherwise what is
    /// wrong.
    async fn is_right(&self, redis: &Redis) -> Result<(), String> {
        let mut there = redis.members_of(&self.set()).await;
        there.remove(&self.comer);
        same(there, self.everybody()).map_err(|wrong| format!("{}: {wrong}", self.set()))?;
        let claims = claims_in(redis, &self.slice).await;
        for (gateway, members) in &self.members {
            let Some(claimed) = claims.get(gateway) else {
                return Err(format!("{gateway} has no entry in {}", self.slice));
            };
            let mut claimed = claimed.clone();
            claimed
                .retain(|(user, is_fan)| *user != self.comer && (*is_fan || self.of != Of::Fans));
            let users: BTreeSet<String> = claimed.into_iter().map(|(user, _)| user).collect();
            same(users, members.clone())
                .map_err(|wrong| format!("claims of {gateway}: {wrong}"))?;
        }
        let fence = redis
            .ask(&["TYPE", &Target::Fence.key(self.of, &self.slice)])
            .await;
        if fence == "none" || fence == "list" {
            return Err(format!("the fence is of type {fence}"));
        }
        Ok(())
    }
}

/// Whom each gateway with an entry claims in a slice, and whether as a fan.
async fn claims_in(redis: &Redis, slice: &str) -> BTreeMap<String, BTreeSet<(String, bool)>> {
    let entries = fields_of(redis, &format!("{{{slice}}}:gateways")).await;
    let who = fields_of(redis, &format!("{{{slice}}}:who")).await;
    let mut claims = BTreeMap::new();
    for (gateway, entry) in entries {
        let token = entry.split(':').next().unwrap_or_default();
        let mut claimed = BTreeSet::new();
        for (user, value) in &who {
            for claim in value.split(' ').skip(1) {
                let plain = claim.split('=').next().unwrap_or_default();
                if plain.strip_suffix('f').unwrap_or(plain) == token {
                    claimed.insert((user.clone(), plain.ends_with('f')));
                }
            }
        }
        claims.insert(gateway, claimed);
    }
    claims
}

/// The fields of a hash with their values; none if the key is absent or of another type.
async fn fields_of(redis: &Redis, key: &str) -> Vec<(String, String)> {
    let read = redis.try_ask(&["HGETALL", key]).await.unwrap_or_default();
    let words: Vec<&str> = read
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    words
        .chunks_exact(2)
        .map(|pair| (pair[0].to_owned(), pair[1].to_owned()))
        .collect()
}

/// Gateways on one Redis, and slices to each of which something else happens.
struct Trial {
    worlds: Vec<World>,
    gateways: Vec<String>,
    places: Vec<Place>,
    people: Vec<Viewer>,
}

impl Trial {
    async fn on(gateways: usize, tune: fn(&mut Config)) -> Self {
        let first = World::on_redis(tune).await;
        first.crowd_follows("u", FANS).await;
        first.crowd_follows("comer", MOST_PLACES).await;
        first.follow_as_the_platform(&["older"]).await;
        let mut worlds = Vec::new();
        for _ in 1..gateways {
            worlds.push(first.another_gateway().await);
        }
        worlds.push(first);
        let mut ids = Vec::new();
        for world in &worlds {
            ids.push(world.gateway_id().await);
        }
        Self {
            worlds,
            gateways: ids,
            places: Vec::new(),
            people: Vec::new(),
        }
    }

    fn redis(&self) -> &Redis {
        self.worlds[0].redis()
    }

    /// Opens a live for each thing that can happen to these keys, with fans and a viewer on all
    /// gateways. It happens to the fans or to all viewers.
    async fn open_lives(&mut self, targets: &[Target], of: Of) {
        for target in targets {
            for meddling in target.meddlings() {
                let live = format!("{target:?}-{}", meddling.name());
                let comer = format!("comer{}", self.places.len());
                self.worlds[0].open(&live).await;
                let names = (0..FANS).map(|n| format!("u{n}")).chain([PLAIN.to_owned()]);
                let mut members: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
                for (n, name) in names.enumerate() {
                    let gateway = n % self.worlds.len();
                    self.people
                        .push(self.worlds[gateway].viewer_in(&name, &live).await);
                    if of == Of::Viewers || name != PLAIN {
                        members
                            .entry(self.gateways[gateway].clone())
                            .or_default()
                            .insert(name);
                    }
                }
                self.places.push(Place {
                    target: *target,
                    meddling: *meddling,
                    of,
                    slice: format!("online-fans:{live}"),
                    live: Some(live),
                    members,
                    comer,
                    older: "older".to_owned(),
                });
            }
        }
        self.all_right_within(PATIENCE, "before anything happened")
            .await;
        self.all_exact_within(PATIENCE).await;
    }

    /// Connects users of another slice of the users online for each thing that can happen to these
    /// keys.
    async fn fill_online_slices(&mut self, targets: &[Target]) {
        for target in targets {
            for meddling in target.meddlings() {
                let k = self.places.len() as u32 + 1;
                let mut names = names_in_online_slice(k, FANS + 2);
                let [older, comer] = [names.pop().unwrap(), names.pop().unwrap()];
                let mut members: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
                for (n, name) in names.into_iter().enumerate() {
                    let gateway = n % self.worlds.len();
                    self.people.push(self.worlds[gateway].viewer(&name).await);
                    members
                        .entry(self.gateways[gateway].clone())
                        .or_default()
                        .insert(name);
                }
                let slice = format!("online-users_slice{k}");
                let (target, meddling) = (*target, *meddling);
                let of = Of::Users;
                self.places.push(Place {
                    target,
                    meddling,
                    of,
                    slice,
                    live: None,
                    members,
                    comer,
                    older,
                });
            }
        }
        self.all_right_within(PATIENCE, "before anything happened")
            .await;
    }

    /// Takes the backups that are restored later. Somebody leaves after that, so each is out of
    /// date by then.
    async fn back_up_and_go_on(&self) {
        let mut leaving = Vec::new();
        for place in self
            .places
            .iter()
            .filter(|place| place.meddling == Meddling::RestoreOlder)
        {
            leaving.push(match &place.live {
                Some(live) => self.worlds[0].viewer_in(&place.older, live).await,
                None => self.worlds[0].viewer(&place.older).await,
            });
            until("the one who will leave is there", PATIENCE, async || {
                fits(self.redis().members_of(&place.set()).await, |there| {
                    there.contains(&place.older)
                })
            })
            .await;
            let key = place.key();
            assert_eq!(
                self.redis().meddle(&back_up(&key)).await,
                "backed up",
                "{key}"
            );
        }
        for viewer in leaving {
            viewer.close().await;
        }
        self.all_right_within(PATIENCE, "after the backup").await;
    }

    /// The other program does something else to each place.
    async fn meddle(&self) {
        for place in &self.places {
            let key = place.key();
            let done = self.redis().meddle(&place.meddling.command(&key)).await;
            assert!(!done.starts_with("no"), "{key}: {done}");
        }
        // What expires is gone only a moment later.
        sleep(Duration::from_millis(300)).await;
    }

    /// Waits until every place is right; names all that are not at the deadline.
    async fn all_right_within(&self, within: Duration, when: &str) {
        let deadline = Instant::now() + within;
        loop {
            let mut wrong = Vec::new();
            for place in &self.places {
                if let Err(why) = place.is_right(self.redis()).await {
                    wrong.push(format!(
                        "{:?} {}: {why}",
                        place.target,
                        place.meddling.name()
                    ));
                }
            }
            if wrong.is_empty() {
                return;
            }
            let late = Instant::now() >= deadline;
            assert!(
                !late,
                "{} of {} not right {when}, after {within:?}:\n    {}",
                wrong.len(),
                self.places.len(),
                wrong.join("\n    ")
            );
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until every gateway calls the right figures of every live exact.
    async fn all_exact_within(&self, within: Duration) {
        let deadline = Instant::now() + within;
        let right = (FANS as u64 + 1, FANS as u64);
        for live in self.places.iter().filter_map(|place| place.live.as_ref()) {
            for world in &self.worlds {
                let left = deadline.saturating_duration_since(Instant::now());
                world.figures_become_exact(live, right, left).await;
            }
        }
    }

    /// Somebody comes to each place and leaves it again and again, each on another gateway. At last
    /// all have left.
    async fn people_come_and_go_until(&self, over: &AtomicBool) {
        let mut comers = Vec::new();
        for (n, place) in self.places.iter().enumerate() {
            let world = &self.worlds[n % self.worlds.len()];
            let here = if place.live.is_some() {
                Some(world.viewer(&place.comer).await)
            } else {
                None
            };
            comers.push(Comer { world, place, here });
        }
        while !over.load(Ordering::SeqCst) {
            for comer in &mut comers {
                comer.comes().await;
            }
            sleep(BETWEEN_FLUSHES).await;
            for comer in &mut comers {
                comer.leaves().await;
            }
            sleep(BETWEEN_FLUSHES).await;
        }
    }

    /// A witness of each live on each gateway.
    async fn witnesses(&self) -> Vec<Witness> {
        let mut witnesses = Vec::new();
        for live in self.places.iter().filter_map(|place| place.live.as_ref()) {
            for world in &self.worlds {
                witnesses.push(Witness::watches(world, live).await);
            }
        }
        witnesses
    }

    /// How many members were found wrong in this way, by all gateways together.
    async fn drifted(&self, why: &str) -> f64 {
        let mut sum = 0.0;
        for world in &self.worlds {
            sum += world
                .metric(&format!("rollcall_drift_members_total{{why=\"{why}\"}}"))
                .await;
        }
        sum
    }

    /// Everything happens at once. All of it is repaired, and in a quiet live nothing wrong is
    /// called exact for longer than that may take.
    async fn goes_on_till_repaired(self, pace: Pace) {
        self.back_up_and_go_on().await;
        let bound = bound(&self.worlds[0]);
        let witnesses = self.witnesses().await;
        let mut truth = Truth::default();
        truth.becomes(FANS as u64 + 1, FANS as u64);
        let over = AtomicBool::new(false);
        let damage_and_repair = async {
            let meddled = Instant::now();
            self.meddle().await;
            self.all_right_within(
                bound.saturating_sub(meddled.elapsed()),
                "after the foreign writes",
            )
            .await;
            over.store(true, Ordering::SeqCst);
        };
        match pace {
            Pace::Quiet => damage_and_repair.await,
            Pace::Busy => drop(tokio::join!(
                self.people_come_and_go_until(&over),
                damage_and_repair
            )),
        }
        self.all_exact_within(bound).await;
        if pace == Pace::Quiet {
            for witness in &witnesses {
                witness.told_no_lie_longer_than(bound, &truth, Duration::ZERO);
            }
        }
        for place in &self.places {
            self.redis().meddle(&tidy(&place.key())).await;
        }
        nothing_is_wrong(&self.redis().url(), bound).await;
        self.all_right_within(PATIENCE, "at rest").await;
        let [missing, stray] = [self.drifted("missing").await, self.drifted("stray").await];
        assert!(
            missing >= 1.0 && stray >= 1.0,
            "what was lost is counted: {missing} missing, {stray} stray"
        );
        for world in &self.worlds {
            becomes("no drift is left", 0.0, async || {
                world.metric("rollcall_slices_out_of_order").await
            })
            .await;
        }
    }
}

/// The first names that are in this slice of the users online.
fn names_in_online_slice(k: u32, n: usize) -> Vec<String> {
    let names = (0..).map(|n| format!("o{n}"));
    names
        .filter(|name| UserId::parse(name).unwrap().slice_index(ONLINE_SLICES) == k)
        .take(n)
        .collect()
}

/// Somebody who comes and goes.
struct Comer<'a> {
    world: &'a World,
    place: &'a Place,
    /// The socket; in a live it stays.
    here: Option<Viewer>,
}

impl Comer<'_> {
    async fn comes(&mut self) {
        match (&self.place.live, &mut self.here) {
            (Some(live), Some(viewer)) => drop(viewer.join(live).await),
            (_, here) => *here = Some(self.world.viewer(&self.place.comer).await),
        }
    }

    async fn leaves(&mut self) {
        match (&self.place.live, &mut self.here) {
            (Some(_), Some(viewer)) => drop(viewer.leave().await),
            (_, here) => {
                if let Some(viewer) = here.take() {
                    viewer.close().await;
                }
            }
        }
    }
}

async fn fans_of(gateways: usize, pace: Pace) {
    let mut trial = Trial::on(gateways, quick_checks).await;
    trial.open_lives(Target::ALL, Of::Fans).await;
    trial.goes_on_till_repaired(pace).await;
}

async fn viewers_of(gateways: usize, pace: Pace) {
    let mut trial = Trial::on(gateways, quick_checks).await;
    trial.open_lives(Target::ALL, Of::Viewers).await;
    trial.goes_on_till_repaired(pace).await;
}

async fn users_online_of(gateways: usize, pace: Pace) {
    let mut trial = Trial::on(gateways, quick_checks).await;
    trial.fill_online_slices(Target::ALL).await;
    trial.goes_on_till_repaired(pace).await;
}

macro_rules! repaired {
    ($($name:ident = $trial:expr;)*) => {
        $(
            #[test]
            fn $name() {
                story($trial);
            }
        )*
    };
}

repaired! {
    fans_of_one_gateway_in_quiet_lives = fans_of(1, Pace::Quiet);
    fans_of_two_gateways_in_busy_lives = fans_of(2, Pace::Busy);
    fans_of_three_gateways_in_quiet_lives = fans_of(3, Pace::Quiet);
    all_viewers_of_one_gateway_in_busy_lives = viewers_of(1, Pace::Busy);
    all_viewers_of_two_gateways_in_quiet_lives = viewers_of(2, Pace::Quiet);
    all_viewers_of_three_gateways_in_busy_lives = viewers_of(3, Pace::Busy);
    users_online_of_one_gateway_who_stay = users_online_of(1, Pace::Quiet);
    users_online_of_two_gateways_who_come_and_go = users_online_of(2, Pace::Busy);
    users_online_of_three_gateways_who_stay = users_online_of(3, Pace::Quiet);
}

/// Two gateways with so many fans of a live between them.
async fn fans_on_two_gateways(fans: usize) -> (World, World, Vec<Viewer>) {
    let here = World::on_redis(|config| {
        quick_checks(config);
        // Many clients of a debug build on a busy machine need so long to answer their Pings.
        config.heartbeat = Duration::from_secs(1);
        config.timeout = Duration::from_secs(4);
    })
    .await;
    here.open("42").await;
    here.crowd_follows("u", fans).await;
    let there = here.another_gateway().await;
    let mut crowd = Vec::new();
    for n in 0..fans {
        let world = if n % 2 == 0 { &here } else { &there };
        crowd.push(world.viewer_in(&format!("u{n}"), "42").await);
    }
    here.card_becomes("42", fans as u64, PATIENCE).await;
    (here, there, crowd)
}

fn names(crowd: &[Viewer]) -> BTreeSet<String> {
    crowd.iter().map(|viewer| viewer.user.clone()).collect()
}

async fn fans_become(world: &World, crowd: &[Viewer]) {
    until("the fans", bound(world), async || {
        same(world.redis().fans("42").await, names(crowd))
    })
    .await;
}

/// The size is what it should be after the leave, so only who looks at the members finds the loss.
#[test]
fn a_fan_who_was_removed_by_hand_comes_back_although_another_leaves() {
    story(async {
        let (here, there, mut crowd) = fans_on_two_gateways(20).await;
        for leaves in 1..=3 {
            let lost = crowd[leaves].user.clone();
            assert_eq!(
                here.redis().ask(&["SREM", "online-fans:42", &lost]).await,
                1
            );
            crowd.pop().unwrap().close().await;
            fans_become(&here, &crowd).await;
        }
        for world in [&here, &there] {
            world.figures_become_exact("42", (17, 17), PATIENCE).await;
        }
        let missing = "rollcall_drift_members_total{why=\"missing\"}";
        assert!(here.metric(missing).await + there.metric(missing).await >= 3.0);
        nothing_is_wrong(&here.redis().url(), PATIENCE).await;
    });
}

/// The join hides the loss as the leave does: it makes up for the size.
#[test]
fn a_fan_who_was_removed_by_hand_comes_back_although_another_joins() {
    story(async {
        let (here, there, mut crowd) = fans_on_two_gateways(20).await;
        here.follow_as_the_platform(&["late"]).await;
        assert_eq!(here.redis().ask(&["SREM", "online-fans:42", "u4"]).await, 1);
        crowd.push(there.viewer_in("late", "42").await);
        fans_become(&here, &crowd).await;
        nothing_is_wrong(&here.redis().url(), PATIENCE).await;
    });
}

/// The largest live in which this is promised; in a larger one the search takes longer.
#[test]
fn a_fan_who_was_replaced_comes_back_among_a_thousand_too() {
    story(async {
        let (here, _there, crowd) = fans_on_two_gateways(1_000).await;
        here.redis()
            .meddle(&Meddling::Swap.command("online-fans:42"))
            .await;
        until("the fans", bound(&here), async || {
            let there = here.redis().fans("42").await;
            let wrong: Vec<_> = there
                .symmetric_difference(&names(&crowd))
                .cloned()
                .collect();
            if wrong.is_empty() {
                Ok(())
            } else {
                Err(format!("wrong about {wrong:?}"))
            }
        })
        .await;
    });
}

/// In which live a user is, as a gateway says; nothing while a key is unreadable.
async fn whereabouts(world: &World, user: &str) -> Value {
    let said = world
        .backend()
        .post("/v1/online/query", json!({"user_ids": [user]}))
        .await
        .body;
    json!([said["items"][0]["online"], said["items"][0]["live_id"]])
}

#[test]
fn where_users_are_is_known_again_whatever_happens_to_the_key() {
    story(async {
        let here = World::on_redis(quick_checks).await;
        let there = here.another_gateway().await;
        let mut people = Vec::new();
        let mut places = Vec::new();
        for (k, meddling) in (1..).zip(Meddling::ALL.iter().copied()) {
            let live = format!("in-{}", meddling.name());
            here.open(&live).await;
            let names = names_in_online_slice(k, 4);
            for (n, name) in names.iter().enumerate() {
                let world = if n % 2 == 0 { &here } else { &there };
                people.push(world.viewer_in(name, &live).await);
            }
            places.push((
                meddling,
                format!("{{online-users_slice{k}}}:who"),
                live,
                names,
            ));
        }
        let all_right = async || {
            let mut wrong = Vec::new();
            for (meddling, _, live, names) in &places {
                for name in names {
                    let said = whereabouts(&here, name).await;
                    if said != json!([true, live]) {
                        wrong.push(format!("{meddling:?}: {name} is in {said}, not in {live}"));
                    }
                }
            }
            if wrong.is_empty() {
                Ok(())
            } else {
                Err(wrong.join("; "))
            }
        };
        until("all are found", PATIENCE, &all_right).await;
        let (older, key, live, names) = places.last().unwrap();
        assert_eq!(*older, Meddling::RestoreOlder);
        // The last one was not there yet when the backup was taken.
        people.pop().unwrap().close().await;
        becomes("the last one has left", json!(false), async || {
            whereabouts(&here, names.last().unwrap()).await[0].clone()
        })
        .await;
        here.redis().meddle(&back_up(key)).await;
        people.push(there.viewer_in(names.last().unwrap(), live).await);
        until("all are found", PATIENCE, &all_right).await;
        for (meddling, key, ..) in &places {
            here.redis().meddle(&meddling.command(key)).await;
        }
        sleep(Duration::from_millis(150)).await;
        until("all are found again", bound(&here), &all_right).await;
        throughout("all stay found", here.config.check_every * 2, all_right).await;
        for (_, key, ..) in &places {
            here.redis().meddle(&tidy(key)).await;
        }
        nothing_is_wrong(&here.redis().url(), PATIENCE).await;
    });
}
