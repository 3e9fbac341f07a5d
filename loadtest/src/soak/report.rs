//! What a soak found, judged, and its plots.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::chaos::findings::{Broken, Promise};
use crate::report::RunReport;
use crate::report::plot::{self, Panel, PlotLine};
use crate::soak::sampler::{GatewayFigures, Sample};
use crate::soak::slope::{Slope, SlopeVerdict};
use crate::soak::staff::Ledger;

const MIB: f64 = (1 << 20) as f64;

/// Memory may grow by so much of its median per hour, in percent.
const MOST_GROWTH: f64 = 1.0;

/// What a run measured.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Measured {
    pub(crate) seconds: f64,
    pub(crate) samples: Vec<Sample>,
    /// When all gateways had restarted, each time, in seconds; memory counts from the last time on.
    pub(crate) restarts: Vec<f64>,
    /// Of each gateway, before anybody came and after everybody had gone.
    pub(crate) rest_before: Vec<GatewayFigures>,
    pub(crate) rest_after: Vec<GatewayFigures>,
    /// Open files and tasks are back to what they were.
    #[serde(skip)]
    pub(crate) is_down: bool,
    /// Keys that should be gone at the end; the first ones.
    #[serde(rename = "leftover_keys")]
    pub(crate) leftovers: Vec<String>,
    #[serde(rename = "kept_keys")]
    pub(crate) kept: BTreeMap<String, KeptKeys>,
    #[serde(flatten)]
    pub(crate) ledger: Ledger,
    pub(crate) broken: Vec<Broken>,
    pub(crate) broken_by_promise: BTreeMap<Promise, u64>,
    /// What `rollcall audit` finds when everybody has gone.
    pub(crate) audit: Vec<Broken>,
    /// How late our own timers were at most.
    pub(crate) lag_ms: u64,
}

/// Keys of a kind that stay when all lives have closed, as documented.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct KeptKeys {
    pub(crate) keys: u64,
    /// For so long at most; absent: for good.
    pub(crate) lifetime_seconds: Option<u64>,
}

/// What reproduces the run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct SoakSettings {
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
    pub(crate) verdict: SlopeVerdict,
}

#[derive(Serialize)]
struct Document<'a> {
    settings: &'a SoakSettings,
    growth: Vec<Growth>,
    logs: &'a str,
    /// What the run was too short to judge.
    undecided: Vec<String>,
    #[serde(flatten)]
    measured: &'a Measured,
}

impl Measured {
    pub(crate) fn report(&self, settings: &SoakSettings, logs: &str) -> anyhow::Result<RunReport> {
        let mut growth = Vec::new();
        let mut undecided = Vec::new();
        for gateway in 0..settings.gateways {
            let of_gateway = self.growth(gateway, settings);
            if of_gateway.verdict == SlopeVerdict::TooShortToTell {
                undecided.push(format!(
                    "gateway {gateway}: growth of memory: too short to tell"
                ));
            }
            growth.push(of_gateway);
        }
        let document = Document {
            settings,
            growth,
            logs,
            undecided,
            measured: self,
        };
        let mut report = RunReport::of(&document)?;
        for (gateway, Growth { slope, verdict }) in document.growth.iter().enumerate() {
            let percent = slope.map_or(0.0, |slope| slope.percent_per_hour);
            report.must(
                *verdict != SlopeVerdict::Grows,
                format!(
                    "gateway {gateway}: memory grows by {percent:.2} % per hour, not {MOST_GROWTH} %"
                ),
            );
        }
        self.judge_rest(&mut report);
        self.judge_promises(&mut report);
        Ok(report)
    }

    fn growth(&self, gateway: usize, settings: &SoakSettings) -> Growth {
        let first = self.samples.first().map_or(0.0, |sample| sample.seconds);
        let began = self.restarts.last().copied().unwrap_or(first);
        let warm = self
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
            verdict: slope.map_or(SlopeVerdict::TooShortToTell, |slope| {
                slope.verdict(MOST_GROWTH)
            }),
            slope,
        }
    }

    /// Everybody has gone: nothing may be left of them.
    fn judge_rest(&self, report: &mut RunReport) {
        report.must(
            !self.samples.is_empty() && !self.rest_before.is_empty(),
            "nothing was sampled",
        );
        let rests = self.rest_before.iter().zip(&self.rest_after);
        for (gateway, (before, after)) in rests.enumerate() {
            for (what, before, after) in [
                ("open files", before.open_files, after.open_files),
                ("tasks", before.tasks, after.tasks),
            ] {
                report.must(
                    self.is_down || after <= before,
                    format!("gateway {gateway}: {after} {what} at rest, {before} before"),
                );
            }
        }
        for (gateway, after) in self.rest_after.iter().enumerate() {
            let GatewayFigures {
                sockets,
                members,
                lives,
                ..
            } = after;
            report.must(
                sockets + members + lives == 0,
                format!(
                    "gateway {gateway}: {sockets} sockets, {members} members, {lives} lives at rest"
                ),
            );
        }
        for key in &self.leftovers {
            report.must(false, format!("a leftover key: {key}"));
        }
        for broken in &self.audit {
            report.must(false, format!("at rest, {}", broken.detail));
        }
    }

    fn judge_promises(&self, report: &mut RunReport) {
        let errands = &self.ledger.errands;
        for (errand, outcomes) in errands {
            let wrong = outcomes.wrong;
            report.must(
                wrong == 0,
                format!("{wrong} of the errands {errand:?} went wrong"),
            );
        }
        report.must(
            errands.values().any(|outcomes| outcomes.done > 0),
            "no errand was done",
        );
        for (promise, times) in &self.broken_by_promise {
            report.must(*times == 0, format!("{times} × {promise:?}"));
        }
    }

    /// The samples as plots: a panel for each figure, a line in it for each gateway.
    pub(crate) fn plots(&self) -> anyhow::Result<String> {
        plot::draw(&[
            self.of_gateways("resident memory, MiB", |it| it.rss_bytes as f64 / MIB),
            self.of_gateways("sockets", |it| it.sockets as f64),
            self.of_gateways("tasks", |it| it.tasks as f64),
            self.of_gateways("open files", |it| it.open_files as f64),
            self.panel("keys in Redis", vec!["Redis".to_owned()], |sample, _| {
                Some(sample.keys.values().sum::<u64>() as f64)
            }),
            self.panel("memory of Redis, MiB", vec!["Redis".to_owned()], |it, _| {
                Some(it.redis_bytes as f64 / MIB)
            }),
        ])
    }

    fn of_gateways(&self, title: &str, figure: fn(&GatewayFigures) -> f64) -> Panel {
        let gateways = self.samples.first().map_or(0, |it| it.gateways.len());
        let names = (0..gateways).map(|gateway| format!("gateway {gateway}"));
        self.panel(title, names.collect(), |sample, gateway| {
            sample.gateways.get(gateway).map(figure)
        })
    }

    fn panel(
        &self,
        title: &str,
        names: Vec<String>,
        value: impl Fn(&Sample, usize) -> Option<f64>,
    ) -> Panel {
        let line = |(number, name)| {
            let points = self
                .samples
                .iter()
                .filter_map(|sample| Some((sample.seconds / 60.0, value(sample, number)?)));
            PlotLine {
                name,
                points: points.collect(),
            }
        };
        Panel {
            title: format!("{title}, by minutes"),
            lines: names.into_iter().enumerate().map(line).collect(),
        }
    }
}
