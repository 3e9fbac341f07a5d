//! The lives as a table for people.

use std::fmt::{self, Display, Formatter};

use super::look::{LivesLook, ShownLive};
use crate::base::clock::{UnixMillis, unix_now};
use crate::cli::tables::{count, table};

pub(super) struct LivesTable<'a>(pub(super) &'a LivesLook);

impl Display for LivesTable<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let LivesLook { lives, more } = self.0;
        let lives_in_all = count(lives.len(), "live");
        let and_more = if *more { " and more" } else { "" };
        let viewers = sum(lives, |live| live.viewers);
        let fans = sum(lives, |live| live.fans);
        writeln!(
            f,
            "{lives_in_all}{and_more}, {}, {}",
            count(viewers as usize, "viewer"),
            count(fans as usize, "fan")
        )?;
        let now = unix_now();
        let head = [
            "live", "viewers", "fans", "away", "quality", "age", "streamer", "title",
        ];
        let rows: Vec<_> = lives.iter().map(|live| row(live, now)).collect();
        table(f, head, &rows)
    }
}

fn sum(lives: &[ShownLive], figure: fn(&ShownLive) -> u64) -> u64 {
    lives.iter().map(figure).fold(0, u64::saturating_add)
}

fn row(live: &ShownLive, now: UnixMillis) -> [String; 8] {
    let away = match live.away {
        Some(away) => away.to_string(),
        None => "-".to_owned(),
    };
    [
        live.live_id.clone(),
        live.viewers.to_string(),
        live.fans.to_string(),
        away,
        live.quality.as_deref().unwrap_or("-").to_owned(),
        age(now, live.opened_at),
        live.streamer_id.clone(),
        live.title.clone().unwrap_or_default(),
    ]
}

/// How long ago something began, in two units at most.
fn age(now: UnixMillis, since: UnixMillis) -> String {
    let s = now.saturating_sub(since) / 1_000;
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m", s / 60),
        3_600..86_400 => format!("{}h{:02}m", s / 3_600, s / 60 % 60),
        _ => format!("{}d{}h", s / 86_400, s / 3_600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_two_units_at_most() {
        let now = 1_700_000_000_000;
        let ages = [
            0,
            59_000,
            60_000,
            3_599_000,
            3_600_000,
            86_399_000,
            86_400_000,
            200_000_000,
        ];
        let shown: Vec<String> = ages.iter().map(|ago| age(now, now - ago)).collect();
        assert_eq!(
            shown,
            ["0s", "59s", "1m", "59m", "1h00m", "23h59m", "1d0h", "2d7h"]
        );
        assert_eq!(age(5, 10), "0s", "a clock that is behind");
    }
}
