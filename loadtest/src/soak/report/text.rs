//! The report as text: a line or two per subject.

use std::fmt::{self, Display, Formatter};

use super::document::{Kept, Report, Settings};
use crate::soak::slope::Verdict;
use crate::soak::staff::Outcomes;

const MIB: f64 = (1 << 20) as f64;

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(out, "machine    {}", machine(self))?;
        let Settings {
            seed,
            hours,
            viewers,
            lives,
            gateways,
            warm_up_seconds,
            ..
        } = self.settings;
        writeln!(
            out,
            "run        seed {seed}: {hours:.3} h, of which {warm_up_seconds} s are the warm-up"
        )?;
        writeln!(
            out,
            "           {viewers} viewers, {lives} lives, {gateways} gateways, {} samples",
            self.samples.len()
        )?;
        if !self.restarts.is_empty() {
            writeln!(
                out,
                "restarts   {} of all gateways, with everybody connected",
                self.restarts.len()
            )?;
        }
        for (
            errand,
            Outcomes {
                done,
                interrupted,
                wrong,
            },
        ) in &self.ledger.errands
        {
            writeln!(
                out,
                "errands    {errand:<8} {done:>7} done, {interrupted:>5} interrupted, {wrong:>3} wrong"
            )?;
        }
        for gateway in 0..gateways {
            writeln!(out, "gateway {gateway}  {}", self.memory(gateway))?;
            writeln!(out, "           {}", self.rest(gateway))?;
        }
        if let Some(first) = self.samples.first()
            && let Some(last) = self.samples.last()
        {
            let from = first.redis_bytes as f64 / MIB;
            let to = last.redis_bytes as f64 / MIB;
            writeln!(
                out,
                "redis      {from:.1} to {to:.1} MiB, {} to {} keys",
                first.keys.values().sum::<u64>(),
                last.keys.values().sum::<u64>()
            )?;
        }
        for (
            kind,
            Kept {
                keys,
                lifetime_seconds,
            },
        ) in &self.kept_keys
        {
            let lifetime = lifetime_seconds.map_or("for good".to_owned(), |seconds| {
                format!("for up to {seconds} s")
            });
            writeln!(out, "kept       {keys:>6} × {kind} {lifetime}")?;
        }
        writeln!(
            out,
            "generator  its timers were up to {} ms late",
            self.lag_ms
        )?;
        for broken in &self.broken {
            writeln!(out, "broken     {broken:?}")?;
        }
        self.ledger
            .wrong
            .iter()
            .try_for_each(|wrong| writeln!(out, "wrong      {wrong}"))?;
        self.undecided
            .iter()
            .try_for_each(|what| writeln!(out, "undecided  {what}"))?;
        write!(
            out,
            "check      {}",
            if self.check.passed {
                "passed"
            } else {
                "failed"
            }
        )?;
        self.check
            .failures
            .iter()
            .try_for_each(|failure| write!(out, "\n           {failure}"))
    }
}

impl Report {
    fn memory(&self, gateway: usize) -> String {
        let growth = &self.growth[gateway];
        let verdict = match growth.verdict {
            Verdict::Steady => "steady",
            Verdict::Grows => "GROWS",
            Verdict::TooShortToTell => "too short to tell",
        };
        match growth.slope {
            None => verdict.to_owned(),
            Some(slope) => format!(
                "rss {:.1} MiB, {:+.2} % per hour (95 %: {:+.2} to {:+.2}, {} blocks): {verdict}",
                slope.median / MIB,
                slope.percent_per_hour,
                slope.low,
                slope.high,
                slope.blocks
            ),
        }
    }

    fn rest(&self, gateway: usize) -> String {
        let sockets = self
            .samples
            .iter()
            .filter_map(|sample| Some(sample.gateways.get(gateway)?.sockets))
            .max();
        let before = self.rest_before.get(gateway);
        let after = self.rest_after.get(gateway);
        let Some((before, after)) = before.zip(after) else {
            return "never at rest".to_owned();
        };
        format!(
            "at rest before and after: {} and {} open files, {} and {} tasks; up to {} sockets between",
            before.open_files,
            after.open_files,
            before.tasks,
            after.tasks,
            sockets.unwrap_or_default()
        )
    }
}

pub(super) fn machine(report: &Report) -> String {
    let machine = &report.machine;
    format!(
        "{} cores, {}, Linux {}",
        machine.cores, machine.cpu_model, machine.kernel
    )
}
