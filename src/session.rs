//! Owns one WebSocket: one task, one loop, from welcome to close.
//!
//! The task owns its socket and nothing else. It hears two things, frames from the client and wishes from the gateway
//! ([`Signals`]), and answers in the order in which they come. It runs over any stream, so that tests and load
//! generators can do without file descriptors. Whatever ends the task, its place in the rooms ends with it.

mod line;
mod places;
mod requests;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};

use crate::admission;
use crate::auth::Identity;
use crate::clock::{Millis, millis};
use crate::close::Close;
use crate::conn::{Conn, Signals};
use crate::core::Core;
use crate::drain;
use crate::ids::LiveId;
use crate::metrics::Metrics;
use crate::protocol::{self, Acks, ErrorCode, Refusal, Request, RequestId, Say};
use crate::reaper;
pub use line::Transport;
use line::{Heard, Line};
use places::Places;
use wire::Patience;

/// Who a new socket is and what it asked for in its URL.
#[derive(Debug)]
pub struct Greeting {
    /// Who it is.
    pub identity: Identity,
    /// `?live_id=`, as sent: the live to join at once.
    pub join: Option<String>,
    /// `?watch=`, as sent: the live to watch at once.
    pub watch: Option<String>,
    /// The room that it takes up as long as it lasts; `None` where nobody keeps the door.
    pub room: Option<admission::Room>,
}

/// What the loop hears.
enum Event {
    Frame(Message),
    /// A part of a message.
    Part,
    Wish(Signals),
    Over(Close),
}

/// What a frame asks for.
enum Due {
    Nothing,
    /// To be sent, with what waits to be sent; or only that.
    Send(Option<Message>),
    /// A request that is no heartbeat.
    Serve(Utf8Bytes),
    Refuse(&'static str),
    End(Close),
}

/// Ends the loop.
type Ends = Result<(), Close>;

struct Session<S> {
    core: Arc<Core>,
    line: Line<S>,
    conn: Arc<Conn>,
    places: Places,
    /// A wish was served last: now a frame, if there is one, so that wishes that keep coming silence no client.
    frames_first: bool,
    /// When a Ping first went out since it was last heard.
    asked: Option<Millis>,
    /// How long the client was told to wait before it reconnects, in ms.
    move_after: Millis,
    /// What its connection takes up.
    room: Option<admission::Room>,
}

/// Runs a WebSocket, whose handshake is done, until it ends; `early` is what the client has already sent on it. Not an
/// `async fn`: that would keep room for the socket twice, as long as it lives.
pub fn run<S: Transport>(
    core: Arc<Core>,
    transport: S,
    early: Vec<u8>,
    greeting: Greeting,
) -> impl Future<Output = ()> + Send {
    let Greeting { identity, join, watch, room } = greeting;
    let conn = Arc::new(Conn::new(identity, core.clock.now()));
    core.metrics.sockets_opened.inc();
    core.metrics.sockets.inc();
    core.reaper.admit(&conn);
    core.streamers.admit(&conn);
    if core.is_draining() {
        // It came while everybody was told to go, and may have missed that.
        conn.signal(Signals::STOP);
    }
    let places = Places::new(core.clone(), conn.clone());
    let line = Line::new(transport, early);
    let mut session = Session { core, line, conn, places, frames_first: false, asked: None, move_after: 0, room };
    async move {
        let greeted = Box::pin(session.greet(join, watch)).await;
        let why = match greeted {
            Ok(()) => session.talk().await,
            Err(why) => why,
        };
        let why = Box::pin(session.hear_out(why)).await;
        Box::pin(session.end(why)).await;
    }
}

impl<S: Transport> Session<S> {
    /// Serves what comes until the socket ends; answers why it did.
    async fn talk(&mut self) -> Close {
        loop {
            let served = match self.event().await {
                Event::Frame(frame) => self.frame(frame).await,
                Event::Part => {
                    self.heard();
                    Ok(())
                }
                Event::Wish(wish) => Box::pin(self.wish(wish)).await,
                Event::Over(why) => Err(why),
            };
            if let Err(why) = served {
                return why;
            }
        }
    }

    /// A client that was gone when it was answered may have said goodbye before: that waits behind what was answered.
    async fn hear_out(&mut self, why: Close) -> Close {
        match why {
            Close::Vanished => wire::last_words(&mut self.line).await,
            other => other,
        }
    }

    async fn greet(&mut self, join: Option<String>, watch: Option<String>) -> Ends {
        let (core, conn) = (self.core.clone(), self.conn.clone());
        let welcome = Say::Welcome {
            user_id: &conn.identity.user,
            gateway_id: &core.id(),
            heartbeat_ms: millis(core.config.heartbeat),
            timeout_ms: millis(core.config.timeout),
        };
        self.say(&welcome, None).await?;
        let wishes = [
            join.map(|live| LiveId::parse(&live).map(Request::Join)),
            watch.map(|live| LiveId::parse(&live).map(Request::Watch)),
        ];
        for wish in wishes.into_iter().flatten() {
            self.serve(None, wish.map_err(Refusal::from)).await?;
        }
        Ok(())
    }

    /// The next thing to do. Frames come before a judgement, so that a socket is judged after what it sent was read.
    async fn event(&mut self) -> Event {
        const ENDS: Signals = Signals::STOP.and(Signals::REMOVED);
        const WISHES: Signals = Signals::ENDED.and(Signals::COUNTS).and(Signals::PING).and(Signals::MOVE);
        let (conn, line) = (&self.conn, &mut self.line);
        let frames_first = self.frames_first;
        let event = std::future::poll_fn(|cx| {
            let wish = conn.take(if frames_first { ENDS } else { ENDS.and(WISHES) });
            if !wish.is_empty() {
                return Poll::Ready(Event::Wish(wish));
            }
            match line.poll_heard(cx) {
                Poll::Ready(Ok(Heard::Message(frame))) => return Poll::Ready(Event::Frame(frame)),
                Poll::Ready(Ok(Heard::Part)) => return Poll::Ready(Event::Part),
                Poll::Ready(Err(why)) => return Poll::Ready(Event::Over(wire::blame(&why))),
                Poll::Pending => {}
            }
            // Only who is about to wait needs to be woken; what was wished until now is seen after this.
            conn.register(cx.waker());
            let wish = conn.take(ENDS.and(WISHES).and(Signals::JUDGE));
            if wish.is_empty() { Poll::Pending } else { Poll::Ready(Event::Wish(wish)) }
        })
        .await;
        self.frames_first = matches!(event, Event::Wish(_));
        event
    }

    /// A frame came, of whatever kind: that is a heartbeat.
    fn heard(&mut self) {
        self.conn.heard(self.core.clock.now());
        self.asked = None;
        self.core.metrics.heartbeats.inc();
    }

    async fn frame(&mut self, frame: Message) -> Ends {
        self.heard();
        match self.due(frame) {
            Due::Nothing => Ok(()),
            Due::Send(message) => self.put(message).await,
            // Boxed, as what comes seldom must not make every idle socket's task larger.
            Due::Serve(text) => {
                Box::pin(async {
                    let (id, request) = protocol::parse(&text);
                    self.serve(id, request).await
                })
                .await
            }
            Due::Refuse(why) => Box::pin(self.serve(None, Err(Refusal::new(ErrorCode::BadMessage, why)))).await,
            Due::End(why) => Err(why),
        }
    }

    /// What a frame asks for. A heartbeat is answered from here, so that its task keeps nothing else of it.
    fn due(&self, frame: Message) -> Due {
        match frame {
            Message::Text(text) => match protocol::parse(&text) {
                // Whose live has ended is told so first.
                (id, Ok(Request::Heartbeat)) if !self.places.sits_in_ended() => {
                    Due::Send(Some(Message::Text(self.ack(id))))
                }
                _ => Due::Serve(text),
            },
            Message::Binary(_) => Due::Refuse("messages are text"),
            // The answering Pong is queued by the library.
            Message::Ping(_) => Due::Send(None),
            Message::Pong(_) | Message::Frame(_) => Due::Nothing,
            Message::Close(_) => Due::End(Close::ByClient),
        }
    }

    async fn wish(&mut self, wish: Signals) -> Ends {
        if wish.has(Signals::STOP) {
            return Err(Close::GoingAway);
        }
        if wish.has(Signals::REMOVED) {
            return Err(Close::Removed);
        }
        if wish.has(Signals::JUDGE) && is_silent(&self.core, &self.conn) {
            // Whoever is not judged now is told to judge again.
            match self.asked {
                // A Ping may have been wished, but a request was served for long, or the task did not run.
                None => self.ping().await?,
                Some(at) if self.core.clock.now() < at + self.time_to_answer() => {}
                Some(_) => return Err(Close::HeartbeatTimeout),
            }
        }
        if wish.has(Signals::ENDED) {
            self.tell_closed().await?;
        }
        if wish.has(Signals::COUNTS) {
            for message in self.places.new_counts() {
                self.send(message).await?;
            }
        }
        if wish.has(Signals::MOVE) {
            self.move_after = rand::random_range(drain::reconnect_after(self.core.config.flush));
            self.say(&Say::Reconnect { after_ms: self.move_after }, None).await?;
            return Err(Close::Drain);
        }
        if wish.has(Signals::PING) {
            self.ping().await?;
        }
        Ok(())
    }

    async fn ping(&mut self) -> Ends {
        self.transmit(Message::Ping(tungstenite::Bytes::new())).await?;
        self.asked.get_or_insert(self.core.clock.now());
        Ok(())
    }

    fn time_to_answer(&self) -> Millis {
        time_to_answer(&self.core)
    }

    async fn tell_closed(&mut self) -> Ends {
        for record in self.places.take_closed() {
            self.say(&Say::closed(&record), None).await?;
        }
        Ok(())
    }

    /// The answer to a heartbeat.
    fn ack(&self, id: Option<&RequestId>) -> Utf8Bytes {
        let heartbeat_ms = millis(self.core.config.heartbeat);
        let Some((room, member)) = self.places.seat() else {
            let nowhere = Say::HeartbeatAck { live_id: None, fan: None, viewers: None, fans: None, heartbeat_ms };
            return nowhere.text(id);
        };
        let (figures, fan) = (room.figures(), member.fan());
        if let Some(text) = room.acks.load().text(figures, fan, id) {
            return text;
        }
        let acks = Acks::new(&room.record.live, figures, heartbeat_ms);
        room.acks.store(acks.clone());
        acks.text(figures, fan, id).unwrap_or_default()
    }

    async fn say(&mut self, say: &Say<'_>, id: Option<&RequestId>) -> Ends {
        self.send(say.text(id)).await
    }

    async fn send(&mut self, text: Utf8Bytes) -> Ends {
        self.transmit(Message::Text(text)).await
    }

    async fn transmit(&mut self, message: Message) -> Ends {
        self.put(Some(message)).await
    }

    /// Sends with what waits to be sent, if it is not blocked for too long.
    fn put(&mut self, message: Option<Message>) -> impl Future<Output = Ends> {
        let (core, conn) = (&self.core, &self.conn);
        wire::put(&mut self.line, message, || patience(core, conn))
    }

    /// The place in the rooms ends first, then the socket: a slow goodbye keeps nobody online. Who vanished may be about
    /// to come back (a page reload, a lost network) and keeps its seat until the timeout; who moves to another gateway
    /// keeps it until it is there.
    async fn end(self, why: Close) {
        let Self { core, mut line, conn, mut places, move_after, room, .. } = self;
        Metrics::count(&core.metrics.sockets_closed, why.label());
        if why == Close::Vanished {
            conn.set_away();
            drop(line);
            // The seat is kept, the connection is gone: a herd that lost its sockets finds room.
            drop(room);
            core.metrics.sockets.dec();
            core.streamers.forget(&conn);
            places.keep_seat_only();
            absence(&core, &conn, &mut places).await;
            places.leave_all(why.label());
            conn.close();
            return;
        }
        if why == Close::Drain {
            let there = tokio::time::Instant::now() + Duration::from_millis(move_after) + drain::HOLD;
            places.hold_seat();
            wire::say_goodbye(&mut line, why).await;
            drop(line);
            drop(room);
            core.metrics.sockets.dec();
            let _ = tokio::time::timeout_at(there, absence(&core, &conn, &mut places)).await;
            places.leave_all(why.label());
            core.streamers.forget(&conn);
            conn.close();
            return;
        }
        places.leave_all(why.label());
        core.streamers.forget(&conn);
        conn.close();
        wire::say_goodbye(&mut line, why).await;
        core.metrics.sockets.dec();
    }
}

/// Waits until one that vanished has been silent for `timeout`, its live has ended, a moderator has taken its seat, or the
/// gateway stops.
async fn absence(core: &Core, conn: &Conn, places: &mut Places) {
    while places.seat().is_some() {
        let wish = std::future::poll_fn(|cx| {
            conn.register(cx.waker());
            let wish = conn.take(Signals::STOP.and(Signals::REMOVED).and(Signals::ENDED).and(Signals::JUDGE));
            if wish.is_empty() { Poll::Pending } else { Poll::Ready(wish) }
        })
        .await;
        if wish.has(Signals::STOP.and(Signals::REMOVED)) || (wish.has(Signals::JUDGE) && is_silent(core, conn)) {
            return;
        }
        if wish.has(Signals::ENDED) {
            places.take_closed();
        }
    }
}

fn time_to_answer(core: &Core) -> Millis {
    (millis(core.config.timeout) / 4).min(reaper::ANSWER)
}

/// How long a send to this client may wait for room. No Ping reaches one whose buffer is full, and its frames are not read
/// meanwhile: what it sent is looked for when `timeout` has passed since it was last heard. After a stall of the process
/// that may be long ago, so a client always has a moment.
fn patience(core: &Core, conn: &Conn) -> Patience {
    let timeout = core.config.timeout;
    let silent_at = conn.last_heard() + millis(timeout);
    let left = silent_at.saturating_sub(core.clock.now()).max(time_to_answer(core) / 2);
    Patience { silent: Duration::from_millis(left).min(timeout), talking: timeout }
}

fn is_silent(core: &Core, conn: &Conn) -> bool {
    core.clock.now().saturating_sub(conn.last_heard()) >= millis(core.config.timeout)
}
