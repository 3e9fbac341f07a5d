//! Dashboards: one for each live on each gateway, from the first moment to the last. Each message is held against what a
//! dashboard must never show; the last one is what an audit compares.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_tungstenite::tungstenite::Message;

use super::device::{Said, Socket, connect};
use super::findings::{Broken, Promise};
use super::hall::Hall;
use super::truth::{Live, Place};
use crate::error_kind;

const AGAIN: Duration = Duration::from_millis(250);

/// How far a dashboard trusts what it shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quality {
    Exact,
    Partial,
    Stale,
}

/// What a dashboard shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) epoch: u32,
    pub(crate) viewers: i64,
    pub(crate) fans: i64,
    pub(crate) quality: Quality,
}

/// All dashboards of a run; they end when this is dropped.
pub(crate) struct Screens {
    shown: Arc<Mutex<Vec<Vec<Option<Shown>>>>>,
    _tasks: JoinSet<()>,
}

impl Screens {
    pub(crate) fn open(hall: &Arc<Hall>) -> Self {
        // Who watches a live holds it, and a quiet one is to be held by one gateway.
        let lives = hall.busy;
        let shown = Arc::new(Mutex::new(vec![vec![None; hall.doors.len()]; lives]));
        let mut tasks = JoinSet::new();
        for live in 0..lives {
            for gateway in 0..hall.doors.len() {
                tasks.spawn(Screen { hall: hall.clone(), live, gateway, shown: shown.clone() }.run());
            }
        }
        Self { shown, _tasks: tasks }
    }

    /// What the dashboard of a live on a gateway shows.
    pub(crate) fn of(&self, live: Live, gateway: usize) -> Option<Shown> {
        lock(&self.shown)[live][gateway]
    }

    /// Lives whose dashboard on that gateway calls its figures exact.
    pub(crate) fn exact_on(&self, gateway: usize) -> Vec<Live> {
        let shown = lock(&self.shown);
        let exact = |live: &Live| shown[*live][gateway].is_some_and(|shown| shown.quality == Quality::Exact);
        (0..shown.len()).filter(exact).collect()
    }
}

struct Screen {
    hall: Arc<Hall>,
    live: Live,
    gateway: usize,
    shown: Arc<Mutex<Vec<Vec<Option<Shown>>>>>,
}

impl Screen {
    async fn run(self) {
        loop {
            if self.hall.is_up(self.gateway) {
                let place = self.hall.place(self.gateway);
                let query = format!("user_id=dash-{}-{}&role=service", self.live, self.gateway);
                if let Ok(socket) = connect(&self.hall, self.gateway, &query).await {
                    let why = Box::pin(self.watch(socket)).await;
                    self.show(None);
                    self.ended(place, &why);
                }
            }
            sleep(AGAIN).await;
        }
    }

    fn ended(&self, place: Place, why: &str) {
        // A kill is seen by the socket before it is in the books.
        if !self.hall.may_lose(place) {
            let broken = Broken::new(Promise::SocketLost, format!("a dashboard's: {why}"));
            self.hall.broke(broken.live(self.hall.live_id(self.live)).gateway(self.gateway));
        }
    }

    async fn watch(&self, mut socket: Socket) -> String {
        let mut watching: Option<u32> = None;
        let mut look = Instant::now();
        loop {
            tokio::select! {
                frame = socket.next() => match frame {
                    Some(Ok(Message::Text(text))) => {
                        let Ok(said) = serde_json::from_str::<Said<'_>>(&text) else { continue };
                        match &*said.kind {
                            "counts" => {
                                watching = said.epoch;
                                self.told(&said);
                            }
                            "closed" | "error" => {
                                watching = None;
                                self.show(None);
                            }
                            _ => {}
                        }
                    }
                    Some(Ok(Message::Close(frame))) => return error_kind::of_close(frame.as_ref()).into_owned(),
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return error_kind::of_socket(&error).into_owned(),
                    None => return "end of stream".to_owned(),
                },
                () = sleep_until(look) => {
                    look = Instant::now() + AGAIN;
                    if watching.is_none() && self.hall.epoch(self.live).is_some() {
                        let text = format!(r#"{{"type":"watch","live_id":"{}"}}"#, self.hall.live_id(self.live));
                        let _ = socket.send(Message::text(text)).await;
                        // An answer may take as long as a call to Redis.
                        look += 4 * AGAIN;
                    }
                }
            }
        }
    }

    fn show(&self, shown: Option<Shown>) {
        lock(&self.shown)[self.live][self.gateway] = shown;
    }

    fn told(&self, said: &Said<'_>) {
        let quality = match said.quality.as_deref() {
            Some("exact") => Quality::Exact,
            Some("partial") => Quality::Partial,
            _ => Quality::Stale,
        };
        let now = Shown {
            epoch: said.epoch.unwrap_or_default(),
            viewers: said.viewers.unwrap_or(-1),
            fans: said.fans.unwrap_or(-1),
            quality,
        };
        let before = lock(&self.shown)[self.live][self.gateway].replace(now);
        self.hall.books().findings.shown += 1;
        let wrong = if now.viewers < 0 || now.fans < 0 {
            "less than nobody"
        } else if quality == Quality::Stale && emptied(before, now) {
            "nobody, while Redis is away"
        } else {
            return;
        };
        let broken = Broken::new(Promise::Dashboard, format!("{wrong}: {now:?} after {before:?}"));
        self.hall.broke(broken.live(self.hall.live_id(self.live)).gateway(self.gateway));
    }
}

/// More than a few were there, and now all are gone at once.
fn emptied(before: Option<Shown>, now: Shown) -> bool {
    before.is_some_and(|before| {
        before.epoch == now.epoch && ((before.fans > 3 && now.fans == 0) || (before.viewers > 3 && now.viewers == 0))
    })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fall_to_zero_within_an_epoch_is_an_emptying() {
        let shown = |epoch, fans| Shown { epoch, viewers: 10, fans, quality: Quality::Stale };
        assert!(emptied(Some(shown(1, 9)), shown(1, 0)));
        assert!(!emptied(Some(shown(1, 9)), shown(2, 0)));
        assert!(!emptied(Some(shown(1, 2)), shown(1, 0)));
        assert!(!emptied(Some(shown(1, 9)), shown(1, 5)));
        assert!(!emptied(None, shown(1, 0)));
    }
}
