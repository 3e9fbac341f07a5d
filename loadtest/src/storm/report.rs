//! What a storm was like, for programs and for people, and what of it `--check` calls a failure.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::Serialize;

use crate::dashboards::Verdict;
use crate::report::{Quantiles, fail_if};
use crate::tally::Tally;

/// What was asked for.
pub(super) struct Asked {
    pub(super) cut: usize,
    pub(super) bystanders: usize,
    pub(super) within: Duration,
    pub(super) ack_within: Duration,
}

/// What was seen.
pub(super) struct Seen {
    /// Viewers and fans by live, before the cut.
    pub(super) truth: Vec<[u32; 2]>,
    pub(super) before: Verdict,
    pub(super) after: Verdict,
    pub(super) lowest: [i64; 2],
    pub(super) wobbles: u64,
    pub(super) fans_in_redis: Option<u64>,
    /// Unix microseconds.
    pub(super) cut_at: u64,
    pub(super) all_back: bool,
    pub(super) tally: Tally,
}

/// The document.
#[derive(Debug, Serialize)]
pub(super) struct StormReport {
    cut: usize,
    bystanders: usize,
    returned: u64,
    stranded: u64,
    /// From the cut until the last was back and joined.
    all_back_seconds: Option<f64>,
    /// Each one's own time.
    back_us: Quantiles,
    /// 503s with a time to come back, and those times.
    told_later: u64,
    told_us: Quantiles,
    /// 503s without.
    untimed: u64,
    /// Heartbeats of those who stayed.
    ack_us: Quantiles,
    generator_lag_us: Quantiles,
    sockets_lost: u64,
    viewers: u64,
    fans: u64,
    lowest_viewers: i64,
    lowest_fans: i64,
    wobbles: u64,
    fans_in_redis: Option<u64>,
    before: Verdict,
    after: Verdict,
    errors: BTreeMap<String, u64>,
    pub(super) failures: Vec<String>,
}

impl StormReport {
    pub(super) fn of(asked: &Asked, seen: &Seen) -> Self {
        let Seen { tally, .. } = seen;
        let storm = &tally.storm;
        let watched = seen.before.watched;
        let total = |which: usize| {
            seen.truth
                .iter()
                .map(|counts| u64::from(counts[which]))
                .sum::<u64>()
        };
        let last = storm
            .returns
            .last()
            .map(|last| last.saturating_sub(seen.cut_at) as f64 / 1e6);
        let whole = seen.all_back && storm.returned == asked.cut as u64;

        let mut failures = Vec::new();
        fail_if(
            &mut failures,
            !whole,
            format!("{} of {} came back", storm.returned, asked.cut),
        );
        let late = last.is_none_or(|last| last > asked.within.as_secs_f64());
        fail_if(
            &mut failures,
            late,
            format!(
                "the last was back after {last:?} s, not within {:?}",
                asked.within
            ),
        );
        fail_if(
            &mut failures,
            storm.untimed > 0,
            format!("{} refusals did not say when to come back", storm.untimed),
        );
        fail_if(
            &mut failures,
            tally.lost > 0,
            format!("{} sockets lost that were not cut", tally.lost),
        );
        fail_if(
            &mut failures,
            storm.stayed_ack.count() == 0,
            "nobody who stayed had a heartbeat answered".to_owned(),
        );
        let ack = Duration::from_micros(storm.stayed_ack.at(0.99));
        fail_if(
            &mut failures,
            ack > asked.ack_within,
            format!("acks of those who stayed took {ack:?} (p99)"),
        );
        fail_if(
            &mut failures,
            seen.wobbles > 0,
            format!("{} counts left the truth during the storm", seen.wobbles),
        );
        for (which, name) in ["viewers", "fans"].into_iter().enumerate() {
            let low = seen.lowest[which];
            let right: i64 = seen
                .truth
                .iter()
                .take(watched)
                .map(|counts| i64::from(counts[which]))
                .sum();
            fail_if(
                &mut failures,
                low < right,
                format!("as few as {low} of {right} {name} were shown"),
            );
        }
        for (when, verdict) in [("before", &seen.before), ("after", &seen.after)] {
            let Verdict {
                correct, watched, ..
            } = verdict;
            fail_if(
                &mut failures,
                !verdict.wrong.is_empty(),
                format!("{when}: {correct} of {watched} dashboards right"),
            );
        }
        if let Some(held) = seen.fans_in_redis {
            fail_if(
                &mut failures,
                held != total(1),
                format!("Redis holds {held} fans, {} are there", total(1)),
            );
        }
        for (kind, times) in &tally.errors {
            fail_if(&mut failures, true, format!("{times} errors {kind}"));
        }
        Self {
            cut: asked.cut,
            bystanders: asked.bystanders,
            returned: storm.returned,
            stranded: storm.stranded,
            all_back_seconds: last.filter(|_| whole),
            back_us: Quantiles::of(&storm.back),
            told_later: storm.told.count(),
            told_us: Quantiles::of(&storm.told),
            untimed: storm.untimed,
            ack_us: Quantiles::of(&storm.stayed_ack),
            generator_lag_us: Quantiles::of(&tally.lag),
            sockets_lost: tally.lost,
            viewers: total(0),
            fans: total(1),
            lowest_viewers: seen.lowest[0],
            lowest_fans: seen.lowest[1],
            wobbles: seen.wobbles,
            fans_in_redis: seen.fans_in_redis,
            before: seen.before.clone(),
            after: seen.after.clone(),
            errors: tally.errors.clone(),
            failures,
        }
    }
}

impl Display for StormReport {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            out,
            "storm      {} cut off, {} stayed",
            self.cut, self.bystanders
        )?;
        let back = match self.all_back_seconds {
            Some(last) => format!("all after {last:.2} s"),
            None => "not all".to_owned(),
        };
        writeln!(
            out,
            "back       {} of {}, {back}; each {}",
            self.returned, self.cut, self.back_us
        )?;
        writeln!(
            out,
            "refused    {} told when to come back ({})",
            self.told_later, self.told_us
        )?;
        writeln!(
            out,
            "stayed     ack {}; {} sockets lost",
            self.ack_us, self.sockets_lost
        )?;
        writeln!(
            out,
            "figures    {} viewers, {} fans; lowest shown {} and {}, {} wobbles",
            self.viewers, self.fans, self.lowest_viewers, self.lowest_fans, self.wobbles
        )?;
        writeln!(
            out,
            "           before: {}; after: {}",
            self.before, self.after
        )?;
        if let Some(held) = self.fans_in_redis {
            writeln!(out, "redis      {held} fans")?;
        }
        write!(out, "generator  lag {}", self.generator_lag_us)?;
        self.errors
            .iter()
            .try_for_each(|(kind, times)| write!(out, "\nerror      {kind}: {times}"))?;
        let verdict = if self.failures.is_empty() {
            "passed"
        } else {
            "failed"
        };
        write!(out, "\ncheck      {verdict}")?;
        self.failures
            .iter()
            .try_for_each(|failure| write!(out, "\n           {failure}"))
    }
}
