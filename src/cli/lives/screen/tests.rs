//! Golden screens: what a person sees on an ordinary terminal, on small ones, without lives, and without a gateway.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use tokio::time::Instant;

use super::{Colours, Now, age, draw};
use crate::cli::lives::board::Board;
use crate::cli::lives::look::{Look, OpenLive};
use crate::config::LivesSort;

const UNIX: u64 = 1_800_000_000_000;

fn live(id: &str, title: &str, (viewers, fans): (u64, u64), minutes: u64) -> OpenLive {
    OpenLive {
        live_id: id.to_owned(),
        streamer_id: format!("s-{id}"),
        epoch: 1,
        title: Some(title.to_owned()),
        opened_at: UNIX - minutes * 60_000,
        viewers,
        fans,
        away: (viewers > 100).then_some(7),
        quality: (viewers > 100).then(|| "exact".to_owned()),
        counted_at: None,
    }
}

fn board(now: Instant) -> Board {
    let mut board = Board::new("https://gateway:9090".to_owned(), LivesSort::Viewers, now);
    let mut partly = live("garden", "Pruning\u{1b}[2J roses\u{202e}", (120, 60), 3_000);
    partly.quality = Some("partial".to_owned());
    let quiet = live("日本語の配信", "テスト", (3, 0), 0);
    let before = vec![live("cooking", "", (1_200, 300), 1), live("garden", "", (125, 59), 1)];
    board.told("https://gateway:9090".to_owned(), Look { lives: before, more: false }, now);
    let lives = vec![quiet, live("cooking", "Cooking with s1", (1_234, 300), 95), partly];
    board.told("https://gateway:9090".to_owned(), Look { lives, more: false }, now);
    board
}

fn screen(board: &mut Board, (width, height): (u16, u16), after: Duration) -> String {
    let now = Now { instant: board.told_at.unwrap_or(board.next_look) + after, unix: UNIX };
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, board, (Colours::Off, now))).unwrap();
    let buffer = terminal.backend().buffer();
    let line = |y| {
        let mut line = String::new();
        let mut x = 0;
        while x < width {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(unicode_width::UnicodeWidthStr::width(symbol)).unwrap().max(1);
        }
        line.trim_end().to_owned() + "\n"
    };
    (0..height).map(line).collect()
}

#[track_caller]
fn shows(screen: &str, right: &str) {
    assert_eq!(screen.trim_end(), right.trim_start(), "\n{screen}");
}

#[tokio::test(start_paused = true)]
async fn an_ordinary_terminal_shows_all_columns() {
    let screen = screen(&mut board(Instant::now()), (110, 9), Duration::from_secs(1));
    shows(
        &screen,
        "
https://gateway:9090 · figures of 1 s ago
3 lives   1357 viewers   360 fans   14 away   by viewers

LIVE        VIEWERS      ±     FANS      ±   AWAY QUALITY    AGE STREAMER     TITLE
cooking        1234    +34      300             7 exact    1h35m s-cooking    Cooking with s1
garden          120     -5       60     +1      7 partial   2d2h s-garden     Pruning?[2J roses
日本語の…         3    new        0    new      - -           0s s-日本語の…  テスト

v by viewers   f by fans   ↑↓ PgUp PgDn Home   r look now   q quit   1–3 of 3",
    );
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_is_away_is_told_with_the_last_figures() {
    let mut board = board(Instant::now());
    let failed_at = board.told_at.unwrap() + Duration::from_secs(2);
    board.failed("https://gateway:9090: connection refused".to_owned(), failed_at);
    board.failed("https://gateway:9090: connection refused".to_owned(), failed_at + Duration::from_secs(1));
    shows(
        &screen(&mut board, (80, 8), Duration::from_secs(4)),
        "
https://gateway:9090 · figures of 4 s ago
3 lives   1357 viewers   360 fans   14 away   by viewers
no answer, next try in 1 s: https://gateway:9090: connection refused
LIVE        VIEWERS      ±     FANS      ±   AWAY QUALITY    AGE STREAMER
cooking        1234    +34      300             7 exact    1h35m s-cooking
garden          120     -5       60     +1      7 partial   2d2h s-garden
日本語の…         3    new        0    new      - -           0s s-日本語の配信
v by viewers   f by fans   ↑↓ PgUp PgDn Home   r look now   q quit   1–3 of 3",
    );
}

#[tokio::test(start_paused = true)]
async fn without_lives_and_before_the_first_answer_that_is_said() {
    let now = Instant::now();
    let mut board = Board::new("http://127.0.0.1:8080".to_owned(), LivesSort::Fans, now);
    shows(
        &screen(&mut board, (50, 6), Duration::ZERO),
        "
http://127.0.0.1:8080 · no figures yet
0 lives   0 viewers   0 fans   0 away   by fans

LIVE        VIEWERS      ±     FANS QUALITY    AGE

v by viewers   f by fans   ↑↓ PgUp PgDn Home   r …",
    );
    board.told("http://127.0.0.1:8080".to_owned(), Look::default(), now);
    shows(
        &screen(&mut board, (50, 6), Duration::ZERO),
        "
http://127.0.0.1:8080 · figures of 0 s ago
0 lives   0 viewers   0 fans   0 away   by fans

LIVE        VIEWERS      ±     FANS QUALITY    AGE
no live is open
v by viewers   f by fans   ↑↓ PgUp PgDn Home   r …",
    );
}

#[tokio::test(start_paused = true)]
async fn a_narrow_terminal_keeps_what_matters_most() {
    let mut board = board(Instant::now());
    shows(
        &screen(&mut board, (30, 7), Duration::ZERO),
        "
https://gateway:9090 · figure…
3 lives   1357 viewers   360 …

LIVE          VIEWERS     FANS
cooking          1234      300
garden            120       60
v by viewers   f by fans   ↑↓…",
    );
    shows(
        &screen(&mut board, (20, 4), Duration::ZERO),
        "
3 lives   1357 view…
LIVE         VIEWERS
cooking         1234
garden           120",
    );
}

#[tokio::test(start_paused = true)]
async fn no_size_of_a_terminal_is_too_small_or_too_large() {
    let mut board = board(Instant::now());
    for width in 0..140 {
        for height in 0..12 {
            screen(&mut board, (width, height), Duration::ZERO);
        }
    }
    board.failed("x".repeat(1_000), Instant::now());
    for (width, height) in [(1, 1), (7, 2), (500, 200)] {
        screen(&mut board, (width, height), Duration::ZERO);
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_scrolled_to_its_end_and_no_further() {
    let now = Instant::now();
    let mut board = Board::new("http://127.0.0.1:8080".to_owned(), LivesSort::Viewers, now);
    let lives = (0..40).map(|n| live(&format!("live{n}"), "", (40 - n, 0), 1)).collect();
    board.told("http://127.0.0.1:8080".to_owned(), Look { lives, more: true }, now);
    board.scroll(isize::MAX);
    let shown = screen(&mut board, (120, 10), Duration::ZERO);
    assert!(shown.contains("live39 ") && shown.contains("36–40 of 40") && shown.contains("40+ lives"), "{shown}");
    board.scroll(-100);
    assert!(screen(&mut board, (120, 10), Duration::ZERO).contains("1–5 of 40"));
}

#[tokio::test(start_paused = true)]
async fn colours_are_used_only_where_they_are_wanted() {
    let mut board = board(Instant::now());
    let now = Now { instant: board.next_look, unix: UNIX };
    for (colours, wanted) in [(Colours::Off, false), (Colours::On, true)] {
        let mut terminal = Terminal::new(TestBackend::new(110, 9)).unwrap();
        terminal.draw(|frame| draw(frame, &mut board, (colours, now))).unwrap();
        let cells = terminal.backend().buffer().content().iter();
        let coloured = cells.filter(|cell| cell.fg != ratatui::style::Color::Reset).count();
        assert_eq!(coloured > 0, wanted, "{colours:?}");
    }
}

#[test]
fn an_age_has_two_units_at_most() {
    let ages = [0, 59_000, 60_000, 3_599_000, 3_600_000, 86_399_000, 86_400_000, 200_000_000];
    let shown: Vec<String> = ages.iter().map(|ago| age(UNIX, UNIX - ago)).collect();
    assert_eq!(shown, ["0s", "59s", "1m", "59m", "1h00m", "23h59m", "1d0h", "2d7h"]);
    assert_eq!(age(5, 10), "0s", "a clock that is behind");
}
