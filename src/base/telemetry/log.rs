//! The filter of the log: the filter of the start, or another one for a while. Operators change it
//! over HTTP. A process has one log, whatever runs in it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata};
use tracing_appender::non_blocking::ErrorCounter;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::{EnvFilter, Registry, reload};

use super::filter::filter;
use super::panics;
use super::sampler::{ABOUT, LineSampler, Site};
use crate::base::metrics::Metrics;

/// How often the log checks whether its filter has run out.
const TICK: Duration = Duration::from_secs(1);

/// How often the log reports which lines the sampler left out, in ticks.
const REPORT_EVERY: u32 = 10;

static LOG: OnceLock<Log> = OnceLock::new();

/// The filter of the log, which can be changed.
#[derive(Debug)]
pub(crate) struct Log {
    at_start: String,
    present: Mutex<Present>,
    filter: reload::Handle<EnvFilter, Registry>,
    sampler: Arc<LineSampler<Site>>,
    /// The lines that the writer left out; `None` if the writer waits instead.
    dropped: Option<ErrorCounter>,
}

#[derive(Debug, Clone)]
struct Present {
    filter: String,
    /// When the filter of the start comes back; `None` if another call must bring it back.
    until: Option<Instant>,
}

/// The filter in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Logged {
    pub(crate) filter: String,
    /// The filter of the start.
    pub(crate) at_start: String,
    /// The time until the filter of the start comes back.
    pub(crate) left: Option<Duration>,
}

impl Log {
    /// A log with this filter, and the filter layer for the subscriber.
    pub(super) fn new(
        text: &str,
        parsed: EnvFilter,
        dropped: Option<ErrorCounter>,
    ) -> (Self, LineFilter) {
        let (layer, handle) = reload::Layer::new(parsed);
        let sampler = Arc::<LineSampler<Site>>::default();
        let present = Present {
            filter: text.to_owned(),
            until: None,
        };
        let lines = LineFilter {
            filter: layer,
            sampler: sampler.clone(),
        };
        (
            Self {
                at_start: text.to_owned(),
                present: Mutex::new(present),
                filter: handle,
                sampler,
                dropped,
            },
            lines,
        )
    }

    /// Makes it the log of the process. False if there is one already.
    pub(super) fn install(self) -> bool {
        LOG.set(self).is_ok()
    }

    /// The log of the process. If nobody has set one up, the process logs nothing, and a change has
    /// no effect.
    pub(crate) fn of_process() -> &'static Self {
        LOG.get_or_init(|| Self::new("off", EnvFilter::new("off"), None).0)
    }

    pub(crate) fn now(&self) -> Logged {
        let Present { filter, until } = self.present.lock().clone();
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        Logged {
            filter,
            at_start: self.at_start.clone(),
            left,
        }
    }

    /// Logs by the filter `text` from now on: for the time `within`, or until the next change. The
    /// error says what would be right.
    pub(crate) fn change(&self, text: &str, within: Option<Duration>) -> Result<(), String> {
        let parsed = filter(text)?;
        let mut present = self.present.lock();
        *present = Present {
            filter: text.to_owned(),
            until: within.map(|within| Instant::now() + within),
        };
        self.put(parsed);
        drop(present);
        let for_s = within.map(|within| within.as_secs());
        tracing::info!(target: ABOUT, filter = text, for_s, "the log filter was changed");
        Ok(())
    }

    /// Restores the filter of the start when its time has come, and reports which lines were left
    /// out. A long-lived task; ends at `stop`.
    pub(crate) async fn run(&self, metrics: Arc<Metrics>, stop: CancellationToken) {
        let mut ticks = 0;
        let mut told = 0;
        while stop
            .run_until_cancelled(tokio::time::sleep(TICK))
            .await
            .is_some()
        {
            self.restore_if_due();
            told = self.tell_dropped(&metrics, told);
            ticks = (ticks + 1) % REPORT_EVERY;
            if ticks == 0 {
                self.report();
            }
        }
        self.report();
    }

    /// Counts the lines that the writer left out, and logs their number once whoever reads the log
    /// goes on. Takes and returns how many the log has told of.
    fn tell_dropped(&self, metrics: &Metrics, told: u64) -> u64 {
        let Some(counter) = &self.dropped else {
            return 0;
        };
        let dropped = counter.dropped_lines() as u64;
        let known = metrics.log_lines_dropped.get();
        metrics
            .log_lines_dropped
            .inc_by(dropped.saturating_sub(known));
        if dropped == told {
            return told;
        }
        let left_out = dropped - told;
        tracing::warn!(target: ABOUT, left_out, "lines were left out: whoever reads the log was too slow");
        // This line may have been left out, too.
        if counter.dropped_lines() as u64 == dropped {
            dropped
        } else {
            told
        }
    }

    fn report(&self) {
        self.sampler.report();
        panics::report();
    }

    fn restore_if_due(&self) {
        let mut present = self.present.lock();
        if present.until.is_none_or(|until| until > Instant::now()) {
            return;
        }
        *present = Present {
            filter: self.at_start.clone(),
            until: None,
        };
        // The filter was valid at the start.
        if let Ok(parsed) = filter(&self.at_start) {
            self.put(parsed);
        }
        drop(present);
        tracing::info!(
            target: ABOUT,
            filter = self.at_start,
            "the log filter of the start is back"
        );
    }

    /// Fails only where no subscriber uses the filter.
    fn put(&self, parsed: EnvFilter) {
        let _ = self.filter.reload(parsed);
        bound_log_crate();
    }
}

/// Decides which lines the subscriber writes: those of the filter, as far as they are no flood. It
/// leaves out what libraries log of single messages, whatever the filter says: messages and heads
/// of requests have tokens in them, and only Rollcall's own code takes care not to log those.
#[derive(Debug)]
pub(super) struct LineFilter {
    filter: reload::Layer<EnvFilter, Registry>,
    sampler: Arc<LineSampler<Site>>,
}

/// Bounds the level of the crate `log`. Some libraries log each message, and each command to Redis,
/// with that crate, where a line below the bound costs least. A new subscriber, or a change of its
/// filter, moves the bound, so the caller sets it again after that.
pub(super) fn bound_log_crate() {
    ::log::set_max_level(::log::LevelFilter::Info);
}

fn is_about(line: &Metadata<'_>) -> bool {
    line.target() == ABOUT
}

fn is_discreet(line: &Metadata<'_>) -> bool {
    let is_own = line.target().split("::").next() == Some(env!("CARGO_PKG_NAME"));
    is_own || *line.level() <= Level::INFO
}

impl Filter<Registry> for LineFilter {
    fn enabled(&self, line: &Metadata<'_>, context: &Context<'_, Registry>) -> bool {
        is_about(line) || is_discreet(line) && Filter::enabled(&self.filter, line, context)
    }

    fn callsite_enabled(&self, line: &'static Metadata<'static>) -> Interest {
        if is_about(line) {
            return Interest::always();
        }
        if !is_discreet(line) {
            return Interest::never();
        }
        match self.filter.callsite_enabled(line) {
            // Whether one line is written differs from time to time.
            interest if interest.is_always() && line.is_event() => Interest::sometimes(),
            interest => interest,
        }
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, Registry>) -> bool {
        is_about(event.metadata()) || self.sampler.admit(Site(event.metadata()))
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(Filter::max_level_hint(&self.filter)?.max(LevelFilter::INFO))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, Registry>) {
        Filter::on_new_span(&self.filter, attributes, id, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, Registry>) {
        Filter::on_record(&self.filter, id, values, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, Registry>) {
        Filter::on_enter(&self.filter, id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, Registry>) {
        Filter::on_exit(&self.filter, id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, Registry>) {
        Filter::on_close(&self.filter, id, context);
    }
}

#[cfg(test)]
mod tests;
