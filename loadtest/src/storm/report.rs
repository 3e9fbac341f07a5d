//! What a storm was like, and what of it `--check` calls a failure.

use std::time::Duration;

use serde_json::json;

use crate::dashboards::DashboardVerdict;
use crate::report::{Quantiles, RunReport};
use crate::tally::Tally;

/// What was asked for.
pub(super) struct StormTerms {
    pub(super) cut: usize,
    pub(super) bystanders: usize,
    pub(super) within: Duration,
    pub(super) ack_within: Duration,
}

/// What was seen.
pub(super) struct StormFindings {
    /// Viewers and fans by live, before the cut.
    pub(super) truth: Vec<[u32; 3]>,
    pub(super) before: DashboardVerdict,
    pub(super) after: DashboardVerdict,
    pub(super) lowest: [i64; 3],
    pub(super) wobbles: u64,
    pub(super) fans_in_redis: Option<u64>,
    /// Unix microseconds.
    pub(super) cut_at: u64,
    pub(super) all_back: bool,
    pub(super) tally: Tally,
}

/// The sum of viewers, or of fans, over some lives.
fn total(lives: &[[u32; 3]], which: usize) -> u64 {
    lives.iter().map(|counts| u64::from(counts[which])).sum()
}

impl StormFindings {
    /// From the cut until the last was back and joined.
    fn last_back(&self) -> Option<f64> {
        let last = self.tally.storm.returns.last()?;
        Some(last.saturating_sub(self.cut_at) as f64 / 1e6)
    }

    pub(super) fn report(&self, asked: &StormTerms) -> anyhow::Result<RunReport> {
        let storm = &self.tally.storm;
        let all_back = self.all_back && storm.returned == asked.cut as u64;
        let mut report = RunReport::of(&json!({
            "cut": asked.cut,
            "bystanders": asked.bystanders,
            "returned": storm.returned,
            "stranded": storm.stranded,
            "all_back_seconds": self.last_back().filter(|_| all_back),
            // Each one's own time.
            "back_us": Quantiles::of(&storm.back),
            // 503s with a time to come back, and those times; and 503s without.
            "told_later": storm.told.count(),
            "told_us": Quantiles::of(&storm.told),
            "untimed": storm.untimed,
            // Heartbeats of those who stayed.
            "ack_us": Quantiles::of(&storm.stayed_ack),
            "generator_lag_us": Quantiles::of(&self.tally.lag),
            "sockets_lost": self.tally.lost,
            "viewers": total(&self.truth, 0),
            "fans": total(&self.truth, 1),
            "lowest_viewers": self.lowest[0],
            "lowest_fans": self.lowest[1],
            "wobbles": self.wobbles,
            "fans_in_redis": self.fans_in_redis,
            "before": self.before,
            "after": self.after,
            "errors": self.tally.errors,
        }))?;
        report.must(
            all_back,
            format!("{} of {} came back", storm.returned, asked.cut),
        );
        self.judge(asked, &mut report);
        Ok(report)
    }

    fn judge(&self, asked: &StormTerms, report: &mut RunReport) {
        let storm = &self.tally.storm;
        let last = self.last_back();
        let within = asked.within;
        report.must(
            last.is_some_and(|last| last <= within.as_secs_f64()),
            format!("the last was back after {last:?} s, not within {within:?}"),
        );
        report.must(
            storm.untimed == 0,
            format!("{} refusals did not say when to come back", storm.untimed),
        );
        report.must(
            self.tally.lost == 0,
            format!("{} sockets lost that were not cut", self.tally.lost),
        );
        report.must(
            storm.stayed_ack.count() > 0,
            "nobody who stayed had a heartbeat answered",
        );
        let ack = Duration::from_micros(storm.stayed_ack.at(0.99));
        report.must(
            ack <= asked.ack_within,
            format!("acks of those who stayed took {ack:?} (p99)"),
        );
        report.must(
            self.wobbles == 0,
            format!("{} counts left the truth during the storm", self.wobbles),
        );
        let watched = &self.truth[..self.before.watched.min(self.truth.len())];
        for (which, name) in ["viewers", "fans"].into_iter().enumerate() {
            let low = self.lowest[which];
            let right = total(watched, which);
            report.must(
                low >= right as i64,
                format!("as few as {low} of {right} {name} were shown"),
            );
        }
        self.before.judge(report, "before");
        self.after.judge(report, "after");
        let fans = total(&self.truth, 1);
        if let Some(held) = self.fans_in_redis {
            report.must(
                held == fans,
                format!("Redis holds {held} fans, {fans} are there"),
            );
        }
        report.must_have_no_errors(&self.tally.errors);
    }
}
