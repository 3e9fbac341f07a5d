//! What a run found: a row for each kind of fault, every broken promise with what reproduces it.
//! Names in the JSON document are only ever added to.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::Serialize;

use super::faults::Kind;
use super::findings::{Broken, Findings, Promise, Spread};
use crate::proc_stats::Machine;

/// One fault that was run.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) number: usize,
    pub(crate) kind: Option<Kind>,
    pub(crate) findings: Findings,
    pub(crate) bound: Duration,
    /// From the mark until the last member was right.
    pub(crate) whole_after: Duration,
    /// From the mark, for each member that was wrong.
    pub(crate) members: Vec<Duration>,
    /// From rest until all figures were right too.
    pub(crate) audit: Duration,
}

/// The whole document.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) version: &'static str,
    pub(crate) machine: Machine,
    pub(crate) settings: Settings,
    pub(crate) seconds: f64,
    pub(crate) steps: usize,
    pub(crate) faults: BTreeMap<Kind, Row>,
    pub(crate) broken: Vec<Incident>,
    pub(crate) broken_total: u64,
    /// What kept the run from going on.
    pub(crate) stopped_by: Option<String>,
    pub(crate) logs: String,
    pub(crate) passed: bool,
}

/// What reproduces the run.
#[derive(Debug, Serialize)]
pub(crate) struct Settings {
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
pub(crate) struct Row {
    pub(crate) times: usize,
    pub(crate) ghosts: u64,
    pub(crate) misses: u64,
    pub(crate) drift: u64,
    pub(crate) other: u64,
    pub(crate) bound_ms: u64,
    /// Steps, each from its mark until all members were right.
    pub(crate) whole: Spread,
    /// Members that were wrong, each from the mark until it was right.
    pub(crate) members: Spread,
    pub(crate) sockets_cut: u64,
    pub(crate) sockets_lost: u64,
    /// How late our own timers were at most.
    pub(crate) lag_ms: u64,
}

/// A broken promise, and where it happened.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Incident {
    pub(crate) step: usize,
    pub(crate) fault: Option<Kind>,
    #[serde(flatten)]
    pub(crate) broken: Broken,
}

impl Row {
    fn of(steps: &[&Step]) -> Self {
        let whole: Vec<Duration> = steps.iter().map(|step| step.whole_after).collect();
        let members: Vec<Duration> = steps
            .iter()
            .flat_map(|step| step.members.iter().copied())
            .collect();
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
            whole: Spread::of(&whole),
            members: Spread::of(&members),
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
fn count(steps: &[&Step], promises: &[Promise]) -> u64 {
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

impl Report {
    /// The report of these steps.
    pub(crate) fn of(
        settings: Settings,
        steps: &[Step],
        stopped_by: Option<String>,
        logs: String,
        seconds: f64,
    ) -> Self {
        let mut by_kind: BTreeMap<Kind, Vec<&Step>> = BTreeMap::new();
        for step in steps {
            if let Some(kind) = step.kind {
                by_kind.entry(kind).or_default().push(step);
            }
        }
        let incidents = steps.iter().flat_map(|step| {
            step.findings.broken.iter().map(|broken| Incident {
                step: step.number,
                fault: step.kind,
                broken: broken.clone(),
            })
        });
        let broken_total = steps
            .iter()
            .flat_map(|step| step.findings.counts.values())
            .sum();
        Self {
            version: env!("CARGO_PKG_VERSION"),
            machine: Machine::read(),
            settings,
            seconds,
            steps: steps.iter().filter(|step| step.kind.is_some()).count(),
            faults: by_kind
                .into_iter()
                .map(|(kind, steps)| (kind, Row::of(&steps)))
                .collect(),
            broken: incidents.collect(),
            broken_total,
            passed: broken_total == 0 && stopped_by.is_none(),
            stopped_by,
            logs,
        }
    }
}

impl Display for Incident {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Broken {
            promise,
            user,
            live,
            gateway,
            detail,
        } = &self.broken;
        let fault = self.fault.map_or_else(|| "no fault".to_owned(), Kind::name);
        write!(out, "step {} ({fault}): {promise:?}", self.step)?;
        for (what, who) in [("user", user), ("live", live)] {
            if let Some(who) = who {
                write!(out, " {what} {who}")?;
            }
        }
        if let Some(gateway) = gateway {
            write!(out, " gateway {gateway}")?;
        }
        write!(out, ": {detail}")
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self {
            machine, settings, ..
        } = self;
        writeln!(
            out,
            "machine  {} cores, {}, Linux {}",
            machine.cores, machine.cpu_model, machine.kernel
        )?;
        let Settings {
            seed,
            viewers,
            lives,
            quiet,
            gateways,
            lease_ms,
            ..
        } = settings;
        let steps = self.steps;
        let seconds = self.seconds;
        writeln!(
            out,
            "run      seed {seed}: {viewers} viewers, {lives} lives, {gateways} gateways, lease {lease_ms} ms"
        )?;
        writeln!(out, "         {quiet} quiet lives beside them")?;
        writeln!(
            out,
            "         {steps} faults in {seconds:.0} s; logs in {}",
            self.logs
        )?;
        writeln!(out)?;
        writeln!(
            out,
            "{:50} |   bound |   all right after, ms |           wrong members, ms |      sockets |   lag",
            ""
        )?;
        writeln!(
            out,
            "fault          times  ghosts  misses  drift  other |      ms |     p50    p99    max | \
             \x20count    p50    p99    max |    cut  lost |    ms"
        )?;
        for (kind, row) in &self.faults {
            let whole = row.whole;
            let each = row.members;
            writeln!(
                out,
                "{:<14}{:>6}{:>8}{:>8}{:>7}{:>7} | {:>7} | {:>7}{:>7}{:>7} | {:>6}{:>7}{:>7}{:>7} | {:>6}{:>6} | {:>5}",
                kind.name(),
                row.times,
                row.ghosts,
                row.misses,
                row.drift,
                row.other,
                row.bound_ms,
                whole.p50_ms,
                whole.p99_ms,
                whole.max_ms,
                each.count,
                each.p50_ms,
                each.p99_ms,
                each.max_ms,
                row.sockets_cut,
                row.sockets_lost,
                row.lag_ms
            )?;
        }
        writeln!(out)?;
        for incident in &self.broken {
            writeln!(out, "broken   {incident}")?;
        }
        if let Some(why) = &self.stopped_by {
            writeln!(out, "stopped  {why}")?;
        }
        if self.passed {
            return write!(out, "check    passed");
        }
        write!(
            out,
            "check    failed: {} promises broken; again with --seed {seed}",
            self.broken_total
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_step_and_one_with_the_longest_times_can_be_printed() {
        let settings = || Settings {
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
        let none = Report::of(
            settings(),
            &[],
            Some("interrupted".to_owned()),
            String::new(),
            0.0,
        );
        assert!(none.to_string().contains("stopped  interrupted"));
        let step = Step {
            number: 1,
            kind: Some(Kind::Kill),
            findings: Findings::default(),
            bound: Duration::MAX,
            whole_after: Duration::MAX,
            members: vec![Duration::ZERO, Duration::MAX],
            audit: Duration::ZERO,
        };
        assert!(
            Report::of(settings(), &[step], None, String::new(), f64::MAX)
                .to_string()
                .contains("passed")
        );
    }
}
