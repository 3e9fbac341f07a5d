//! The course of a run: the crowd connects, and an audit follows; then fault after fault, each with
//! its correction timed, a rest and an audit.

use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, timeout};

use super::audit::{all_out, audit};
use super::faults::{ChaosFault, Mark, Planned, Sequence, carry_out, check_later};
use super::findings::{Broken, Findings, Promise};
use super::report::ChaosStep;
use super::testbed::Testbed;
use simulation::timing::EXACT_AGAIN;

/// Time for the crowd to come in, or to get where it wants to be, on a busy machine.
const GATHER: Duration = Duration::from_secs(60);
/// People wander for so long before a fault.
const STROLL: Duration = Duration::from_secs(2);
/// How long beyond its bound a correction is waited for.
const GIVE_UP: Duration = Duration::from_secs(15);

/// How long a run goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    pub(crate) time: Duration,
    pub(crate) steps: Option<usize>,
}

/// Runs faults until it is enough; what stops it early is an error, and the steps so far are in
/// `steps`.
pub(crate) async fn run(
    testbed: &mut Testbed,
    sequence: Sequence,
    until: Until,
    steps: &mut Vec<ChaosStep>,
) -> anyhow::Result<()> {
    let began = Instant::now();
    testbed.pass(Duration::from_millis(500)).await?;
    testbed
        .rest(GATHER)
        .await
        .context("the crowd does not come in")?;
    let calm = Mark {
        at: Instant::now(),
        bound: testbed.state.timing.settled(),
    };
    steps.push(finish(testbed, 0, None, calm).await?);
    for (number, planned) in (1..).zip(sequence) {
        let enough =
            began.elapsed() >= until.time || until.steps.is_some_and(|steps| number > steps);
        if enough {
            return Ok(());
        }
        let step = one(testbed, number, &planned)
            .await
            .with_context(|| format!("step {number}, {planned:?}"))?;
        steps.push(step);
    }
    Ok(())
}

async fn one(testbed: &mut Testbed, number: usize, planned: &Planned) -> anyhow::Result<ChaosStep> {
    testbed.wander();
    testbed.mend().await?;
    testbed.pass(STROLL).await?;
    let Planned {
        kind,
        hold,
        victim,
        lives,
        ..
    } = planned;
    eprintln!(
        "step {number}: {} for {hold:?} (gateway {victim}, lives {lives:?})",
        kind.name()
    );
    let (mark, later) = carry_out(testbed, planned).await?;
    let mut step = finish(testbed, number, Some(*kind), mark).await?;
    if let Some(later) = later {
        check_later(testbed, later).await?;
    }
    // Findings after the audit belong to the fault, too.
    let later = std::mem::take(&mut *testbed.state.findings());
    later
        .broken
        .into_iter()
        .for_each(|broken| step.findings.broke(broken));
    eprintln!(
        "step {number}: {} right {} ms after the mark, audited {} ms after rest, broken: {:?}",
        kind.name(),
        step.whole_after.as_millis(),
        step.audit.as_millis(),
        step.findings.counts
    );
    Ok(step)
}

/// Waits until all is right, brings the crowd to rest, and audits.
async fn finish(
    testbed: &mut Testbed,
    number: usize,
    kind: Option<ChaosFault>,
    mark: Mark,
) -> anyhow::Result<ChaosStep> {
    let whole_after = corrected(testbed, mark).await?;
    if whole_after > mark.bound {
        let example = testbed
            .observations
            .borrow()
            .as_ref()
            .and_then(|observation| observation.example.clone());
        let detail = format!(
            "right after {whole_after:?}, not within {:?}; {}",
            mark.bound,
            example.unwrap_or_default()
        );
        testbed.state.broke(Broken::new(Promise::TooSlow, detail));
    }
    testbed.rest(GATHER).await?;
    let rested = Instant::now();
    let timing = testbed.state.timing;
    let known = match kind {
        Some(ChaosFault::Kill | ChaosFault::KillAll) => timing.forgotten(),
        Some(ChaosFault::ForeignWrite | ChaosFault::SnapshotReturn) => mark.bound.max(EXACT_AGAIN),
        _ => EXACT_AGAIN,
    };
    // Gateways may still tell each other of changes until then.
    let said = [Some(rested), Some(mark.at + known), all_out(&testbed.state)]
        .into_iter()
        .flatten()
        .max();
    let deadline = said.unwrap_or(rested) + timing.told();
    let audit = audit(testbed, deadline).await?;
    let findings: Findings = std::mem::take(&mut *testbed.state.findings());
    let members = findings.since(mark.at);
    // The first reading without a wrong member tells when the last was corrected.
    let whole_after = members.iter().copied().fold(whole_after, Duration::max);
    Ok(ChaosStep {
        number,
        kind,
        bound: mark.bound,
        whole_after,
        members,
        audit,
        findings,
    })
}

/// How long after the mark the last member was right; the wait goes on for a while after that, lest
/// it come undone.
async fn corrected(testbed: &mut Testbed, mark: Mark) -> anyhow::Result<Duration> {
    let settles = testbed.state.timing.steady();
    let mut right_at = mark.at;
    let mut was_wrong = false;
    loop {
        testbed.check_alive()?;
        let changed = timeout(GIVE_UP, testbed.observations.changed())
            .await
            .context("Redis cannot be read")?;
        changed.context("nobody reads Redis any more")?;
        let Some(observation) = testbed
            .observations
            .borrow_and_update()
            .clone()
            .filter(|observation| observation.began >= mark.at)
        else {
            continue;
        };
        let wrong = observation.wrong > 0 || observation.unread > 0;
        if wrong || was_wrong {
            right_at = observation.ended;
        }
        was_wrong = wrong;
        let since = observation
            .ended
            .saturating_duration_since(right_at.max(mark.at));
        if !wrong && since >= settles {
            return Ok(right_at.saturating_duration_since(mark.at));
        }
        if wrong && observation.ended > mark.at + mark.bound + GIVE_UP {
            return Ok(observation.ended.saturating_duration_since(mark.at));
        }
    }
}
