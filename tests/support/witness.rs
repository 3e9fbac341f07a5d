//! Owns witnesses: each looks at a live on one gateway all the while and remembers what it was
//! shown, so that a story can say for how long something wrong was called exact.

use std::fmt::{self, Display, Formatter};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::dashboard::Dashboard;
use super::world::World;

/// How often a witness asks, and how finely times are compared.
const LOOK: Duration = Duration::from_millis(25);

/// What was shown from some time on.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// When it was asked for, or when it came by itself.
    pub at: Instant,
    /// Viewers.
    pub viewers: u64,
    /// Fans.
    pub fans: u64,
    /// Whether it was called exact.
    pub exact: bool,
}

/// Somebody who looks at a live on one gateway until dropped.
pub struct Witness {
    /// Which gateway and which live, for messages.
    pub place: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    looks: JoinHandle<()>,
}

/// What is true of a live, and since when.
#[derive(Debug, Clone, Default)]
pub struct Truth {
    facts: Vec<Fact>,
}

/// What is true from some time on.
#[derive(Debug, Clone, Copy)]
struct Fact {
    since: Instant,
    viewers: u64,
    fans: u64,
}

/// Something wrong that was called exact.
#[derive(Debug, Clone, Copy)]
pub struct Lie {
    /// For how long.
    pub span: Duration,
    /// What was shown at its begin.
    pub shown: Seen,
}

impl Witness {
    /// Asks the gateway's HTTP API again and again.
    pub fn asks(world: &World, live: &str) -> Self {
        let (backend, path) = (world.backend().clone(), format!("/v1/lives/{live}"));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        let looks = tokio::spawn(async move {
            loop {
                let at = Instant::now();
                let answer = backend.get(&path).await;
                let numbers = (
                    answer.body["viewers"].as_u64(),
                    answer.body["fans"].as_u64(),
                );
                if let (200, (Some(viewers), Some(fans))) = (answer.status, numbers) {
                    let exact = answer.body["quality"] == "exact";
                    kept.lock().unwrap().push(Seen {
                        at,
                        viewers,
                        fans,
                        exact,
                    });
                }
                sleep(LOOK).await;
            }
        });
        Self {
            place: format!("the API at {} of {live}", world.addr),
            seen,
            looks,
        }
    }

    /// Watches as a dashboard does.
    pub async fn watches(world: &World, live: &str) -> Self {
        let mut dashboard = world.dashboard(live).await;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        let looks = tokio::spawn(async move {
            loop {
                take(&mut dashboard, &kept);
                dashboard.listen(LOOK * 2).await;
            }
        });
        Self {
            place: format!("a dashboard at {} of {live}", world.addr),
            seen,
            looks,
        }
    }

    /// Everything that was shown, oldest first.
    pub fn seen(&self) -> Vec<Seen> {
        assert!(!self.looks.is_finished(), "{} has stopped", self.place);
        self.seen.lock().unwrap().clone()
    }

    /// What was called exact since then and was not these figures. What was asked for before does
    /// not count.
    pub fn anything_else_called_exact(
        &self,
        viewers: u64,
        fans: u64,
        since: Instant,
    ) -> Option<String> {
        let all = self.seen();
        assert!(!all.is_empty(), "{} saw nothing", self.place);
        let later = all.iter().filter(|seen| seen.at >= since);
        let wrong = |seen: &&Seen| seen.exact && (seen.viewers != viewers || seen.fans != fans);
        let lies: Vec<&Seen> = later.filter(wrong).collect();
        let first = lies.first()?;
        let last = lies.last()?;
        let most = lies.iter().map(|lie| lie.viewers).max().unwrap_or_default();
        Some(format!(
            "{}: {} viewers and {} fans called exact after {:?}, and something wrong for the last time after {:?}; up \
             to {most} viewers",
            self.place,
            first.viewers,
            first.fans,
            first.at - since,
            last.at - since,
        ))
    }

    /// The longest time in which figures were called exact that had not been true for `grace`.
    pub fn longest_lie(&self, truth: &Truth, grace: Duration) -> Option<Lie> {
        let (seen, end) = (self.seen(), Instant::now());
        let mut longest: Option<Lie> = None;
        let mut current: Option<(Instant, Seen)> = None;
        for (n, shown) in seen.iter().enumerate() {
            let until = seen.get(n + 1).map_or(end, |next| next.at);
            let mut at = shown.at;
            while at < until {
                let lies =
                    shown.exact && !truth.was(shown.viewers, shown.fans, at.checked_sub(grace), at);
                current = if lies {
                    Some(current.unwrap_or((at, *shown)))
                } else {
                    None
                };
                if let Some((since, shown)) = current {
                    let span = at - since;
                    longest = longest
                        .filter(|lie| lie.span >= span)
                        .or(Some(Lie { span, shown }));
                }
                at += LOOK;
            }
        }
        longest
    }

    /// Panics if something wrong was called exact for longer than `bound`.
    pub fn told_no_lie_longer_than(&self, bound: Duration, truth: &Truth, grace: Duration) {
        if let Some(lie) = self.longest_lie(truth, grace) {
            assert!(
                lie.span <= bound,
                "{}: {lie}, longer than {bound:?}; {truth}",
                self.place
            );
        }
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.looks.abort();
    }
}

/// Moves what the dashboard heard to where the story finds it.
fn take(dashboard: &mut Dashboard, kept: &Mutex<Vec<Seen>>) {
    let heard = dashboard.log.iter().map(|counts| Seen {
        at: counts.at,
        viewers: counts.number("viewers"),
        fans: counts.number("fans"),
        exact: counts.json["quality"] == "exact",
    });
    let mut kept = kept.lock().unwrap();
    let known = kept.len();
    kept.extend(heard.skip(known));
}

impl Truth {
    /// So many are there from now on.
    pub fn becomes(&mut self, viewers: u64, fans: u64) {
        if self.now() != Some((viewers, fans)) {
            self.facts.push(Fact {
                since: Instant::now(),
                viewers,
                fans,
            });
        }
    }

    /// How many are there now.
    pub fn now(&self) -> Option<(u64, u64)> {
        self.facts.last().map(|fact| (fact.viewers, fact.fans))
    }

    /// Whether there were so many viewers, and so many fans, at any time between these two.
    fn was(&self, viewers: u64, fans: u64, from: Option<Instant>, to: Instant) -> bool {
        let begun = self
            .facts
            .iter()
            .take_while(|fact| fact.since <= to)
            .count();
        let over = |n: &usize| match (self.facts.get(n + 1), from) {
            (Some(next), Some(from)) => next.since < from,
            _ => false,
        };
        let valid: Vec<Fact> = (0..begun)
            .filter(|n| !over(n))
            .map(|n| self.facts[n])
            .collect();
        // A viewer counts a moment before it is known whether it is a fan.
        valid.iter().any(|fact| fact.viewers == viewers)
            && valid.iter().any(|fact| fact.fans == fans)
    }
}

impl Display for Truth {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        match self.now() {
            Some((viewers, fans)) => {
                write!(out, "{viewers} viewers and {fans} fans are there at last")
            }
            None => write!(out, "nothing is known"),
        }
    }
}

impl Display for Lie {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Seen { viewers, fans, .. } = self.shown;
        write!(
            out,
            "{viewers} viewers and {fans} fans were called exact for {:?}",
            self.span
        )
    }
}
