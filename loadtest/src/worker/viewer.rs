//! One viewer: connects, joins its live, answers the worker's wake-ups with heartbeats, leaves when
//! told.
//!
//! A viewer keeps no timer and starts no task; it counts in the worker's tally. Each heartbeat
//! carries an `id`, so that a lost ack is known as such and does not shift the latencies of the
//! heartbeats after it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use super::line::{Hearing, ViewerLine};
use super::state::{ViewerHandle, Wake, WorkerState};
use crate::client::{self, Failure, WebSocket};
use crate::error_kind::{self, ErrorName};
use crate::plan::{JoinBy, ViewerPart};

/// Connects and joins, as the plan says, and records how long both took.
pub(super) async fn enter(worker: &WorkerState, number: usize) -> Result<ViewerLine, Failure> {
    let plan = &worker.plan;
    let live_id = plan.live_id(worker.role(number).live);
    let began = Instant::now();
    let session = timeout(
        plan.connect_timeout,
        worker.lines.begin(plan, number, &live_id),
    );
    let line = session
        .await
        .unwrap_or_else(|_| Some(Err(error_kind::JOIN_TIMEOUT.into())));
    match line {
        Some(line) => {
            let line = line?;
            worker.tally(|tally| tally.join.record(began.elapsed()));
            Ok(line)
        }
        None => {
            let socket = open_socket(worker, number).await?;
            Ok(ViewerLine::Socket(Box::new(socket)))
        }
    }
}

async fn open_socket(worker: &WorkerState, number: usize) -> Result<WebSocket, Failure> {
    let plan = &worker.plan;
    let source = if plan.sources > 1 {
        Some(number % plan.sources)
    } else {
        None
    };
    let connected = |took| {
        worker.tally(|tally| {
            tally.connected += 1;
            tally.connects.mark();
            tally.connect.record(took);
        });
    };
    let (socket, asked) = come_in(worker, number, source, plan.join, connected).await?;
    worker.tally(|tally| tally.join.record(asked.elapsed()));
    Ok(socket)
}

/// Connects from this source and joins. Returns the time at which the viewer asked to join, too.
pub(super) async fn come_in(
    worker: &WorkerState,
    number: usize,
    source: Option<usize>,
    by: JoinBy,
    connected: impl FnOnce(Duration),
) -> Result<(WebSocket, Instant), Failure> {
    let plan = &worker.plan;
    let live_id = plan.live_id(worker.role(number).live);
    let mut query = format!("user_id={}&role=viewer", plan.user_id(number));
    let by_message = match by {
        JoinBy::Url => {
            query.push_str(&format!("&live_id={live_id}"));
            None
        }
        JoinBy::Message => Some(&*live_id),
    };
    let began = Instant::now();
    let mut socket = client::connect(&plan.target, source, &query, plan.connect_timeout).await?;
    connected(began.elapsed());
    let joining = timeout(plan.connect_timeout, join(&mut socket, by_message));
    let asked = joining
        .await
        .unwrap_or_else(|_| Err(error_kind::JOIN_TIMEOUT.into()))?;
    Ok((socket, asked.unwrap_or(began)))
}

/// Waits for `joined`. With a live, asks for it after the welcome, and returns when it did.
async fn join(socket: &mut WebSocket, live_id: Option<&str>) -> Result<Option<Instant>, Failure> {
    let mut asked = None;
    loop {
        let text = client::receive(socket).await?;
        let message = client::parse(&text)?;
        match (&*message.kind, live_id) {
            ("welcome", Some(live_id)) => {
                asked = Some(Instant::now());
                client::send(
                    socket,
                    format!(r#"{{"type":"join","live_id":"{live_id}","id":0}}"#),
                )
                .await?;
            }
            ("joined", _) => return Ok(asked),
            ("error", _) => return Err(error_kind::of_code(message.code.as_deref()).into()),
            _ => {}
        }
    }
}

/// A heartbeat that was not answered yet.
struct OutstandingBeat {
    id: u64,
    sent: Instant,
    steady: bool,
}

/// How a stay ended.
pub(super) enum StayEnd {
    Left,
    Cut,
    Lost(ErrorName),
}

pub(super) struct Viewer {
    worker: Arc<WorkerState>,
    handle: Arc<ViewerHandle>,
    number: usize,
    role: ViewerPart,
    line: ViewerLine,
    outstanding: VecDeque<OutstandingBeat>,
    last_id: u64,
}

impl Viewer {
    pub(super) fn new(
        worker: Arc<WorkerState>,
        handle: Arc<ViewerHandle>,
        number: usize,
        line: ViewerLine,
    ) -> Self {
        let role = worker.role(number);
        Self {
            worker,
            handle,
            number,
            role,
            line,
            outstanding: VecDeque::new(),
            last_id: 0,
        }
    }

    /// Sends heartbeats until the viewer leaves, is cut or is lost, and records which. Then the
    /// socket is closed.
    pub(super) async fn stay(mut self) -> StayEnd {
        let end = loop {
            let step = tokio::select! {
                biased;
                heard = self.line.heard() => match heard {
                    Ok(heard) => self.heard(heard).await,
                    Err(failure) => Err(StayEnd::Lost(failure.kind)),
                },
                wake = self.handle.woken() => self.woken(wake).await,
            };
            if let Err(end) = step {
                break end;
            }
        };
        let unanswered = self.outstanding.len() as u64;
        match &end {
            StayEnd::Cut => self.worker.viewer_was_cut(unanswered),
            StayEnd::Left => self.worker.viewer_ended(self.role, |tally| {
                tally.abandoned += unanswered;
                tally.left += 1;
            }),
            StayEnd::Lost(kind) => self.worker.viewer_ended(self.role, |tally| {
                tally.abandoned += unanswered;
                tally.lost += 1;
                tally.error(kind.clone(), 1);
            }),
        }
        end
    }

    async fn woken(&mut self, wake: Wake) -> Result<(), StayEnd> {
        match wake {
            Wake::Cut => return Err(StayEnd::Cut),
            Wake::Leave => return Err(self.leave().await),
            // The wake-up is from just before the phase ended: the worker already waits for the
            // last acks.
            Wake::Heartbeat if self.worker.is_cool() => return Ok(()),
            Wake::Heartbeat => {}
        }
        // In the closed loop a wake-up starts the loop, or restarts one whose ack was lost.
        let looping = self.worker.is_looping()
            && self
                .outstanding
                .back()
                .is_some_and(|beat| beat.sent.elapsed() < self.worker.plan.heartbeat);
        if looping { Ok(()) } else { self.beat().await }
    }

    async fn beat(&mut self) -> Result<(), StayEnd> {
        self.last_id += 1;
        let steady = self.worker.is_steady();
        self.outstanding.push_back(OutstandingBeat {
            id: self.last_id,
            sent: Instant::now(),
            steady,
        });
        self.worker.tally(|tally| {
            tally.sent += 1;
            tally.steady_sent += u64::from(steady);
        });
        self.line
            .beat(self.last_id)
            .await
            .map_err(|failure| StayEnd::Lost(failure.kind))
    }

    async fn heard(&mut self, heard: Hearing) -> Result<(), StayEnd> {
        match heard {
            Hearing::Ack { id, fan } => {
                self.acked(id, fan);
                if self.worker.is_looping() {
                    return self.beat().await;
                }
            }
            Hearing::Trouble(kind) => self.worker.tally(|tally| tally.error(kind, 1)),
            Hearing::Nothing => {}
        }
        Ok(())
    }

    fn acked(&mut self, id: Option<u64>, fan: Option<bool>) {
        let position = self.outstanding.iter().position(|beat| Some(beat.id) == id);
        let beat = position.and_then(|position| self.outstanding.remove(position));
        let Some(beat) = beat else {
            return self
                .worker
                .tally(|tally| tally.error(error_kind::UNASKED_ACK, 1));
        };
        let latency = beat.sent.elapsed();
        let late = latency > self.worker.plan.ack_timeout;
        let in_window = self.worker.is_steady();
        let stays = self.worker.plan.stays(self.number);
        self.worker.tally(|tally| {
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
            match fan {
                Some(true) => flags.told_true += 1,
                Some(false) => flags.told_false += 1,
                None => flags.told_null += 1,
            }
            flags.wrong += u64::from(fan.is_some_and(|fan| fan != self.role.fan));
        });
    }

    /// Leaves cleanly, so that the gateway counts the viewer no more.
    async fn leave(&mut self) -> StayEnd {
        self.worker.tally(|tally| tally.leaves.mark());
        match self.line.leave(&self.worker.plan).await {
            Ok(()) => StayEnd::Left,
            Err(kind) => StayEnd::Lost(kind),
        }
    }
}
