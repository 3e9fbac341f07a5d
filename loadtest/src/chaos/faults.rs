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
pub(crate) use self::planned::{GATEWAYS, Kind, Planned, Sequence};
use super::testbed::Testbed;

/// Carries a fault out, from its begin to its end. What shows only much later is still to be
/// checked.
pub(crate) async fn carry_out(
    testbed: &mut Testbed,
    fault: &Planned,
) -> anyhow::Result<(Mark, Option<Later>)> {
    let mark = match fault.kind {
        Kind::KillAll => return gateways::kill_all(testbed, fault).await,
        Kind::FreezeLong => return gateways::freeze_long(testbed, fault).await,
        Kind::ReplicaSwitch => return replica::switch(testbed, fault).await,
        Kind::Kill => gateways::kill(testbed, fault).await,
        Kind::Freeze => gateways::freeze(testbed, fault, None).await,
        Kind::FreezeClose => gateways::freeze(testbed, fault, Some(fault.lives)).await,
        Kind::Drain => gateways::drain(testbed, fault).await,
        Kind::LinkCut | Kind::LinkStall | Kind::LinkMute => links::broken(testbed, fault).await,
        Kind::LinkStrand => links::stranded(testbed, fault).await,
        Kind::Mute => links::swallows(testbed, fault).await,
        Kind::LinkSlow => links::slow(testbed, fault).await,
        Kind::LateApply => links::late_apply(testbed, fault).await,
        Kind::RedisFreeze => redis::freeze(testbed, fault).await,
        Kind::RedisKill => redis::kill(testbed, fault).await,
        Kind::Flushall => redis::flush(testbed, fault).await,
        Kind::KillPubsub => redis::kill_clients(testbed, fault, "pubsub").await,
        Kind::KillNormal => redis::kill_clients(testbed, fault, "normal").await,
        Kind::RedisFull => redis::fill(testbed, fault).await,
        Kind::ClockStep => redis::step_clock(testbed, fault).await,
        Kind::ForeignWrite => foreign::write(testbed, fault).await,
        Kind::SnapshotReturn => snapshot::return_after_replacing(testbed, fault).await,
        Kind::Vanish => crowd::vanish(testbed, fault).await,
        Kind::Storm => crowd::storm(testbed, fault).await,
        Kind::CloseReopen => crowd::close_and_reopen(testbed, fault).await,
        Kind::CloseCut => crowd::close_cut_off(testbed, fault).await,
        Kind::MasterKill => cluster::kill_master(testbed, fault).await,
        Kind::MasterFreeze => cluster::freeze_lone(testbed, fault).await,
        Kind::MasterLost => cluster::lose_lone(testbed, fault).await,
        Kind::SlotMove => cluster::move_slot(testbed, fault).await,
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
