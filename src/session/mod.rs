//! One WebSocket: one task, one loop, from the welcome to the close.
//!
//! The task owns its socket and nothing else. It serves frames from the client and [`Signals`] from
//! the gateway, in the order in which they come. It runs over any stream, so that tests and load
//! generators need no file descriptors. However the task ends, the drops of [`Memberships`] and
//! [`SocketConnection`] undo its effects.

pub mod close_codes;
pub(crate) mod context;
pub(crate) mod drain;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod handshake;
mod heartbeat;
mod io;
mod joining;
pub(crate) mod limits;
mod memberships;
mod message_rate;
pub mod messages;
pub(crate) mod reaper;
mod refresh;
mod requests;
mod socket;
pub(crate) mod socketless;
mod spans;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::{self, Message, Utf8Bytes};
use tracing::Instrument;

use crate::base::clock::{Millis, Moment, millis};
use crate::base::gcra::Load;
use crate::base::identity::Role;
use crate::base::ids::LiveId;
use crate::base::metrics::Metrics;
use crate::presence::conn::{Conn, Signals};
use crate::session::close_codes::Close;
use crate::session::context::SessionContext;
use crate::session::messages::{
    ClientMessage, ErrorCode, JoinRequest, Refusal, RequestId, ServerMessage,
};
pub use handshake::{Handshake, SocketPermit};
use io::SendTimeout;
use memberships::Memberships;
pub use socket::Transport;
use socket::{ReceivedFrame, Socket};

/// An event that the loop serves.
enum LoopEvent {
    Frame(Message),
    /// A part of a message.
    Part,
    Signals(Signals),
    End(Close),
}

/// The action that a frame asks for.
enum FrameAction {
    Nothing,
    /// Send this message, if there is one, and everything that waits to be sent.
    Send(Option<Message>),
    /// Serve a request that is no heartbeat.
    Serve(Utf8Bytes),
    Refuse(&'static str),
    /// The frame is beyond the message rate; if it is a text frame, its text follows.
    Limit(Load, Option<Utf8Bytes>),
    End(Close),
}

/// An error ends the session.
type SessionResult = Result<(), Close>;

/// The transport's side of a session. Its drop closes the socket, returns the permit and counts the
/// socket as closed.
struct SocketConnection<S> {
    socket: Socket<S>,
    _permit: Option<SocketPermit>,
    metrics: Arc<Metrics>,
    role: Role,
    /// Why the session ended; `None` if its task panicked or the runtime stopped.
    ended: Option<Close>,
}

impl<S> SocketConnection<S> {
    fn new(
        socket: Socket<S>,
        permit: Option<SocketPermit>,
        metrics: Arc<Metrics>,
        role: Role,
    ) -> Self {
        metrics.sockets_opened.inc();
        metrics.sockets.inc();
        metrics.sockets_of(role).inc();
        Self {
            socket,
            _permit: permit,
            metrics,
            role,
            ended: None,
        }
    }
}

impl<S> Drop for SocketConnection<S> {
    fn drop(&mut self) {
        self.metrics.sockets.dec();
        self.metrics.sockets_of(self.role).dec();
        Metrics::count(&self.metrics.sockets_closed, Close::label_of(self.ended));
    }
}

struct Session<S> {
    context: Arc<SessionContext>,
    connection: SocketConnection<S>,
    memberships: Memberships,
    /// The loop served signals last, so it reads a frame next if one has arrived. Otherwise a
    /// stream of signals could keep the loop from reading frames.
    frames_first: bool,
    /// When the first Ping went out since the client was last heard.
    pinged_at: Option<Moment>,
    /// The state of the rate limiter for the client's messages.
    sent: u64,
    /// The reconnect delay that the client was told, in ms.
    reconnect_after: u32,
}

/// Runs a WebSocket until it ends. Its handshake is done; `early` holds the bytes that the client
/// has already sent after it. This is not an `async fn`: the future of one would hold the transport
/// twice for its whole life.
pub(crate) fn run<S: Transport>(
    context: Arc<SessionContext>,
    transport: S,
    early: Vec<u8>,
    handshake: Handshake,
) -> impl Future<Output = ()> + Send {
    let Handshake {
        identity,
        claims,
        join,
        watch,
        permit,
    } = handshake;
    let conn = Arc::new(Conn::new(identity, context.core.clock.now()));
    if let Some(claims) = claims {
        let end = context.end_of(&claims);
        conn.hold_token(claims, end);
    }
    let connection = SocketConnection::new(
        Socket::new(transport, early),
        permit,
        context.core.metrics.clone(),
        conn.identity.role,
    );
    let memberships = Memberships::new(context.clone(), conn.clone());
    memberships.count_for_user();
    context.reaper.admit(&conn);
    context.refuse_unwelcome(&conn);
    if context.is_draining() {
        // The drain may have signalled all open sockets just before this one was admitted.
        conn.signal(Signals::STOP);
    }
    let mut session = Session {
        context,
        connection,
        memberships,
        frames_first: false,
        pinged_at: None,
        sent: 0,
        reconnect_after: 0,
    };
    async move {
        let span = spans::of(&session.memberships.conn);
        let welcomed = Box::pin(session.welcome(join, watch).instrument(span)).await;
        let mut why = match welcomed {
            Ok(()) => session.serve_events().await,
            Err(why) => why,
        };
        if why == Close::Vanished {
            // The client may have closed before the answer to an earlier frame found it gone.
            why = Box::pin(io::read_to_close(&mut session.connection.socket)).await;
        }
        Box::pin(session.end(why)).await;
    }
}

impl<S: Transport> Session<S> {
    /// Serves events until the session ends; returns the reason.
    async fn serve_events(&mut self) -> Close {
        loop {
            let served = match self.event().await {
                LoopEvent::Frame(frame) => self.frame(frame).await,
                LoopEvent::Part => match self.take(None) {
                    Load::Within => Ok(()),
                    load => Box::pin(self.refuse_load(load, None)).await,
                },
                LoopEvent::Signals(signals) => Box::pin(self.signals(signals)).await,
                LoopEvent::End(why) => Err(why),
            };
            if let Err(why) = served {
                return why;
            }
        }
    }

    async fn welcome(&mut self, join: Option<String>, watch: Option<String>) -> SessionResult {
        let context = self.context.clone();
        let conn = self.memberships.conn.clone();
        tracing::debug!(role = conn.identity.role.as_str(), "socket opened");
        let welcome = ServerMessage::Welcome {
            user_id: &conn.identity.user,
            gateway_id: &context.core.gateways.id(),
            socket_id: conn.socket_id(),
            heartbeat_ms: millis(context.core.config.heartbeat),
            timeout_ms: millis(context.core.config.timeout),
        };
        self.send(&welcome, None).await?;
        if let Some(live) = join {
            let request = match LiveId::parse(&live) {
                Ok(live) => Ok(ClientMessage::Join(JoinRequest::plain(live))),
                Err(why) => Err(Refusal::from(why)),
            };
            self.serve(None, request).await?;
        }
        if let Some(live) = watch {
            let request = match LiveId::parse(&live) {
                Ok(live) => Ok(ClientMessage::Watch(live)),
                Err(why) => Err(Refusal::from(why)),
            };
            self.serve(None, request).await?;
        }
        Ok(())
    }

    /// Waits for the next event. Frames come before [`Signals::JUDGE`] and [`Signals::EXPIRED`], so
    /// that the task reads what the client sent before it judges the socket.
    async fn event(&mut self) -> LoopEvent {
        const URGENT: Signals = Signals::STOP
            .and(Signals::REMOVED)
            .and(Signals::CROWDED_OUT);
        const ALL_BUT_JUDGE: Signals = URGENT
            .and(Signals::ENDED)
            .and(Signals::COUNTS)
            .and(Signals::FRIENDS)
            .and(Signals::YOU)
            .and(Signals::PING)
            .and(Signals::MOVE);
        let conn = &self.memberships.conn;
        let socket = &mut self.connection.socket;
        let before_frames = if self.frames_first {
            URGENT
        } else {
            ALL_BUT_JUDGE
        };
        let event = std::future::poll_fn(|cx| {
            let signals = conn.take(before_frames);
            if !signals.is_empty() {
                return Poll::Ready(LoopEvent::Signals(signals));
            }
            match socket.poll_receive(cx) {
                Poll::Ready(Ok(ReceivedFrame::Message(frame))) => {
                    return Poll::Ready(LoopEvent::Frame(frame));
                }
                Poll::Ready(Ok(ReceivedFrame::Part)) => return Poll::Ready(LoopEvent::Part),
                Poll::Ready(Err(error)) => {
                    return Poll::Ready(LoopEvent::End(io::close_of(&error)));
                }
                Poll::Pending => {}
            }
            // The waker is registered only when the task is about to wait. The second `take` sees a
            // signal that was set before the registration.
            conn.register(cx.waker());
            let signals = conn.take(ALL_BUT_JUDGE.and(Signals::JUDGE).and(Signals::EXPIRED));
            if signals.is_empty() {
                Poll::Pending
            } else {
                Poll::Ready(LoopEvent::Signals(signals))
            }
        })
        .await;
        self.frames_first = matches!(event, LoopEvent::Signals(_));
        event
    }

    /// Notes that a frame or a part of a message (`None`) arrived, and counts it against the rate.
    fn take(&mut self, frame: Option<&Message>) -> Load {
        let now = self.context.core.clock.now();
        let load = self.load_of(frame, now);
        self.heard(now);
        load
    }

    async fn frame(&mut self, frame: Message) -> SessionResult {
        match self.action(frame) {
            FrameAction::Nothing => Ok(()),
            FrameAction::Send(message) => self.put(message).await,
            // Boxed: a rare request must not make the task of every idle socket larger.
            FrameAction::Serve(text) => {
                let span = spans::of(&self.memberships.conn);
                Box::pin(
                    async {
                        let (id, request) = messages::parse(&text);
                        self.serve(id, request).await
                    }
                    .instrument(span),
                )
                .await
            }
            FrameAction::Limit(load, text) => Box::pin(self.refuse_load(load, text)).await,
            FrameAction::Refuse(why) => {
                let span = spans::of(&self.memberships.conn);
                Box::pin(
                    self.serve(None, Err(Refusal::new(ErrorCode::BadMessage, why)))
                        .instrument(span),
                )
                .await
            }
            FrameAction::End(why) => Err(why),
        }
    }

    /// Counts a frame, and decides what to do with it. A heartbeat is answered here, without an
    /// `await`, so that the task's future stores nothing for it.
    fn action(&mut self, frame: Message) -> FrameAction {
        let load = self.take(Some(&frame));
        match frame {
            Message::Text(text) if load != Load::Within => FrameAction::Limit(load, Some(text)),
            _ if load != Load::Within => FrameAction::Limit(load, None),
            Message::Text(text) => match messages::parse(&text) {
                // If the live has ended, `serve` tells the client so before it answers.
                (id, Ok(ClientMessage::Heartbeat { watching }))
                    if !self.memberships.seat_has_ended() =>
                {
                    self.memberships.note_watching(watching);
                    FrameAction::Send(Some(Message::Text(self.memberships.ack(id))))
                }
                _ => FrameAction::Serve(text),
            },
            Message::Binary(_) => FrameAction::Refuse("messages are text"),
            // tungstenite queues the Pong.
            Message::Ping(_) => FrameAction::Send(None),
            Message::Pong(_) | Message::Frame(_) => FrameAction::Nothing,
            Message::Close(_) => FrameAction::End(Close::ByClient),
        }
    }

    async fn signals(&mut self, signals: Signals) -> SessionResult {
        if signals.has(Signals::STOP) {
            return Err(Close::GoingAway);
        }
        if signals.has(Signals::REMOVED) {
            return Err(Close::Removed);
        }
        if signals.has(Signals::CROWDED_OUT) {
            return Err(Close::TooManySockets);
        }
        if signals.has(Signals::EXPIRED)
            && self.memberships.conn.expires_at() <= self.context.core.clock.now()
        {
            return Err(Close::Expired);
        }
        if signals.has(Signals::JUDGE) && is_silent(&self.context, &self.memberships.conn) {
            // The reaper signals again if the client stays silent.
            match self.pinged_at {
                // The Ping is late: a request took long, or the task did not run.
                None => self.ping().await?,
                Some(at) if self.context.core.clock.now() < at + answer_time(&self.context) => {}
                Some(_) => return Err(Close::HeartbeatTimeout),
            }
        }
        if signals.has(Signals::ENDED) {
            self.tell_closed().await?;
        }
        if signals.has(Signals::COUNTS) {
            for message in self.memberships.new_counts() {
                self.put(Some(Message::Text(message))).await?;
            }
        }
        if signals.has(Signals::YOU) {
            self.look_at_rights().await?;
        }
        if signals.has(Signals::FRIENDS)
            && let Some(message) = self.memberships.new_friends()
        {
            self.put(Some(Message::Text(message))).await?;
        }
        if signals.has(Signals::MOVE) {
            self.reconnect_after = rand::random_range(0..=drain::RECONNECT_WITHIN) as u32;
            self.send(
                &ServerMessage::Reconnect {
                    after_ms: self.reconnect_after.into(),
                },
                None,
            )
            .await?;
            return Err(Close::Drain);
        }
        if signals.has(Signals::PING) {
            self.ping().await?;
        }
        Ok(())
    }

    async fn ping(&mut self) -> SessionResult {
        self.put(Some(Message::Ping(tungstenite::Bytes::new())))
            .await?;
        self.pinged_at.get_or_insert(self.context.core.clock.now());
        Ok(())
    }

    async fn tell_closed(&mut self) -> SessionResult {
        for record in self.memberships.take_closed() {
            self.send(&ServerMessage::closed(&record), None).await?;
        }
        Ok(())
    }

    async fn send(&mut self, message: &ServerMessage<'_>, id: Option<&RequestId>) -> SessionResult {
        self.put(Some(Message::Text(message.text(id)))).await
    }

    /// Sends a message, if there is one, and everything that waits to be sent.
    fn put(&mut self, message: Option<Message>) -> impl Future<Output = SessionResult> {
        let context = &self.context;
        let conn = &self.memberships.conn;
        io::send(&mut self.connection.socket, message, || {
            send_timeout(context, conn)
        })
    }

    /// Ends the memberships first, then the socket: a slow goodbye keeps nobody online. Two kinds
    /// of client are expected back and keep their seat for a while. A client that vanished (a page
    /// reload, a lost network) keeps it until the timeout. A client that moves to another gateway
    /// keeps it until it had time to arrive there.
    async fn end(self, why: Close) {
        let Self {
            context,
            mut connection,
            mut memberships,
            reconnect_after,
            ..
        } = self;
        spans::of(&memberships.conn)
            .in_scope(|| tracing::debug!(why = why.label(), "socket closed"));
        connection.ended = Some(why);
        memberships.ended = Some(why);
        match why {
            Close::Vanished => {
                memberships.conn.set_away();
                drop(connection);
                memberships.keep_seat_only();
                memberships.stop_streaming();
                absence(&context, &mut memberships).await;
            }
            Close::Drain => {
                let arrived =
                    Instant::now() + Duration::from_millis(reconnect_after.into()) + drain::HOLD;
                memberships.keep_seat_only();
                io::say_goodbye(&mut connection.socket, why).await;
                drop(connection);
                let _ = timeout_at(arrived, absence(&context, &mut memberships)).await;
            }
            _ => {
                drop(memberships);
                io::say_goodbye(&mut connection.socket, why).await;
            }
        }
    }
}

/// Waits while an absent client keeps its seat and its user stays online. The wait ends when the
/// client has been silent for `timeout`, a moderator has removed the user, or the gateway stops.
async fn absence(context: &SessionContext, memberships: &mut Memberships) {
    let conn = memberships.conn.clone();
    while memberships.is_present() {
        let signals = std::future::poll_fn(|cx| {
            conn.register(cx.waker());
            let signals = conn.take(
                Signals::STOP
                    .and(Signals::REMOVED)
                    .and(Signals::ENDED)
                    .and(Signals::JUDGE),
            );
            if signals.is_empty() {
                Poll::Pending
            } else {
                Poll::Ready(signals)
            }
        })
        .await;
        if signals.has(Signals::STOP.and(Signals::REMOVED))
            || (signals.has(Signals::JUDGE) && is_silent(context, &conn))
        {
            return;
        }
        if signals.has(Signals::ENDED) {
            memberships.take_closed();
        }
    }
}

/// How long a client may take to answer a Ping.
fn answer_time(context: &SessionContext) -> Millis {
    (millis(context.core.config.timeout) / 4).min(reaper::ANSWER)
}

/// How long a send to this client may wait for room. A client whose buffer is full cannot be sent a
/// Ping, and the session reads no frames meanwhile; it looks for them once `timeout` has passed
/// since it last heard the client. After a stall of the process that may be long ago, so the result
/// is never shorter than half the time for an answer to a Ping.
fn send_timeout(context: &SessionContext, conn: &Conn) -> SendTimeout {
    let timeout = context.core.config.timeout;
    let silent_at = conn.last_heard() + millis(timeout);
    let left = silent_at
        .since(context.core.clock.now())
        .max(answer_time(context) / 2);
    SendTimeout {
        silent: Duration::from_millis(left).min(timeout),
        talking: timeout,
    }
}

fn is_silent(context: &SessionContext, conn: &Conn) -> bool {
    context.core.clock.now().since(conn.last_heard()) >= millis(context.core.config.timeout)
}
