//! What happened, in order: a hash of everything, and the last events in words.

use std::collections::VecDeque;
use std::fmt::Write;

use parking_lot::Mutex;
use tokio::time::Instant;
use xxhash_rust::xxh3::Xxh3;

use crate::expectation::SocketAt;

/// So many events are told of a history that failed.
const KEPT: usize = 400;

/// One line of the table.
struct TraceLine {
    millis: u64,
    /// `None`: the world around the gateways.
    gateway: Option<usize>,
    text: String,
}

struct Inner {
    began: Instant,
    hash: Xxh3,
    events: u64,
    lines: VecDeque<TraceLine>,
}

pub(crate) struct Trace {
    inner: Mutex<Inner>,
    /// How many lines are kept; 0 in a history that nobody reads.
    kept: usize,
    /// Whether every event is written to standard error, to compare two runs.
    prints: bool,
}

impl Trace {
    pub(crate) fn new(keeps_lines: bool, prints: bool) -> Self {
        let inner = Inner {
            began: Instant::now(),
            hash: Xxh3::new(),
            events: 0,
            lines: VecDeque::new(),
        };
        Self {
            inner: Mutex::new(inner),
            kept: if keeps_lines { KEPT } else { 0 },
            prints,
        }
    }

    /// A call of a gateway, or a change of what it knows.
    pub(crate) fn note(&self, gateway: usize, what: &str, outcome: &str) {
        self.add(Some(gateway), &[what, outcome], true);
    }

    /// A message to gateways. Its text is not kept: there are too many.
    pub(crate) fn note_message(&self, text: &str) {
        self.add(None, &[text], false);
    }

    /// A message to the socket of a client.
    pub(crate) fn hear(&self, place: SocketAt, user: u32, text: &str) {
        let to = format!("u{user}#{}", place.socket);
        let is_beat = text.starts_with(r#"{"type":"heartbeat"#);
        self.add(Some(place.gateway), &[&to, text], !is_beat);
    }

    /// Something that clients did or saw.
    pub(crate) fn tell(&self, gateway: Option<usize>, text: &str) {
        self.add(gateway, &[text], true);
    }

    fn add(&self, gateway: Option<usize>, words: &[&str], is_kept: bool) {
        let mut inner = self.inner.lock();
        let passed = inner.began.elapsed();
        inner.events += 1;
        inner.hash.update(&passed.as_nanos().to_le_bytes());
        inner.hash.update(
            &gateway
                .map_or(u64::MAX, |gateway| gateway as u64)
                .to_le_bytes(),
        );
        for word in words {
            inner.hash.update(word.as_bytes());
        }
        if self.prints {
            eprintln!("{} {gateway:?} {}", passed.as_nanos(), words.join(" "));
        }
        if is_kept && self.kept > 0 {
            if inner.lines.len() == self.kept {
                inner.lines.pop_front();
            }
            inner.lines.push_back(TraceLine {
                millis: passed.as_millis() as u64,
                gateway,
                text: words.join(" "),
            });
        }
    }

    /// Whether the last events are kept in words.
    pub(crate) fn keeps_lines(&self) -> bool {
        self.kept > 0
    }

    /// How many events there were, and their hash.
    pub(crate) fn summary(&self) -> (u64, u64) {
        let inner = self.inner.lock();
        (inner.events, inner.hash.digest())
    }

    /// The last events, one column a gateway.
    pub(crate) fn table(&self, gateways: usize) -> String {
        let mut table = String::new();
        let columns: Vec<String> = (0..gateways)
            .map(|gateway| format!("{:<28}", format!("gateway {gateway}")))
            .collect();
        let _ = writeln!(
            table,
            "{:>11}  {:<28}{}",
            "ms",
            "the world",
            columns.concat()
        );
        for line in &self.inner.lock().lines {
            let column = line.gateway.map_or(0, |gateway| gateway + 1);
            let _ = writeln!(
                table,
                "{:>11}  {:width$}{}",
                line.millis,
                "",
                line.text,
                width = column * 28
            );
        }
        table
    }
}
