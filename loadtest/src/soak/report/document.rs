//! What a soak found, judged. Names in the JSON document are only ever added to.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::chaos::findings::{Broken, Promise};
use crate::proc_stats::Machine;
use crate::report::Check;
use crate::soak::sampler::{Figures, Sample};
use crate::soak::slope::{Slope, Verdict};
use crate::soak::staff::Ledger;

/// Memory may grow by so much of its median per hour, in percent.
const MOST_GROWTH: f64 = 1.0;

/// What a run measured.
#[derive(Debug, Default)]
pub(in crate::soak) struct Measured {
    pub(in crate::soak) seconds: f64,
    pub(in crate::soak) samples: Vec<Sample>,
    /// When all gateways had restarted, each time.
    pub(in crate::soak) restarts: Vec<f64>,
    pub(in crate::soak) rest_before: Vec<Figures>,
    pub(in crate::soak) rest_after: Vec<Figures>,
    /// Open files and tasks are back to what they were.
    pub(in crate::soak) is_down: bool,
    pub(in crate::soak) leftovers: Vec<String>,
    pub(in crate::soak) kept: BTreeMap<String, Kept>,
    pub(in crate::soak) ledger: Ledger,
    pub(in crate::soak) broken: Vec<Broken>,
    pub(in crate::soak) broken_by_promise: BTreeMap<Promise, u64>,
    /// What `rollcall audit` finds when everybody has gone.
    pub(in crate::soak) audit: Vec<Broken>,
    pub(in crate::soak) lag_ms: u64,
}

/// Keys of a kind that stay when all lives have closed, as documented.
#[derive(Debug, Clone, Copy, Serialize)]
pub(in crate::soak) struct Kept {
    pub(in crate::soak) keys: u64,
    /// For so long at most; absent: for good.
    pub(in crate::soak) lifetime_seconds: Option<u64>,
}

/// What reproduces the run.
#[derive(Debug, Default, Serialize)]
pub(in crate::soak) struct Settings {
    pub(in crate::soak) seed: u64,
    pub(in crate::soak) hours: f64,
    pub(in crate::soak) viewers: u32,
    pub(in crate::soak) lives: usize,
    pub(in crate::soak) gateways: usize,
    pub(in crate::soak) fans: f64,
    pub(in crate::soak) pace_ms: u64,
    pub(in crate::soak) sample_ms: u64,
    pub(in crate::soak) warm_up_seconds: u64,
}

/// A gateway's memory after the warm-up.
#[derive(Debug, Serialize)]
pub(in crate::soak) struct Growth {
    /// Absent if there are too few samples for any line.
    pub(in crate::soak) slope: Option<Slope>,
    pub(in crate::soak) verdict: Verdict,
}

/// The whole document.
#[derive(Debug, Serialize)]
pub(in crate::soak) struct Report {
    pub(in crate::soak) version: &'static str,
    pub(in crate::soak) machine: Machine,
    pub(in crate::soak) settings: Settings,
    pub(in crate::soak) seconds: f64,
    pub(in crate::soak) growth: Vec<Growth>,
    /// When all gateways had restarted, each time, in seconds; memory counts from the last time on.
    pub(in crate::soak) restarts: Vec<f64>,
    /// Of each gateway, before anybody came and after everybody had gone.
    pub(in crate::soak) rest_before: Vec<Figures>,
    pub(in crate::soak) rest_after: Vec<Figures>,
    /// Keys that should be gone at the end; the first ones.
    pub(in crate::soak) leftover_keys: Vec<String>,
    pub(in crate::soak) kept_keys: BTreeMap<String, Kept>,
    #[serde(flatten)]
    pub(in crate::soak) ledger: Ledger,
    pub(in crate::soak) broken: Vec<Broken>,
    pub(in crate::soak) broken_by_promise: BTreeMap<Promise, u64>,
    /// How late our own timers were at most.
    pub(in crate::soak) lag_ms: u64,
    pub(in crate::soak) logs: String,
    pub(in crate::soak) check: Check,
    /// What the run was too short to judge.
    pub(in crate::soak) undecided: Vec<String>,
    pub(in crate::soak) samples: Vec<Sample>,
}

impl Report {
    pub(in crate::soak) fn of(settings: Settings, measured: Measured, logs: String) -> Self {
        let growth: Vec<Growth> = (0..settings.gateways).map(|gateway| growth(gateway, &settings, &measured)).collect();
        let check = check(&growth, &measured);
        let undecided = growth.iter().enumerate().filter(|(_, growth)| growth.verdict == Verdict::TooShortToTell);
        let undecided = undecided.map(|(gateway, _)| format!("gateway {gateway}: growth of memory: too short to tell"));
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
    let first = measured.samples.first().map_or(0.0, |sample| sample.seconds);
    let began = measured.restarts.last().copied().unwrap_or(first);
    let warm = measured.samples.iter().filter(|sample| sample.seconds - began >= settings.warm_up_seconds as f64);
    let memory = warm.filter_map(|sample| Some((sample.seconds, sample.gateways.get(gateway)?.rss_bytes as f64)));
    let slope = Slope::of(&memory.collect::<Vec<_>>());
    Growth { verdict: slope.map_or(Verdict::TooShortToTell, |slope| slope.verdict(MOST_GROWTH)), slope }
}

fn check(growth: &[Growth], measured: &Measured) -> Check {
    let mut failures = Vec::new();
    let mut fail_if = |fails: bool, why: String| failures.extend(fails.then_some(why));
    for (gateway, Growth { slope, verdict }) in growth.iter().enumerate() {
        let percent = slope.map_or(0.0, |slope| slope.percent_per_hour);
        let grows = format!("gateway {gateway}: memory grows by {percent:.2} % per hour, not {MOST_GROWTH} %");
        fail_if(*verdict == Verdict::Grows, grows);
    }
    if !measured.is_down {
        for (gateway, (before, after)) in measured.rest_before.iter().zip(&measured.rest_after).enumerate() {
            for (what, before, after) in
                [("open files", before.open_files, after.open_files), ("tasks", before.tasks, after.tasks)]
            {
                fail_if(after > before, format!("gateway {gateway}: {after} {what} at rest, {before} before"));
            }
        }
    }
    for (gateway, after) in measured.rest_after.iter().enumerate() {
        let Figures { sockets, members, lives, .. } = after;
        let held = sockets + members + lives > 0;
        fail_if(held, format!("gateway {gateway}: {sockets} sockets, {members} members, {lives} lives at rest"));
    }
    fail_if(measured.samples.is_empty() || measured.rest_before.is_empty(), "nothing was sampled".to_owned());
    measured.leftovers.iter().for_each(|key| fail_if(true, format!("a leftover key: {key}")));
    for (errand, outcomes) in &measured.ledger.errands {
        fail_if(outcomes.wrong > 0, format!("{} of the errands {errand:?} went wrong", outcomes.wrong));
    }
    fail_if(measured.ledger.errands.values().all(|outcomes| outcomes.done == 0), "no errand was done".to_owned());
    for (promise, times) in &measured.broken_by_promise {
        fail_if(*times > 0, format!("{times} × {promise:?}"));
    }
    measured.audit.iter().for_each(|broken| fail_if(true, format!("at rest, {}", broken.detail)));
    Check { passed: failures.is_empty(), failures }
}
