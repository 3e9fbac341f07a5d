//! Runs the screen: keys, looks and time go in, the board is drawn. The terminal is given back as it was, whichever way
//! this ends.

use std::io;
use std::time::Duration;

use anyhow::Context;
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use futures_util::future::{OptionFuture, select_all};
use ratatui::DefaultTerminal;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use super::board::Board;
use super::look::{self, Look};
use super::screen::{Colours, Now, draw};
use crate::base::clock::unix_now;
use crate::base::terminal::has_colour;
use crate::cli::gateways::GatewayApi;
use crate::config::LivesSort;

/// Pages that a look reads: the largest thousand lives.
const PAGES: usize = 1;

/// How often ages are drawn anew.
const TICK: Duration = Duration::from_millis(500);

/// How soon the thread that reads keys notices that nobody wants them any more.
const KEY_WAIT: Duration = Duration::from_millis(200);

/// Key presses and changes of size that wait to be handled. A terminal that sends more waits.
const MOST_EVENTS: usize = 64;

/// The terminal as long as the screen has it. Dropped, it is as before; after a panic, a hook does that first.
struct Screen(DefaultTerminal);

impl Screen {
    fn open() -> io::Result<Self> {
        ratatui::try_init().map(Self).inspect_err(|_| drop(ratatui::try_restore()))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Nothing can be done for a terminal that is gone.
        let _ = ratatui::try_restore();
    }
}

/// What a key asks for.
enum Wish {
    Leave,
    Sort(LivesSort),
    Scroll(isize),
    Look,
    Draw,
}

/// Shows the lives until somebody leaves.
pub(super) async fn show(gateways: &[GatewayApi], sort: LivesSort) -> anyhow::Result<()> {
    let colours = if has_colour(&io::stdout()) { Colours::On } else { Colours::Off };
    let ends = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(signal);
    let mut ends = ends.into_iter().collect::<io::Result<Vec<Signal>>>().context("signals cannot be heard")?;
    let unusable = |why| anyhow::anyhow!("the terminal cannot be used ({why}); --once does without");
    let mut screen = Screen::open().map_err(unusable)?;
    let mut events = read_events();
    let mut board = Board::new(gateways[0].url.to_string(), sort, Instant::now());
    let mut looks = 0;
    let mut looking: Option<AbortOnDropHandle<(String, anyhow::Result<Look>)>> = None;
    loop {
        let now = Now { instant: Instant::now(), unix: unix_now() };
        screen.0.draw(|frame| draw(frame, &mut board, (colours, now))).context("the terminal is gone")?;
        let page = isize::try_from(screen.0.size()?.height).unwrap_or(1).saturating_sub(5).max(1);
        tokio::select! {
            event = events.recv() => match wish(&event.context("the terminal is gone")??, page) {
                Wish::Leave => return Ok(()),
                Wish::Sort(sort) => {
                    board.sort_by(sort, Instant::now());
                    looking = None;
                }
                Wish::Scroll(by) => board.scroll(by),
                Wish::Look => board.look_now(Instant::now()),
                Wish::Draw => {}
            },
            Some(said) = OptionFuture::from(looking.as_mut()) => {
                looking = None;
                match said {
                    Ok((gateway, Ok(look))) => board.told(gateway, look, Instant::now()),
                    Ok((gateway, Err(why))) => board.failed(format!("{gateway}: {}", why.root_cause()), Instant::now()),
                    Err(why) => return Err(why.into()),
                }
            }
            () = sleep_until(board.next_look), if looking.is_none() => {
                // After a failure, the next gateway's turn.
                looks += usize::from(board.trouble.is_some());
                let (gateway, sort) = (gateways[looks % gateways.len()].clone(), board.sort);
                let look = async move { (gateway.url.to_string(), look::at(&gateway, sort, PAGES).await) };
                looking = Some(AbortOnDropHandle::new(tokio::spawn(look)));
            }
            () = sleep(TICK) => {}
            _ = select_all(ends.iter_mut().map(|end| Box::pin(end.recv()))) => return Ok(()),
        }
    }
}

/// Keys and changes of size, read by a thread of its own, which ends soon after the receiver is gone.
fn read_events() -> mpsc::Receiver<io::Result<Event>> {
    let (send, events) = mpsc::channel(MOST_EVENTS);
    std::thread::spawn(move || {
        while !send.is_closed() {
            let event = match event::poll(KEY_WAIT) {
                Ok(false) => continue,
                Ok(true) => event::read(),
                Err(why) => Err(why),
            };
            let failed = event.is_err();
            if send.blocking_send(event).is_err() || failed {
                return;
            }
        }
    });
    events
}

fn wish(event: &Event, page: isize) -> Wish {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press | KeyEventKind::Repeat, .. }) = event else {
        return Wish::Draw;
    };
    let control = modifiers.contains(KeyModifiers::CONTROL);
    match code {
        KeyCode::Char('c' | 'd') if control => Wish::Leave,
        KeyCode::Char('q') | KeyCode::Esc => Wish::Leave,
        KeyCode::Char('v') => Wish::Sort(LivesSort::Viewers),
        KeyCode::Char('f') => Wish::Sort(LivesSort::Fans),
        KeyCode::Char('r') => Wish::Look,
        KeyCode::Up | KeyCode::Char('k') => Wish::Scroll(-1),
        KeyCode::Down | KeyCode::Char('j') => Wish::Scroll(1),
        KeyCode::PageUp => Wish::Scroll(-page),
        KeyCode::PageDown => Wish::Scroll(page),
        KeyCode::Home => Wish::Scroll(isize::MIN),
        KeyCode::End => Wish::Scroll(isize::MAX),
        _ => Wish::Draw,
    }
}
