//! Looks at Redis ten times a second while everything moves, and holds each slice against the truth.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};

use super::findings::{Broken, Promise};
use super::hall::{Books, Hall};
use super::keys::slice_keys;
use super::reader::Reader;
use super::truth::{Live, Standing, User, Wrong};

const EVERY: Duration = Duration::from_millis(100);
/// Ends older than this say nothing any more.
const MEMORY: Duration = Duration::from_secs(180);

/// One look.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
    /// Members that are wrong now, whatever excuse there is.
    pub(crate) wrong: usize,
    /// One of them, in words.
    pub(crate) example: Option<String>,
    /// Open lives that could not be read.
    pub(crate) unread: usize,
}

/// A live's fans as they stand in Redis.
pub(crate) struct Stand {
    pub(crate) live: Live,
    pub(crate) version: u64,
    pub(crate) began: Instant,
    /// Ids, slice by slice.
    pub(crate) slices: Vec<Vec<String>>,
}

/// Reads an open live; `None` if it is shut.
pub(crate) async fn read(hall: &Hall, reader: &Reader, live: Live) -> Option<anyhow::Result<Stand>> {
    let (version, count) = {
        let books = hall.books();
        let book = &books.lives[live];
        book.epoch?;
        (book.version, book.slices)
    };
    let keys = slice_keys(&hall.live_id(live), count);
    let began = Instant::now();
    let slices: anyhow::Result<Vec<_>> =
        join_all(keys.iter().map(|key| reader.members(key))).await.into_iter().collect();
    Some(slices.map(|slices| Stand { live, version, began, slices }))
}

/// Notes how late our own timers are, until the task is ended.
pub(crate) async fn feel_lag(hall: Arc<Hall>) {
    loop {
        let due = Instant::now() + EVERY / 5;
        sleep_until(due).await;
        let mut books = hall.books();
        books.findings.lag = books.findings.lag.max(due.elapsed());
    }
}

/// Looks until the task is ended.
pub(crate) async fn run(hall: Arc<Hall>, reader: Arc<Reader>, looks: watch::Sender<Option<Look>>) {
    let mut clock = interval(EVERY);
    clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut wrong: HashSet<(Live, User, Wrong)> = HashSet::new();
    loop {
        clock.tick().await;
        let began = Instant::now();
        let lives = hall.books().lives.len();
        let stands = join_all((0..lives).map(|live| read(&hall, &reader, live))).await;
        let mut unread = 0;
        let mut now_wrong = HashSet::new();
        let mut example = None;
        for (live, stand) in stands.into_iter().enumerate() {
            match stand {
                None => {}
                Some(Ok(stand)) => {
                    judge(&hall, &stand, &mut now_wrong, &mut example);
                }
                Some(Err(_)) => {
                    unread += 1;
                    // Not known to be right again.
                    now_wrong.extend(wrong.iter().filter(|(of, ..)| *of == live));
                }
            }
        }
        let ended = Instant::now();
        let corrected = wrong.difference(&now_wrong).count();
        hall.books().findings.corrected.extend(std::iter::repeat_n(ended, corrected));
        let look = Look { began, ended, wrong: now_wrong.len(), example, unread };
        wrong = now_wrong;
        looks.send_replace(Some(look));
    }
}

fn judge(hall: &Hall, stand: &Stand, wrong: &mut HashSet<(Live, User, Wrong)>, example: &mut Option<String>) {
    let live = stand.live;
    let present: HashSet<User> = stand.slices.iter().flatten().filter_map(|id| hall.user(id)).collect();
    let mut books = hall.books();
    let Books { lives, rules, findings, .. } = &mut *books;
    let book = &mut lives[live];
    // It closed, or opened again, while it was read.
    if book.version != stand.version {
        return;
    }
    let strangers = present.iter().filter(|user| !book.standings.contains_key(user)).copied();
    let nobody = Standing::default();
    let known = book.standings.keys().copied();
    for user in known.chain(strangers) {
        let fan = hall.is_fan(user, live);
        let inside = present.contains(&user);
        if !fan && !inside {
            continue;
        }
        let standing = book.standings.get(&user).unwrap_or(&nobody);
        // Who does not follow has no business in the set.
        let standing = if fan { standing } else { &nobody };
        let verdict = standing.judge(stand.began, inside, rules);
        let Some(what) = verdict.wrong else { continue };
        wrong.insert((live, user, what));
        let words =
            || format!("{what:?} of {} in {}: {}", hall.user_id(user), hall.live_id(live), standing.tell(stand.began));
        example.get_or_insert_with(words);
        if let Some(overdue) = verdict.overdue.filter(|_| findings.known.insert((live, user, what))) {
            let promise = if what == Wrong::Ghost { Promise::Ghost } else { Promise::Miss };
            let detail = format!("{} ms beyond the promise; {}", overdue.as_millis(), standing.tell(stand.began));
            findings.broke(Broken::new(promise, detail).user(hall.user_id(user)).live(hall.live_id(live)));
        }
    }
    let old = stand.began.checked_sub(MEMORY);
    if let Some(old) = old {
        book.standings.values_mut().for_each(|standing| standing.tidy(old));
        book.standings.retain(|_, standing| !standing.is_empty());
    }
}
