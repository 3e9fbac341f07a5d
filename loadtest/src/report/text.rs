//! The report as text: a line or two per subject, the figures that matter first.

use std::fmt::{self, Display, Formatter};

use super::{Cpu, Heartbeats, Quantiles, Report, Setup, Worker, rate};
use crate::dashboards::Verdict;
use crate::tally::FanFlags;

impl Display for Quantiles {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "p50 {:.2} ms  p99 {:.2} ms  max {:.2} ms",
            self.p50 as f64 / 1e3,
            self.p99 as f64 / 1e3,
            self.max as f64 / 1e3
        )
    }
}

impl Display for Cpu {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "cpu {:.2} s ({:.2} cores)", self.seconds, self.cores)?;
        if let Some(us) = self.us_per_heartbeat {
            write!(out, ", {us:.1} us per heartbeat")?;
        }
        Ok(())
    }
}

impl Display for Verdict {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(out, "{} of {} right", self.correct, self.watched)?;
        match (self.time_to_correct_ms, self.wrong.first()) {
            (Some(ms), _) => write!(out, ", after {ms:.0} ms"),
            (None, Some(wrong)) => write!(
                out,
                "; {}: {:?} viewers and {:?} fans shown, {} and {} are there{}",
                wrong.live_id,
                wrong.shown_viewers,
                wrong.shown_fans,
                wrong.expected_viewers,
                wrong.expected_fans,
                wrong
                    .failure
                    .as_ref()
                    .map(|why| format!(" ({why})"))
                    .unwrap_or_default()
            ),
            (None, None) => Ok(()),
        }
    }
}

impl Display for Report {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        const MIB: f64 = 1024.0 * 1024.0;
        let Self {
            machine,
            connect,
            join,
            heartbeats,
            generator,
            sockets,
            fan_flags,
            ..
        } = self;
        writeln!(
            out,
            "machine    {} cores, {}, Linux {}",
            machine.cores, machine.cpu_model, machine.kernel
        )?;
        let Setup {
            lives_opened,
            follows_written,
            seconds,
        } = self.setup;
        writeln!(
            out,
            "setup      {lives_opened} lives, {follows_written} follows in {seconds:.2} s"
        )?;
        writeln!(
            out,
            "connect    {} at {:.0}/s  {}",
            connect.connected, connect.per_second, connect.latency_us
        )?;
        writeln!(
            out,
            "join       {} joined, {} failed  {}",
            join.joined, join.failed, join.latency_us
        )?;
        let Heartbeats {
            sent_per_second,
            acked_per_second,
            steady_seconds,
            unanswered,
            sent,
            ..
        } = heartbeats;
        writeln!(
            out,
            "heartbeat  {sent_per_second:.0}/s sent, {acked_per_second:.0}/s acked over {steady_seconds:.1} s"
        )?;
        writeln!(
            out,
            "           ack {}  unanswered {unanswered} of {sent}",
            heartbeats.ack_latency_us
        )?;
        let FanFlags {
            told_true,
            told_false,
            told_null,
            wrong,
        } = fan_flags;
        writeln!(
            out,
            "fan flags  {told_true} true, {told_false} false, {told_null} not known yet, {wrong} wrong"
        )?;
        writeln!(
            out,
            "sockets    {} lost, {} left",
            sockets.lost, sockets.left
        )?;
        if let Some(server) = &self.server {
            let idle = server.idle.rss_bytes as f64 / MIB;
            let joined = server.joined.rss_bytes as f64 / MIB;
            writeln!(
                out,
                "server     rss {idle:.1} MiB idle, {joined:.1} MiB joined"
            )?;
            if let Some(each) = server.rss_bytes_per_socket {
                writeln!(out, "           {each:.0} bytes per joined socket")?;
            }
            writeln!(out, "           {}", server.cpu)?;
        }
        if let Some(redis) = &self.redis {
            if let Some(cpu) = &redis.cpu {
                writeln!(out, "redis      {cpu}")?;
            }
            if let Some(commands) = &redis.commands {
                let each = commands.per_heartbeat.unwrap_or_default();
                writeln!(
                    out,
                    "redis      {} commands, {each:.3} per heartbeat",
                    commands.total
                )?;
            }
        }
        if let Some(verify) = &self.verify {
            writeln!(out, "verify     joined: {}", verify.joined)?;
            writeln!(
                out,
                "           held: {}, {} wobbles",
                verify.held, verify.wobbles
            )?;
            writeln!(out, "           left: {}", verify.left)?;
        }
        let cpu = Cpu {
            seconds: generator.cpu_seconds,
            cores: rate(generator.cpu_seconds, heartbeats.steady_seconds),
            us_per_heartbeat: generator.cpu_us_per_heartbeat,
        };
        writeln!(
            out,
            "generator  {} processes, {cpu}, lag {}",
            generator.processes, generator.lag_us
        )?;
        for (
            number,
            Worker {
                viewers,
                address,
                lost,
            },
        ) in self.workers.iter().enumerate()
        {
            let (Some(address), lost) = (address, lost.as_deref()) else {
                continue;
            };
            writeln!(
                out,
                "machine {number}  {address}: {viewers} viewers; {}",
                lost.unwrap_or("to the end")
            )?;
        }
        for (kind, times) in &self.errors {
            writeln!(out, "error      {kind}: {times}")?;
        }
        let verdict = if self.check.passed {
            "passed"
        } else {
            "failed"
        };
        write!(out, "check      {verdict}")?;
        self.check
            .failures
            .iter()
            .try_for_each(|failure| write!(out, "\n           {failure}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tally::Latencies;

    #[test]
    fn any_number_and_none_at_all_can_be_printed() {
        assert_eq!(
            Quantiles::of(&Latencies::default()).to_string(),
            "p50 0.00 ms  p99 0.00 ms  max 0.00 ms"
        );
        let cpu = |seconds, us_per_heartbeat| {
            Cpu {
                seconds,
                cores: seconds,
                us_per_heartbeat,
            }
            .to_string()
        };
        assert_eq!(cpu(-0.5, None), "cpu -0.50 s (-0.50 cores)");
        assert_eq!(
            cpu(-0.5, Some(-2.0)),
            "cpu -0.50 s (-0.50 cores), -2.0 us per heartbeat"
        );
        for odd in [
            f64::MAX,
            f64::MIN,
            f64::MIN_POSITIVE,
            f64::NAN,
            f64::INFINITY,
        ] {
            assert!(!cpu(odd, Some(odd)).is_empty());
        }
        assert_eq!((rate(1.0, 0.0), super::super::per(1.0, 0)), (0.0, None));
    }
}
