//! What a run found: a row for each kind of fault, every broken promise with what reproduces it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde_json::json;

use super::faults::ChaosFault;
use super::findings::{Broken, Findings, Promise};
use crate::report::RunReport;
use crate::tally::Latencies;

/// One fault that was run.
#[derive(Debug)]
pub(crate) struct ChaosStep {
    pub(crate) number: usize,
    pub(crate) kind: Option<ChaosFault>,
    pub(crate) findings: Findings,
    pub(crate) bound: Duration,
    /// From the mark until the last member was right.
    pub(crate) whole_after: Duration,
    /// From the mark, for each member that was wrong.
    pub(crate) members: Vec<Duration>,
    /// From rest until all figures were right too.
    pub(crate) audit: Duration,
}

/// What reproduces the run.
#[derive(Debug, Serialize)]
pub(crate) struct ChaosSettings {
    pub(crate) seed: u64,
    pub(crate) viewers: u32,
    pub(crate) lives: usize,
    pub(crate) quiet: usize,
    pub(crate) cluster: bool,
    pub(crate) gateways: usize,
    pub(crate) heartbeat_ms: u64,
    pub(crate) timeout_ms: u64,
    pub(crate) lease_ms: u64,
    pub(crate) refresh_ms: u64,
}

/// All steps of one kind.
#[derive(Debug, Default, Serialize)]
pub(crate) struct FaultRow {
    pub(crate) times: usize,
    pub(crate) ghosts: u64,
    pub(crate) misses: u64,
    pub(crate) drift: u64,
    pub(crate) other: u64,
    pub(crate) bound_ms: u64,
    /// Steps, each from its mark until all members were right.
    pub(crate) whole_p50_ms: f64,
    pub(crate) whole_max_ms: f64,
    /// Members that were wrong, each from the mark until it was right.
    pub(crate) members: u64,
    pub(crate) members_p50_ms: f64,
    pub(crate) members_p99_ms: f64,
    pub(crate) members_max_ms: f64,
    pub(crate) sockets_cut: u64,
    pub(crate) sockets_lost: u64,
    /// How late our own timers were at most.
    pub(crate) lag_ms: u64,
}

/// A broken promise, and where it happened.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Incident {
    pub(crate) step: usize,
    pub(crate) fault: Option<ChaosFault>,
    #[serde(flatten)]
    pub(crate) broken: Broken,
}

impl FaultRow {
    fn of(steps: &[&ChaosStep]) -> Self {
        let mut whole = Latencies::default();
        let mut members = Latencies::default();
        for step in steps {
            whole.record(step.whole_after);
            step.members.iter().for_each(|after| members.record(*after));
        }
        Self {
            times: steps.len(),
            ghosts: count(steps, &[Promise::Ghost, Promise::NotSwept]),
            misses: count(steps, &[Promise::Miss]),
            drift: count(
                steps,
                &[Promise::Drift, Promise::Resurrected, Promise::NotForgotten],
            ),
            other: count(
                steps,
                &[Promise::Dashboard, Promise::CloseUntold, Promise::TooSlow],
            ),
            bound_ms: steps
                .iter()
                .map(|step| step.bound.as_millis() as u64)
                .max()
                .unwrap_or_default(),
            whole_p50_ms: whole.ms_at(0.5),
            whole_max_ms: whole.ms_at(1.0),
            members: members.count(),
            members_p50_ms: members.ms_at(0.5),
            members_p99_ms: members.ms_at(0.99),
            members_max_ms: members.ms_at(1.0),
            sockets_cut: steps.iter().map(|step| step.findings.sockets_cut).sum(),
            sockets_lost: count(steps, &[Promise::SocketLost, Promise::SessionLost]),
            lag_ms: steps
                .iter()
                .map(|step| step.findings.lag.as_millis() as u64)
                .max()
                .unwrap_or_default(),
        }
    }
}

/// How often the steps found these promises broken.
fn count(steps: &[&ChaosStep], promises: &[Promise]) -> u64 {
    let mut sum = 0;
    for step in steps {
        for promise in promises {
            sum += step
                .findings
                .counts
                .get(promise)
                .copied()
                .unwrap_or_default();
        }
    }
    sum
}

/// The report of these steps. `stopped_by` kept the run from going on.
pub(crate) fn report(
    settings: &ChaosSettings,
    steps: &[ChaosStep],
    stopped_by: Option<&str>,
    logs: &str,
    seconds: f64,
) -> anyhow::Result<RunReport> {
    let mut by_kind: BTreeMap<ChaosFault, Vec<&ChaosStep>> = BTreeMap::new();
    let mut broken = Vec::new();
    let mut total = 0;
    for step in steps {
        if let Some(kind) = step.kind {
            by_kind.entry(kind).or_default().push(step);
        }
        broken.extend(step.findings.broken.iter().map(|broken| Incident {
            step: step.number,
            fault: step.kind,
            broken: broken.clone(),
        }));
        total += step.findings.counts.values().sum::<u64>();
    }
    let faults: BTreeMap<ChaosFault, FaultRow> = by_kind
        .iter()
        .map(|(kind, steps)| (*kind, FaultRow::of(steps)))
        .collect();
    let mut report = RunReport::of(&json!({
        "settings": settings,
        "seconds": seconds,
        "steps": by_kind.values().map(Vec::len).sum::<usize>(),
        "faults": faults,
        "broken": broken,
        "broken_total": total,
        "stopped_by": stopped_by,
        "logs": logs,
    }))?;
    let seed = settings.seed;
    report.must(
        total == 0,
        format!("{total} promises broken; again with --seed {seed}"),
    );
    // A run that was stopped has checked nothing to its end.
    report.must_not_stop(stopped_by.is_none(), stopped_by.unwrap_or_default());
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_step_and_one_with_the_longest_times_can_be_printed() {
        let settings = ChaosSettings {
            seed: 1,
            viewers: 1,
            lives: 1,
            quiet: 0,
            cluster: false,
            gateways: 3,
            heartbeat_ms: 1,
            timeout_ms: 1,
            lease_ms: 1,
            refresh_ms: 1,
        };
        let none = report(&settings, &[], Some("interrupted"), "", 0.0).unwrap();
        assert!(none.to_string().contains("interrupted"), "{none}");
        let step = ChaosStep {
            number: 1,
            kind: Some(ChaosFault::Kill),
            findings: Findings::default(),
            bound: Duration::MAX,
            whole_after: Duration::MAX,
            members: vec![Duration::ZERO, Duration::MAX],
            audit: Duration::ZERO,
        };
        let one = report(&settings, &[step], None, "", f64::MAX).unwrap();
        assert!(one.to_string().contains("passed"), "{one}");
    }
}
