//! The faults that a run can inject: each is a function that breaks something, lets it be broken for
//! a while, and repairs it.

mod cluster;
mod crowd;
mod fault;
mod foreign;
mod gateways;
mod links;
mod planned;
mod redis;
mod replica;
mod snapshot;

pub(crate) use self::fault::{Later, Mark};
pub(crate) use self::planned::{ChaosFault, GATEWAYS, Planned, Sequence};
use super::testbed::Testbed;

/// Carries a fault out, from its begin to its end. What shows only much later is still to be
/// checked.
pub(crate) async fn carry_out(
    testbed: &mut Testbed,
    fault: &Planned,
) -> anyhow::Result<(Mark, Option<Later>)> {
    let mark = match fault.kind {
        ChaosFault::KillAll => return gateways::kill_all(testbed, fault).await,
        ChaosFault::FreezeLong => return gateways::freeze_long(testbed, fault).await,
        ChaosFault::ReplicaSwitch => return replica::switch(testbed, fault).await,
        ChaosFault::Kill => gateways::kill(testbed, fault).await,
        ChaosFault::Freeze => gateways::freeze(testbed, fault, None).await,
        ChaosFault::FreezeClose => gateways::freeze(testbed, fault, Some(fault.lives)).await,
        ChaosFault::Drain => gateways::drain(testbed, fault).await,
        ChaosFault::LinkCut | ChaosFault::LinkStall | ChaosFault::LinkMute => {
            links::broken(testbed, fault).await
        }
        ChaosFault::LinkStrand => links::stranded(testbed, fault).await,
        ChaosFault::Mute => links::swallows(testbed, fault).await,
        ChaosFault::LinkSlow => links::slow(testbed, fault).await,
        ChaosFault::LateApply => links::late_apply(testbed, fault).await,
        ChaosFault::RedisFreeze => redis::freeze(testbed, fault).await,
        ChaosFault::RedisKill => redis::kill(testbed, fault).await,
        ChaosFault::Flushall => redis::flush(testbed, fault).await,
        ChaosFault::KillPubsub => redis::kill_clients(testbed, fault, "pubsub").await,
        ChaosFault::KillNormal => redis::kill_clients(testbed, fault, "normal").await,
        ChaosFault::RedisFull => redis::fill(testbed, fault).await,
        ChaosFault::ClockStep => redis::step_clock(testbed, fault).await,
        ChaosFault::ForeignWrite => foreign::write(testbed, fault).await,
        ChaosFault::SnapshotReturn => snapshot::return_after_replacing(testbed, fault).await,
        ChaosFault::Vanish => crowd::vanish(testbed, fault).await,
        ChaosFault::Storm => crowd::storm(testbed, fault).await,
        ChaosFault::CloseReopen => crowd::close_and_reopen(testbed, fault).await,
        ChaosFault::CloseCut => crowd::close_cut_off(testbed, fault).await,
        ChaosFault::MasterKill => cluster::kill_master(testbed, fault).await,
        ChaosFault::MasterFreeze => cluster::freeze_lone(testbed, fault).await,
        ChaosFault::MasterLost => cluster::lose_lone(testbed, fault).await,
        ChaosFault::SlotMove => cluster::move_slot(testbed, fault).await,
    };
    Ok((mark?, None))
}

/// Checks what shows only much later than the end of a fault.
pub(crate) async fn check_later(testbed: &mut Testbed, later: Later) -> anyhow::Result<()> {
    match later {
        Later::OrphanCloses { streamer, killed } => {
            gateways::check_orphan(testbed, streamer, killed).await
        }
        Later::IsForgotten { gateway, id, since } => {
            gateways::check_forgotten(testbed, gateway, &id, since).await
        }
        Later::ServerEnds(_) => Ok(()),
    }
}
