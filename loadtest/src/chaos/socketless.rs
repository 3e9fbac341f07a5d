//! One device of a person that opens no socket: it joins by an HTTP request, and sends each beat to
//! any gateway. It obeys the person's orders and records what it was answered, as
//! [`super::device`] does.

use std::collections::HashMap;
use std::time::Duration;

use rand::RngExt;
use rand::seq::IteratorRandom;
use reqwest::{Method, header};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep, sleep_until};

use super::device::{Device, DeviceEvent, End, Order};
use super::findings::{Broken, Promise};
use super::run_state::RunState;
use simulation::expectation::{Beat, How, Live, Place, User};
use simulation::session_claims::epoch_of;

/// A request that no gateway took is sent again within this.
const AGAIN_WITHIN: Duration = Duration::from_secs(1);

/// By then the other gateways have heard that a session has ended.
const TOLD_WITHIN: Duration = Duration::from_secs(1);

/// What became of a request.
enum Asked {
    /// No gateway has it.
    Nobody,
    /// A gateway may carry it out, now or later.
    Unanswered,
    Answered(Answer),
}

struct Answer {
    status: u16,
    body: Value,
    /// Whether the connection ends with it: the gateway is about to stop.
    closes: bool,
}

/// A place of a session on a gateway, with the answer to its last beat there.
#[derive(Debug, Clone, Copy)]
struct Seat {
    place: Place,
    answered: Instant,
}

/// A session, as the device knows it.
struct Session {
    /// What the gateways call it.
    id: String,
    live: Live,
    epoch: u32,
    /// The gateways that have taken a beat of it.
    seats: HashMap<usize, Seat>,
}

/// A join without an answer.
#[derive(Debug, Clone, Copy)]
struct Wish {
    live: Live,
    place: Place,
    sent: Instant,
}

pub(crate) struct SocketlessDevice {
    device: Device,
    session: Option<Session>,
    beat_at: Instant,
    /// The gateway that said that it is about to stop.
    stops: Option<usize>,
}

impl SocketlessDevice {
    /// What a device would do with a socket, without one.
    pub(crate) fn new(device: Device) -> Self {
        Self {
            device,
            session: None,
            beat_at: Instant::now(),
            stops: None,
        }
    }

    pub(crate) async fn run(mut self) {
        let end = self.obey().await;
        self.say(DeviceEvent::Ended(end)).await;
    }

    async fn obey(&mut self) -> End {
        match self.device.by_url {
            Some(live) => self.begin(live).await,
            None => self.say(DeviceEvent::Out).await,
        }
        loop {
            let beat_at = self.beat_at;
            let beats = self.session.is_some();
            tokio::select! {
                order = self.device.orders.recv() => match order {
                    Some(Order::Join(live)) => self.join(live).await,
                    Some(Order::Leave) => {
                        self.leave().await;
                        self.say(DeviceEvent::Out).await;
                    }
                    Some(Order::Close) | None => {
                        self.leave().await;
                        return End::Asked;
                    }
                    Some(Order::Vanish(_)) => {
                        self.forget();
                        return End::Asked;
                    }
                },
                () = sleep_until(beat_at), if beats => self.beat().await,
            }
        }
    }

    async fn say(&self, told: DeviceEvent) {
        self.device.say(told).await;
    }

    fn state(&self) -> &RunState {
        &self.device.state
    }

    fn user(&self) -> User {
        self.device.user
    }

    /// Any gateway that a balancer finds ready, but for one that is about to stop.
    fn gateway(&self) -> Option<usize> {
        self.state()
            .gateways_up()
            .filter(|gateway| Some(*gateway) != self.stops)
            .choose(&mut rand::rng())
    }

    fn tries_again_soon(&mut self) {
        self.beat_at = Instant::now() + AGAIN_WITHIN.mul_f64(rand::rng().random());
    }

    async fn ask(&self, gateway: usize, method: Method, path: &str, body: Option<Value>) -> Asked {
        let address = self.state().endpoints[gateway].target.address;
        let url = format!("http://{address}/v1/presence{path}");
        let mut request = self.state().http.request(method, url);
        if let Some(body) = &body {
            request = request.json(body);
        }
        let response = match request.send().await {
            Ok(response) => response,
            Err(why) if why.is_connect() => return Asked::Nobody,
            Err(_) => return Asked::Unanswered,
        };
        let status = response.status().as_u16();
        let closes = response
            .headers()
            .get(header::CONNECTION)
            .is_some_and(|value| value == "close");
        match response.text().await {
            Ok(text) => Asked::Answered(Answer {
                status,
                body: serde_json::from_str(&text).unwrap_or_default(),
                closes,
            }),
            Err(_) => Asked::Unanswered,
        }
    }

    async fn join(&mut self, live: Live) {
        match self.session.take() {
            Some(session) => self.switch(session, live).await,
            None => self.begin(live).await,
        }
    }

    fn wish(&self, gateway: usize, live: Live) -> Wish {
        let place = self.state().place(gateway);
        self.state().joining(self.user(), live, place);
        Wish {
            live,
            place,
            sent: Instant::now(),
        }
    }

    async fn begin(&mut self, live: Live) {
        let Some(gateway) = self.gateway() else {
            sleep(AGAIN_WITHIN).await;
            return self.say(DeviceEvent::Again).await;
        };
        let wish = self.wish(gateway, live);
        let path = format!("?user_id={}&role=viewer", self.state().user_id(self.user()));
        let body = json!({"live_id": self.state().live_id(live)});
        match self.ask(gateway, Method::POST, &path, Some(body)).await {
            Asked::Answered(answer) if answer.status == 201 => self.is_in(wish, &answer).await,
            Asked::Answered(_) | Asked::Nobody => self.is_not_in(wish, How::Left).await,
            Asked::Unanswered => self.is_not_in(wish, How::Unanswered).await,
        }
    }

    async fn is_not_in(&mut self, wish: Wish, how: How) {
        self.state().left(self.user(), wish.live, wish.place, how);
        self.say(DeviceEvent::Again).await;
    }

    async fn is_in(&mut self, wish: Wish, answer: &Answer) {
        let Wish { live, place, sent } = wish;
        let id = answer.body["session_id"].as_str().unwrap_or_default();
        let epoch = epoch_of(id).and_then(|epoch| u32::try_from(epoch).ok());
        let Some(epoch) = epoch else {
            let detail = format!("a join was answered {}", answer.body);
            self.broke(live, place, detail);
            return self.is_not_in(wish, How::Unanswered).await;
        };
        let answered = Instant::now();
        let beat = Beat { sent, answered };
        self.state().beaten(self.user(), live, epoch, place, beat);
        self.session = Some(Session {
            id: id.to_owned(),
            live,
            epoch,
            seats: HashMap::from([(place.gateway, Seat { place, answered })]),
        });
        // The devices' beats are spread over the interval.
        let beat = self.state().timing.heartbeat;
        let first = beat.mul_f64((place.socket % 97) as f64 / 97.0);
        self.beat_at = answered + first;
        self.say(DeviceEvent::Joined(live)).await;
    }

    async fn beat(&mut self) {
        let gateway = self.gateway();
        let Some(mut session) = self.session.take() else {
            return;
        };
        let Some(gateway) = gateway else {
            self.session = Some(session);
            return self.tries_again_soon();
        };
        let place = self.place(&session, gateway);
        self.state().beating(self.user(), session.live, place);
        let sent = Instant::now();
        let path = format!("/{}", session.id);
        match self.ask(gateway, Method::POST, &path, None).await {
            Asked::Answered(answer) => match answer.status {
                200 => {
                    self.check_live(&session, place, &answer);
                    self.heard(&mut session, place, sent);
                    if let Some(next) = answer.body["session_id"].as_str() {
                        session.id = next.to_owned();
                    }
                    self.beat_at = sent + self.state().timing.heartbeat;
                    self.stops = None;
                    if answer.closes {
                        self.stops = Some(gateway);
                        self.tries_again_soon();
                    }
                }
                404 => {
                    self.is_unknown(&session, place);
                    self.abandon(session);
                    return self.say(DeviceEvent::Closed).await;
                }
                _ => self.is_not_taken(&session, place),
            },
            Asked::Nobody => self.is_not_taken(&session, place),
            Asked::Unanswered => {
                self.state().unanswered(self.user(), session.live, place);
                self.tries_again_soon();
            }
        }
        self.session = Some(session);
    }

    fn is_not_taken(&mut self, session: &Session, place: Place) {
        self.state().refused(self.user(), session.live, place);
        self.tries_again_soon();
    }

    /// The session's place on a gateway.
    fn place(&self, session: &Session, gateway: usize) -> Place {
        match session.seats.get(&gateway) {
            Some(seat) if seat.place.start == self.state().start_of(gateway) => seat.place,
            _ => self.state().place(gateway),
        }
    }

    /// A gateway has taken a beat, and has the session from now on.
    fn heard(&self, session: &mut Session, place: Place, sent: Instant) {
        let answered = Instant::now();
        let beat = Beat { sent, answered };
        self.state()
            .beaten(self.user(), session.live, session.epoch, place, beat);
        session
            .seats
            .insert(place.gateway, Seat { place, answered });
    }

    fn check_live(&self, session: &Session, place: Place, answer: &Answer) {
        let live_id = self.state().live_id(session.live);
        if answer.body["live_id"] != live_id {
            let detail = format!("a beat was answered {}", answer.body);
            self.broke(session.live, place, detail);
        }
    }

    /// A gateway does not know the session, or says that it has ended.
    fn is_unknown(&self, session: &Session, place: Place) {
        let state = self.state();
        let is_open = state.epoch(session.live) == Some(session.epoch);
        if is_open && !state.may_lose(place) && state.is_sound(place.gateway) {
            self.broke(session.live, place, "it has ended, or never was".to_owned());
        }
        state.refused(self.user(), session.live, place);
    }

    fn broke(&self, live: Live, place: Place, detail: String) {
        let state = self.state();
        let broken = Broken::new(Promise::SessionLost, detail)
            .user(state.user_id(self.user()))
            .live(state.live_id(live))
            .gateway(place.gateway);
        state.broke(broken);
    }

    /// Leaves through any gateway.
    async fn leave(&mut self) {
        let Some(session) = self.session.take() else {
            return;
        };
        let Some(gateway) = self.gateway() else {
            return self.abandon(session);
        };
        self.doubt(&session);
        let path = format!("/{}", session.id);
        match self.ask(gateway, Method::DELETE, &path, None).await {
            Asked::Answered(answer) if answer.status == 204 => {
                self.left_everywhere(session, gateway);
            }
            _ => self.abandon(session),
        }
    }

    /// From now on some gateways may not have the session.
    fn doubt(&self, session: &Session) {
        for seat in session.seats.values() {
            self.state().leaving(self.user(), session.live, seat.place);
        }
    }

    /// Nobody sends a beat of the session any more.
    fn forget(&mut self) {
        if let Some(session) = self.session.take() {
            self.abandon(session);
        }
    }

    fn abandon(&self, session: Session) {
        for Seat { place, answered } in session.seats.into_values() {
            let state = self.state();
            state.left_at(self.user(), session.live, place, How::Vanished, answered);
            state.disconnected(place);
        }
    }

    /// The session left its live through a gateway. One that is told so gives it up there as well;
    /// one that may not have been told gives it up later.
    fn left_everywhere(&self, session: Session, through: usize) {
        let state = self.device.state.clone();
        let user = self.user();
        let left_at = Instant::now();
        for seat in session.seats.values() {
            state.disconnected(seat.place);
        }
        tokio::spawn(async move {
            sleep(TOLD_WITHIN).await;
            for Seat { place, .. } in session.seats.into_values() {
                let is_told = state.is_sound(through)
                    && state.is_sound(place.gateway)
                    && state.is_up(through);
                let how = if place.gateway == through || is_told {
                    How::Left
                } else {
                    How::Vanished
                };
                state.left_at(user, session.live, place, how, left_at);
            }
        });
    }

    /// Goes to another live. The session has another id from then on.
    async fn switch(&mut self, mut session: Session, live: Live) {
        let Some(gateway) = self.gateway() else {
            self.session = Some(session);
            return self.say(DeviceEvent::Again).await;
        };
        let here = self.place(&session, gateway);
        self.doubt(&session);
        self.state().beating(self.user(), session.live, here);
        let wish = self.wish(gateway, live);
        // A gateway takes the beat before it looks for the other live.
        let seat = Seat {
            place: here,
            answered: wish.sent,
        };
        session.seats.insert(gateway, seat);
        let path = format!("/{}", session.id);
        let body = json!({"live_id": self.state().live_id(live)});
        match self.ask(gateway, Method::POST, &path, Some(body)).await {
            Asked::Answered(answer) if answer.status == 200 => {
                self.left_everywhere(session, gateway);
                self.is_in(wish, &answer).await;
            }
            Asked::Answered(answer) if answer.body["code"] == "session_unknown" => {
                self.is_unknown(&session, here);
                self.abandon(session);
                self.is_not_in(wish, How::Left).await;
            }
            Asked::Unanswered => {
                // The session may have another id now.
                self.state().unanswered(self.user(), session.live, here);
                self.abandon(session);
                self.is_not_in(wish, How::Unanswered).await;
            }
            Asked::Answered(_) => {
                // The device leaves the former live as well, as one with a socket does.
                self.heard(&mut session, here, wish.sent);
                self.session = Some(session);
                self.leave().await;
                self.is_not_in(wish, How::Left).await;
            }
            Asked::Nobody => {
                self.state().refused(self.user(), session.live, here);
                self.session = Some(session);
                self.leave().await;
                self.is_not_in(wish, How::Left).await;
            }
        }
    }
}
