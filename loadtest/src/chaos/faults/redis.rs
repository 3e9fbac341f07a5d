//! Faults of a single Redis server. Steps of its wall clock must be noticed by nobody.

use anyhow::{bail, ensure};

use super::fault::Mark;
use super::links::SAID;
use super::planned::Planned;
use crate::chaos::store::cli;
use crate::chaos::testbed::Testbed;

/// How far the clock steps: longer than any lease.
const STEP_S: i64 = 60;

/// Keeps the follow graph, which the platform owns. One script does it, so that no gateway can read
/// in between.
const FLUSH: &str = "local kept = {} \
    for _, key in ipairs(redis.call('KEYS', 'follow*')) do kept[key] = redis.call('DUMP', key) end \
    redis.call('FLUSHALL') \
    for key, value in pairs(kept) do redis.call('RESTORE', key, 0, value) end \
    return redis.status_reply('OK')";

/// SIGSTOP, SIGCONT.
pub(super) async fn freeze(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    testbed.state.crowd.trouble_for_all();
    testbed.store.single()?.freeze();
    testbed.pass(fault.hold).await?;
    if fault.hold > SAID {
        (0..testbed.gateways.len()).for_each(|gateway| testbed.expect_honest(gateway));
    }
    testbed.store.single()?.thaw();
    testbed.state.crowd.all_well();
    Ok(Mark::healed_from_now(testbed))
}

/// kill -9. Redis comes back from an old backup that holds nothing that gateways wrote.
pub(super) async fn kill(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    testbed.state.crowd.loss_for_all();
    testbed.store.single()?.kill();
    testbed.pass(fault.hold).await?;
    testbed.store.single()?.restart_empty().await;
    testbed.state.crowd.all_well();
    Ok(Mark::rebuilt_from_now(testbed))
}

/// FLUSHALL.
pub(super) async fn flush(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    testbed.state.crowd.loss_for_all();
    expect_ok(&[cli(testbed.store.single()?, &["EVAL", FLUSH, "0"])])?;
    testbed.pass(fault.hold).await?;
    testbed.state.crowd.all_well();
    Ok(Mark::rebuilt_from_now(testbed))
}

/// Redis closes all connections of one type.
pub(super) async fn kill_clients(
    testbed: &mut Testbed,
    fault: &Planned,
    of_type: &str,
) -> anyhow::Result<Mark> {
    testbed.state.crowd.trouble_for_all();
    let command = ["CLIENT", "KILL", "TYPE", of_type];
    let killed = testbed.store.on_masters(&command);
    let is_some = |killed: &String| killed.parse().is_ok_and(|count: u64| count > 0);
    ensure!(
        killed.iter().any(is_some),
        "there were no {of_type} connections to kill"
    );
    testbed.pass(fault.hold).await?;
    testbed.state.crowd.all_well();
    Ok(Mark::healed_from_now(testbed))
}

/// Redis has no memory for any write.
pub(super) async fn fill(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    testbed.state.crowd.trouble_for_all();
    set_memory(testbed, "1")?;
    testbed.pass(fault.hold).await?;
    set_memory(testbed, "0")?;
    testbed.state.crowd.all_well();
    Ok(Mark::healed_from_now(testbed))
}

fn set_memory(testbed: &Testbed, bytes: &str) -> anyhow::Result<()> {
    let command = ["CONFIG", "SET", "maxmemory", bytes];
    expect_ok(&testbed.store.on_masters(&command))
}

fn expect_ok(said: &[String]) -> anyhow::Result<()> {
    match said.iter().find(|said| said.as_str() != "OK") {
        Some(refusal) => bail!("Redis said {refusal:?}"),
        None => Ok(()),
    }
}

/// Sets the clock ahead, back to the machine's time, behind it, and back.
pub(super) async fn step_clock(testbed: &mut Testbed, fault: &Planned) -> anyhow::Result<Mark> {
    ensure!(
        testbed.store.single()?.has_clock(),
        "clock-step sets the clock of Redis with libfaketime, which is not installed (Debian: faketime)"
    );
    for ahead in [STEP_S, 0, -STEP_S] {
        testbed.store.single()?.set_clock(ahead).await;
        testbed.pass(fault.hold).await?;
    }
    testbed.store.single()?.set_clock(0).await;
    Ok(Mark::healed_from_now(testbed))
}

#[cfg(test)]
mod tests {
    use crate::chaos::store::cli;
    use crate::chaos::support::redis_server::{RedisServer, faketime};

    #[tokio::test(flavor = "multi_thread")]
    async fn the_clock_of_redis_steps_both_ways_and_survives_a_restart() {
        let library = faketime().expect("libfaketime is missing: ./tests/run installs it");
        let mut server = RedisServer::start_with_clock(library).await;
        let machine = RedisServer::start().await;
        let ahead = |server: &RedisServer| {
            let [set, own] = [server, &machine]
                .map(|redis| cli(redis, &["EVAL", "return redis.call('TIME')[1]", "0"]));
            set.parse::<i64>().unwrap() - own.parse::<i64>().unwrap()
        };
        for step in [0, 60, -60] {
            server.set_clock(step).await;
            assert!(
                (ahead(&server) - step).abs() <= 2,
                "{} instead of {step}",
                ahead(&server)
            );
        }
        server.restart_empty().await;
        assert!(
            (ahead(&server) + 60).abs() <= 2,
            "{} after a restart",
            ahead(&server)
        );
    }
}
