//! Owns the connection on which words of other gateways are heard: sharded pub/sub, one channel a live.
//!
//! The client library loses subscriptions in several ways and says so in none: an error answer shifts later answers, its
//! own resubscription gives up half way, a slot that moves falls silent, a server that hangs is not noticed. So nothing
//! of that is used. A connection is a *session*: it carries subscriptions only, one channel a call, each confirmed
//! again from time to time (which mends a silent one), with a pulse that notices a dead connection. Whatever goes wrong,
//! the session ends and a new one subscribes to everything again; each channel is then [`Heard::Ready`] anew.
//!
//! Born at connect, ends when the store is dropped.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::{ClientLike, EventInterface, PubsubInterface};
use fred::types::{Builder, ConnectHandle, Message};
use tokio::sync::broadcast::{Receiver, error::RecvError};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::keys;
use crate::metrics::Metrics;
use crate::store::wire::Switchboard;
use crate::store::{Channel, Heard};

/// A connection and the handshake on it.
const CONNECT_DEADLINE: Duration = Duration::from_secs(3);
/// One subscription's way there and back.
const SUBSCRIBE_DEADLINE: Duration = Duration::from_secs(1);
/// How often a live's subscription is confirmed.
const CONFIRM: Duration = Duration::from_secs(30);
/// How often the gateways' channel is confirmed: the pulse of the connection.
const PULSE: Duration = Duration::from_secs(2);
/// How often due confirmations are looked for.
const TICK: Duration = Duration::from_secs(1);
/// Waits between sessions, from and to.
const RETRY: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// Longer words are not passed on; the longest that a gateway tells has 256 slices in it.
const MAX_WORD: usize = 64 * 1024;

/// The listening side of the wire; its task ends when this is dropped.
#[derive(Debug)]
pub(super) struct Ear {
    board: Arc<Switchboard>,
    _task: DropGuard,
}

impl Ear {
    /// Listens from here on. The builder's settings are the door's, without reconnection: sessions do that.
    pub(super) fn open(builder: Builder, metrics: Arc<Metrics>) -> Self {
        let (board, stop) = (Arc::new(Switchboard::default()), CancellationToken::new());
        let task = Task { builder, board: board.clone(), metrics };
        let stopped = stop.clone();
        // Boxed: the library's futures are large.
        let listening = Box::pin(task.run());
        tokio::spawn(async move { stopped.run_until_cancelled(listening).await });
        Self { board, _task: stop.drop_guard() }
    }

    pub(super) fn board(&self) -> &Switchboard {
        &self.board
    }
}

struct Task {
    builder: Builder,
    board: Arc<Switchboard>,
    metrics: Arc<Metrics>,
}

/// Subscriptions that were confirmed, each with the time and with the ticket of the wish.
type Confirmed = HashMap<Channel, (Instant, u64)>;

/// A connection that ends with the session, also when the task is stopped in the middle of something.
struct Session {
    client: Client,
    connection: ConnectHandle,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Task {
    async fn run(self) {
        let mut wait = RETRY.0;
        let mut told = false;
        loop {
            let began = Instant::now();
            let why = self.session().await;
            if began.elapsed() > RETRY.1 {
                wait = RETRY.0;
            }
            self.metrics.resubscriptions.inc();
            if wait >= RETRY.1 && !told {
                tracing::warn!(%why, "words of other gateways are not heard; their counts come late until they are");
            } else {
                tracing::debug!(%why, "listening anew to the words of other gateways");
            }
            told = wait >= RETRY.1;
            sleep(wait / 2 + rand::random_range(Duration::ZERO..=wait / 2)).await;
            wait = (wait * 2).min(RETRY.1);
        }
    }

    /// Listens for as long as the connection lasts; answers why it ended.
    async fn session(&self) -> String {
        let client = match self.builder.build() {
            Ok(client) => client,
            Err(why) => return why.to_string(),
        };
        let mut session = Session { connection: client.connect(), client };
        match timeout(CONNECT_DEADLINE, session.client.wait_for_connect()).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return why.to_string(),
            Err(_) => return "no connection in time".to_owned(),
        }
        let heard = session.client.message_rx();
        let client = session.client.clone();
        tokio::select! {
            why = self.keep_subscribed(&client) => why,
            why = self.pass_on(heard) => why,
            _ = &mut session.connection => "the connection ended".to_owned(),
        }
    }

    /// Makes the subscriptions those that are wanted, and keeps them so.
    async fn keep_subscribed(&self, client: &Client) -> String {
        let mut confirmed = Confirmed::new();
        loop {
            if let Err(why) = self.subscribe(client, &mut confirmed).await {
                return why.to_string();
            }
            tokio::select! {
                () = self.board.changed() => {}
                () = sleep(TICK) => {}
            }
        }
    }

    async fn subscribe(&self, client: &Client, confirmed: &mut Confirmed) -> Result<(), Error> {
        let unwanted: Vec<Channel> = confirmed.keys().filter(|channel| !self.board.wants(channel)).cloned().collect();
        for channel in unwanted {
            confirmed.remove(&channel);
            within(client.sunsubscribe(keys::channel(&channel))).await?;
        }
        for wanted in self.board.wanted() {
            // Looked at before each call, so that many lives do not keep the pulse waiting.
            for (channel, ticket) in [(Channel::Gateways, 0), wanted] {
                let every = if channel == Channel::Gateways { PULSE } else { CONFIRM };
                let last = confirmed.get(&channel).filter(|(_, known)| *known == ticket).map(|(at, _)| *at);
                if last.is_some_and(|at| at.elapsed() < every) {
                    continue;
                }
                // One channel a call: the library takes each answer for a whole call's.
                within(client.ssubscribe(keys::channel(&channel))).await?;
                confirmed.insert(channel.clone(), (Instant::now(), ticket));
                if last.is_none() {
                    self.board.cry(Heard::Ready(channel));
                }
            }
        }
        Ok(())
    }

    async fn pass_on(&self, mut messages: Receiver<Message>) -> String {
        loop {
            match messages.recv().await {
                Ok(message) => {
                    let text = message.value.as_str().filter(|text| text.len() <= MAX_WORD);
                    match (keys::read_channel(&message.channel), text) {
                        (Some(on), Some(text)) => self.board.cry(Heard::Word { on, text: Arc::from(&*text) }),
                        _ => Metrics::count(&self.metrics.words_ignored, "malformed"),
                    }
                }
                Err(RecvError::Lagged(_)) => self.board.cry(Heard::Lost),
                Err(RecvError::Closed) => return "the library stopped listening".to_owned(),
            }
        }
    }
}

async fn within(call: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    match timeout(SUBSCRIBE_DEADLINE, call).await {
        Ok(done) => done,
        Err(_) => Err(Error::new(fred::error::ErrorKind::Timeout, "no answer to a subscription")),
    }
}
