//! What `loadtest takeover` found, and what of it is wrong.

use std::fmt;

use serde::Serialize;

#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct TakeoverReport {
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
    pub(super) failures: Vec<String>,
}

impl TakeoverReport {
    /// The same, with what is wrong.
    pub(super) fn judged(mut self) -> Self {
        let all = self.sessions;
        let in_time = self.counted_ms.is_some_and(|ms| ms <= self.limit_ms);
        let right = [
            (self.highest <= all, "somebody was counted twice"),
            (
                self.highest_in_redis <= all,
                "the sets in Redis had more users than there are",
            ),
            (self.here_ms.is_some(), "not every session was taken over"),
            (
                self.resumed == all,
                "the other gateway did not go on with each session once",
            ),
            (in_time, "not all were counted again in time"),
            (self.refused.is_none(), "a session was refused"),
        ];
        for (is_right, what) in right {
            if !is_right {
                self.failures.push(what.to_owned());
            }
        }
        self
    }
}

impl fmt::Display for TakeoverReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            sessions,
            looks,
            resumed,
            beats,
            lowest,
            highest,
            lowest_in_redis,
            highest_in_redis,
            ..
        } = self;
        writeln!(
            f,
            "{sessions} sessions, {beats} beats, a gateway killed; {resumed} taken over"
        )?;
        writeln!(f, "  all on the other gateway   {}", After(self.here_ms))?;
        writeln!(
            f,
            "  all counted there for good {} (limit {:.1} s)",
            After(self.counted_ms),
            self.limit_ms / 1e3
        )?;
        writeln!(
            f,
            "  in {looks} looks: counts from {lowest} to {highest}, fans in Redis from {lowest_in_redis} to \
             {highest_in_redis}"
        )?;
        if let Some(why) = &self.refused {
            writeln!(f, "  {why}")?;
        }
        for what in &self.failures {
            writeln!(f, "  FAILED: {what}")?;
        }
        Ok(())
    }
}

/// How long after the kill something was so.
struct After(Option<f64>);

impl fmt::Display for After {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(ms) => write!(f, "after {:.1} s", ms / 1e3),
            None => write!(f, "never"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> TakeoverReport {
        TakeoverReport {
            sessions: 10,
            resumed: 10,
            here_ms: Some(1.0),
            counted_ms: Some(2.0),
            limit_ms: 3.0,
            highest: 10,
            highest_in_redis: 10,
            ..TakeoverReport::default()
        }
    }

    #[test]
    fn each_thing_that_is_wrong_is_a_failure() {
        assert_eq!(good().judged().failures, [""; 0]);
        let changes: [fn(&mut TakeoverReport); 6] = [
            |report| report.highest = 11,
            |report| report.highest_in_redis = 11,
            |report| report.here_ms = None,
            |report| report.resumed = 9,
            |report| report.counted_ms = Some(4.0),
            |report| report.refused = Some("over".to_owned()),
        ];
        for change in changes {
            let mut report = good();
            change(&mut report);
            assert_eq!(report.clone().judged().failures.len(), 1, "{report:?}");
        }
    }
}
