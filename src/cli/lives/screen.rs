//! Draws the board. Columns that do not fit are left out, the least important first; on a very small terminal only the
//! most important lines are there.

use std::time::Duration;

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use tokio::time::Instant;

use super::board::{Board, Row};
use super::look::Totals;
use crate::base::clock::UnixMillis;
use crate::base::terminal::{fit, pad};

const KEYS: &str = "v by viewers   f by fans   ↑↓ PgUp PgDn Home   r look now   q quit";

/// Whether colours may be used. Without them, what is bad is still told in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colours {
    Off,
    On,
}

impl Colours {
    fn style(self, colour: Color) -> Style {
        if self == Self::On { Style::new().fg(colour) } else { Style::new() }
    }
}

/// The present, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) instant: Instant,
    pub(super) unix: UnixMillis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// A column: its head, its least width, and what it says of a live, in which colour.
struct Column {
    head: &'static str,
    width: u16,
    /// Those with the lowest are kept longest.
    rank: u8,
    align: Align,
    cell: fn(&Row, Now) -> (String, Option<Color>),
}

const COLUMNS: &[Column] = &[
    Column { head: "LIVE", width: 10, rank: 0, align: Align::Left, cell: |row, _| (row.live.live_id.clone(), None) },
    Column {
        head: "VIEWERS",
        width: 8,
        rank: 1,
        align: Align::Right,
        cell: |row, _| (row.live.viewers.to_string(), None),
    },
    Column { head: "±", width: 6, rank: 5, align: Align::Right, cell: |row, _| change(row.change.map(|c| c.viewers)) },
    Column { head: "FANS", width: 8, rank: 2, align: Align::Right, cell: |row, _| (row.live.fans.to_string(), None) },
    Column { head: "±", width: 6, rank: 6, align: Align::Right, cell: |row, _| change(row.change.map(|c| c.fans)) },
    Column { head: "AWAY", width: 6, rank: 7, align: Align::Right, cell: |row, _| (or_dash(row.live.away), None) },
    Column { head: "QUALITY", width: 7, rank: 4, align: Align::Left, cell: |row, _| quality(row) },
    Column {
        head: "AGE",
        width: 6,
        rank: 3,
        align: Align::Right,
        cell: |row, now| (age(now.unix, row.live.opened_at), None),
    },
    Column {
        head: "STREAMER",
        width: 12,
        rank: 8,
        align: Align::Left,
        cell: |row, _| (row.live.streamer_id.clone(), None),
    },
    Column {
        head: "TITLE",
        width: 10,
        rank: 9,
        align: Align::Left,
        cell: |row, _| (row.live.title.clone().unwrap_or_default(), None),
    },
];

fn or_dash(figure: Option<u64>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| figure.to_string())
}

fn change(by: Option<i128>) -> (String, Option<Color>) {
    match by {
        None => ("new".to_owned(), Some(Color::Cyan)),
        Some(0) => (String::new(), None),
        Some(by) => (format!("{by:+}"), Some(if by > 0 { Color::Green } else { Color::Red })),
    }
}

fn quality(row: &Row) -> (String, Option<Color>) {
    let quality = row.live.quality.as_deref();
    let colour = match quality {
        Some("partial") => Some(Color::Yellow),
        Some("stale") => Some(Color::Red),
        _ => None,
    };
    (quality.unwrap_or("-").to_owned(), colour)
}

/// How long ago something began, in two units at most.
pub(super) fn age(now: UnixMillis, since: UnixMillis) -> String {
    let s = now.saturating_sub(since) / 1_000;
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m", s / 60),
        3_600..86_400 => format!("{}h{:02}m", s / 3_600, s / 60 % 60),
        _ => format!("{}d{}h", s / 86_400, s / 3_600 % 24),
    }
}

fn whole_seconds(span: Duration) -> String {
    format!("{} s", span.as_secs())
}

/// Draws all of the board, and keeps it scrolled to where there are rows.
pub(super) fn draw(frame: &mut Frame<'_>, board: &mut Board, (colours, now): (Colours, Now)) {
    let area = frame.area();
    // With few lines, the table matters more than the help, and the totals more than the gateway's name.
    let (heads, foot) = match area.height {
        0..3 => (0, 0),
        3..6 => (1, 0),
        _ => (3, 1),
    };
    let mut line = |y: u16, text: &str, style: Style| {
        if y < area.height {
            frame.buffer_mut().set_stringn(area.x, area.y + y, fit(text, area.width.into()), area.width.into(), style);
        }
    };
    let bad = colours.style(Color::Red).add_modifier(Modifier::BOLD);
    if heads == 1 {
        match trouble(board, now) {
            Some(trouble) => line(0, &trouble, bad),
            None => line(0, &totals(board), Style::new()),
        }
    } else if heads == 3 {
        line(0, &format!("{} · {}", board.gateway, told(board, now)), Style::new());
        line(1, &totals(board), Style::new().add_modifier(Modifier::BOLD));
        line(2, &trouble(board, now).unwrap_or_default(), bad);
    }
    let table = Rect { y: area.y + heads, height: area.height.saturating_sub(heads + foot), ..area };
    let shown = draw_table(frame, board, table, (colours, now));
    if foot == 1 {
        let rows = if shown == 0 {
            String::new()
        } else {
            format!("   {}–{} of {}", board.top + 1, board.top + shown, board.rows.len())
        };
        let text = fit(&format!("{KEYS}{rows}"), area.width.into());
        let style = Style::new().add_modifier(Modifier::DIM);
        frame.buffer_mut().set_stringn(area.x, area.y + area.height - 1, text, area.width.into(), style);
    }
}

fn told(board: &Board, now: Now) -> String {
    match board.told_at {
        Some(at) => format!("figures of {} ago", whole_seconds(now.instant.saturating_duration_since(at))),
        None => "no figures yet".to_owned(),
    }
}

fn totals(board: &Board) -> String {
    let Totals { viewers, fans, away } = board.totals();
    let more = if board.more { "+" } else { "" };
    let sort = board.sort.as_str();
    format!("{}{more} lives   {viewers}{more} viewers   {fans}{more} fans   {away} away   by {sort}", board.rows.len())
}

fn trouble(board: &Board, now: Now) -> Option<String> {
    let trouble = board.trouble.as_ref()?;
    let wait = whole_seconds(board.next_look.saturating_duration_since(now.instant));
    Some(format!("no answer, next try in {wait}: {}", trouble.why))
}

/// The columns that fit, each with its width, and the gaps between them.
fn columns(width: u16) -> Vec<(&'static Column, usize)> {
    let mut ranked: Vec<&Column> = COLUMNS.iter().collect();
    ranked.sort_by_key(|column| column.rank);
    let mut left = i32::from(width) + 1;
    let mut ranks = Vec::new();
    for column in ranked {
        left -= i32::from(column.width) + 1;
        if left < 0 && !ranks.is_empty() {
            left += i32::from(column.width) + 1;
            break;
        }
        ranks.push(column.rank);
    }
    let kept = COLUMNS.iter().filter(|column| ranks.contains(&column.rank));
    let mut kept: Vec<(&Column, usize)> = kept.map(|column| (column, column.width.into())).collect();
    // The last column is a name or a title, and takes what is left; else the first one does.
    let wide = if kept.last().is_some_and(|(column, _)| column.align == Align::Left) { kept.len() - 1 } else { 0 };
    kept[wide].1 = usize::try_from(kept[wide].1 as i64 + i64::from(left)).unwrap_or(0);
    kept
}

/// Draws the head and the rows that fit; answers how many rows.
fn draw_table(frame: &mut Frame<'_>, board: &mut Board, area: Rect, (colours, now): (Colours, Now)) -> usize {
    if area.height == 0 || area.width == 0 {
        return 0;
    }
    let columns = columns(area.width);
    let room = usize::from(area.height) - 1;
    board.top = board.top.min(board.rows.len().saturating_sub(room.max(1)));
    let rows = &board.rows[board.top..];
    let shown = rows.len().min(room);
    let buffer = frame.buffer_mut();
    let mut x = area.x;
    for (column, width) in columns {
        let cell = |text: &str| match column.align {
            Align::Left => pad(text, width),
            Align::Right => {
                let text = fit(text, width);
                format!("{text:>width$}")
            }
        };
        buffer.set_stringn(x, area.y, cell(column.head), width, Style::new().add_modifier(Modifier::REVERSED));
        for (y, row) in (area.y + 1..).zip(&rows[..shown]) {
            let (text, colour) = (column.cell)(row, now);
            let style = colour.map_or_else(Style::new, |colour| colours.style(colour));
            buffer.set_stringn(x, y, cell(&text), width, style);
        }
        x = x.saturating_add(u16::try_from(width).unwrap_or(u16::MAX)).saturating_add(1);
        if x >= area.right() {
            break;
        }
    }
    if board.rows.is_empty() && room > 0 && board.told_at.is_some() {
        buffer.set_stringn(
            area.x,
            area.y + 1,
            fit("no live is open", area.width.into()),
            area.width.into(),
            Style::new(),
        );
    }
    shown
}

#[cfg(test)]
mod tests;
