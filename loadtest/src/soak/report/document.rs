//! What a soak found, judged. Names in the JSON document are only ever added to.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::chaos::findings::{Broken, Promise};
use crate::proc_stats::Machine;
use crate::report::{Check, fail_if};
use crate::soak::sampler::{Figures, Sample};
use crate::soak::slope::{Slope, Verdict};
use crate::soak::staff::Ledger;

/// Memory may grow by so much of its median per hour, in percent.
const MOST_GROWTH: f64 = 1.0;

/// What a run measured.
#[derive(Debug, Default)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    pub(crate) samples: Vec<Sample>,
    /// When all gateways had restarted, each time.
    pub(crate) restarts: Vec<f64>,
    pub(crate) rest_before: Vec<Figures>,
    pub(crate) rest_after: Vec<Figures>,
    /// Open files and tasks are back to what they were.
    pub(crate) is_down: bool,
    pub(crate) leftovers: Vec<String>,
    pub(crate) kept: BTreeMap<String, Kept>,
    pub(crate) ledger: Ledger,
    pub(crate) broken: Vec<Broken>,
    pub(crate) broken_by_promise: BTreeMap<Promise, u64>,
    /// What `rollcall audit` finds when everybody has gone.
    pub(crate) audit: Vec<Broken>,
    pub(crate) lag_ms: u64,
}

/// Keys of a kind that stay when all lives have closed, as documented.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Kept {
    pub(crate) keys: u64,
    /// For so long at most; absent: for good.
    pub(crate) lifetime_seconds: Option<u64>,
}

/// What reproduces the run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    pub(crate) hours: f64,
    pub(crate) viewers: u32,
    pub(crate) lives: usize,
    pub(crate) gateways: usize,
    pub(crate) fans: f64,
    pub(crate) pace_ms: u64,
    pub(crate) sample_ms: u64,
    pub(crate) warm_up_seconds: u64,
}

/// A gateway's memory after the warm-up.
#[derive(Debug, Serialize)]
pub(crate) struct Growth {
    /// Absent if there are too few samples for any line.
    pub(crate) slope: Option<Slope>,
    pub(crate) verdict: Verdict,
}

/// The whole document.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) version: &'static str,
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    pub(crate) seconds: f64,
    pub(crate) growth: Vec<Growth>,
    /// When all gateways had restarted, each time, in seconds; memory counts from the last time on.
    pub(crate) restarts: Vec<f64>,
    /// Of each gateway, before anybody came and after everybody had gone.
    pub(crate) rest_before: Vec<Figures>,
    pub(crate) rest_after: Vec<Figures>,
    /// Keys that should be gone at the end; the first ones.
    pub(crate) leftover_keys: Vec<String>,
    pub(crate) kept_keys: BTreeMap<String, Kept>,
    #[serde(flatten)]
    pub(crate) ledger: Ledger,
    pub(crate) broken: Vec<Broken>,
    pub(crate) broken_by_promise: BTreeMap<Promise, u64>,
    /// How late our own timers were at most.
    pub(crate) lag_ms: u64,
    pub(crate) logs: String,
    pub(crate) check: Check,
    /// What the run was too short to judge.
    pub(crate) undecided: Vec<String>,
    pub(crate) samples: Vec<Sample>,
}

impl Report {
    pub(crate) fn of(settings: Settings, measured: Measured, logs: String) -> Self {
        let growth: Vec<Growth> = (0..settings.gateways)
            .map(|gateway| growth(gateway, &settings, &measured))
            .collect();
        let check = check(&growth, &measured);
        let undecided = growth
            .iter()
            .enumerate()
            .filter(|(_, growth)| growth.verdict == Verdict::TooShortToTell);
        let undecided = undecided
            .map(|(gateway, _)| format!("gateway {gateway}: growth of memory: too short to tell"));
        Self {
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::read(),
            seconds: measured.seconds,
            undecided: undecided.collect(),
            growth,
            restarts: measured.restarts,
            rest_before: measured.rest_before,
            rest_after: measured.rest_after,
            leftover_keys: measured.leftovers,
            kept_keys: measured.kept,
            ledger: measured.ledger,
            broken: measured.broken,
            broken_by_promise: measured.broken_by_promise,
            lag_ms: measured.lag_ms,
            logs,
            check,
            samples: measured.samples,
            settings,
        }
    }
}

fn growth(gateway: usize, settings: &Settings, measured: &Measured) -> Growth {
    let first = measured
        .samples
        .first()
        .map_or(0.0, |sample| sample.seconds);
    let began = measured.restarts.last().copied().unwrap_or(first);
    let warm = measured
        .samples
        .iter()
        .filter(|sample| sample.seconds - began >= settings.warm_up_seconds as f64);
    let memory = warm.filter_map(|sample| {
        Some((
            sample.seconds,
            sample.gateways.get(gateway)?.rss_bytes as f64,
        ))
    });
    let slope = Slope::of(&memory.collect::<Vec<_>>());
    Growth {
        verdict: slope.map_or(Verdict::TooShortToTell, |slope| slope.verdict(MOST_GROWTH)),
        slope,
    }
}

fn check(growth: &[Growth], measured: &Measured) -> Check {
    let mut failures = Vec::new();
    for (gateway, Growth { slope, verdict }) in growth.iter().enumerate() {
        let percent = slope.map_or(0.0, |slope| slope.percent_per_hour);
        let grows = format!(
            "gateway {gateway}: memory grows by {percent:.2} % per hour, not {MOST_GROWTH} %"
        );
        fail_if(&mut failures, *verdict == Verdict::Grows, grows);
    }
    if !measured.is_down {
        for (gateway, (before, after)) in measured
            .rest_before
            .iter()
            .zip(&measured.rest_after)
            .enumerate()
        {
            for (what, before, after) in [
                ("open files", before.open_files, after.open_files),
                ("tasks", before.tasks, after.tasks),
            ] {
                fail_if(
                    &mut failures,
                    after > before,
                    format!("gateway {gateway}: {after} {what} at rest, {before} before"),
                );
            }
        }
    }
    for (gateway, after) in measured.rest_after.iter().enumerate() {
        let Figures {
            sockets,
            members,
            lives,
            ..
        } = after;
        let held = sockets + members + lives > 0;
        fail_if(
            &mut failures,
            held,
            format!(
                "gateway {gateway}: {sockets} sockets, {members} members, {lives} lives at rest"
            ),
        );
    }
    fail_if(
        &mut failures,
        measured.samples.is_empty() || measured.rest_before.is_empty(),
        "nothing was sampled".to_owned(),
    );
    measured
        .leftovers
        .iter()
        .for_each(|key| fail_if(&mut failures, true, format!("a leftover key: {key}")));
    for (errand, outcomes) in &measured.ledger.errands {
        fail_if(
            &mut failures,
            outcomes.wrong > 0,
            format!("{} of the errands {errand:?} went wrong", outcomes.wrong),
        );
    }
    fail_if(
        &mut failures,
        measured
            .ledger
            .errands
            .values()
            .all(|outcomes| outcomes.done == 0),
        "no errand was done".to_owned(),
    );
    for (promise, times) in &measured.broken_by_promise {
        fail_if(&mut failures, *times > 0, format!("{times} × {promise:?}"));
    }
    measured
        .audit
        .iter()
        .for_each(|broken| fail_if(&mut failures, true, format!("at rest, {}", broken.detail)));
    Check {
        passed: failures.is_empty(),
        failures,
    }
}
