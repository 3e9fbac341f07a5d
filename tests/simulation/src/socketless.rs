//! One device of a person that opens no WebSocket: it joins a live by an HTTP request, and stays by
//! beats, which any gateway takes; half of the devices send most of them by datagram. It switches to
//! other lives, leaves, falls silent and goes on as its random generator says, and notes what it was
//! answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use crate::datagrams::Datagrams;
use crate::expectation::{Beat, How, Live, Place, User};
use crate::network::derived;
use crate::oracle;
use crate::session_claims::epoch_of;
use crate::world::{Answer, Asked, Mode, World};

/// A device does something each so often, on average, in seconds.
const PACE: f64 = 25.0;

/// How long a device is silent that goes on with its session, in seconds.
const SILENCE: std::ops::Range<f64> = 3.0..60.0;

/// A beat that no gateway took is sent again within this.
const AGAIN_WITHIN: Duration = Duration::from_secs(1);

/// A device sends its last beat so long after it has left, as a request may have been on its way
/// for so long, in seconds.
const LATE: std::ops::Range<f64> = 1.5..10.0;

/// Somebody who has read an id sends beats with it, so long after one another, in seconds.
const LATER: std::ops::Range<f64> = 5.0..120.0;

/// So many of them.
const LATE_BEATS: usize = 8;

/// So long after an end the store has it, if the gateway that ended the session reaches the store.
const WRITTEN_WITHIN: Duration = Duration::from_secs(3);

/// What a gateway answers to the beat of a session that has ended.
const OVER: [&str; 3] = ["session_unknown", "removed", "too_many_sessions"];

/// What a gateway refuses a switch with because of the other live. It has taken the beat.
const OF_THE_OTHER_LIVE: [&str; 2] = ["live_not_open", "banned"];

pub(crate) struct SocketlessDevice {
    world: Arc<World>,
    user: User,
    rng: StdRng,
    mode: watch::Receiver<Mode>,
    /// Tells the devices of a user apart.
    number: usize,
    /// Whether it sends most of its beats by datagram.
    sends_datagrams: bool,
    /// Whether it sends its requests to one gateway as long as that takes them, as over a
    /// connection that is kept open. Otherwise a balancer sends each to any gateway.
    keeps_connection: bool,
}

/// A session, as its device knows it.
struct Session<'a> {
    device: &'a mut SocketlessDevice,
    /// What the gateways call it.
    id: String,
    live: Live,
    /// The opening of the live that it is in: a gateway that is cut off may know only an earlier one
    /// than its back end does.
    epoch: u64,
    /// The gateways that have taken a beat of it, each with its place there.
    places: BTreeMap<usize, Place>,
    /// The gateway that answered last, unless it ended the connection.
    connected: Option<usize>,
    /// The gateway that is about to stop, as it said.
    stops: Option<usize>,
    beat_at: Instant,
    act_at: Instant,
    /// `None` if all its beats are requests.
    datagrams: Option<Datagrams>,
}

/// An id that is over: its session has ended, or has another id since a switch.
struct OldId {
    world: Arc<World>,
    user: User,
    id: String,
    live: Live,
    epoch: u64,
    rng: StdRng,
}

/// What a device asked for when it began a session.
struct NewSession {
    live: Live,
    place: Place,
    sent: Instant,
}

/// Whether a session goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Course {
    GoesOn,
    Over,
}

impl SocketlessDevice {
    pub(crate) fn new(world: &Arc<World>, user: User, number: usize) -> Self {
        let seed = derived(world.plan.seed, &format!("device {user} {number}"));
        let mut rng = StdRng::seed_from_u64(seed);
        Self {
            world: world.clone(),
            user,
            number,
            sends_datagrams: derived(seed, "datagrams").is_multiple_of(2),
            keeps_connection: rng.random_bool(0.5),
            rng,
            mode: world.mode.subscribe(),
        }
    }

    pub(crate) async fn run(mut self) {
        let mut wait = self.seconds(0.0..8.0);
        loop {
            sleep(wait).await;
            if self.wait_for_unrest().await == Mode::GoHome {
                return;
            }
            wait = match self.begin().await {
                Some(session) => {
                    session.run().await;
                    self.seconds(0.05..20.0)
                }
                None => self.seconds(0.3..3.0),
            };
        }
    }

    fn seconds(&mut self, range: std::ops::Range<f64>) -> Duration {
        Duration::from_secs_f64(self.rng.random_range(range))
    }

    fn idle(&mut self) -> Duration {
        Duration::from_secs_f64(-PACE * (1.0 - self.rng.random::<f64>()).ln())
    }

    /// Waits until people do not have to stay where they are.
    async fn wait_for_unrest(&mut self) -> Mode {
        match self.mode.wait_for(|mode| *mode != Mode::Rest).await {
            Ok(mode) => *mode,
            // The world ends.
            Err(_) => Mode::GoHome,
        }
    }

    /// A gateway that a balancer finds ready.
    fn any_gateway(&mut self, besides: Option<usize>) -> Option<usize> {
        (0..self.world.plan.gateways)
            .filter(|gateway| self.world.is_up(*gateway) && Some(*gateway) != besides)
            .choose(&mut self.rng)
    }

    fn any_live(&mut self) -> Live {
        self.rng.random_range(0..self.world.plan.lives)
    }

    fn tell(&self, gateway: usize, what: &str) {
        let what = format!("u{} {what}", self.user);
        self.world.trace.tell(Some(gateway), &what);
    }

    /// Begins a session. `None` if none began, as far as the device knows.
    async fn begin(&mut self) -> Option<Session<'_>> {
        let gateway = self.any_gateway(None)?;
        let live = self.any_live();
        let world = self.world.clone();
        let place = world.place(gateway);
        let role = if world.is_streamer(self.user) {
            "streamer"
        } else {
            "viewer"
        };
        let user_id = world.user_id(self.user);
        let path = format!("/v1/presence?user_id={user_id}&role={role}");
        let wish = json!({"live_id": world.live_id(live).as_str()});
        world.joining(self.user, live, place);
        let sent = Instant::now();
        let asked = world.ask(gateway, Method::POST, &path, &wish).await;
        self.tell(
            gateway,
            &format!("joins l{live} by HTTP: {}", status(&asked)),
        );
        let how = match asked {
            Asked::Answered(answer) if answer.status == 201 => {
                let joined = NewSession { live, place, sent };
                return self.is_in(joined, &answer);
            }
            Asked::Answered(_) | Asked::Nobody => How::Left,
            Asked::Unanswered => {
                world.seen_late(self.user);
                How::Unanswered
            }
        };
        world.left(self.user, live, place, how);
        world.seen_somewhere(self.user);
        None
    }

    /// A gateway answered that a session has joined.
    fn is_in(&mut self, joined: NewSession, answer: &Answer) -> Option<Session<'_>> {
        let world = self.world.clone();
        let NewSession { live, place, sent } = joined;
        let id = answer.body["session_id"].as_str().unwrap_or_default();
        let Some(epoch) = epoch_of(id) else {
            world.found(format!(
                "gateway {} answered {}",
                place.gateway, answer.body
            ));
            return None;
        };
        if world.epoch(live) == Some(epoch) {
            oracle::joined(&world, self.user, live, place.gateway, &answer.body);
        }
        world.joined(self.user, live, place, Some(epoch));
        let now = Instant::now();
        let beat = Beat {
            sent,
            answered: now,
        };
        world.beaten(self.user, live, epoch, place, beat);
        let beat_at = now + world.timing.heartbeat;
        let act_at = now + self.idle();
        let datagrams = if self.sends_datagrams {
            Datagrams::of(&answer.body, self.user, self.number)
        } else {
            None
        };
        Some(Session {
            device: self,
            id: id.to_owned(),
            live,
            epoch,
            places: BTreeMap::from([(place.gateway, place)]),
            connected: Some(place.gateway),
            stops: None,
            beat_at,
            act_at,
            datagrams,
        })
    }
}

impl Session<'_> {
    fn world(&self) -> Arc<World> {
        self.device.world.clone()
    }

    fn path(&self) -> String {
        format!("/v1/presence/{}", self.id)
    }

    async fn run(mut self) {
        let mut mode = self.device.mode.clone();
        loop {
            let present = *mode.borrow_and_update();
            if present == Mode::GoHome {
                let _ = self.leave().await;
                return;
            }
            let now = Instant::now();
            let course = if self.beat_at <= now {
                self.beat().await
            } else if self.act_at <= now {
                self.act_at = now + self.device.idle();
                if present == Mode::Wander {
                    self.act().await
                } else {
                    Course::GoesOn
                }
            } else {
                tokio::select! {
                    biased;
                    changed = mode.changed() => if changed.is_err() { return },
                    () = sleep_until(self.beat_at.min(self.act_at)) => {}
                }
                Course::GoesOn
            };
            if course == Course::Over {
                return;
            }
        }
    }

    async fn act(&mut self) -> Course {
        match self.device.rng.random_range(0..100) {
            0..40 => self.switch().await,
            40..65 => {
                if let Some(through) = self.leave().await {
                    self.beats_late(through).await;
                }
                Course::Over
            }
            65..90 => self.falls_silent().await,
            // The person is gone, and does not come back to this session.
            _ => Course::Over,
        }
    }

    /// Where the next request goes.
    fn gateway(&mut self) -> Option<usize> {
        if let Some(gateway) = self.connected
            && self.device.keeps_connection
            && self.device.world.listens(gateway)
        {
            return Some(gateway);
        }
        self.device.any_gateway(self.stops)
    }

    /// The session's place on a gateway.
    fn place(&mut self, gateway: usize) -> Place {
        let world = self.world();
        if let Some(place) = self.places.get(&gateway).copied()
            && place.start == world.start_of(gateway)
        {
            return place;
        }
        let place = world.place(gateway);
        self.places.insert(gateway, place);
        place
    }

    fn tries_again_soon(&mut self) -> Course {
        self.beat_at = Instant::now() + AGAIN_WITHIN.mul_f64(self.device.rng.random());
        Course::GoesOn
    }

    async fn beat(&mut self) -> Course {
        let Some(gateway) = self.gateway() else {
            return self.tries_again_soon();
        };
        let world = self.world();
        let place = self.place(gateway);
        world.beating(self.device.user, self.live, place);
        let sent = Instant::now();
        let asked = self.ask_to_stay(gateway).await;
        let told = format!("#{} beats l{}: {}", place.socket, self.live, status(&asked));
        self.device.tell(gateway, &told);
        match asked {
            Asked::Answered(answer) => self.answered(place, sent, &answer),
            Asked::Nobody => {
                self.connected = None;
                world.refused(self.device.user, self.live, place);
                self.tries_again_soon()
            }
            Asked::Unanswered => {
                self.connected = None;
                world.unanswered(self.device.user, self.live, place);
                world.seen_late(self.device.user);
                self.tries_again_soon()
            }
        }
    }

    /// Sends a beat, by datagram or as a request.
    async fn ask_to_stay(&mut self, gateway: usize) -> Asked {
        let world = self.world();
        let rng = &mut self.device.rng;
        if let Some(datagrams) = &mut self.datagrams
            && rng.random_bool(0.9)
        {
            if rng.random_bool(0.1) {
                datagrams.change_address();
            }
            self.device.tell(gateway, "sends a datagram");
            let live_id = world.live_id(self.live);
            return datagrams.beat(&world, gateway, live_id.as_str()).await;
        }
        world
            .ask(gateway, Method::POST, &self.path(), &Value::Null)
            .await
    }

    fn answered(&mut self, place: Place, sent: Instant, answer: &Answer) -> Course {
        let world = self.world();
        match answer.status {
            200 => {
                let live_id = world.live_id(self.live);
                if answer.body["live_id"] != live_id.as_str() {
                    world.found(format!(
                        "u{} sent a beat for {live_id} to gateway {}, which answered {}",
                        self.device.user, place.gateway, answer.body
                    ));
                }
                self.heard(place, sent);
                if let Some(next) = answer.body["session_id"].as_str() {
                    self.id = next.to_owned();
                    self.renew_datagrams(answer);
                }
                self.beat_at = sent + world.timing.heartbeat;
                self.connected = Some(place.gateway);
                self.stops = None;
                if answer.closes {
                    // The next beat goes elsewhere.
                    self.connected = None;
                    self.stops = Some(place.gateway);
                }
                Course::GoesOn
            }
            _ if is_over(answer) => {
                self.is_unknown(place);
                Course::Over
            }
            _ => {
                world.refused(self.device.user, self.live, place);
                world.seen_somewhere(self.device.user);
                self.connected = None;
                self.stops = Some(place.gateway);
                self.tries_again_soon()
            }
        }
    }

    /// Takes the ticket of an answer.
    fn renew_datagrams(&mut self, answer: &Answer) {
        let user = self.device.user;
        if let Some(datagrams) = &mut self.datagrams
            && let Some(newer) = Datagrams::of(&answer.body, user, self.device.number)
        {
            datagrams.renew(newer);
        }
    }

    /// A gateway has taken a beat, and has the session from now on.
    fn heard(&self, place: Place, sent: Instant) {
        let beat = Beat {
            sent,
            answered: Instant::now(),
        };
        self.world()
            .beaten(self.device.user, self.live, self.epoch, place, beat);
    }

    /// A gateway does not know the session, or says that it has ended.
    fn is_unknown(&self, place: Place) {
        let world = self.world();
        let user = self.device.user;
        let is_over = world.epoch(self.live) != Some(self.epoch) || world.was_removed(user);
        if !is_over && !world.plan.loses_data() && world.is_sound(place.gateway) {
            world.found(format!(
                "gateway {} does not know a session of u{user} in l{}",
                place.gateway, self.live
            ));
        }
        world.refused(user, self.live, place);
        world.seen_somewhere(user);
    }

    /// Leaves through any gateway. Returns the one that says that the session has ended.
    async fn leave(&mut self) -> Option<usize> {
        let gateway = self.gateway()?;
        let world = self.world();
        let user = self.device.user;
        self.doubt_all();
        let asked = match &mut self.datagrams {
            Some(datagrams) => datagrams.leave(&world, gateway).await,
            None => {
                world
                    .ask(gateway, Method::DELETE, &self.path(), &Value::Null)
                    .await
            }
        };
        let told = format!("leaves l{}: {}", self.live, status(&asked));
        self.device.tell(gateway, &told);
        if matches!(asked, Asked::Unanswered) {
            world.seen_late(user);
        }
        let has_left = matches!(asked, Asked::Answered(answer) if answer.status == 204);
        if has_left {
            let places = self.places.values().copied().collect();
            world.left_everywhere(user, self.live, places, gateway);
        }
        has_left.then_some(gateway)
    }

    /// The id that the session has now, for somebody who keeps it.
    fn old_id(&mut self) -> OldId {
        OldId {
            world: self.world(),
            user: self.device.user,
            id: self.id.clone(),
            live: self.live,
            epoch: self.epoch,
            rng: StdRng::from_rng(&mut self.device.rng),
        }
    }

    /// From now on some gateways may not have the session.
    fn doubt_all(&self) {
        let world = self.world();
        for place in self.places.values() {
            world.leaving(self.device.user, self.live, *place);
        }
    }

    /// A beat that was sent before the session ended, and arrives after that.
    async fn beats_late(&mut self, through: usize) {
        tokio::spawn(self.old_id().be_tried(through));
        let ended = Instant::now();
        let late = self.device.seconds(LATE);
        sleep(late).await;
        let Some(gateway) = self.device.any_gateway(None) else {
            return;
        };
        let world = self.world();
        let place = self.place(gateway);
        world.beating(self.device.user, self.live, place);
        let sent = Instant::now();
        let asked = world
            .ask(gateway, Method::POST, &self.path(), &Value::Null)
            .await;
        let told = format!("beats late in l{}: {}", self.live, status(&asked));
        self.device.tell(gateway, &told);
        match asked {
            Asked::Answered(answer) if answer.status == 200 => {
                if world.was_told_since(ended) {
                    world.found(format!(
                        "gateway {gateway} took a late beat of u{} in l{}",
                        self.device.user, self.live
                    ));
                }
                self.heard(place, sent);
                self.doubt_all();
            }
            Asked::Unanswered => {
                world.unanswered(self.device.user, self.live, place);
                world.seen_late(self.device.user);
            }
            Asked::Answered(_) | Asked::Nobody => {
                world.refused(self.device.user, self.live, place);
                world.seen_somewhere(self.device.user);
            }
        }
    }

    /// Sends no beat for a while, and then goes on with the session.
    async fn falls_silent(&mut self) -> Course {
        let silence = self.device.seconds(SILENCE);
        sleep(silence).await;
        if self.device.wait_for_unrest().await == Mode::Wander {
            self.beat_at = Instant::now();
        }
        Course::GoesOn
    }

    /// Goes to another live. The session has another id from then on.
    async fn switch(&mut self) -> Course {
        let live = self.device.any_live();
        if live == self.live {
            return Course::GoesOn;
        }
        let Some(gateway) = self.gateway() else {
            return Course::GoesOn;
        };
        let world = self.world();
        let user = self.device.user;
        let here = self.place(gateway);
        let there = world.place(gateway);
        let wish = json!({"live_id": world.live_id(live).as_str()});
        self.doubt_all();
        world.beating(user, self.live, here);
        world.joining(user, live, there);
        let sent = Instant::now();
        let asked = world.ask(gateway, Method::POST, &self.path(), &wish).await;
        let told = format!("goes from l{} to l{live}: {}", self.live, status(&asked));
        self.device.tell(gateway, &told);
        match asked {
            Asked::Answered(answer) if answer.status == 200 => {
                let places = std::mem::take(&mut self.places).into_values().collect();
                world.left_everywhere(user, self.live, places, gateway);
                tokio::spawn(self.old_id().be_tried(gateway));
                let joined = NewSession {
                    live,
                    place: there,
                    sent,
                };
                self.goes_on_as(joined, &answer)
            }
            Asked::Answered(answer) => {
                world.left(user, live, there, How::Left);
                if is_over(&answer) {
                    self.is_unknown(here);
                    return Course::Over;
                }
                // Before a gateway looks for the other live, it takes the beat. One that is behind may
                // have taken none.
                self.heard(here, sent);
                if !OF_THE_OTHER_LIVE.contains(&answer.body["code"].as_str().unwrap_or_default()) {
                    world.leaving(user, self.live, here);
                }
                self.tries_again_soon()
            }
            Asked::Nobody => {
                world.left(user, live, there, How::Left);
                world.refused(user, self.live, here);
                self.tries_again_soon()
            }
            Asked::Unanswered => {
                world.left(user, live, there, How::Unanswered);
                world.unanswered(user, self.live, here);
                world.seen_late(user);
                // The session may have another id now.
                Course::Over
            }
        }
    }

    fn goes_on_as(&mut self, joined: NewSession, answer: &Answer) -> Course {
        let Some(next) = self.device.is_in(joined, answer) else {
            return Course::Over;
        };
        let Session {
            id,
            live,
            epoch,
            places,
            connected,
            beat_at,
            ..
        } = next;
        self.id = id;
        self.live = live;
        self.epoch = epoch;
        self.places = places;
        self.connected = connected;
        self.beat_at = beat_at;
        self.renew_datagrams(answer);
        if answer.closes {
            self.stops = self.connected.take();
        }
        Course::GoesOn
    }
}

impl OldId {
    /// Sends beats with the id to any gateway, also to those that started later. None may take one if
    /// the gateway through which the id came to be over could tell the store.
    async fn be_tried(mut self, through: usize) {
        sleep(WRITTEN_WITHIN).await;
        let world = self.world.clone();
        let is_written = !world.plan.loses_data() && world.is_sound(through);
        for _ in 0..LATE_BEATS {
            sleep(Duration::from_secs_f64(self.rng.random_range(LATER))).await;
            if *world.mode.borrow() != Mode::Wander {
                return;
            }
            let up = (0..world.plan.gateways).filter(|gateway| world.is_up(*gateway));
            if let Some(gateway) = up.choose(&mut self.rng) {
                self.be_tried_at(gateway, is_written).await;
            }
        }
    }

    async fn be_tried_at(&self, gateway: usize, is_written: bool) {
        let (world, user, live) = (&self.world, self.user, self.live);
        let place = world.place(gateway);
        world.beating(user, live, place);
        let sent = Instant::now();
        let path = format!("/v1/presence/{}", self.id);
        let asked = world.ask(gateway, Method::POST, &path, &Value::Null).await;
        let told = format!("u{user} tries an old id of l{live}: {}", status(&asked));
        world.trace.tell(Some(gateway), &told);
        match asked {
            Asked::Answered(answer) if answer.status == 200 => {
                if is_written {
                    world.found(format!(
                        "gateway {gateway} took an old id of u{user} in l{live}"
                    ));
                }
                let answered = Instant::now();
                world.beaten(user, live, self.epoch, place, Beat { sent, answered });
                world.leaving(user, live, place);
            }
            Asked::Unanswered => {
                world.unanswered(user, live, place);
                world.seen_late(user);
            }
            Asked::Answered(_) | Asked::Nobody => world.refused(user, live, place),
        }
    }
}

/// Whether a refusal says that the session has ended.
fn is_over(answer: &Answer) -> bool {
    OVER.iter().any(|code| answer.body["code"] == *code)
}

/// An answer in a word, with its code if it is a refusal.
fn status(asked: &Asked) -> String {
    match asked {
        Asked::Nobody => "nobody listens".to_owned(),
        Asked::Unanswered => "no answer".to_owned(),
        Asked::Answered(answer) => match answer.body["code"].as_str() {
            Some(code) => format!("{} {code}", answer.status),
            None => answer.status.to_string(),
        },
    }
}
