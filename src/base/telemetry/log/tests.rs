//! What is written under which filter. The subscriber of each test is that of its own thread.

use std::io::Write;
use std::sync::{Arc, mpsc};

use parking_lot::ReentrantMutex;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::{Layer, fmt};

use super::*;
use crate::base::telemetry::writer::queued;

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Written {
    /// What was written since this was last asked.
    fn take(&self) -> String {
        String::from_utf8(std::mem::take(&mut *self.0.lock())).unwrap()
    }
}

/// A change of a filter asks the subscriber of its own thread what it wants of each line, and the
/// answer holds for all threads.
static ONE_AT_A_TIME: ReentrantMutex<()> = ReentrantMutex::new(());

/// Runs `story` with a log of this filter.
fn with_log(text: &str, story: impl FnOnce(&Log, &Written)) {
    let _turn = ONE_AT_A_TIME.lock();
    let (log, lines) = Log::new(text, filter(text).unwrap(), None);
    let written = Written::default();
    let make = {
        let written = written.clone();
        move || written.clone()
    };
    let layer = fmt::layer()
        .with_writer(make)
        .with_ansi(false)
        .with_filter(lines);
    tracing::subscriber::with_default(Registry::default().with(layer), || story(&log, &written));
}

#[test]
fn what_libraries_log_of_messages_is_left_out_whatever_the_filter_says() {
    for asked in [
        "trace",
        "tungstenite::protocol=trace,hyper=debug,rollcall=trace,info",
    ] {
        with_log(asked, |_, written| {
            tracing::trace!(target: "tungstenite::protocol", "Received message secret");
            tracing::debug!(target: "hyper::proto", "secret");
            tracing::trace!(target: "rollcallish", "secret");
            tracing::info!(target: "tungstenite::protocol", "a library's news");
            tracing::trace!(target: "rollcall::edge", "our own");
            let said = written.take();
            assert!(!said.contains("secret"), "{said}");
            assert!(
                said.contains("a library's news") && said.contains("our own"),
                "{said}"
            );
        });
    }
}

#[test]
fn the_filter_changes_while_the_process_runs_and_a_wrong_one_changes_nothing() {
    with_log("warn", |log, written| {
        let news = || tracing::debug!(target: "rollcall::sync", "news of the flusher");
        news();
        assert_eq!(written.take(), "");
        log.change("warn,rollcall::sync=debug", None).unwrap();
        let said = written.take();
        assert!(
            said.contains("the log filter was changed"),
            "a filter that hides it hides it not: {said}"
        );
        news();
        assert!(written.take().contains("news of the flusher"));
        assert_eq!(
            ::log::max_level(),
            ::log::LevelFilter::Info,
            "libraries make lines that are never written"
        );
        assert!(log.change("inof", None).is_err());
        assert_eq!(log.now().filter, "warn,rollcall::sync=debug");
        log.change("off", None).unwrap();
        written.take();
        news();
        assert_eq!(written.take(), "");
    });
}

#[tokio::test(start_paused = true)]
async fn the_filter_of_the_start_comes_back_by_itself() {
    let _turn = ONE_AT_A_TIME.lock();
    let (log, _lines) = Log::new("info", EnvFilter::new("info"), None);
    log.change("debug", Some(Duration::from_secs(600))).unwrap();
    assert_eq!(log.now().left, Some(Duration::from_secs(600)));
    let stop = CancellationToken::new();
    let filter_after = async |wait: u64| {
        let _ = tokio::time::timeout(
            Duration::from_secs(wait),
            log.run(Arc::default(), stop.clone()),
        )
        .await;
        log.now().filter
    };
    assert_eq!(filter_after(590).await, "debug");
    assert_eq!(filter_after(15).await, "info");
    assert_eq!(
        log.now(),
        Logged {
            filter: "info".to_owned(),
            at_start: "info".to_owned(),
            left: None
        }
    );
    // A change with no end stays.
    log.change("debug", None).unwrap();
    assert_eq!(filter_after(100_000).await, "debug");
}

#[test]
fn one_socket_can_be_followed() {
    with_log(
        "info,[socket{session_id=abc-00000001}]=debug",
        |_, written| {
            for session in ["abc-00000001", "abc-00000002"] {
                let span = tracing::error_span!(target: "rollcall::session", "socket", session_id = %session);
                span.in_scope(|| tracing::debug!(target: "rollcall::session", "of {session}"));
            }
            let said = written.take();
            assert!(
                said.contains("of abc-00000001") && !said.contains("of abc-00000002"),
                "{said}"
            );
            // An id is an id, also one that is a number, or has a dot, or is the end of another
            // one.
            for (id, hit) in [
                ("42", true),
                ("u.1", true),
                ("142", false),
                ("421", false),
                ("ux1", false),
            ] {
                with_log(
                    "info,[socket{user_id=42}]=debug,[socket{user_id=u.1}]=debug",
                    |_, written| {
                        let span = tracing::error_span!(target: "rollcall::session", "socket", user_id = %id);
                        span.in_scope(|| tracing::debug!(target: "rollcall::session", "here"));
                        assert_eq!(written.take().contains("here"), hit, "{id}");
                    },
                );
            }
        },
    );
}

#[test]
fn a_flood_is_sampled_and_the_lines_left_out_are_counted() {
    with_log("rollcall::edge=debug", |log, written| {
        for n in 0..1_000 {
            tracing::debug!(target: "rollcall::edge", n, "flood");
        }
        tracing::debug!(target: "rollcall::edge", "another line");
        let said = written.take();
        let kept = said.lines().filter(|line| line.contains("flood")).count();
        assert!((10..=100).contains(&kept), "{kept} of 1000 lines");
        assert!(
            said.contains("another line"),
            "each line in the source is limited by itself"
        );
        log.sampler.report();
        let said = written.take();
        assert!(
            said.contains(&format!("left_out={}", 1_000 - kept)),
            "{said}"
        );
        assert!(said.contains("log/tests.rs"), "{said}");
        log.sampler.report();
        assert_eq!(written.take(), "", "told once");
    });
}

/// Takes nothing until it is let go.
struct Stalled {
    entered: mpsc::Sender<()>,
    go_on: mpsc::Receiver<()>,
    to: Written,
}

impl Write for Stalled {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let _ = self.entered.send(());
        let _ = self.go_on.recv();
        self.to.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_reader_who_stalls_costs_lines_that_are_counted_and_told_of_when_the_reader_goes_on() {
    let _turn = ONE_AT_A_TIME.lock();
    let (tell, entered) = mpsc::channel();
    let (let_go, go_on) = mpsc::channel();
    let written = Written::default();
    let stalled = Stalled {
        entered: tell,
        go_on,
        to: written.clone(),
    };
    let (writer, _last_lines) = queued(stalled, 8);
    let (log, lines) = Log::new(
        "info",
        filter("info").unwrap(),
        Some(writer.error_counter()),
    );
    let layer = fmt::layer()
        .with_writer(writer)
        .with_ansi(false)
        .with_filter(lines);
    tracing::subscriber::with_default(Registry::default().with(layer), || {
        let metrics = Metrics::default();
        tracing::info!("the first line");
        entered.recv().unwrap();
        for n in 0..12 {
            tracing::info!(n, "news");
        }
        let told = log.tell_dropped(&metrics, 0);
        assert_eq!(told, 0, "there is no room for the line that tells");
        assert_eq!(metrics.log_lines_dropped.get(), 4);
        drop(let_go);
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        let mut said = String::new();
        while !said.contains("too slow") {
            assert!(tokio::time::Instant::now() < deadline, "{said}");
            log.tell_dropped(&metrics, told);
            std::thread::yield_now();
            said.push_str(&written.take());
        }
        assert!(said.contains("the first line"), "{said}");
        assert!(said.contains("n=7") && !said.contains("n=8"), "{said}");
    });
}
