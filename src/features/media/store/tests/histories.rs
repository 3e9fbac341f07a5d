//! Ten thousand random histories of one live. Messages are lost, doubled and late; gateways read,
//! decide and write in any order, and die in between; the store's answer to a write is lost; back ends
//! close the live; servers restart, share a name and its ids, refuse second publishers without a
//! word, lose sessions before their first heartbeat, and answer late when they are asked; publishers
//! resume their sessions. At rest the live is open exactly if a session publishes. The store never
//! loses data here: what it lost is not known at rest.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::base::ids::Epoch;
use crate::base::media_event::{EndKnownBy, StreamNews, StreamSession};
use crate::base::media_server::SecondPublisher;
use crate::features::media::store::state::*;
use crate::features::media::store::tests::{NOW, server};

const HISTORIES: u64 = 10_000;

/// What is true of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Truth {
    #[default]
    Unknown,
    Publishes,
    Silent,
    Ended,
    /// A back end closed its live.
    Dismissed,
}

/// What the model knows of a session.
#[derive(Debug, Clone, Copy, Default)]
struct Modelled {
    truth: Truth,
    /// Whether it has to go on saying that it goes on.
    owes_signs: bool,
    /// The number of its last sign.
    sign: u64,
    /// The latest time in a message.
    at: Option<u64>,
    began: u64,
    /// The number of the message that changed it last.
    changed: u64,
}

/// A server, and a session of it.
type Name = (String, String, String);

/// The truth about all sessions, message by message.
#[derive(Debug, Default)]
struct Model {
    sessions: BTreeMap<Name, Modelled>,
    signs: u64,
    messages: u64,
}

impl Model {
    fn is_on(&self) -> bool {
        self.at(Truth::Publishes).next().is_some()
    }

    fn at(&self, truth: Truth) -> impl Iterator<Item = (&Name, &Modelled)> {
        let is_so = move |(_, session): &(&Name, &Modelled)| session.truth == truth;
        self.sessions.iter().filter(is_so)
    }

    /// The sessions that a message of a server without sessions may be about.
    fn meant(&self, heard: &Heard) -> Vec<Name> {
        let own = name(heard);
        if heard.session != StreamSession::Any {
            return vec![own];
        }
        let is_there = |truth| {
            let mut named: Vec<(u64, Name)> = Vec::new();
            for (name, session) in self.at(truth) {
                if (&name.0, &name.1) == (&own.0, &own.1) {
                    named.push((session.changed, name.clone()));
                }
            }
            named.sort();
            let names: Vec<Name> = named.into_iter().map(|(_, name)| name).collect();
            names
        };
        let on = [is_there(Truth::Publishes), is_there(Truth::Dismissed)].concat();
        if !on.is_empty() {
            return on;
        }
        is_there(Truth::Silent)
            .pop()
            .map_or(vec![own], |last| vec![last])
    }

    /// A message took effect, of which a gateway heard at this time.
    fn hear(&mut self, heard: &Heard, now: u64) {
        for name in self.meant(heard) {
            self.messages += 1;
            self.hear_of(&name, heard, now);
        }
    }

    fn hear_of(&mut self, name: &Name, heard: &Heard, now: u64) {
        let before = self.sessions.get(name).copied().unwrap_or_default();
        if heard.at.is_some() && heard.at < before.at {
            return;
        }
        let is_double = heard.at.is_some() && heard.at == before.at;
        let is_unique = heard.session.is_unique();
        let mut known = before;
        match (heard.news, before.truth) {
            (StreamNews::Publish | StreamNews::Alive, Truth::Unknown)
            | (StreamNews::Publish, Truth::Silent) => known.began = now,
            (StreamNews::Publish, Truth::Ended | Truth::Dismissed) if !is_unique && !is_double => {
                known.began = now;
            }
            (StreamNews::Alive, Truth::Publishes | Truth::Silent) => {}
            // A stream that is named again has another session.
            (StreamNews::Alive, Truth::Ended) if heard.session == StreamSession::Any => {
                known.began = now;
            }
            (StreamNews::Unnamed, Truth::Publishes) => known.truth = Truth::Silent,
            (StreamNews::Unnamed, _) | (StreamNews::Left, Truth::Unknown) => return,
            // Such an end says nothing about a later beginning.
            (StreamNews::Done, Truth::Unknown) if !is_unique && heard.at.is_none() => return,
            (StreamNews::Done | StreamNews::Left, _) => known.truth = Truth::Ended,
            (StreamNews::Publish, Truth::Publishes) if heard.at > before.at => {}
            _ => return,
        }
        let begins = heard.news == StreamNews::Publish && before.truth != Truth::Publishes;
        if begins {
            known.owes_signs = heard.end_known_by != EndKnownBy::NextSession;
        }
        if begins || heard.news == StreamNews::Alive {
            known.truth = Truth::Publishes;
        }
        known.owes_signs |= heard.news == StreamNews::Alive;
        if heard.news == StreamNews::Alive || begins && known.owes_signs {
            self.signs += 1;
            known.sign = self.signs;
        }
        known.at = known.at.max(heard.at);
        known.changed = self.messages;
        self.sessions.insert(name.clone(), known);
        let ends = !matches!(before.truth, Truth::Unknown | Truth::Ended);
        for (other, session) in &mut self.sessions {
            let is_beside = other != name && (&other.0, &other.1) == (&name.0, &name.1);
            let is_over = matches!(session.truth, Truth::Unknown | Truth::Ended);
            if !is_beside || is_over || session.owes_signs {
                continue;
            }
            let is_one_of_all = heard.session != StreamSession::Any;
            let shows_signs = heard.news == StreamNews::Alive && is_one_of_all;
            if shows_signs && session.truth == Truth::Publishes {
                self.signs += 1;
                session.sign = self.signs;
                session.owes_signs = true;
            }
            let lost = heard.second_publisher != SecondPublisher::Joins
                && session.began < known.began
                && known.began + LET_IN_AFTER <= now;
            let refused = heard.second_publisher == SecondPublisher::EndsSilently
                && session.began > known.began
                && session.began + LET_IN_AFTER <= now;
            if heard.news == StreamNews::Done && ends && (lost || refused) {
                session.truth = Truth::Ended;
            }
        }
    }

    /// The sessions that gave no sign since this one fell silent.
    fn silence(&mut self, last: u64) {
        for session in self.sessions.values_mut() {
            if session.truth == Truth::Publishes && session.owes_signs && session.sign <= last {
                session.truth = Truth::Silent;
            }
        }
    }

    /// A back end closed the live.
    fn dismiss(&mut self) {
        for session in self.sessions.values_mut() {
            if session.truth == Truth::Publishes {
                session.truth = Truth::Dismissed;
            }
        }
    }

    /// Another epoch began. Nobody lets those in again that were silent in the last one.
    fn begin_epoch(&mut self) {
        self.sessions
            .retain(|_, session| session.truth != Truth::Silent);
        for session in self.sessions.values_mut() {
            session.truth = Truth::Ended;
        }
    }
}

fn name(heard: &Heard) -> Name {
    let session = heard.session.as_str().to_owned();
    (heard.server.to_string(), heard.instance.clone(), session)
}

/// What the store has of the live.
#[derive(Debug, Default)]
struct Stored {
    version: u64,
    streams: Streams,
    open: Option<Epoch>,
    last: u64,
}

impl Stored {
    fn open_epoch(&self) -> Option<OpenEpoch> {
        let epoch = self.open?;
        Some(OpenEpoch {
            epoch,
            by_stream: true,
        })
    }

    /// Opens the live, or finds it open.
    fn open(&mut self) -> Epoch {
        let last = &mut self.last;
        *self.open.get_or_insert_with(|| {
            *last += 1;
            Epoch(*last)
        })
    }

    /// Closes an epoch, and no other.
    fn close(&mut self, epoch: Epoch) {
        if self.open == Some(epoch) {
            self.open = None;
        }
    }

    /// Writes what a gateway decided, unless another one wrote since.
    fn write(&mut self, seen: u64, next: Streams, must_be_open: Option<Epoch>) -> bool {
        if self.version != seen || must_be_open.is_some() && self.open != must_be_open {
            return false;
        }
        self.version += 1;
        self.streams = next;
        true
    }
}

/// What a gateway is doing, from one step to the next.
#[derive(Debug, Clone)]
enum Work {
    /// It is about to read.
    Hear(Heard),
    /// It has read and decided.
    Write {
        heard: Heard,
        seen: u64,
        next: Streams,
        at: u64,
    },
    /// It has decided to begin a session.
    Open {
        heard: Heard,
        seen: u64,
        read: Streams,
    },
    /// It has opened the live, or found it open.
    Begin {
        heard: Heard,
        seen: u64,
        read: Streams,
        epoch: Epoch,
    },
    /// It finishes the close that another gateway decided.
    CloseFirst { heard: Heard, epoch: Epoch },
    /// A grace has passed.
    Judge,
    /// It has read, and found the stream of the epoch over.
    End {
        seen: u64,
        next: Streams,
        epoch: Epoch,
    },
    /// It has written, or read, that the stream is over.
    Close(Epoch),
    /// Heartbeats stayed away after the sign of this number.
    Silence(u64),
    /// It has read which sessions are silent.
    WriteSilence {
        seen: u64,
        next: Streams,
        epoch: Epoch,
        last: u64,
    },
}

impl Work {
    /// The message that the gateway works on.
    fn message(&self) -> Option<&Heard> {
        match self {
            Self::Hear(heard)
            | Self::Write { heard, .. }
            | Self::Open { heard, .. }
            | Self::Begin { heard, .. }
            | Self::CloseFirst { heard, .. } => Some(heard),
            _ => None,
        }
    }
}

#[derive(Debug, Default)]
struct World {
    stored: Stored,
    model: Model,
    works: Vec<Work>,
    /// In milliseconds, since the history began.
    now: u64,
    /// A sign that a gateway saw some time ago.
    last_seen: u64,
    /// Whether the store's answer to the next write is lost.
    loses_answer: bool,
}

impl World {
    /// Takes one step of a piece of work. Answers what is left of it.
    fn step(&mut self, work: Work) -> Option<Work> {
        let at = NOW + self.now;
        let stored = &mut self.stored;
        match work {
            Work::Hear(heard) => {
                let read = stored.streams.clone();
                let seen = stored.version;
                match read.hear(&heard, stored.open_epoch(), at) {
                    Step::Nothing => {
                        self.model.hear(&heard, at);
                        None
                    }
                    Step::Write(next) => Some(Work::Write {
                        heard,
                        seen,
                        next,
                        at,
                    }),
                    Step::Begin => Some(Work::Open { heard, seen, read }),
                    Step::CloseFirst => Some(Work::CloseFirst {
                        heard,
                        epoch: stored.open.unwrap(),
                    }),
                }
            }
            Work::Write {
                heard,
                seen,
                next,
                at,
            } => {
                let is_sign = matches!(heard.news, StreamNews::Alive | StreamNews::Unnamed);
                let must_be_open = is_sign.then_some(next.epoch());
                if stored.write(seen, next, must_be_open) {
                    self.model.hear(&heard, at);
                    // A session that was silent came back to a live that closed in the same moment.
                    if stored.open != Some(stored.streams.epoch()) {
                        self.model.dismiss();
                    }
                    return self.after_answer(heard);
                }
                Some(Work::Hear(heard))
            }
            Work::Open { heard, seen, read } => Some(Work::Begin {
                epoch: stored.open(),
                heard,
                seen,
                read,
            }),
            Work::Begin {
                heard,
                seen,
                read,
                epoch,
            } => {
                let next = read.begin(&heard, epoch, at);
                let is_new = epoch != stored.streams.epoch();
                if stored.write(seen, next, Some(epoch)) {
                    if is_new {
                        self.model.begin_epoch();
                    }
                    self.model.hear(&heard, at);
                    return self.after_answer(heard);
                }
                Some(Work::Hear(heard))
            }
            Work::CloseFirst { heard, epoch } => {
                stored.close(epoch);
                Some(Work::Hear(heard))
            }
            Work::Judge => {
                let epoch = stored.open?;
                let seen = stored.version;
                match stored.streams.end(epoch, at) {
                    StreamsEnd::OnAir => None,
                    StreamsEnd::Write(next) => Some(Work::End { seen, next, epoch }),
                    StreamsEnd::Over => Some(Work::Close(epoch)),
                }
            }
            Work::End { seen, next, epoch } => {
                let is_new = epoch != stored.streams.epoch();
                if stored.write(seen, next, Some(epoch)) {
                    if is_new {
                        self.model.begin_epoch();
                    }
                    assert!(!self.model.is_on(), "a live on air was called over");
                    return Some(Work::Close(epoch));
                }
                Some(Work::Judge)
            }
            Work::Close(epoch) => {
                let closes = stored.open == Some(epoch);
                assert!(!closes || !self.model.is_on(), "closed a live on air");
                stored.close(epoch);
                None
            }
            Work::Silence(last) => {
                let epoch = stored.open?;
                let next = stored.streams.silence(epoch, last, at)?;
                let seen = stored.version;
                Some(Work::WriteSilence {
                    seen,
                    next,
                    epoch,
                    last,
                })
            }
            Work::WriteSilence {
                seen,
                next,
                epoch,
                last,
            } => {
                if stored.write(seen, next, Some(epoch)) {
                    self.model.silence(last);
                    return None;
                }
                Some(Work::Silence(last))
            }
        }
    }

    /// What a gateway still has to do after a message was written, if it does not know that.
    fn after_answer(&mut self, heard: Heard) -> Option<Work> {
        if !std::mem::take(&mut self.loses_answer) {
            return None;
        }
        match heard.news {
            // It says no to the server, and takes the session back.
            StreamNews::Publish => Some(Work::Hear(Heard {
                news: StreamNews::Done,
                ..heard
            })),
            // It keeps the end, and hears it again.
            StreamNews::Done => Some(Work::Hear(heard)),
            _ => None,
        }
    }

    /// Something happens.
    fn act(&mut self, messages: &mut Vec<Heard>, random: &mut StdRng) {
        self.now += random.random_range(0..3_000);
        match random.random_range(0..100) {
            0..30 => self.receive(messages, random),
            // A message is lost.
            30..33 if !messages.is_empty() => {
                messages.remove(0);
            }
            33..36 => self.works.push(Work::Judge),
            36 => self.works.push(Work::Silence(self.last_seen)),
            37 => self.last_seen = self.stored.streams.signs(),
            // A gateway dies, and what it did is done in part.
            38..40 if !self.works.is_empty() => {
                let dead = random.random_range(0..self.works.len());
                self.works.swap_remove(dead);
            }
            41 => self.loses_answer = true,
            // A back end closes the live.
            40 => {
                self.stored.open = None;
                self.model.dismiss();
            }
            _ if !self.works.is_empty() => {
                let next = random.random_range(0..self.works.len());
                let work = self.works.swap_remove(next);
                let left = self.step(work);
                self.works.extend(left);
            }
            _ => {}
        }
    }

    /// A message arrives, early or late. It may arrive once more. A server whose sessions have
    /// neither times nor ids of their own sends one message after the other.
    fn receive(&mut self, messages: &mut Vec<Heard>, random: &mut StdRng) {
        if messages.is_empty() {
            return;
        }
        let mut next = random.random_range(0..messages.len().min(4));
        if !messages[next].can_double() {
            let is_same = |heard: &Heard| heard.is_of_session(&messages[next]);
            if self.works.iter().filter_map(Work::message).any(is_same) {
                return;
            }
            next = messages.iter().position(is_same).unwrap_or(next);
        }
        let heard = if messages[next].can_double() && random.random_ratio(1, 8) {
            messages[next].clone()
        } else {
            messages.remove(next)
        };
        self.works.push(Work::Hear(heard));
    }

    /// All gateways finish what they do, and then a grace passes.
    fn rest(&mut self) {
        while let Some(work) = self.works.pop() {
            let left = self.step(work);
            self.works.extend(left);
        }
        let mut work = Some(Work::Judge);
        while let Some(next) = work {
            work = self.step(next);
        }
    }
}

impl Heard {
    fn is_of_session(&self, other: &Self) -> bool {
        name(self) == name(other)
    }

    /// Whether the message means the same when it arrives twice. nginx sends nothing twice.
    fn can_double(&self) -> bool {
        !matches!(self.session, StreamSession::Reused(_)) || self.at.is_some()
    }
}

/// What servers say, in the order in which they say it.
fn messages(random: &mut StdRng) -> Vec<Heard> {
    let mut messages = Vec::new();
    let mut at = NOW;
    for n in 0..random.random_range(1..=6) {
        let session = match random.random_range(0..3) {
            0 => StreamSession::Unique(format!("u{n}")),
            // Ids of servers that restart, and of servers without sessions.
            1 => StreamSession::Reused(format!("t{}", n % 2)),
            _ => StreamSession::Reused(format!("{}", n % 2)),
        };
        let has_times = session.as_str().starts_with('t');
        let server = server(if n % 3 == 2 { "eu" } else { "main" });
        // Two servers may share a name, and do not share their ids.
        let instance = random.random_range(0..2_u8).to_string();
        let end_known_by = match random.random_range(0..4) {
            0 => EndKnownBy::Heartbeats,
            _ => EndKnownBy::NextSession,
        };
        let second_publisher = match random.random_range(0..3) {
            0 => SecondPublisher::Joins,
            1 => SecondPublisher::EndsAloud,
            _ => SecondPublisher::EndsSilently,
        };
        let mut say = |session: &StreamSession, news| {
            at += 1_000;
            messages.push(Heard {
                instance: instance.clone(),
                at: has_times.then_some(at),
                end_known_by,
                second_publisher,
                ..Heard::new(server.clone(), session.clone(), news)
            });
        };
        say(&session, StreamNews::Publish);
        if session.is_unique() {
            for _ in 0..random.random_range(0..5) {
                match random.random_range(0..6) {
                    0 => say(&session, StreamNews::Unnamed),
                    // The publisher resumes the session.
                    1 => say(&session, StreamNews::Publish),
                    // The answer names streams only.
                    2 => say(&StreamSession::Any, StreamNews::Alive),
                    3 => say(&StreamSession::Any, StreamNews::Unnamed),
                    _ => say(&session, StreamNews::Alive),
                }
            }
        }
        // A worker that was killed says nothing more, nor does a server that refused a second
        // publisher. The end may name another session.
        match random.random_range(0..8) {
            0 | 1 => {}
            2 => say(
                &StreamSession::Unique(format!("other{n}")),
                StreamNews::Done,
            ),
            3 => say(&session, StreamNews::Left),
            _ => say(&session, StreamNews::Done),
        }
    }
    messages
}

#[test]
fn at_rest_a_live_is_open_exactly_if_a_session_publishes() {
    let mut open = 0;
    for seed in 0..HISTORIES {
        let mut random = StdRng::seed_from_u64(seed);
        let mut messages = messages(&mut random);
        let mut world = World::default();
        for _ in 0..200 {
            world.act(&mut messages, &mut random);
        }
        world.rest();
        let is_open = world.stored.open.is_some();
        assert_eq!(is_open, world.model.is_on(), "history {seed}: {world:#?}");
        open += u64::from(is_open);
    }
    assert!(
        (1_000..9_000).contains(&open),
        "{open} of {HISTORIES} end on air"
    );
}
