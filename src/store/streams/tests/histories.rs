//! Ten thousand random histories of one live. Messages are lost, doubled and late; gateways read,
//! decide and write in any order, and die in between; the store's answer to a write is lost; back ends
//! close the live; servers restart, and publishers resume their sessions. At rest the live is open
//! exactly if a session publishes. The store never loses data here: what it lost is not known at rest.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::super::state::*;
use super::{NOW, server};
use crate::base::ids::Epoch;
use crate::base::media_event::{StreamNews, StreamSession};

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
    beats: u64,
    /// The latest time in a message.
    at: Option<u64>,
}

/// The truth about all sessions, message by message.
#[derive(Debug, Default)]
struct Model(BTreeMap<(String, String), Modelled>);

impl Model {
    fn is_on(&self) -> bool {
        self.0
            .values()
            .any(|session| session.truth == Truth::Publishes)
    }

    /// A message took effect.
    fn hear(&mut self, heard: &Heard) {
        let name = (heard.server.to_string(), heard.session.as_str().to_owned());
        let known = self.0.entry(name).or_default();
        if heard.at.is_some() && heard.at < known.at {
            return;
        }
        let is_double = heard.at.is_some() && heard.at == known.at;
        let is_unique = heard.session.is_unique();
        match (heard.news, known.truth) {
            (StreamNews::Publish, Truth::Unknown | Truth::Silent) => known.begin(0),
            (StreamNews::Publish, Truth::Ended | Truth::Dismissed) if !is_unique && !is_double => {
                known.begin(0);
            }
            (StreamNews::Alive, Truth::Unknown | Truth::Silent) => known.begin(1),
            (StreamNews::Alive, Truth::Publishes) => known.beats += 1,
            (StreamNews::Unnamed, Truth::Publishes) => known.truth = Truth::Silent,
            (StreamNews::Unnamed, _) => return,
            (StreamNews::Left, Truth::Unknown) => return,
            // Such an end says nothing about a later beginning.
            (StreamNews::Done, Truth::Unknown) if !is_unique && heard.at.is_none() => return,
            (StreamNews::Done | StreamNews::Left, _) => known.truth = Truth::Ended,
            _ => {}
        }
        known.at = known.at.max(heard.at);
    }

    /// The sessions with heartbeats fell silent.
    fn silence(&mut self) {
        for session in self.0.values_mut() {
            if session.truth == Truth::Publishes && session.beats > 0 {
                session.truth = Truth::Silent;
            }
        }
    }

    /// A back end closed the live.
    fn dismiss(&mut self) {
        for session in self.0.values_mut() {
            if session.truth == Truth::Publishes {
                session.truth = Truth::Dismissed;
            }
        }
    }
}

impl Modelled {
    fn begin(&mut self, beats: u64) {
        self.truth = Truth::Publishes;
        self.beats = beats;
    }
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
    /// Heartbeats stayed away.
    Silence,
    /// It has read which sessions are silent.
    WriteSilence {
        seen: u64,
        next: Streams,
        epoch: Epoch,
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
    /// Whether the store's answer to the next write is lost.
    loses_answer: bool,
}

impl World {
    /// Takes one step of a piece of work. Answers what is left of it.
    fn step(&mut self, work: Work) -> Option<Work> {
        let stored = &mut self.stored;
        match work {
            Work::Hear(heard) => {
                let read = stored.streams.clone();
                let seen = stored.version;
                match read.hear(&heard, stored.open_epoch(), NOW) {
                    Step::Nothing => {
                        self.model.hear(&heard);
                        None
                    }
                    Step::Write(next) => Some(Work::Write { heard, seen, next }),
                    Step::Begin => Some(Work::Open { heard, seen, read }),
                    Step::CloseFirst => Some(Work::CloseFirst {
                        heard,
                        epoch: stored.open.unwrap(),
                    }),
                }
            }
            Work::Write { heard, seen, next } => {
                if stored.write(seen, next, None) {
                    self.model.hear(&heard);
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
                let next = read.begin(&heard, epoch, NOW);
                if stored.write(seen, next, Some(epoch)) {
                    self.model.hear(&heard);
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
                match stored.streams.end(epoch, NOW) {
                    End::OnAir => None,
                    End::Write(next) => Some(Work::End { seen, next, epoch }),
                    End::Over => Some(Work::Close(epoch)),
                }
            }
            Work::End { seen, next, epoch } => {
                if stored.write(seen, next, Some(epoch)) {
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
            Work::Silence => {
                let epoch = stored.open?;
                let next = stored.streams.silence(epoch, NOW)?;
                let seen = stored.version;
                Some(Work::WriteSilence { seen, next, epoch })
            }
            Work::WriteSilence { seen, next, epoch } => {
                if stored.write(seen, next, Some(epoch)) {
                    self.model.silence();
                    return None;
                }
                Some(Work::Silence)
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
        match random.random_range(0..100) {
            0..30 => self.receive(messages, random),
            // A message is lost.
            30..33 if !messages.is_empty() => {
                messages.remove(0);
            }
            33..36 => self.works.push(Work::Judge),
            36..38 => self.works.push(Work::Silence),
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
        self.server == other.server && self.session == other.session
    }

    /// Whether the message means the same when it arrives twice. nginx sends nothing twice.
    fn can_double(&self) -> bool {
        self.session.is_unique() || self.at.is_some()
    }
}

/// What two servers say, in the order in which they say it.
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
        let mut say = |news| {
            at += 1_000;
            messages.push(Heard {
                server: server.clone(),
                session: session.clone(),
                news,
                at: has_times.then_some(at),
                must_beat: false,
            });
        };
        say(StreamNews::Publish);
        if session.is_unique() {
            for _ in 0..random.random_range(0..4) {
                say(match random.random_range(0..4) {
                    0 => StreamNews::Unnamed,
                    // The publisher resumes the session.
                    1 => StreamNews::Publish,
                    _ => StreamNews::Alive,
                });
            }
        }
        // A worker that was killed says nothing more.
        if random.random_ratio(3, 4) {
            say(StreamNews::Done);
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
