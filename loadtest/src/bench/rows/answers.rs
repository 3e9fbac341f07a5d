//! One question to the HTTP API, asked again and again: how long the answers take, and how many of
//! its calls keep Redis busy for long.

use std::time::Instant;

use anyhow::Context;
use reqwest::Method;

use crate::bench::servers::{BenchGateway, Redis};
use crate::bench::settings::Bench;
use crate::tally::Latencies;

#[derive(Default)]
pub(super) struct AnswerTimes {
    latency: Latencies,
    /// Of each question, the calls that took Redis too long.
    pub(super) slow: Vec<f64>,
}

impl AnswerTimes {
    /// Calls that take Redis longer than `slow_us` are slow.
    pub(super) async fn of(
        gateway: &BenchGateway,
        redis: &Redis,
        path: &str,
        times: usize,
        slow_us: &str,
    ) -> anyhow::Result<Self> {
        let slow = ["SET", "slowlog-log-slower-than", slow_us];
        redis.ask("CONFIG", &slow).await?;
        let mut answers = Self::default();
        for _ in 0..times {
            redis.ask("SLOWLOG", &["RESET"]).await?;
            let began = Instant::now();
            gateway.call(Method::GET, path, None).await?;
            answers.latency.record(began.elapsed());
            let slow = redis.ask("SLOWLOG", &["LEN"]).await?.as_f64();
            answers.slow.push(slow.context("a number of slow calls")?);
        }
        Ok(answers)
    }

    pub(super) fn note(&self, bench: &mut Bench, what: &str) {
        bench.ours(&format!("{what}: p50, ms"), self.latency.ms_at(0.5));
        bench.ours(&format!("{what}: p99, ms"), self.latency.ms_at(0.99));
    }
}
