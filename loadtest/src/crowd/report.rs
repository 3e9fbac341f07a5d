//! What a crowd did, and what of it `--check` calls a failure.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::{CrowdSample, Drive, Run};
use crate::report::{Quantiles, RunReport};
use crate::tally::Tally;

impl Run<'_> {
    pub(super) fn report(
        &self,
        setup: &Value,
        drive: &Drive,
        addresses: &[SocketAddr],
    ) -> anyhow::Result<RunReport> {
        let plan = &self.plan;
        let tally = &drive.tally;
        let worker = |process| {
            json!({
                "viewers": plan.share(process).count(),
                "address": addresses.get(process),
                "lost": drive.lost.get(&process),
            })
        };
        let verify = drive.verify.as_ref().map(|verify| {
            json!({
                "joined": verify.joined,
                "held": verify.held,
                "wobbles": verify.wobbles,
                "left": verify.left,
                "messages": verify.messages,
            })
        });
        let mut report = RunReport::of(&json!({
            "started_at_ms": self.started_at_ms,
            "settings": self.settings(),
            "setup": setup,
            "connect": {
                "connected": tally.connected,
                "seconds": tally.connects.seconds(),
                "per_second": rate(tally.connected as f64, tally.connects.seconds()),
                "latency_us": Quantiles::of(&tally.connect),
            },
            "join": {
                "joined": tally.joined,
                "failed": tally.failed,
                "latency_us": Quantiles::of(&tally.join),
            },
            "heartbeats": {
                "sent": tally.sent,
                "acked": tally.acked,
                "unanswered": tally.sent - tally.acked,
                "steady_seconds": tally.steady_seconds,
                "steady_sent": tally.steady_sent,
                "steady_acked": tally.steady_acked,
                "sent_per_second": rate(tally.steady_sent as f64, tally.steady_seconds),
                "acked_per_second": rate(tally.steady_acked as f64, tally.steady_seconds),
                "ack_latency_us": Quantiles::of(&tally.ack),
            },
            "fan_flags": tally.fan_flags,
            "sockets": {"lost": tally.lost, "left": tally.left},
            "errors": tally.errors,
            "generator": {
                "processes": plan.processes,
                "cpu_seconds": tally.steady_cpu_seconds,
                "cpu_us_per_heartbeat": per(tally.steady_cpu_seconds * 1e6, tally.steady_acked),
                // Late heartbeats: were the figures the generator's own limits?
                "lag_us": Quantiles::of(&tally.lag),
            },
            "workers": (0..plan.processes).map(worker).collect::<Vec<_>>(),
            "server": self.server(drive),
            "redis": redis(tally, &drive.joined, &drive.steady_end),
            "verify": verify,
        }))?;
        self.judge(&mut report, drive);
        Ok(report)
    }

    fn judge(&self, report: &mut RunReport, drive: &Drive) {
        let tally = &drive.tally;
        let viewers = self.plan.viewers;
        report.must_not_stop(tally.joined > 0, "nobody joined");
        report.must(
            tally.joined >= viewers as u64,
            format!("{} of {viewers} viewers joined", tally.joined),
        );
        let unanswered = tally.sent - tally.acked;
        report.must(
            unanswered == 0,
            format!("{unanswered} of {} heartbeats unanswered", tally.sent),
        );
        report.must(
            tally.steady_acked > 0,
            "no heartbeat answered in the steady phase",
        );
        report.must(tally.lost == 0, format!("{} sockets lost", tally.lost));
        report.must_have_no_errors(&tally.errors);
        if let Some(verify) = &drive.verify {
            let wrong = tally.fan_flags.wrong;
            report.must(wrong == 0, format!("{wrong} acks with a wrong fan flag"));
            report.must(
                verify.wobbles == 0,
                format!(
                    "{} counts left the truth in the steady phase",
                    verify.wobbles
                ),
            );
            verify.joined.judge(report, "joined");
            verify.held.judge(report, "held");
            verify.left.judge(report, "left");
        }
        report.must(!drive.interrupted, "interrupted");
        for (process, why) in &drive.lost {
            report.must_not_stop(false, format!("worker {process} was lost: {why}"));
        }
    }

    /// The memory and CPU of the gateway: lives open and no viewer yet, everybody joined, and the
    /// end of the steady phase.
    fn server(&self, drive: &Drive) -> Option<Value> {
        let tally = &drive.tally;
        let idle = drive.idle.server?;
        let joined = drive.joined.server?;
        let steady_end = drive.steady_end.server?;
        let rss_growth = joined.rss_bytes as f64 - idle.rss_bytes as f64;
        let anon_growth = joined.rss_anon_bytes as f64 - idle.rss_anon_bytes as f64;
        Some(json!({
            "pid": self.args.pid,
            "idle": idle,
            "joined": joined,
            "steady_end": steady_end,
            "rss_bytes_per_socket": per(rss_growth, tally.joined),
            "rss_anon_bytes_per_socket": per(anon_growth, tally.joined),
            "cpu": cpu(tally, steady_end.cpu_seconds - joined.cpu_seconds),
        }))
    }

    fn settings(&self) -> Value {
        let plan = &self.plan;
        json!({
            "viewers": plan.viewers,
            "lives": plan.lives,
            "spread": plan.spread,
            "zipf_exponent": plan.zipf_exponent,
            "fans": plan.fans,
            "seed": plan.seed,
            "heartbeat_ms": plan.heartbeat.as_millis() as u64,
            "closed_loop": plan.closed_loop,
            "ramp_per_second": plan.ramp_per_second,
            "in_flight": plan.in_flight,
            "join": plan.join,
            "by": plan.by,
            "duration_ms": self.args.duration.as_millis() as u64,
            "source_addresses": plan.sources,
        })
    }
}

/// What Redis did in the steady phase. The commands inside scripts count too, our own `INFO` not.
fn redis(tally: &Tally, joined: &CrowdSample, steady_end: &CrowdSample) -> Option<Value> {
    let spent = joined.redis_cpu.zip(steady_end.redis_cpu);
    let called = joined.commands.as_ref().zip(steady_end.commands.as_ref());
    if spent.is_none() && called.is_none() {
        return None;
    }
    let commands = called.map(|(from, to)| {
        let total = to.total_since(from);
        json!({
            "total": total as u64,
            "per_second": rate(total, tally.steady_seconds),
            "per_heartbeat": per(total, tally.steady_acked),
            "by_name": to.since(from),
        })
    });
    Some(json!({
        "cpu": spent.map(|(from, to)| cpu(tally, to - from)),
        "commands": commands,
    }))
}

/// CPU time over the steady phase.
fn cpu(tally: &Tally, seconds: f64) -> Value {
    json!({
        "seconds": seconds,
        "cores": rate(seconds, tally.steady_seconds),
        "us_per_heartbeat": per(seconds * 1e6, tally.steady_acked),
    })
}

/// `amount` per one of `count`, if there were any.
fn per(amount: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| amount / count as f64)
}

/// `amount` per second.
fn rate(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}
