//! Logs panics, as far as they are no flood. No filter leaves them out.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;
use std::sync::LazyLock;

use tracing::Level;

use super::sampler::{ABOUT, LineSampler, tell};

/// Samples by the location of the panic: one line of the source logs all panics.
static PANICS: LazyLock<LineSampler<String>> = LazyLock::new(LineSampler::default);

/// The process's panic hook.
pub(super) fn log_panic(info: &PanicHookInfo<'_>) {
    let at = info.location().map(ToString::to_string).unwrap_or_default();
    if !PANICS.admit(at.clone()) {
        return;
    }
    let message = info.payload_as_str().unwrap_or("no message");
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("unnamed");
    let trace = Backtrace::capture();
    let trace = match trace.status() {
        BacktraceStatus::Captured => Some(tracing::field::display(trace)),
        _ => None,
    };
    tracing::error!(target: ABOUT, at, thread, trace, "panic: {message}");
}

/// Logs how many panics the sampler left out since the last report.
pub(super) fn report() {
    for (at, left_out) in PANICS.left_out() {
        tell(Level::ERROR, left_out, format_args!("{at}"));
    }
}
