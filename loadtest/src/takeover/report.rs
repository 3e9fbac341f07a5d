//! What `loadtest takeover` found, and what of it is wrong.

use serde::Serialize;

use crate::report::RunReport;

#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Takeover {
    pub(super) sessions: u64,
    /// How often the counts were looked at after the kill.
    pub(super) looks: u64,
    /// Sessions that the other gateway says it has taken over.
    pub(super) resumed: u64,
    pub(super) beats: u64,
    /// What a client was told whose session did not go on.
    pub(super) refused: Option<String>,
    /// From the kill until the other gateway had all sessions.
    pub(super) here_ms: Option<f64>,
    /// From the kill until all were counted, all by the other gateway, for good.
    pub(super) counted_ms: Option<f64>,
    /// What that may take: two beats and the lease.
    pub(super) limit_ms: f64,
    /// The lowest and the highest count that was seen, over all lives.
    pub(super) lowest: u64,
    pub(super) highest: u64,
    /// Fans in the sets of Redis.
    pub(super) lowest_in_redis: u64,
    pub(super) highest_in_redis: u64,
}

impl Takeover {
    pub(super) fn report(&self) -> anyhow::Result<RunReport> {
        let all = self.sessions;
        let in_time = self.counted_ms.is_some_and(|ms| ms <= self.limit_ms);
        let mut report = RunReport::of(self)?;
        report.must(self.highest <= all, "somebody was counted twice");
        report.must(
            self.highest_in_redis <= all,
            "the sets in Redis had more users than there are",
        );
        report.must(self.here_ms.is_some(), "not every session was taken over");
        report.must(
            self.resumed == all,
            "the other gateway did not go on with each session once",
        );
        report.must(in_time, "not all were counted again in time");
        report.must(self.refused.is_none(), "a session was refused");
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Takeover {
        Takeover {
            sessions: 10,
            resumed: 10,
            here_ms: Some(1.0),
            counted_ms: Some(2.0),
            limit_ms: 3.0,
            highest: 10,
            highest_in_redis: 10,
            ..Takeover::default()
        }
    }

    #[test]
    fn each_thing_that_is_wrong_is_a_failure() {
        assert!(good().report().unwrap().failures().is_empty());
        let changes: [fn(&mut Takeover); 6] = [
            |report| report.highest = 11,
            |report| report.highest_in_redis = 11,
            |report| report.here_ms = None,
            |report| report.resumed = 9,
            |report| report.counted_ms = Some(4.0),
            |report| report.refused = Some("over".to_owned()),
        ];
        for change in changes {
            let mut seen = good();
            change(&mut seen);
            assert_eq!(seen.report().unwrap().failures().len(), 1, "{seen:?}");
        }
    }
}
