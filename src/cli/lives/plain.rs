//! The lives for scripts and files: a table, or a line of JSON for each. If the reader goes away, that is no failure.

use std::fmt::{self, Display, Formatter};
use std::io::{self, BufWriter, Write};

use super::look::{Look, OpenLive, Totals};
use super::screen::age;
use crate::base::clock::unix_now;
use crate::cli::tables::{count, table};

pub(super) fn print_lines(look: &Look) {
    let mut out = BufWriter::new(io::stdout().lock());
    let line = |live: &OpenLive| {
        serde_json::to_writer(&mut out, live)?;
        out.write_all(b"\n")
    };
    let written = look.lives.iter().try_for_each(line);
    let _ = written.and_then(|()| out.flush());
}

pub(super) fn print_table(look: &Look) {
    let _ = write!(io::stdout(), "{}", Table(look));
}

struct Table<'a>(&'a Look);

impl Display for Table<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Look { lives, more } = self.0;
        let Totals { viewers, fans, .. } = Totals::of(lives.iter());
        let (and_more, viewers, fans) = (if *more { " and more" } else { "" }, viewers as usize, fans as usize);
        let lives_in_all = count(lives.len(), "live");
        writeln!(f, "{lives_in_all}{and_more}, {}, {}", count(viewers, "viewer"), count(fans, "fan"))?;
        let now = unix_now();
        let rows = lives.iter().map(|live| {
            let away = live.away.map_or_else(|| "-".to_owned(), |away| away.to_string());
            [
                live.live_id.clone(),
                live.viewers.to_string(),
                live.fans.to_string(),
                away,
                live.quality.clone().unwrap_or_else(|| "-".to_owned()),
                age(now, live.opened_at),
                live.streamer_id.clone(),
                live.title.clone().unwrap_or_default(),
            ]
        });
        let head = ["live", "viewers", "fans", "away", "quality", "age", "streamer", "title"];
        table(f, head, &rows.collect::<Vec<_>>())
    }
}
