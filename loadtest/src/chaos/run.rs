//! The story of a run: the crowd comes in, an audit; then fault after fault, each with its correction timed, a rest and
//! an audit; then the report.

use std::time::Duration;

use anyhow::Context;
use tokio::time::{Instant, timeout};

use super::audit::{all_out, audit};
use super::faults::{Kind, Mark, Planned, Sequence};
use super::findings::{Broken, Findings, Promise};
use super::report::Step;
use super::scene::Scene;

/// Time for the crowd to come in, or to get where it wants to be, on a busy machine.
const GATHER: Duration = Duration::from_secs(60);
/// People wander for so long before a fault.
const STROLL: Duration = Duration::from_secs(2);
/// What is not right so long after its bound is not waited for.
const GIVE_UP: Duration = Duration::from_secs(15);

/// How long a run goes on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Until {
    pub(crate) time: Duration,
    pub(crate) steps: Option<usize>,
}

/// Runs faults until it is enough; what stops it early is an error, and the steps so far are in `steps`.
pub(crate) async fn run(
    scene: &mut Scene,
    sequence: Sequence,
    until: Until,
    steps: &mut Vec<Step>,
) -> anyhow::Result<()> {
    let began = Instant::now();
    scene.pass(Duration::from_millis(500)).await?;
    scene.rest(GATHER).await.context("the crowd does not come in")?;
    let calm = Mark { at: Instant::now(), bound: scene.hall.timing.settled() };
    steps.push(finish(scene, 0, None, calm).await?);
    for (number, planned) in (1..).zip(sequence) {
        let enough = began.elapsed() >= until.time || until.steps.is_some_and(|steps| number > steps);
        if enough {
            return Ok(());
        }
        let step = one(scene, number, &planned).await.with_context(|| format!("step {number}, {planned:?}"))?;
        steps.push(step);
    }
    Ok(())
}

async fn one(scene: &mut Scene, number: usize, planned: &Planned) -> anyhow::Result<Step> {
    scene.wander();
    scene.mend().await?;
    scene.pass(STROLL).await?;
    let Planned { kind, hold, victim, lives, .. } = planned;
    eprintln!("step {number}: {} for {hold:?} (gateway {victim}, lives {lives:?})", kind.name());
    let mut fault = planned.build();
    fault.begin(scene).await?;
    scene.pass(*hold).await?;
    let mark = fault.end(scene).await?;
    let mut step = finish(scene, number, Some(*kind), mark).await?;
    fault.after(scene).await?;
    // What the fault found after the audit belongs to it, too.
    let later = std::mem::take(&mut scene.hall.books().findings);
    later.broken.into_iter().for_each(|broken| step.findings.broke(broken));
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
async fn finish(scene: &mut Scene, number: usize, kind: Option<Kind>, mark: Mark) -> anyhow::Result<Step> {
    let whole_after = corrected(scene, mark).await?;
    if whole_after > mark.bound {
        let example = scene.looks.borrow().as_ref().and_then(|look| look.example.clone());
        let detail =
            format!("right after {whole_after:?}, not within {:?}; {}", mark.bound, example.unwrap_or_default());
        scene.hall.broke(Broken::new(Promise::TooSlow, detail));
    }
    scene.rest(GATHER).await?;
    let (rested, timing) = (Instant::now(), scene.hall.timing);
    let killed = if matches!(kind, Some(Kind::Kill | Kind::KillAll)) { timing.forgotten() } else { Duration::ZERO };
    // Until the last word has been said, by whoever must say it.
    let said = [Some(rested), Some(mark.at + killed), all_out(&scene.hall)].into_iter().flatten().max();
    let deadline = said.unwrap_or(rested) + timing.told();
    let audit = audit(scene, deadline).await?;
    let findings: Findings = {
        let mut books = scene.hall.books();
        std::mem::take(&mut books.findings)
    };
    let members = findings.since(mark.at);
    // A look that found nothing wrong any more tells when the last was right.
    let whole_after = members.iter().copied().fold(whole_after, Duration::max);
    Ok(Step { number, kind, bound: mark.bound, whole_after, members, audit, findings })
}

/// How long after the mark the last member was right; the wait goes on for a while after that, lest it come undone.
async fn corrected(scene: &mut Scene, mark: Mark) -> anyhow::Result<Duration> {
    let settles = scene.hall.timing.steady();
    let mut right_at = mark.at;
    let mut was_wrong = false;
    loop {
        scene.check_alive()?;
        let changed = timeout(GIVE_UP, scene.looks.changed()).await.context("Redis cannot be looked at")?;
        changed.context("nobody looks at Redis any more")?;
        let Some(look) = scene.looks.borrow_and_update().clone().filter(|look| look.began >= mark.at) else {
            continue;
        };
        let wrong = look.wrong > 0 || look.unread > 0;
        if wrong || was_wrong {
            right_at = look.ended;
        }
        was_wrong = wrong;
        let since = look.ended.saturating_duration_since(right_at.max(mark.at));
        if !wrong && since >= settles {
            return Ok(right_at.saturating_duration_since(mark.at));
        }
        if wrong && look.ended > mark.at + mark.bound + GIVE_UP {
            return Ok(look.ended.saturating_duration_since(mark.at));
        }
    }
}
