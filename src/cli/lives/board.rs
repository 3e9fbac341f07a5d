//! What the screen shows, and when the next look is due. Pure state: the time comes in.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use super::look::{Look, OpenLive, Totals};
use crate::config::LivesSort;

/// The time between two looks while the gateway answers.
const EVERY: Duration = Duration::from_secs(2);

/// The pause after a look that failed, twice as long after each more, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A live, and how it changed since the look before; `None` if it is new since then.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) live: OpenLive,
    pub(super) change: Option<Change>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) viewers: i128,
    pub(super) fans: i128,
}

/// Why the last look failed.
#[derive(Debug, Clone)]
pub(super) struct Trouble {
    /// How many looks failed one after another.
    pub(super) looks: u32,
    pub(super) why: String,
}

#[derive(Debug)]
pub(super) struct Board {
    pub(super) sort: LivesSort,
    pub(super) rows: Vec<Row>,
    pub(super) more: bool,
    /// The gateway that told the rows; at first the one that is asked.
    pub(super) gateway: String,
    /// When the rows were told; `None` before the first answer.
    pub(super) told_at: Option<Instant>,
    pub(super) trouble: Option<Trouble>,
    pub(super) next_look: Instant,
    /// The first row that is shown.
    pub(super) top: usize,
}

impl Board {
    pub(super) fn new(gateway: String, sort: LivesSort, now: Instant) -> Self {
        Self { sort, rows: Vec::new(), more: false, gateway, told_at: None, trouble: None, next_look: now, top: 0 }
    }

    pub(super) fn totals(&self) -> Totals {
        Totals::of(self.rows.iter().map(|row| &row.live))
    }

    /// Takes in what a gateway told.
    pub(super) fn told(&mut self, gateway: String, look: Look, now: Instant) {
        let before: HashMap<(String, u64), (u64, u64)> = self
            .rows
            .drain(..)
            .map(|Row { live, .. }| ((live.live_id, live.epoch), (live.viewers, live.fans)))
            .collect();
        let is_first = self.told_at.is_none();
        let difference = |now: u64, before: u64| i128::from(now) - i128::from(before);
        self.rows.extend(look.lives.into_iter().map(|live| {
            let change = before.get(&(live.live_id.clone(), live.epoch)).map(|(viewers, fans)| Change {
                viewers: difference(live.viewers, *viewers),
                fans: difference(live.fans, *fans),
            });
            Row { live, change: change.or_else(|| is_first.then(Change::default)) }
        }));
        (self.more, self.gateway, self.trouble) = (look.more, gateway, None);
        (self.told_at, self.next_look) = (Some(now), now + EVERY);
        self.sort_rows();
    }

    /// Notes that a look failed. The rows stay.
    pub(super) fn failed(&mut self, why: String, now: Instant) {
        let looks = self.trouble.as_ref().map_or(0, |trouble| trouble.looks).saturating_add(1);
        let pause = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(looks - 1)).min(LONGEST_PAUSE);
        self.trouble = Some(Trouble { looks, why });
        self.next_look = now + pause;
    }

    /// Sorts by another figure; the next look asks for the largest by it.
    pub(super) fn sort_by(&mut self, sort: LivesSort, now: Instant) {
        self.sort = sort;
        self.sort_rows();
        self.top = 0;
        self.look_now(now);
    }

    /// The next look is due, unless the gateway is in trouble: then it gets its pause.
    pub(super) fn look_now(&mut self, now: Instant) {
        if self.trouble.is_none() {
            self.next_look = now;
        }
    }

    pub(super) fn scroll(&mut self, by: isize) {
        self.top = self.top.saturating_add_signed(by).min(self.rows.len().saturating_sub(1));
    }

    fn sort_rows(&mut self) {
        let sort = self.sort;
        self.rows.sort_by_key(|row| std::cmp::Reverse(row.live.figure(sort)));
        self.scroll(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live(id: &str, epoch: u64, viewers: u64, fans: u64) -> OpenLive {
        OpenLive { live_id: id.to_owned(), epoch, viewers, fans, ..OpenLive::default() }
    }

    fn ids(board: &Board) -> Vec<&str> {
        board.rows.iter().map(|row| row.live.live_id.as_str()).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_is_told_for_the_same_opening_only() {
        let now = Instant::now();
        let mut board = Board::new("g".to_owned(), LivesSort::Viewers, now);
        let look = |lives: Vec<OpenLive>| Look { lives, more: false };
        board.told("g".to_owned(), look(vec![live("a", 1, 5, 2), live("b", 1, 9, 0)]), now);
        assert_eq!(ids(&board), ["b", "a"]);
        assert!(board.rows.iter().all(|row| row.change == Some(Change::default())), "there was no look before");
        board.told("g".to_owned(), look(vec![live("a", 1, 2, 3), live("b", 2, 1, 1), live("c", 1, 0, 7)]), now);
        let changes: Vec<_> = board.rows.iter().map(|row| row.change).collect();
        assert_eq!(changes, [Some(Change { viewers: -3, fans: 1 }), None, None]);
        board.sort_by(LivesSort::Fans, now);
        assert_eq!((ids(&board), board.next_look), (vec!["c", "a", "b"], now));
        assert_eq!(board.totals(), Totals { viewers: 3, fans: 11, away: 0 });
    }

    #[tokio::test(start_paused = true)]
    async fn a_gateway_in_trouble_is_asked_less_and_less_often() {
        let now = Instant::now();
        let mut board = Board::new("g".to_owned(), LivesSort::Viewers, now);
        board.told("g".to_owned(), Look { lives: vec![live("a", 1, 5, 2)], more: true }, now);
        assert_eq!(board.next_look, now + EVERY);
        let pauses: Vec<u64> = (0..7)
            .map(|_| {
                board.failed("it is away".to_owned(), now);
                board.look_now(now);
                (board.next_look - now).as_secs()
            })
            .collect();
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(ids(&board), ["a"], "the last figures stay");
        board.told("g".to_owned(), Look::default(), now);
        assert!(board.trouble.is_none() && board.rows.is_empty());
        board.scroll(5);
        assert_eq!(board.top, 0);
    }
}
