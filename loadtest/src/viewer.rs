//! One viewer: connects, joins its live, answers the share's wake-ups with heartbeats, leaves when told.
//!
//! A viewer keeps no timer. Its [`Seat`] is woken by the share's ticker; everything it counts goes to the
//! share's tally. Each heartbeat carries an `id`, so that a lost ack is known as such and does not shift the
//! latencies of those after it.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::{Instant, timeout};
use tokio_tungstenite::tungstenite::Error as WsError;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, WebSocketConfig};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::args::JoinBy;
use crate::error_kind::{self, Kind};
use crate::plan::{CrowdPlan, Role};
use crate::share::Share;
use crate::storm::back::come_back;

pub(crate) type Socket = WebSocketStream<TcpStream>;

/// Where the share reaches a viewer that has joined.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    wake: Notify,
    leaving: AtomicBool,
    cut: AtomicBool,
    stays: bool,
}

impl Seat {
    pub(crate) fn new(stays: bool) -> Self {
        Self { stays, ..Self::default() }
    }

    /// Lose the connection, with no close frame, and come back; unless it is a bystander's.
    pub(crate) fn cut(&self) {
        if !self.stays {
            self.cut.store(true, Ordering::Relaxed);
            self.wake.notify_one();
        }
    }

    /// A heartbeat is due.
    pub(crate) fn beat(&self) {
        self.wake.notify_one();
    }

    /// Close the socket and go.
    pub(crate) fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
        self.wake.notify_one();
    }
}

/// Any message from the gateway, as far as a viewer or a dashboard looks at it.
#[derive(Debug, Deserialize)]
pub(crate) struct Incoming<'a> {
    #[serde(rename = "type", borrow)]
    pub(crate) kind: Cow<'a, str>,
    #[serde(default)]
    id: Option<u64>,
    #[serde(default, borrow)]
    pub(crate) code: Option<Cow<'a, str>>,
    #[serde(default)]
    fan: Option<bool>,
    #[serde(default)]
    pub(crate) viewers: Option<i64>,
    #[serde(default)]
    pub(crate) fans: Option<i64>,
    #[serde(default, borrow)]
    pub(crate) quality: Option<Cow<'a, str>>,
}

/// Why a socket could not be had.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) kind: Kind,
    /// 503, and when to come back if it was said.
    pub(crate) later: Option<Option<Duration>>,
}

impl From<WsError> for Refusal {
    fn from(error: WsError) -> Self {
        let later = match &error {
            WsError::Http(answer) if answer.status().as_u16() == 503 => {
                let after = answer.headers().get("retry-after").and_then(|after| after.to_str().ok()?.parse().ok());
                Some(after.map(Duration::from_secs))
            }
            _ => None,
        };
        Self { kind: error_kind::of_socket(&error), later }
    }
}

/// A socket to the gateway with the given query. The buffers are small: tens of thousands of these share a
/// process, and no message here is longer than some 200 bytes.
pub(crate) async fn open_socket(plan: &CrowdPlan, source: Option<usize>, query: &str) -> Result<Socket, Kind> {
    knock(plan, source, query).await.map_err(|refusal| refusal.kind)
}

/// As [`open_socket`], with what the gateway said if it said no.
pub(crate) async fn knock(plan: &CrowdPlan, source: Option<usize>, query: &str) -> Result<Socket, Refusal> {
    let connected = plan.target.connect(source).await;
    let stream = connected.map_err(|error| Refusal { kind: error_kind::of_connect(&error), later: None })?;
    let url = format!("ws://{}{}?{query}", plan.target.address, plan.target.path);
    let config = WebSocketConfig::default()
        .read_buffer_size(512)
        .write_buffer_size(0)
        .max_write_buffer_size(16 * 1024)
        .max_message_size(Some(64 * 1024))
        .max_frame_size(Some(64 * 1024));
    let upgraded = client_async_with_config(url, stream, Some(config)).await;
    Ok(upgraded?.0)
}

/// A viewer's whole life. The permit bounds how many are between connect and `joined`.
pub(crate) async fn attend(share: Arc<Share>, number: usize, permit: OwnedSemaphorePermit) {
    let role = share.role(number);
    // Boxed, and dropped before the long stay: the handshake's state is larger than all else of a viewer.
    let entered = Box::pin(enter(&share, number, role)).await;
    drop(permit);
    match entered {
        Ok(socket) => {
            let seat = share.sit_down(number, role);
            // A task of its own, so that the memory of this one is given back.
            tokio::spawn(Box::pin(Viewer::new(share, seat, number, socket).stay()));
        }
        Err(kind) => share.turned_away(kind),
    }
}

async fn enter(share: &Share, number: usize, role: Role) -> Result<Socket, Kind> {
    let plan = &share.plan;
    let live_id = plan.live_id(role.live);
    let by_url = plan.join == JoinBy::Url;
    let mut query = format!("user_id={}&role=viewer", plan.user_id(number));
    if by_url {
        query.push_str(&format!("&live_id={live_id}"));
    }
    let source = (plan.sources > 1).then_some(number % plan.sources);
    let began = Instant::now();
    let opening = timeout(plan.connect_timeout, open_socket(plan, source, &query));
    let mut socket = opening.await.unwrap_or(Err(error_kind::CONNECT_TIMEOUT))?;
    share.tally(|tally| {
        tally.connected += 1;
        tally.connects.mark();
        tally.connect.record(began.elapsed());
    });
    let by_message = (!by_url).then_some(&*live_id);
    let joining = timeout(plan.connect_timeout, join(&mut socket, by_message));
    let asked = joining.await.unwrap_or(Err(error_kind::JOIN_TIMEOUT))?.unwrap_or(began);
    share.tally(|tally| tally.join.record(asked.elapsed()));
    Ok(socket)
}

/// Waits for `joined`; says when it was asked for, if it had to be.
pub(crate) async fn join(socket: &mut Socket, live_id: Option<&str>) -> Result<Option<Instant>, Kind> {
    let mut asked = None;
    loop {
        let text = match socket.next().await {
            Some(Ok(Message::Text(text))) => text,
            Some(Ok(Message::Close(frame))) => return Err(error_kind::of_close(frame.as_ref())),
            Some(Ok(_)) => continue,
            Some(Err(error)) => return Err(error_kind::of_socket(&error)),
            None => return Err(error_kind::of_close(None)),
        };
        let message: Incoming<'_> = serde_json::from_str(&text).map_err(|_| error_kind::BAD_FRAME)?;
        match (&*message.kind, live_id) {
            ("welcome", Some(live_id)) => {
                asked = Some(Instant::now());
                let join = format!(r#"{{"type":"join","live_id":"{live_id}","id":0}}"#);
                socket.send(Message::text(join)).await.map_err(|error| error_kind::of_socket(&error))?;
            }
            ("joined", _) => return Ok(asked),
            ("error", _) => {
                return Err(error_kind::of_code(message.code.as_deref().unwrap_or("none")));
            }
            _ => {}
        }
    }
}

/// A heartbeat that was not answered yet.
struct Beat {
    id: u64,
    sent: Instant,
    steady: bool,
}

/// How a stay ended.
enum End {
    Left,
    Cut,
    Lost(Kind),
}

pub(crate) struct Viewer {
    share: Arc<Share>,
    seat: Arc<Seat>,
    number: usize,
    role: Role,
    socket: Socket,
    outstanding: VecDeque<Beat>,
    last_id: u64,
}

impl Viewer {
    pub(crate) fn new(share: Arc<Share>, seat: Arc<Seat>, number: usize, socket: Socket) -> Self {
        let role = share.role(number);
        Self { share, seat, number, role, socket, outstanding: VecDeque::new(), last_id: 0 }
    }

    pub(crate) async fn stay(mut self) {
        let end = loop {
            let step = tokio::select! {
                biased;
                frame = self.socket.next() => self.received(frame).await,
                () = self.seat.wake.notified() => self.woken().await,
            };
            if let Err(end) = step {
                break end;
            }
        };
        if let End::Cut = end {
            let Self { share, number, socket, outstanding, .. } = self;
            drop(socket);
            share.was_cut(outstanding.len() as u64);
            tokio::spawn(come_back(share, number));
            return;
        }
        self.share.stood_up(self.role, |tally| {
            tally.abandoned += self.outstanding.len() as u64;
            match end {
                End::Left | End::Cut => tally.left += 1,
                End::Lost(kind) => {
                    tally.lost += 1;
                    tally.error(kind, 1);
                }
            }
        });
    }

    async fn woken(&mut self) -> Result<(), End> {
        if self.seat.cut.load(Ordering::Relaxed) {
            return Err(End::Cut);
        }
        if self.seat.leaving.load(Ordering::Relaxed) {
            return Err(self.leave().await);
        }
        // A wake-up from just before the phase ended: the share has begun to wait for the last acks.
        if self.share.is_cool() {
            return Ok(());
        }
        // In the closed loop a wake-up starts the loop, or restarts one whose ack was lost.
        let looping = self.share.is_looping()
            && self.outstanding.back().is_some_and(|beat| beat.sent.elapsed() < self.share.plan.heartbeat);
        if looping { Ok(()) } else { self.beat().await }
    }

    async fn beat(&mut self) -> Result<(), End> {
        self.last_id += 1;
        let steady = self.share.is_steady();
        let text = format!(r#"{{"type":"heartbeat","id":{}}}"#, self.last_id);
        self.outstanding.push_back(Beat { id: self.last_id, sent: Instant::now(), steady });
        self.share.tally(|tally| {
            tally.sent += 1;
            tally.steady_sent += u64::from(steady);
        });
        self.socket.send(Message::text(text)).await.map_err(|error| End::Lost(error_kind::of_socket(&error)))
    }

    async fn received(
        &mut self,
        frame: Option<Result<Message, tokio_tungstenite::tungstenite::Error>>,
    ) -> Result<(), End> {
        match frame {
            Some(Ok(Message::Text(text))) => match serde_json::from_str::<Incoming<'_>>(&text) {
                Ok(message) => self.told(&message).await,
                Err(_) => {
                    self.share.tally(|tally| tally.error(error_kind::BAD_FRAME, 1));
                    Ok(())
                }
            },
            Some(Ok(Message::Close(frame))) => Err(End::Lost(error_kind::of_close(frame.as_ref()))),
            Some(Ok(_)) => Ok(()),
            Some(Err(error)) => Err(End::Lost(error_kind::of_socket(&error))),
            None => Err(End::Lost(error_kind::of_close(None))),
        }
    }

    async fn told(&mut self, message: &Incoming<'_>) -> Result<(), End> {
        let kind = match &*message.kind {
            "heartbeat_ack" => {
                self.acked(message);
                return if self.share.is_looping() { self.beat().await } else { Ok(()) };
            }
            "error" => error_kind::of_code(message.code.as_deref().unwrap_or("none")),
            "closed" => error_kind::LIVE_CLOSED,
            "reconnect" => error_kind::RECONNECT_TOLD,
            _ => return Ok(()),
        };
        self.share.tally(|tally| tally.error(kind, 1));
        Ok(())
    }

    fn acked(&mut self, message: &Incoming<'_>) {
        let position = self.outstanding.iter().position(|beat| Some(beat.id) == message.id);
        let beat = position.and_then(|position| self.outstanding.remove(position));
        let Some(beat) = beat else {
            return self.share.tally(|tally| tally.error(error_kind::UNASKED_ACK, 1));
        };
        let latency = beat.sent.elapsed();
        let late = latency > self.share.plan.ack_timeout;
        let in_window = self.share.is_steady();
        let stays = self.share.plan.stays(self.number);
        self.share.tally(|tally| {
            tally.acked += 1;
            tally.steady_acked += u64::from(in_window);
            tally.error(error_kind::LATE_ACK, u64::from(late));
            if beat.steady {
                tally.ack.record(latency);
                if stays {
                    tally.storm.stayed_ack.record(latency);
                }
            }
            let flags = &mut tally.fan_flags;
            match message.fan {
                Some(true) => flags.told_true += 1,
                Some(false) => flags.told_false += 1,
                None => flags.told_null += 1,
            }
            flags.wrong += u64::from(message.fan.is_some_and(|fan| fan != self.role.fan));
        });
    }

    /// A clean close, which makes the viewer gone at once for the gateway.
    async fn leave(&mut self) -> End {
        let frame = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        self.share.tally(|tally| tally.leaves.mark());
        if let Err(error) = self.socket.close(Some(frame)).await {
            return End::Lost(error_kind::of_socket(&error));
        }
        let drained = async { while let Some(Ok(_)) = self.socket.next().await {} };
        match timeout(self.share.plan.ack_timeout, drained).await {
            Ok(()) => End::Left,
            Err(_) => End::Lost("close_unanswered".into()),
        }
    }
}
