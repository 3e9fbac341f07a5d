//! The log: one line an event, to standard error, as text or JSON; a panic is an event, too. `main` starts it once; the
//! settings validate a log filter with it.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::panic::{self, PanicHookInfo};

use anyhow::anyhow;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use super::terminal::has_colour;

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Sends logs, and the reports of panics, to standard error from now on. It is an error to do so twice.
pub fn init(log: &str, format: LogFormat) -> anyhow::Result<()> {
    let colour = has_colour(&io::stderr());
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter(log).map_err(|why| anyhow!("the log filter {why}"))?)
        .with_writer(io::stderr)
        .with_ansi(colour);
    match format {
        LogFormat::Text => discreet(subscriber.finish()).try_init(),
        LogFormat::Json => discreet(subscriber.json().flatten_event(true).with_ansi(false).finish()).try_init(),
    }
    .map_err(|_| anyhow!("the log is set up already"))?;
    panic::set_hook(Box::new(log_panic));
    Ok(())
}

/// Leaves out what libraries log of single messages, whatever the filter says. Messages and heads of requests have
/// tokens in them, and only Rollcall's own code knows not to log those.
fn discreet(subscriber: impl Subscriber + Send + Sync) -> impl Subscriber + Send + Sync {
    subscriber.with(filter_fn(|event: &Metadata<'_>| {
        let is_own = event.target().split("::").next() == Some(env!("CARGO_PKG_NAME"));
        is_own || *event.level() <= Level::INFO
    }))
}

/// Reads a filter as in `RUST_LOG`; the error says what would be right.
pub(crate) fn filter(text: &str) -> Result<EnvFilter, String> {
    const USAGE: &str = "use a level (off, error, warn, info, debug, trace) or target=level, separated by commas";
    // A lone word that is no level would be taken for a target and silence all the rest: `--log inof`.
    let lone_target = |part: &str| {
        let word = !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"_:".contains(&b));
        word && part.parse::<LevelFilter>().is_err()
    };
    if text.split(',').any(|part| lone_target(part.trim())) {
        return Err(format!("has a word that is no level; {USAGE}"));
    }
    EnvFilter::try_new(text).map_err(|_| format!("is no filter; {USAGE}"))
}

fn log_panic(info: &PanicHookInfo<'_>) {
    let message = info.payload_as_str().unwrap_or("no message");
    let at = info.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let trace = Backtrace::capture();
    let trace = (trace.status() == BacktraceStatus::Captured).then(|| tracing::field::display(trace));
    tracing::error!(at, thread, trace, "panic: {message}");
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::{discreet, filter};

    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_libraries_log_of_messages_is_left_out_whatever_the_filter_says() {
        for asked in ["trace", "tungstenite::protocol=trace,hyper=debug,rollcall=trace,info"] {
            let log = Log::default();
            let make = {
                let log = log.clone();
                move || log.clone()
            };
            let subscriber = tracing_subscriber::fmt().with_env_filter(filter(asked).unwrap()).with_writer(make);
            tracing::subscriber::with_default(discreet(subscriber.finish()), || {
                tracing::trace!(target: "tungstenite::protocol", "Received message secret");
                tracing::debug!(target: "hyper::proto", "secret");
                tracing::trace!(target: "rollcallish", "secret");
                tracing::info!(target: "tungstenite::protocol", "a library's news");
                tracing::trace!(target: "rollcall::edge", "our own");
            });
            let said = String::from_utf8(log.0.lock().clone()).unwrap();
            assert!(!said.contains("secret"), "{said}");
            assert!(said.contains("a library's news") && said.contains("our own"), "{said}");
        }
    }

    #[test]
    fn a_filter_is_levels_and_targets() {
        for good in
            ["info", "WARN", "off", "rollcall=debug,warn", "rollcall::store=trace", "[socket{user_id=u1}]=debug"]
        {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["inof", "rollcall=loud", "info,debg", "rollcall=debug=info"] {
            assert!(filter(bad).is_err(), "{bad}");
        }
    }
}
