//! One device without a WebSocket: it joins a live by an HTTP request, and stays by beats, which any
//! gateway takes. It switches to other lives under the same session, and may send its beats by
//! datagram.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::Method;
use data_encoding::BASE64URL_NOPAD;
use rand::RngExt;
use rand::seq::IteratorRandom;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::datagrams::Datagrams;
use super::device::{Device, DeviceEnd, DeviceEvent, DeviceOrder};
use super::truth::CrowdState;
use super::{Answer, Habits, Mode, Outcome, Surroundings};
use crate::expectation::{Beat, How, Live, SocketAt, User};

/// A beat that no gateway took is sent again within this.
const AGAIN_WITHIN: Duration = Duration::from_secs(1);

/// By then the other gateways have heard that a session has ended.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// What a gateway answers to the beat of a session that has ended.
const OVER: [&str; 3] = ["session_unknown", "removed", "too_many_sessions"];

/// What a gateway refuses a switch with because of the other live. It has taken the beat.
const OF_THE_OTHER_LIVE: [&str; 2] = ["live_not_open", "banned"];

/// An id that is over: its session has ended, or has another id since a switch.
#[derive(Debug, Clone)]
pub struct OldId {
    /// Whose it was.
    pub user: User,
    /// What the gateways called the session.
    pub id: String,
    /// The live that it was in.
    pub live: Live,
    /// The opening of that live.
    pub epoch: u64,
    /// The gateway through which it came to be over.
    pub through: usize,
    /// Whether the session has ended.
    pub has_left: bool,
}

/// A place of a session on a gateway, with the answer to its last beat there.
#[derive(Debug, Clone, Copy)]
struct SessionSeat {
    place: SocketAt,
    answered: Instant,
}

/// A session, as its device knows it.
struct OwnSession {
    /// What the gateways call it.
    id: String,
    live: Live,
    /// The opening of the live that it is in: a gateway that is cut off may know only an earlier one
    /// than its back end does.
    epoch: u64,
    /// The gateways that may have it.
    seats: BTreeMap<usize, SessionSeat>,
}

impl OwnSession {
    fn path(&self) -> String {
        format!("/v1/presence/{}", self.id)
    }

    fn old_id(&self, user: User, through: usize, has_left: bool) -> OldId {
        OldId {
            user,
            id: self.id.clone(),
            live: self.live,
            epoch: self.epoch,
            through,
            has_left,
        }
    }
}

/// A join without an answer.
#[derive(Debug, Clone, Copy)]
struct Wish {
    live: Live,
    place: SocketAt,
    sent: Instant,
}

/// A device without a socket.
pub(super) struct SessionDevice<S> {
    device: Device<S>,
    habits: Habits,
    session: Option<OwnSession>,
    /// `None` if all beats are requests.
    datagrams: Option<Datagrams>,
    beat_at: Instant,
    /// The gateway that answered last, unless it ended the connection.
    connected: Option<usize>,
    /// The gateway that said that it is about to stop.
    stops: Option<usize>,
}

impl<S: Surroundings> SessionDevice<S> {
    pub(super) fn new(device: Device<S>, habits: Habits) -> Self {
        Self {
            device,
            habits,
            session: None,
            datagrams: None,
            beat_at: Instant::now(),
            connected: None,
            stops: None,
        }
    }

    pub(super) async fn run(mut self) -> DeviceEnd {
        match self.device.first {
            Some(live) => self.begin(live).await,
            None => self.say(DeviceEvent::Out).await,
        }
        loop {
            let beat_at = self.beat_at;
            let beats = self.session.is_some();
            tokio::select! {
                biased;
                order = self.device.orders.recv() => match order {
                    Some(DeviceOrder::Join(live)) => self.join(live).await,
                    Some(DeviceOrder::Leave) => {
                        self.leave().await;
                        self.say(DeviceEvent::Out).await;
                    }
                    Some(DeviceOrder::FallSilent(silence)) => self.fall_silent(silence).await,
                    Some(DeviceOrder::SignIn(_)) => {}
                    Some(DeviceOrder::Close) | None => {
                        self.leave().await;
                        return DeviceEnd::Asked;
                    }
                    Some(DeviceOrder::Vanish(_)) => {
                        if let Some(session) = self.session.take() {
                            self.abandon(session);
                        }
                        return DeviceEnd::Asked;
                    }
                },
                () = sleep_until(beat_at), if beats => self.beat().await,
            }
        }
    }

    async fn say(&self, told: DeviceEvent) {
        self.device.say(told).await;
    }

    fn crowd(&self) -> &CrowdState {
        self.device.surroundings.crowd()
    }

    fn user(&self) -> User {
        self.device.user
    }

    /// Where the next request goes.
    fn gateway(&mut self) -> Option<usize> {
        if let Some(gateway) = self.connected
            && self.habits.keeps_connection
            && self.device.surroundings.listens(gateway)
        {
            return Some(gateway);
        }
        let stops = self.stops;
        let crowd = self.device.surroundings.crowd();
        crowd
            .gateways_up()
            .filter(|gateway| Some(*gateway) != stops)
            .choose(&mut self.device.rng)
    }

    fn tries_again_soon(&mut self) {
        self.beat_at = Instant::now() + AGAIN_WITHIN.mul_f64(self.device.rng.random());
    }

    async fn ask(&self, gateway: usize, method: Method, path: &str, body: &Value) -> Outcome {
        let surroundings = &self.device.surroundings;
        let asked = surroundings.ask(gateway, method.clone(), path, body).await;
        self.note(gateway, &format!("{method} {body}: {}", status(&asked)));
        asked
    }

    fn note(&self, gateway: usize, what: &str) {
        let of = self.session.as_ref().map(|session| session.live);
        let what = format!("u{} in {of:?} {what}", self.user());
        self.device.surroundings.note(gateway, &what);
    }

    async fn join(&mut self, live: Live) {
        match self.session.take() {
            Some(session) if session.live == live => {
                self.session = Some(session);
                self.say(DeviceEvent::Joined(live)).await;
            }
            Some(session) => self.switch(session, live).await,
            None => self.begin(live).await,
        }
    }

    fn wish(&self, gateway: usize, live: Live) -> Wish {
        let place = self.crowd().place(gateway);
        self.crowd().joining(self.user(), live, place);
        Wish {
            live,
            place,
            sent: Instant::now(),
        }
    }

    fn body(&self, live: Live) -> Value {
        json!({"live_id": self.device.surroundings.name_of_live(live)})
    }

    async fn begin(&mut self, live: Live) {
        let Some(gateway) = self.gateway() else {
            sleep(AGAIN_WITHIN).await;
            return self.say(DeviceEvent::Again(None)).await;
        };
        let wish = self.wish(gateway, live);
        let surroundings = &self.device.surroundings;
        let path = format!("/v1/presence?{}", surroundings.credentials(self.user()));
        let body = self.body(live);
        let how = match self.ask(gateway, Method::POST, &path, &body).await {
            Outcome::Answered(answer) if answer.status == 201 => {
                return self.is_in(wish, &answer).await;
            }
            Outcome::Answered(_) | Outcome::Nobody => How::Left,
            Outcome::Unanswered => {
                self.crowd().seen_late(self.user());
                How::Unanswered
            }
        };
        self.is_not_in(wish, how, None).await;
    }

    async fn is_not_in(&mut self, wish: Wish, how: How, still_in: Option<Live>) {
        let user = self.user();
        self.crowd().left(user, wish.live, wish.place, how);
        self.crowd().seen_somewhere(user);
        self.say(DeviceEvent::Again(still_in)).await;
    }

    async fn is_in(&mut self, wish: Wish, answer: &Answer) {
        let Wish { live, place, sent } = wish;
        let user = self.user();
        let id = answer.body["session_id"].as_str().unwrap_or_default();
        let Some(epoch) = epoch_of(id) else {
            self.is_wrong(live, place, &format!("a join was answered {}", answer.body));
            return self.is_not_in(wish, How::Unanswered, None).await;
        };
        self.device
            .surroundings
            .let_in(user, live, place, Some(epoch), &answer.body);
        let answered = Instant::now();
        self.crowd()
            .beaten(user, live, epoch, place, Beat { sent, answered });
        self.session = Some(OwnSession {
            id: id.to_owned(),
            live,
            epoch,
            seats: BTreeMap::from([(place.gateway, SessionSeat { place, answered })]),
        });
        self.take_ticket(answer);
        self.connected = Some(place.gateway);
        self.stops = None;
        if answer.closes {
            self.stops = self.connected.take();
        }
        // The devices' beats are spread over the interval.
        let beat = self.crowd().customs.timing.heartbeat;
        self.beat_at = answered + beat.mul_f64((place.socket % 97) as f64 / 97.0);
        self.say(DeviceEvent::Joined(live)).await;
    }

    /// Takes what an answer says of datagrams.
    fn take_ticket(&mut self, answer: &Answer) {
        if !self.habits.sends_datagrams {
            return;
        }
        let newer = Datagrams::of(&answer.body, self.user(), self.device.number);
        match (&mut self.datagrams, newer) {
            (Some(datagrams), Some(newer)) => datagrams.renew(newer),
            (datagrams @ None, newer) => *datagrams = newer,
            (Some(_), None) => {}
        }
    }

    async fn beat(&mut self) {
        let Some(gateway) = self.gateway() else {
            return self.tries_again_soon();
        };
        let Some(mut session) = self.session.take() else {
            return;
        };
        let (user, live) = (self.user(), session.live);
        let place = self.place(&session, gateway);
        self.crowd().beating(user, live, place);
        let sent = Instant::now();
        match self.ask_to_stay(gateway, &session).await {
            Outcome::Answered(answer) if answer.status == 200 => {
                self.heard(&mut session, place, sent, &answer);
            }
            Outcome::Answered(answer) if is_over(&answer) => {
                self.is_unknown(&session, place);
                self.abandon(session);
                return self.say(DeviceEvent::Closed).await;
            }
            Outcome::Answered(_) => {
                self.crowd().refused(user, live, place);
                self.crowd().seen_somewhere(user);
                self.connected = None;
                self.stops = Some(gateway);
                self.tries_again_soon();
            }
            Outcome::Nobody => {
                self.crowd().refused(user, live, place);
                self.connected = None;
                self.tries_again_soon();
            }
            Outcome::Unanswered => {
                self.crowd().unanswered(user, live, place);
                self.connected = None;
                self.tries_again_soon();
            }
        }
        self.session = Some(session);
    }

    /// Sends a beat, by datagram or as a request.
    async fn ask_to_stay(&mut self, gateway: usize, session: &OwnSession) -> Outcome {
        let surroundings = self.device.surroundings.clone();
        if let Some(datagrams) = &mut self.datagrams
            && self.device.rng.random_bool(0.9)
        {
            if self.device.rng.random_bool(0.1) {
                datagrams.change_address();
            }
            let name = surroundings.name_of_live(session.live);
            let said = datagrams.beat(&*surroundings, gateway, &name).await;
            match said {
                Ok(asked) => return asked,
                Err(why) => {
                    surroundings.session_is_wrong(self.user(), session.live, gateway, &why);
                    return Outcome::Unanswered;
                }
            }
        }
        self.ask(gateway, Method::POST, &session.path(), &Value::Null)
            .await
    }

    /// The session's place on a gateway.
    fn place(&self, session: &OwnSession, gateway: usize) -> SocketAt {
        match session.seats.get(&gateway) {
            Some(seat) if seat.place.start == self.crowd().start_of(gateway) => seat.place,
            _ => self.crowd().place(gateway),
        }
    }

    /// A gateway has taken a beat, and has the session from now on.
    fn is_taken(&self, session: &mut OwnSession, place: SocketAt, sent: Instant) {
        let answered = Instant::now();
        let beat = Beat { sent, answered };
        self.crowd()
            .beaten(self.user(), session.live, session.epoch, place, beat);
        session
            .seats
            .insert(place.gateway, SessionSeat { place, answered });
    }

    fn heard(&mut self, session: &mut OwnSession, place: SocketAt, sent: Instant, answer: &Answer) {
        let name = self.device.surroundings.name_of_live(session.live);
        if answer.body["live_id"] != name.as_str() {
            let why = format!("a beat for {name} was answered {}", answer.body);
            self.is_wrong(session.live, place, &why);
        }
        self.is_taken(session, place, sent);
        if let Some(next) = answer.body["session_id"].as_str() {
            session.id = next.to_owned();
            self.take_ticket(answer);
        }
        self.beat_at = sent + self.crowd().customs.timing.heartbeat;
        self.connected = Some(place.gateway);
        self.stops = None;
        if answer.closes {
            // The next beat goes elsewhere.
            self.stops = self.connected.take();
            if self.habits.moves_at_once {
                self.tries_again_soon();
            }
        }
    }

    /// A gateway does not know the session, or says that it has ended.
    fn is_unknown(&self, session: &OwnSession, place: SocketAt) {
        let (crowd, user) = (self.crowd(), self.user());
        let is_open = crowd.epoch(session.live) == Some(session.epoch);
        if is_open && !self.device.surroundings.may_forget(user, place) {
            self.is_wrong(session.live, place, "it has ended, or never was");
        }
        crowd.refused(user, session.live, place);
        crowd.seen_somewhere(user);
    }

    fn is_wrong(&self, live: Live, place: SocketAt, why: &str) {
        let surroundings = &self.device.surroundings;
        surroundings.session_is_wrong(self.user(), live, place.gateway, why);
    }

    /// Leaves through any gateway.
    async fn leave(&mut self) {
        let gateway = self.gateway();
        let Some(session) = self.session.take() else {
            return;
        };
        let Some(gateway) = gateway else {
            return self.abandon(session);
        };
        self.doubt(&session);
        let surroundings = self.device.surroundings.clone();
        let asked = match &mut self.datagrams {
            Some(datagrams) => datagrams.leave(&*surroundings, gateway).await,
            None => {
                self.ask(gateway, Method::DELETE, &session.path(), &Value::Null)
                    .await
            }
        };
        self.datagrams = None;
        match asked {
            Outcome::Answered(answer) if answer.status == 204 => {
                surroundings.id_is_over(session.old_id(self.user(), gateway, true));
                self.left_everywhere(session, gateway);
            }
            Outcome::Unanswered => {
                self.crowd().seen_late(self.user());
                self.abandon(session);
            }
            _ => self.abandon(session),
        }
    }

    /// From now on some gateways may not have the session.
    fn doubt(&self, session: &OwnSession) {
        for seat in session.seats.values() {
            self.crowd().leaving(self.user(), session.live, seat.place);
        }
    }

    /// Nobody sends a beat of the session any more.
    fn abandon(&mut self, session: OwnSession) {
        self.datagrams = None;
        let (crowd, user) = (self.crowd(), self.user());
        for SessionSeat { place, answered } in session.seats.into_values() {
            crowd.left_at(user, session.live, place, How::Vanished, answered);
            crowd.disconnected(place);
        }
    }

    /// The session left its live through a gateway. One that is told so gives it up there as well;
    /// one that may not have been told gives it up later.
    fn left_everywhere(&self, session: OwnSession, through: usize) {
        let surroundings = self.device.surroundings.clone();
        let user = self.user();
        let left_at = Instant::now();
        tokio::spawn(async move {
            sleep(TOLD_WITHIN).await;
            let crowd = surroundings.crowd();
            let is_told = surroundings.is_sound(through) && crowd.is_up(through);
            for SessionSeat { place, .. } in session.seats.into_values() {
                let is_told = is_told && surroundings.is_sound(place.gateway);
                let how = if place.gateway == through || is_told {
                    How::Left
                } else {
                    How::Vanished
                };
                crowd.left_at(user, session.live, place, how, left_at);
                crowd.disconnected(place);
            }
        });
    }

    /// Sends no beat for a while, and then goes on with the session, unless all have to stay where
    /// they are.
    async fn fall_silent(&mut self, silence: Duration) {
        sleep(silence).await;
        let mut mode = self.crowd().mode.subscribe();
        let is_over = mode.wait_for(|mode| *mode != Mode::Rest).await.is_err();
        if !is_over {
            self.beat_at = Instant::now();
        }
    }

    /// Goes to another live. The session has another id from then on.
    async fn switch(&mut self, mut session: OwnSession, live: Live) {
        let Some(gateway) = self.gateway() else {
            let still_in = Some(session.live);
            self.session = Some(session);
            return self.say(DeviceEvent::Again(still_in)).await;
        };
        let user = self.user();
        let here = self.place(&session, gateway);
        self.doubt(&session);
        self.crowd().beating(user, session.live, here);
        let wish = self.wish(gateway, live);
        // A gateway takes the beat before it looks for the other live.
        let seat = SessionSeat {
            place: here,
            answered: wish.sent,
        };
        session.seats.insert(gateway, seat);
        let path = session.path();
        let body = self.body(live);
        match self.ask(gateway, Method::POST, &path, &body).await {
            Outcome::Answered(answer) if answer.status == 200 => {
                let old = session.old_id(user, gateway, false);
                self.device.surroundings.id_is_over(old);
                self.left_everywhere(session, gateway);
                return self.is_in(wish, &answer).await;
            }
            Outcome::Answered(answer) if is_over(&answer) => {
                self.is_unknown(&session, here);
                self.abandon(session);
                return self.is_not_in(wish, How::Left, None).await;
            }
            Outcome::Unanswered => {
                // The session may have another id now.
                self.crowd().unanswered(user, session.live, here);
                self.abandon(session);
                return self.is_not_in(wish, How::Unanswered, None).await;
            }
            Outcome::Answered(answer) => {
                // A gateway that is behind may have taken no beat.
                self.is_taken(&mut session, here, wish.sent);
                let code = answer.body["code"].as_str().unwrap_or_default();
                if !OF_THE_OTHER_LIVE.contains(&code) {
                    self.crowd().leaving(user, session.live, here);
                }
            }
            Outcome::Nobody => self.crowd().refused(user, session.live, here),
        }
        self.tries_again_soon();
        let still_in = Some(session.live);
        self.session = Some(session);
        self.is_not_in(wish, How::Left, still_in).await;
    }
}

/// Whether a refusal says that the session has ended.
fn is_over(answer: &Answer) -> bool {
    OVER.iter().any(|code| answer.body["code"] == *code)
}

/// An answer in a word, with its code if it is a refusal.
#[must_use]
pub fn status(asked: &Outcome) -> String {
    match asked {
        Outcome::Nobody => "nobody listens".to_owned(),
        Outcome::Unanswered => "no answer".to_owned(),
        Outcome::Answered(answer) => match answer.body["code"].as_str() {
            Some(code) => format!("{} {code}", answer.status),
            None => answer.status.to_string(),
        },
    }
}

/// The opening of its live that a session is in, as everybody can read it in the session's id;
/// `None` if this is no such id. Only a gateway can sign one.
///
/// A gateway that was frozen or cut off while a live was closed and opened again still takes people
/// into the former opening. So what a client knows about the live does not tell it which one it
/// joined; the id does.
fn epoch_of(id: &str) -> Option<u64> {
    let claims = id.split('.').nth(1)?;
    let claims = BASE64URL_NOPAD.decode(claims.as_bytes()).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    claims["epoch"].as_u64()
}
