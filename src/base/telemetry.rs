//! The log: one line per event, to standard error, as text or JSON; a panic is an event, too.
//! `main` starts it once; the settings validate a log filter with it. [`Log`] changes the filter
//! while the process runs. With [`Traces`], spans go to a collector.

mod filter;
mod log;
#[cfg(feature = "otlp")]
mod otlp;
mod panics;
mod sampler;
mod traces;
#[cfg(not(feature = "otlp"))]
mod untraced;
mod writer;

use std::io;
use std::panic;

use anyhow::anyhow;
use tracing_appender::non_blocking::ErrorCounter;
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt};

pub(crate) use self::filter::{filter, filter_pattern};
use self::log::bound_log_crate;
pub(crate) use self::log::{Log, Logged};
#[cfg(feature = "otlp")]
use self::otlp as export;
pub use self::traces::Traces;
#[cfg(not(feature = "otlp"))]
use self::untraced as export;
use self::writer::LastLines;
use export::Export;
pub(crate) use export::continue_trace;
pub(crate) use writer::write;

use super::terminal::has_colour;

/// The format of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// What a gateway keeps until the process ends: its drop sends the last spans and writes the last
/// lines.
#[derive(Debug)]
pub struct Telemetry {
    _export: Export,
    _lines: LastLines,
}

/// Sends the logs of a gateway, and the reports of panics, to standard error from now on, and spans
/// to a collector, if there is one. Nothing waits for whoever reads the log.
///
/// # Errors
/// The filter cannot be read, the traces are set up wrongly, or the log is set up already.
pub fn init_gateway(
    log: &str,
    format: LogFormat,
    traces: Option<&Traces>,
) -> anyhow::Result<Telemetry> {
    let (writer, lines) = writer::open();
    let dropped = writer.error_counter();
    let writer = BoxMakeWriter::new(writer);
    Ok(Telemetry {
        _export: init(log, format, traces, writer, Some(dropped))?,
        _lines: lines,
    })
}

/// Sends the logs of a command, and the reports of panics, to standard error from now on.
///
/// # Errors
/// As [`init_gateway`].
pub fn init_command(log: &str, format: LogFormat) -> anyhow::Result<()> {
    init(log, format, None, BoxMakeWriter::new(io::stderr), None)?;
    Ok(())
}

/// `dropped` counts the lines that the writer leaves out.
fn init(
    log: &str,
    format: LogFormat,
    traces: Option<&Traces>,
    writer: BoxMakeWriter,
    dropped: Option<ErrorCounter>,
) -> anyhow::Result<Export> {
    let colour = has_colour(&io::stderr());
    let parsed = filter(log).map_err(|why| anyhow!("the log filter {why}"))?;
    let (log, lines) = Log::new(log, parsed, dropped);
    let (spans, export) = export::layer(traces)?;
    let layer = fmt::layer().with_writer(writer).with_ansi(colour);
    let layer: Box<dyn Layer<Registry> + Send + Sync> = match format {
        LogFormat::Text => layer.with_filter(lines).boxed(),
        LogFormat::Json => layer
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_ansi(false)
            .with_filter(lines)
            .boxed(),
    };
    let subscriber = Registry::default().with(layer).with(spans);
    if subscriber.try_init().is_err() || !log.install() {
        return Err(anyhow!("the log is set up already"));
    }
    bound_log_crate();
    panic::set_hook(Box::new(panics::log_panic));
    Ok(export)
}
