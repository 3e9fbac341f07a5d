//! One device of a person: it connects, joins, swipes, leaves and vanishes as its random generator
//! says, and notes what it was told.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rollcall::base::identity::Role;
use serde_json::Value;
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::{Role as Side, WebSocketConfig};

use crate::expectation::{How, Live, Place, User};
use crate::network::derived;
use crate::oracle;
use crate::world::{Mode, ShownFriends, World};

/// The close code by which a gateway sends its viewers elsewhere.
const SERVICE_RESTART: u16 = 1012;

/// The close code of who was removed from a live.
const REMOVED: u16 = 4003;

/// A device does something each so often, on average, in seconds.
const PACE: f64 = 25.0;

/// A device that must ask again waits for so long.
const AGAIN: Duration = Duration::from_millis(400);

type Socket = WebSocketStream<DuplexStream>;

/// A join without an answer.
#[derive(Debug, Clone, Copy)]
struct Asked {
    id: u64,
    live: Live,
    epoch: Option<u64>,
}

pub(crate) struct Device {
    world: Arc<World>,
    user: User,
    rng: StdRng,
    mode: watch::Receiver<Mode>,
}

/// Messages are small, and each socket would clear a large buffer at first.
fn small() -> WebSocketConfig {
    WebSocketConfig::default()
        .read_buffer_size(1 << 10)
        .write_buffer_size(0)
}

/// Why a session ended.
enum End {
    Wanted,
    Lost,
    /// The connection stays open and silent.
    Silent,
}

impl Device {
    pub(crate) fn new(world: &Arc<World>, user: User, number: usize) -> Self {
        let rng =
            StdRng::seed_from_u64(derived(world.plan.seed, &format!("device {user} {number}")));
        Self {
            world: world.clone(),
            user,
            rng,
            mode: world.mode.subscribe(),
        }
    }

    pub(crate) async fn run(mut self) {
        let mut wait = Duration::from_secs_f64(self.rng.random_range(0.0..8.0));
        loop {
            sleep(wait).await;
            if self
                .mode
                .wait_for(|mode| *mode != Mode::Rest)
                .await
                .is_err()
                || *self.mode.borrow() == Mode::GoHome
            {
                return;
            }
            wait = match self.session().await {
                Some(End::Wanted | End::Silent) => {
                    Duration::from_secs_f64(self.rng.random_range(0.05..20.0))
                }
                Some(End::Lost) => Duration::from_secs_f64(self.rng.random_range(0.01..2.0)),
                None => Duration::from_secs_f64(self.rng.random_range(0.3..3.0)),
            };
        }
    }

    /// `None` if nobody listened.
    async fn session(&mut self) -> Option<End> {
        let gateway = self.rng.random_range(0..self.world.plan.gateways);
        let live = self.rng.random_range(0..self.world.plan.lives);
        // Who asks for friends does so in a message.
        let by_url = self
            .rng
            .random_bool(0.5)
            .then_some(live)
            .filter(|_| !self.user.is_multiple_of(3));
        let place = self.world.place(gateway);
        let user = self.world.user_id(self.user);
        let role = if self.world.is_streamer(self.user) {
            Role::Streamer
        } else {
            Role::Viewer
        };
        let stream = self.world.connect(gateway, user, role, by_url)?;
        self.world.connected(self.user, place);
        let socket = Socket::from_raw_socket(stream, Side::Client, Some(small())).await;
        let mut session = Session {
            device: self,
            socket,
            place,
            asked: None,
            leaving: None,
            live: None,
            again: None,
            id: 0,
        };
        match by_url {
            Some(live) => session.asks(0, live),
            None => session.join(live).await,
        }
        let end = session.run().await;
        self.world.disconnected(place);
        Some(end)
    }

    fn idle(&mut self) -> Duration {
        Duration::from_secs_f64(-PACE * (1.0 - self.rng.random::<f64>()).ln())
    }
}

struct Session<'a> {
    device: &'a mut Device,
    socket: Socket,
    place: Place,
    asked: Option<Asked>,
    /// The id of a leave without an answer.
    leaving: Option<u64>,
    /// The live that the device is in, or may still be in.
    live: Option<Live>,
    /// When the device asks again to join, because the live closed or opened meanwhile.
    again: Option<(Instant, Live)>,
    id: u64,
}

impl Session<'_> {
    fn world(&self) -> Arc<World> {
        self.device.world.clone()
    }

    async fn run(mut self) -> End {
        let end = self.stay().await;
        if matches!(end, End::Silent) {
            let kept = self.device.world.timing.timeout * 2;
            let socket = self.socket;
            tokio::spawn(async move {
                sleep(kept).await;
                drop(socket);
            });
        }
        end
    }

    async fn stay(&mut self) -> End {
        let beat = self.device.world.timing.heartbeat;
        let first = beat.mul_f64(self.device.rng.random());
        let mut beats = interval_at(Instant::now() + first, beat);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut mode = self.device.mode.clone();
        let mut act_at = Instant::now() + self.device.idle();
        let mut moves_at: Option<Instant> = None;
        loop {
            let present = *mode.borrow_and_update();
            if present == Mode::GoHome {
                self.close().await;
                return End::Wanted;
            }
            let again_at = self.again.map(|(at, _)| at);
            let wake = [moves_at, again_at]
                .into_iter()
                .flatten()
                .fold(act_at, Instant::min);
            tokio::select! {
                biased;
                received = self.socket.next() => match received {
                    Some(Ok(Message::Text(text))) => {
                        // One device in six does not listen.
                        let asked_to_move = self.received(&text).await.filter(|_| !self.place.socket.is_multiple_of(6));
                        if let Some(after) = asked_to_move {
                            moves_at = Some(Instant::now() + after);
                        }
                    }
                    Some(Ok(Message::Close(frame))) => {
                        let code = frame.map_or(0, |frame| frame.code.into());
                        return self.lost(code);
                    }
                    Some(Ok(_)) => {}
                    Some(Err(_)) | None => return self.lost(0),
                },
                _ = beats.tick() => self.send(r#"{"type":"heartbeat"}"#.to_owned()).await,
                changed = mode.changed() => if changed.is_err() { return End::Wanted },
                () = tokio::time::sleep_until(wake) => {
                    if moves_at.is_some_and(|at| at <= Instant::now()) {
                        self.close().await;
                        return End::Lost;
                    }
                    if let Some((_, live)) = self.again.take_if(|(at, _)| *at <= Instant::now()) {
                        self.join(live).await;
                        continue;
                    }
                    act_at = Instant::now() + self.device.idle();
                    if present == Mode::Wander && self.asked.is_none() && self.leaving.is_none()
                        && let Some(end) = self.act().await
                    {
                        return end;
                    }
                }
            }
        }
    }

    async fn act(&mut self) -> Option<End> {
        match self.device.rng.random_range(0..100) {
            0..45 => {
                let live = self
                    .device
                    .rng
                    .random_range(0..self.device.world.plan.lives);
                self.join(live).await;
                None
            }
            45..60 => {
                self.leave().await;
                None
            }
            60..75 => {
                self.close().await;
                Some(End::Wanted)
            }
            75..88 => {
                self.out(How::Vanished);
                Some(End::Wanted)
            }
            _ => {
                // The network is lost, and the person comes back elsewhere meanwhile.
                self.out(How::Vanished);
                Some(End::Silent)
            }
        }
    }

    async fn send(&mut self, text: String) {
        // A broken socket is reported by the next read. A gateway that is frozen reads nothing.
        let _ = timeout(
            Duration::from_secs(1),
            self.socket.send(Message::text(text)),
        )
        .await;
    }

    fn asks(&mut self, id: u64, live: Live) {
        let world = self.world();
        world.joining(self.device.user, live, self.place);
        self.asked = Some(Asked {
            id,
            live,
            epoch: world.epoch(live),
        });
    }

    async fn join(&mut self, live: Live) {
        let world = self.world();
        if let Some(before) = self.live.filter(|before| *before != live) {
            world.leaving(self.device.user, before, self.place);
        }
        world.trace.tell(
            Some(self.place.gateway),
            &format!("u{}#{} joins l{live}", self.device.user, self.place.socket),
        );
        self.again = None;
        self.id += 1;
        self.asks(self.id, live);
        let friends = self.asks_for_friends();
        let live = world.live_id(live);
        let text = format!(
            r#"{{"type":"join","live_id":"{live}","id":{},"friends":{friends}}}"#,
            self.id
        );
        self.send(text).await;
    }

    fn asks_for_friends(&self) -> bool {
        self.device.user.is_multiple_of(3)
    }

    async fn leave(&mut self) {
        self.again = None;
        if let Some(live) = self.live {
            self.world().leaving(self.device.user, live, self.place);
            self.id += 1;
            self.leaving = Some(self.id);
            self.send(format!(r#"{{"type":"leave","id":{}}}"#, self.id))
                .await;
        }
    }

    async fn close(&mut self) {
        let how = if self.world().may_lose(self.place) {
            How::Moved
        } else {
            How::Left
        };
        let _ = timeout(Duration::from_secs(1), self.socket.close(None)).await;
        self.out(how);
        let rest = async { while self.socket.next().await.is_some_and(|read| read.is_ok()) {} };
        let _ = timeout(Duration::from_secs(3), rest).await;
    }

    /// The device is in no live any more.
    fn out(&mut self, how: How) {
        let world = self.world();
        world.trace.tell(
            Some(self.place.gateway),
            &format!("u{}#{} {how:?}", self.device.user, self.place.socket),
        );
        world.shown_friends(self.place, None);
        let asked = self.asked.take().map(|asked| asked.live);
        if let Some(live) = self.live.take().filter(|live| asked != Some(*live)) {
            world.left(self.device.user, live, self.place, how);
        }
        if let Some(live) = asked {
            let how = if how == How::Vanished {
                How::Unanswered
            } else {
                how
            };
            world.left(self.device.user, live, self.place, how);
        }
    }

    fn lost(&mut self, code: u16) -> End {
        let world = self.world();
        let was_removed = code == REMOVED && world.truth().removed.contains(&self.device.user);
        if !world.may_lose(self.place) && !was_removed && world.is_sound(self.place.gateway) {
            world.found(format!(
                "gateway {} ended a socket of u{} with code {code}",
                self.place.gateway, self.device.user
            ));
        }
        self.out(match code {
            SERVICE_RESTART => How::Moved,
            REMOVED => How::Left,
            _ => How::Vanished,
        });
        End::Lost
    }

    /// After how long the gateway asks to go elsewhere, if it does.
    async fn received(&mut self, text: &str) -> Option<Duration> {
        self.world().trace.hear(self.place, self.device.user, text);
        let Ok(message) = serde_json::from_str::<Value>(text) else {
            self.world()
                .found(format!("a message that is no JSON: {text}"));
            return None;
        };
        let id = message["id"].as_u64();
        match message["type"].as_str().unwrap_or_default() {
            "joined" => self.is_in(&message),
            "left" => self.is_out(),
            "closed" => self.is_over(&message),
            "friends" => self.is_shown_friends(&message),
            "reconnect" => {
                return Some(Duration::from_millis(
                    message["after_ms"].as_u64().unwrap_or_default(),
                ));
            }
            // The live closed before the leave arrived.
            "error" if id.is_some() && id == self.leaving => self.is_out(),
            "error" if message["code"] == "not_joined" => {}
            "error" => self.refused(id).await,
            _ => {}
        }
        None
    }

    fn is_shown_friends(&mut self, message: &Value) {
        let Some(live) = self.live else { return };
        let world = self.world();
        if message["live_id"] == world.live_id(live).as_str() {
            let users: BTreeSet<String> = message["user_ids"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
            if message["count"] != users.len() {
                world.found(format!("other friends are named than counted: {message}"));
            }
            let partial = message["partial"] == true;
            world.shown_friends(
                self.place,
                Some(ShownFriends {
                    live,
                    users,
                    partial,
                }),
            );
        }
    }

    fn is_out(&mut self) {
        self.leaving = None;
        self.out(How::Left);
    }

    fn is_in(&mut self, message: &Value) {
        let Some(asked) = self.asked.take() else {
            return;
        };
        let world = self.world();
        if message["live_id"] != world.live_id(asked.live).as_str() {
            world.found(format!(
                "u{} asked to join l{}, and was told {message}",
                self.device.user, asked.live
            ));
        }
        let before = self.live.replace(asked.live);
        if before != Some(asked.live) {
            // The first `friends` comes after this.
            let nobody = ShownFriends {
                live: asked.live,
                users: BTreeSet::new(),
                partial: false,
            };
            world.shown_friends(self.place, self.asks_for_friends().then_some(nobody));
            if let Some(before) = before {
                world.left(self.device.user, before, self.place, How::Left);
            }
        }
        if asked.epoch.is_some() && world.epoch(asked.live) == asked.epoch {
            oracle::joined(
                &world,
                self.device.user,
                asked.live,
                self.place.gateway,
                message,
            );
        }
        if !world.joined(self.device.user, asked.live, self.place, asked.epoch) {
            self.again = Some((Instant::now() + AGAIN, asked.live));
        }
    }

    fn is_over(&mut self, message: &Value) {
        let world = self.world();
        let of = message["live_id"].as_str().unwrap_or_default();
        if let Some(live) = self
            .live
            .take_if(|live| world.live_id(*live).as_str() == of)
        {
            world.shown_friends(self.place, None);
            world.left(self.device.user, live, self.place, How::Closed);
        }
    }

    /// After a failed join nobody knows whether the old seat is still taken: the device leaves
    /// that, too.
    async fn refused(&mut self, id: Option<u64>) {
        let Some(asked) = self
            .asked
            .take_if(|asked| id.is_none_or(|id| id == asked.id))
        else {
            return;
        };
        if self.live != Some(asked.live) {
            self.world()
                .left(self.device.user, asked.live, self.place, How::Left);
        }
        self.leave().await;
    }
}
