//! The platform's moderation: bans of the platform and of streamers, and moderators, which come and
//! go at any gateway, whatever happens to it and to the others; and what must be true of them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::crowd::{Mode, Surroundings, derived};
use crate::expectation::{Live, User};
use crate::world::World;

/// How often the platform does something, in seconds.
const PACE: std::ops::Range<f64> = 1.0..6.0;

/// For how long the platform tries to change a rule.
const PATIENCE: Duration = Duration::from_secs(120);

/// A call about a rule arrives within this, or never: the longest fault, and the repair. So a rule
/// that was lifted is not made again sooner, and a moderator is not dismissed sooner.
const LATE: Duration = Duration::from_secs(75);

/// A gateway looks at the rules so often.
const LOOKED_AT: Duration = Duration::from_secs(1);

/// All gateways that are well know a rule after this.
const KNOWN: Duration = Duration::from_secs(10);

/// A process runs once a turn, so that each of so many calls in a row takes a turn.
const CALLS_IN_A_ROW: u32 = 10;

/// A rule, named by the numbers of the simulation. A streamer is known by the one live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SimulatedRule {
    Ban(User),
    StreamerBan(Live, User),
    Moderator(Live, User),
}

impl SimulatedRule {
    fn user(self) -> User {
        match self {
            Self::Ban(user) | Self::StreamerBan(_, user) | Self::Moderator(_, user) => user,
        }
    }

    /// The live in which it holds; `None` if it holds in all.
    fn live(self) -> Option<Live> {
        match self {
            Self::Ban(_) => None,
            Self::StreamerBan(live, _) | Self::Moderator(live, _) => Some(live),
        }
    }

    fn is_ban(self) -> bool {
        !matches!(self, Self::Moderator(..))
    }

    /// The list that it is in.
    fn list(self, world: &World) -> String {
        match self {
            Self::Ban(_) => "/v1/bans".to_owned(),
            Self::StreamerBan(live, _) => format!("/v1/streamers/{}/bans", world.streamer_id(live)),
            Self::Moderator(live, _) => {
                format!("/v1/streamers/{}/moderators", world.streamer_id(live))
            }
        }
    }

    fn path(self, world: &World) -> String {
        format!("{}/{}", self.list(world), world.user_id(self.user()))
    }
}

/// What is true of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RuleState {
    /// It may be in force, or not.
    Unsure,
    /// It is in force since this answer, until then.
    Made(Instant, Option<Instant>),
    /// It is not in force since this answer.
    Lifted(Instant),
}

#[derive(Debug, Clone, Copy)]
struct RuleStanding {
    state: RuleState,
    /// When somebody last asked to make it or to lift it.
    asked: Instant,
    /// When somebody last asked to make it.
    made: Instant,
    /// When somebody last asked to lift it.
    lifted: Option<Instant>,
}

/// The rules that were ever made.
#[derive(Debug, Default)]
pub(crate) struct RulesInForce {
    rules: Mutex<BTreeMap<SimulatedRule, RuleStanding>>,
    /// When the store last lost data. What was asked before may be lost, too.
    lost_at: Mutex<Option<Instant>>,
}

impl RulesInForce {
    /// Whether a user moderates in a live; `None` if that is not known.
    pub(crate) fn moderates(&self, user: User, live: Live) -> Option<bool> {
        let rules = self.rules.lock();
        match rules.get(&SimulatedRule::Moderator(live, user))?.state {
            RuleState::Unsure => None,
            RuleState::Made(..) => Some(true),
            RuleState::Lifted(_) => Some(false),
        }
    }

    fn state(&self, rule: SimulatedRule) -> Option<RuleState> {
        Some(self.rules.lock().get(&rule)?.state)
    }

    fn set(&self, rule: SimulatedRule, state: RuleState) {
        let lost_at = *self.lost_at.lock();
        if let Some(standing) = self.rules.lock().get_mut(&rule) {
            let may_be_lost = lost_at.is_some_and(|lost| standing.asked <= lost);
            standing.state = if may_be_lost {
                RuleState::Unsure
            } else {
                state
            };
        }
    }

    fn asks(&self, rule: SimulatedRule, makes: bool) {
        let now = Instant::now();
        let mut rules = self.rules.lock();
        let standing = rules.entry(rule).or_insert(RuleStanding {
            state: RuleState::Unsure,
            asked: now,
            made: now,
            lifted: None,
        });
        (standing.state, standing.asked) = (RuleState::Unsure, now);
        match makes {
            true => standing.made = now,
            false => standing.lifted = Some(now),
        }
    }

    /// Whether no call that lifts the rule may arrive any more, so that it may be made.
    fn may_be_made(&self, rule: SimulatedRule) -> bool {
        match self.rules.lock().get(&rule) {
            None => true,
            Some(standing) => {
                let is_lifted = matches!(standing.state, RuleState::Lifted(_));
                is_lifted && standing.lifted.is_none_or(|at| at.elapsed() > LATE)
            }
        }
    }

    /// The rules that may be lifted.
    fn to_lift(&self) -> Vec<SimulatedRule> {
        let rules = self.rules.lock();
        let may_be_lifted = |(rule, standing): &(&SimulatedRule, &RuleStanding)| {
            let may_be_in_force = !matches!(standing.state, RuleState::Lifted(_));
            may_be_in_force && (rule.is_ban() || standing.made.elapsed() > LATE)
        };
        let rules = rules.iter().filter(may_be_lifted);
        rules.map(|(rule, _)| *rule).collect()
    }

    /// Whoever moderates or did so, with the live.
    fn moderators(&self) -> Vec<(Live, User)> {
        let rules = self.rules.lock();
        let moderators = rules.keys().filter_map(|rule| match rule {
            SimulatedRule::Moderator(live, user) => Some((*live, *user)),
            SimulatedRule::Ban(_) | SimulatedRule::StreamerBan(..) => None,
        });
        moderators.collect()
    }

    /// The rules that surely hold, and have held for so long.
    fn in_force(&self, long: Duration) -> Vec<SimulatedRule> {
        let now = Instant::now();
        let is_in_force = |standing: &RuleStanding| match standing.state {
            RuleState::Made(at, until) => at + long < now && until.is_none_or(|until| now < until),
            RuleState::Unsure | RuleState::Lifted(_) => false,
        };
        let rules = self.rules.lock();
        let in_force = rules.iter().filter(|(_, standing)| is_in_force(standing));
        in_force.map(|(rule, _)| *rule).collect()
    }

    /// From now on these rules may be in force, or not.
    fn doubt(&self, which: impl Fn(RuleState) -> bool) {
        for standing in self.rules.lock().values_mut() {
            if which(standing.state) {
                standing.state = RuleState::Unsure;
            }
        }
    }
}

/// A gateway that is well has carried a rule out within this time after it was made.
fn promised(world: &World) -> Duration {
    LOOKED_AT + world.timing.settled() + world.plan.turn * CALLS_IN_A_ROW
}

/// The bans that hold for sure. One with an end runs by the clock of the store.
fn bans(world: &World) -> Vec<SimulatedRule> {
    let rules = world.rules.in_force(promised(world));
    rules.into_iter().filter(|rule| rule.is_ban()).collect()
}

/// Nobody who is banned has a seat on a gateway that is well.
pub(crate) fn look(world: &World) {
    for rule in bans(world) {
        for live in 0..world.plan.lives {
            if rule.live().is_some_and(|of| of != live) {
                continue;
            }
            for gateway in 0..world.plan.gateways {
                if world.is_sound(gateway) && world.has_seat(gateway, live, rule.user()) {
                    let user = rule.user();
                    world.found(format!(
                        "u{user} has a seat in l{live} on gateway {gateway} in spite of {rule:?}"
                    ));
                }
            }
        }
    }
}

/// A gateway let a user in. Nobody may be who is banned, as far as the store could tell the gateway.
pub(crate) fn is_let_in(world: &World, user: User, live: Option<Live>, gateway: usize) {
    if !world.crowd.has_caught_up(gateway) || !world.crowd.is_up(gateway) {
        return;
    }
    for rule in bans(world) {
        let is_meant = rule.live().is_none() || rule.live() == live;
        if is_meant && rule.user() == user {
            world.found(format!(
                "gateway {gateway} let u{user} into {live:?} in spite of {rule:?}"
            ));
        }
    }
}

/// The starts of gateways that know the rules.
pub(crate) fn who_knows(world: &World) -> Vec<(usize, u32)> {
    let gateways = 0..world.plan.gateways;
    let know = gateways.filter(|gateway| world.is_sound(*gateway));
    know.map(|gateway| (gateway, world.crowd.start_of(gateway)))
        .collect()
}

/// The store has lost data, or has older data. Gateways write back the rules that they know; what
/// was lifted may come back.
pub(crate) fn data_is_lost(world: &World) {
    let now = Instant::now();
    *world.rules.lost_at.lock() = Some(now);
    world.rules.doubt(|state| match state {
        RuleState::Made(at, _) => now < at + KNOWN,
        RuleState::Lifted(_) | RuleState::Unsure => true,
    });
}

/// The repair is over. If those who knew the rules are gone, so may be the rules.
pub(crate) fn data_is_back(world: &World, knew: &[(usize, u32)]) {
    let is_there = |(gateway, start): &(usize, u32)| {
        let trouble = world.truth().rules.troubles[*gateway];
        let is_well = trouble.is_none_or(|trouble| trouble.until.is_some());
        is_well && world.crowd.is_up(*gateway) && world.crowd.start_of(*gateway) == *start
    };
    if !knew.iter().any(is_there) {
        world.rules.doubt(|_| true);
    }
}

pub(crate) struct SimulatedModeration {
    world: Arc<World>,
    rng: StdRng,
}

impl SimulatedModeration {
    pub(crate) fn new(world: &Arc<World>) -> Self {
        Self {
            world: world.clone(),
            rng: StdRng::seed_from_u64(derived(world.plan.seed, "moderation")),
        }
    }

    /// Runs until everybody goes home.
    pub(crate) async fn run(mut self) {
        loop {
            sleep(Duration::from_secs_f64(self.rng.random_range(PACE))).await;
            let mode = *self.world.crowd.mode.borrow();
            match mode {
                Mode::GoHome => return,
                Mode::Rest => self.lift_all().await,
                Mode::Wander => self.act().await,
            }
        }
    }

    async fn act(&mut self) {
        match self.rng.random_range(0..12) {
            0..4 => {
                let rule = self.any_ban();
                if self.world.rules.may_be_made(rule) {
                    self.make(rule).await;
                }
            }
            4..6 => {
                let rule = self.world.rules.to_lift().into_iter().choose(&mut self.rng);
                if let Some(rule) = rule {
                    self.lift(rule).await;
                }
            }
            6..8 => {
                let rule = SimulatedRule::Moderator(self.any_live(), self.any_user(2..4));
                if self.world.rules.may_be_made(rule) {
                    self.make(rule).await;
                }
            }
            8..11 => self.try_to_moderate().await,
            _ => self.check_lists().await,
        }
    }

    fn any_live(&mut self) -> Live {
        self.rng.random_range(0..self.world.plan.lives)
    }

    /// Somebody whose number has one of these remainders: nobody is banned who moderates.
    fn any_user(&mut self, of_eight: std::ops::Range<u32>) -> User {
        let eights = (self.world.plan.people as u32 / 8).max(1);
        self.rng.random_range(0..eights) * 8 + self.rng.random_range(of_eight)
    }

    fn any_ban(&mut self) -> SimulatedRule {
        let user = self.any_user(4..8);
        match self.rng.random_bool(0.4) {
            true => SimulatedRule::Ban(user),
            false => SimulatedRule::StreamerBan(self.any_live(), user),
        }
    }

    async fn make(&mut self, rule: SimulatedRule) {
        let length = match rule.is_ban() && self.rng.random_bool(0.3) {
            true => Some(Duration::from_secs(self.rng.random_range(10..60))),
            false => None,
        };
        let body = match length {
            Some(length) => json!({"ban_s": length.as_secs()}),
            None => Value::Null,
        };
        if let Some(asked) = self.change(rule, Method::PUT, &body).await {
            // It began between the question and the answer. It ends by the clock of the store.
            let until = match (length, self.world.plan.steps_clock()) {
                (Some(_), true) => return,
                (length, _) => length.map(|length| asked + length),
            };
            let state = RuleState::Made(Instant::now(), until);
            self.world.rules.set(rule, state);
        }
    }

    async fn lift(&mut self, rule: SimulatedRule) {
        let asked = self.change(rule, Method::DELETE, &Value::Null).await;
        if asked.is_some() {
            let state = RuleState::Lifted(Instant::now());
            self.world.rules.set(rule, state);
        }
    }

    /// Asks one gateway after the other. When the one was asked that did it.
    async fn change(
        &mut self,
        rule: SimulatedRule,
        method: Method,
        body: &Value,
    ) -> Option<Instant> {
        let world = self.world.clone();
        let path = rule.path(&world);
        let began = Instant::now();
        let mut last = None;
        while began.elapsed() < PATIENCE {
            let makes = method == Method::PUT;
            if rule.is_ban() && makes {
                for live in 0..world.plan.lives {
                    if rule.live().is_none_or(|of| of == live) {
                        world.crowd.removing(rule.user(), live);
                    }
                }
            }
            world.rules.asks(rule, makes);
            let gateway = self.rng.random_range(0..world.plan.gateways);
            let asked = Instant::now();
            let answer = world.http(gateway, method.clone(), &path, body).await;
            let status = answer.as_ref().map(|(status, _)| *status);
            let told = format!("{method} {rule:?}: {status:?}");
            world.trace.tell(Some(gateway), &told);
            if status == Some(200) {
                return Some(asked);
            }
            last = answer.or(last);
            sleep(Duration::from_millis(300)).await;
        }
        world.found(format!(
            "{method} {path} was not done in {PATIENCE:?}: {last:?}"
        ));
        None
    }

    /// Lifts all bans, so that everybody may come.
    async fn lift_all(&mut self) {
        for rule in self.world.rules.to_lift() {
            if rule.is_ban() {
                self.lift(rule).await;
            }
        }
        // A call that had no answer may have been carried out since.
        for live in 0..self.world.plan.lives {
            for of in [SimulatedRule::Ban(0), SimulatedRule::StreamerBan(live, 0)] {
                let gateway = self.rng.random_range(0..self.world.plan.gateways);
                for user in self.listed(gateway, of).await.unwrap_or_default() {
                    let rule = match of {
                        SimulatedRule::Ban(_) => SimulatedRule::Ban(user),
                        _ => SimulatedRule::StreamerBan(live, user),
                    };
                    self.lift(rule).await;
                }
            }
        }
    }

    /// Whom a gateway lists; `None` if it does not answer.
    async fn listed(&self, gateway: usize, of: SimulatedRule) -> Option<Vec<User>> {
        let world = &self.world;
        let path = format!("{}?limit=1000", of.list(world));
        let (status, body) = world
            .http(gateway, Method::GET, &path, &Value::Null)
            .await?;
        let items = body["items"].as_array().filter(|_| status == 200)?;
        let number = |item: &Value| item["user_id"].as_str()?.strip_prefix('u')?.parse().ok();
        Some(items.iter().filter_map(number).collect())
    }

    /// A gateway that is well lists all rules that hold.
    async fn check_lists(&mut self) {
        let world = self.world.clone();
        let gateway = self.rng.random_range(0..world.plan.gateways);
        let rule = world.rules.in_force(promised(&world)).into_iter();
        let Some(rule) = rule.choose(&mut self.rng) else {
            return;
        };
        let before = world.rules.state(rule);
        let was_sound = world.is_sound(gateway);
        let Some(listed) = self.listed(gateway, rule).await else {
            return;
        };
        let still_holds = world.rules.in_force(Duration::ZERO).contains(&rule);
        let is_judged = was_sound && world.is_sound(gateway) && still_holds;
        if is_judged && world.rules.state(rule) == before && !listed.contains(&rule.user()) {
            world.found(format!(
                "gateway {gateway} does not list {rule:?}: {listed:?}"
            ));
        }
    }

    /// Somebody who moderates, or did so, looks at the live.
    async fn try_to_moderate(&mut self) {
        let world = self.world.clone();
        let moderators = world.rules.moderators().into_iter();
        let Some((live, user)) = moderators.choose(&mut self.rng) else {
            return;
        };
        let rule = SimulatedRule::Moderator(live, user);
        let gateway = self.rng.random_range(0..world.plan.gateways);
        let before = world.rules.state(rule);
        let was_caught_up = world.crowd.has_caught_up(gateway);
        let was_sound = world.is_sound(gateway);
        let path = format!("/v1/lives/{}", world.live_id(live));
        let token = world.token(user);
        let answer = world
            .http_with(gateway, Method::GET, &path, &Value::Null, &token)
            .await;
        let Some((status, _)) = answer else {
            return;
        };
        if world.rules.state(rule) != before {
            return;
        }
        let long = promised(&world);
        let is_wrong = match before {
            Some(RuleState::Made(at, _)) => {
                at.elapsed() > long && was_sound && world.is_sound(gateway) && status == 403
            }
            Some(RuleState::Lifted(at)) => {
                at.elapsed() > long
                    && was_caught_up
                    && world.crowd.has_caught_up(gateway)
                    && status == 200
            }
            _ => false,
        };
        if is_wrong {
            world.found(format!(
                "gateway {gateway} answered u{user}, who is {before:?} as {rule:?}, with {status}"
            ));
        }
    }
}
