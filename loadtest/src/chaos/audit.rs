//! The audit after a fault, with the crowd at rest: every set, every figure on every dashboard, every key, what every
//! socket was told, and what the product's own audit says. What is not right by the deadline is drift.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::findings::{Broken, Promise};
use super::hall::Hall;
use super::keys::{self, Judged, judge};
use super::poll::read;
use super::scene::{GATEWAYS, Scene};
use super::screens::{Quality, Shown};
use super::truth::{Live, User};

const LOOK: Duration = Duration::from_millis(250);

/// What is true of a live at rest.
struct Fact {
    live: Live,
    epoch: u32,
    fans: HashSet<User>,
    /// On each gateway once.
    viewers: i64,
}

/// Looks until all is right, or the deadline; answers how long that took, and writes down what is wrong then.
pub(crate) async fn audit(scene: &mut Scene, deadline: Instant) -> anyhow::Result<Duration> {
    let began = Instant::now();
    loop {
        scene.check_alive()?;
        let looked = Instant::now();
        let mut wrong = differences(scene).await;
        if wrong.is_empty() {
            wrong = scene.outsider.differences(&scene.up_but(None)).await;
        }
        if wrong.is_empty() {
            return Ok(began.elapsed());
        }
        // What was wrong before that may have been right since.
        if looked >= deadline {
            let mut books = scene.hall.books();
            wrong.into_iter().for_each(|broken| books.findings.broke(broken));
            return Ok(began.elapsed());
        }
        sleep(LOOK).await;
    }
}

/// When nobody who has left may be anywhere any more.
pub(crate) fn all_out(hall: &Hall) -> Option<Instant> {
    let books = hall.books();
    let standings = books.lives.iter().filter(|book| book.epoch.is_some()).flat_map(|book| book.standings.values());
    standings.filter(|standing| !standing.is_held()).filter_map(|standing| standing.out_by(&books.rules)).max()
}

async fn differences(scene: &Scene) -> Vec<Broken> {
    let hall = &scene.hall;
    let mut wrong = Vec::new();
    for fact in facts(hall) {
        sets(scene, &fact, &mut wrong).await;
        if fact.live < hall.busy {
            dashboards(scene, &fact, &mut wrong);
        } else {
            figures(scene, &fact, &mut wrong).await;
        }
    }
    strays(scene, &mut wrong);
    beliefs(hall, &mut wrong);
    wrong
}

fn facts(hall: &Hall) -> Vec<Fact> {
    let books = hall.books();
    let open = books.lives.iter().enumerate().filter_map(|(live, book)| Some((live, book, book.epoch?)));
    open.map(|(live, book, epoch)| {
        let held = || book.standings.iter().filter(|(_, standing)| standing.is_held());
        Fact {
            live,
            epoch,
            fans: held().map(|(user, _)| *user).filter(|user| hall.is_fan(*user, live)).collect(),
            viewers: held().map(|(_, standing)| standing.gateways().len() as i64).sum(),
        }
    })
    .collect()
}

async fn sets(scene: &Scene, fact: &Fact, wrong: &mut Vec<Broken>) {
    let hall = &scene.hall;
    let id = hall.live_id(fact.live);
    let drift = |detail: String| Broken::new(Promise::Drift, detail).live(id.clone());
    let stand = match read(hall, &scene.reader, fact.live).await {
        Some(Ok(stand)) => stand,
        Some(Err(error)) => return wrong.push(drift(format!("cannot be read: {error:#}"))),
        None => return,
    };
    let all: Vec<User> = stand.slices.iter().flatten().filter_map(|user| hall.user(user)).collect();
    let set: HashSet<User> = all.iter().copied().collect();
    let listed: usize = stand.slices.iter().map(Vec::len).sum();
    if listed != set.len() {
        wrong.push(drift(format!("{listed} members in its slices, {} of them different users", set.len())));
    }
    for user in set.difference(&fact.fans) {
        wrong.push(drift("in the set at rest, and not there".to_owned()).user(hall.user_id(*user)));
    }
    for user in fact.fans.difference(&set) {
        wrong.push(drift("there at rest, and not in the set".to_owned()).user(hall.user_id(*user)));
    }
}

fn dashboards(scene: &Scene, fact: &Fact, wrong: &mut Vec<Broken>) {
    let (fans, viewers) = (fact.fans.len() as i64, fact.viewers);
    let right = Shown { epoch: fact.epoch, viewers, fans, quality: Quality::Exact };
    for gateway in (0..GATEWAYS).filter(|gateway| scene.hall.is_up(*gateway)) {
        let shown = scene.screens.of(fact.live, gateway);
        if shown != Some(right) {
            let detail = format!("a dashboard shows {shown:?} instead of {right:?}");
            wrong.push(Broken::new(Promise::Drift, detail).live(scene.hall.live_id(fact.live)).gateway(gateway));
        }
    }
}

/// A quiet live has no dashboards: each gateway is asked.
async fn figures(scene: &Scene, fact: &Fact, wrong: &mut Vec<Broken>) {
    let (hall, id) = (&scene.hall, scene.hall.live_id(fact.live));
    let right = (fact.viewers, fact.fans.len() as i64);
    for gateway in (0..GATEWAYS).filter(|gateway| hall.is_up(*gateway)) {
        let told = scene.backend.figures(hall.doors[gateway].address, &id).await;
        if !matches!(told, Ok(told) if told == right) {
            let detail = format!("is told as {told:?} instead of {right:?} (viewers, fans)");
            wrong.push(Broken::new(Promise::Drift, detail).live(id.clone()).gateway(gateway));
        }
    }
}

/// Every key with the name of a live must be one that belongs to its present state.
fn strays(scene: &Scene, wrong: &mut Vec<Broken>) {
    let hall = &scene.hall;
    let found: BTreeSet<String> = keys::of_lives(&scene.store).into_iter().collect();
    let lives: Vec<(String, Option<u32>)> = {
        let books = hall.books();
        let each = books.lives.iter().enumerate();
        each.map(|(live, book)| (hall.live_id(live), book.epoch.map(|_| book.slices))).collect()
    };
    let mut held = std::collections::BTreeMap::<&str, usize>::new();
    for key in &found {
        match judge(key, &lives) {
            Judged::Fits => {}
            Judged::Held(slice) => *held.entry(slice).or_default() += 1,
            Judged::Stray => {
                wrong.push(Broken::new(
                    Promise::Resurrected,
                    format!("{key} exists, of a live or epoch that has closed"),
                ));
            }
        }
    }
    for (slice, sets) in held.into_iter().filter(|(_, sets)| *sets > GATEWAYS) {
        wrong.push(Broken::new(Promise::Drift, format!("{sets} held sets of {slice}, for {GATEWAYS} gateways")));
    }
}

/// Who takes a live for open that has closed was not told.
fn beliefs(hall: &Hall, wrong: &mut Vec<Broken>) {
    let books = hall.books();
    for (place, (user, live, epoch)) in &books.believes {
        if books.lives[*live].epoch != Some(*epoch) {
            let detail = format!("never told that epoch {epoch} has closed");
            let broken = Broken::new(Promise::CloseUntold, detail).user(hall.user_id(*user));
            wrong.push(broken.live(hall.live_id(*live)).gateway(place.gateway));
        }
    }
}
