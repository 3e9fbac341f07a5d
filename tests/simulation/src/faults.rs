//! What goes wrong in a history, and for how long gateways are excused by it.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use rollcall::base::ids::{GatewayId, Group, OnlineSet, SliceId, UserId};
use rollcall::store::slice::StoredSlice;
use rollcall::store::{Claim, Entries};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::expectation::How;
use crate::moderation;
use crate::network::{LinkWay, NodeMode};
use crate::plan::RoundFault;
use crate::timing::EXACT_AGAIN;
use crate::world::{ProcessOrder, World};

/// Stores have found out by then that messages do not arrive.
const SILENCE_NOTICED: Duration = Duration::from_secs(7);

/// A kind of fault. The docs of the variants are the texts of `--help`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// A gateway is killed, and starts again
    Kill,
    /// The machine of a gateway loses power: its sockets stay open and silent
    PowerLoss,
    /// A gateway stands still, and goes on
    Freeze,
    /// A gateway gets little time to run
    Starve,
    /// A gateway is asked to stop, and starts again
    Drain,
    /// A gateway cannot reach a node
    Cut,
    /// Nothing passes between a gateway and a node; what was sent arrives later
    Stall,
    /// A node carries out a gateway's calls, and the answers are lost
    LoseAnswers,
    /// A gateway's calls to a node arrive twice, the second time up to seconds later
    Double,
    /// A gateway's way to a node is slow
    Slow,
    /// A gateway's messages arrive nowhere
    Mute,
    /// A gateway receives no messages
    Deafen,
    /// A node is down
    NodeDown,
    /// A node stands still
    NodeHangs,
    /// A node refuses writes because it is full
    Full,
    /// A node refuses writes because it became a replica
    ReadOnly,
    /// Single calls of a gateway to a node fail, or their answers are lost
    Flaky,
    /// All data is lost in a restart
    LoseAll,
    /// All data is lost, and no connection breaks
    FlushAll,
    /// The data of one slice is lost
    LoseSlice,
    /// A failover loses the writes of the last seconds
    Failover,
    /// The store comes back with older data
    OlderData,
    /// One slice is set back to an older copy
    OlderSlice,
    /// Another program writes into a slice
    ForeignWrite,
    /// The clock of the store steps
    ClockStep,
}

/// Carries a fault out, from its begin to its end.
pub(crate) async fn carry_out(world: Arc<World>, fault: RoundFault) {
    sleep(fault.at).await;
    let breaks_process = matches!(
        fault.kind,
        Fault::Kill | Fault::PowerLoss | Fault::Drain | Fault::Freeze | Fault::Starve
    );
    if breaks_process && !world.crowd.is_up(fault.victim) {
        return;
    }
    *world.notes().faults.entry(fault.kind).or_default() += 1;
    world.trace.tell(
        Some(fault.victim),
        &format!("{:?} #{} for {:?}", fault.kind, fault.id, fault.hold),
    );
    match fault.kind {
        Fault::Kill => restart(&world, &fault, ProcessOrder::Kill(fault.victim)).await,
        Fault::PowerLoss => restart(&world, &fault, ProcessOrder::Unplug(fault.victim)).await,
        Fault::Drain => drain(&world, &fault).await,
        Fault::Freeze => freeze(&world, &fault).await,
        Fault::Starve => starve(&world, &fault).await,
        Fault::Cut => way(&world, &fault, LinkWay::Cut).await,
        Fault::Stall => way(&world, &fault, LinkWay::Stalled).await,
        Fault::LoseAnswers => way(&world, &fault, LinkWay::AnswersLost).await,
        Fault::Double => way(&world, &fault, LinkWay::Doubling).await,
        Fault::Slow => way(&world, &fault, LinkWay::Slow).await,
        Fault::Flaky => way(&world, &fault, LinkWay::Flaky).await,
        Fault::FlushAll => flush_all(&world).await,
        Fault::Mute | Fault::Deafen => silence(&world, &fault).await,
        Fault::NodeDown => node(&world, &fault, NodeMode::Down).await,
        Fault::NodeHangs => node(&world, &fault, NodeMode::Hung).await,
        Fault::Full => {
            node(
                &world,
                &fault,
                NodeMode::Refusing("OOM command not allowed when used memory > 'maxmemory'."),
            )
            .await
        }
        Fault::ReadOnly => {
            node(
                &world,
                &fault,
                NodeMode::Refusing("READONLY You can't write against a read only replica."),
            )
            .await
        }
        Fault::LoseAll | Fault::Failover | Fault::OlderData => lose(&world, &fault).await,
        Fault::LoseSlice | Fault::OlderSlice | Fault::ForeignWrite => meddle(&world, &fault).await,
        Fault::ClockStep => step_clock(&world, &fault).await,
    }
}

async fn restart(world: &World, fault: &RoundFault, end: ProcessOrder) {
    world.crowd.stands_still(fault.victim, false);
    world.order(end);
    sleep(fault.hold).await;
    world.order(ProcessOrder::Start(fault.victim));
    world.crowd.well(fault.victim);
}

async fn drain(world: &World, fault: &RoundFault) {
    let running = {
        let mut spots = world.spots.lock();
        let spot = &mut spots[fault.victim];
        let Some(running) = spot.running.take() else {
            return;
        };
        spot.stopping = Some(running.public.clone());
        running
    };
    let began = Instant::now();
    world.crowd.set_up(fault.victim, false);
    // From now on others have to do what was its turn.
    world.truth().rules.runs_since[fault.victim] = None;
    let stop = running.public.handle.spawn(running.gateway.stop());
    let kept = world.timing.kept_while_stopping();
    sleep(kept).await;
    world
        .crowd
        .gives_up_sessions(fault.victim, world.crowd.start_of(fault.victim));
    // Its listener ends next.
    world.spots.lock()[fault.victim].stopping = None;
    sleep(world.timing.drain + Duration::from_secs(1) - kept).await;
    let trouble = world.truth().rules.troubles[fault.victim];
    let was_well = trouble.is_none_or(|trouble| trouble.until.is_some_and(|until| until < began));
    if was_well && !stop.is_finished() {
        world.found(format!("gateway {} does not stop in time", fault.victim));
    }
    world.ended(
        fault.victim,
        if was_well { How::Moved } else { How::Killed },
    );
    world.order(ProcessOrder::Kill(fault.victim));
    sleep(fault.hold / 4).await;
    world.order(ProcessOrder::Start(fault.victim));
}

async fn freeze(world: &World, fault: &RoundFault) {
    world.crowd.stands_still(fault.victim, true);
    world.order(ProcessOrder::Freeze(fault.victim));
    // Up to three leases.
    sleep(fault.hold.mul_f64(1.5)).await;
    world.order(ProcessOrder::Thaw(fault.victim));
    world.crowd.well(fault.victim);
}

async fn starve(world: &World, fault: &RoundFault) {
    // It may read late what was written long ago, as a frozen one does.
    world.crowd.trouble(fault.victim, true);
    world.order(ProcessOrder::Slow(
        fault.victim,
        5 + (fault.choice % 60) as u32,
    ));
    sleep(fault.hold).await;
    world.order(ProcessOrder::Slow(fault.victim, 1));
    world.crowd.well(fault.victim);
}

async fn way(world: &World, fault: &RoundFault, way: LinkWay) {
    let node = fault.choice as usize % world.network.nodes();
    world.crowd.trouble(fault.victim, false);
    world.network.set_way(fault.victim, node, way);
    sleep(fault.hold).await;
    world.network.set_way(fault.victim, node, LinkWay::Well);
    // What was held back arrives for a while after that.
    sleep(Duration::from_secs(8)).await;
    world.crowd.well(fault.victim);
}

async fn silence(world: &World, fault: &RoundFault) {
    let set = |is_silent| match fault.kind {
        Fault::Mute => world.network.set_mute(fault.victim, is_silent),
        _ => world.network.set_deaf(fault.victim, is_silent),
    };
    world.crowd.trouble_for_all();
    let began = Instant::now();
    set(true);
    sleep(fault.hold).await;
    // A shorter silence is noticed by nobody; a gateway that starts in it has to notice it too.
    while world
        .youngest()
        .is_some_and(|since| since.elapsed() < SILENCE_NOTICED)
        || began.elapsed() < SILENCE_NOTICED
    {
        sleep(Duration::from_secs(1)).await;
    }
    set(false);
    sleep(Duration::from_secs(5)).await;
    world.crowd.all_well();
}

async fn node(world: &World, fault: &RoundFault, to: NodeMode) {
    let node = fault.choice as usize % world.network.nodes();
    world.crowd.trouble_for_all();
    world.network.set_node(node, to);
    sleep(fault.hold).await;
    world.network.set_node(node, NodeMode::Up);
    sleep(Duration::from_secs(3)).await;
    world.crowd.all_well();
}

/// The store loses data: all of it, what was written in the last moments, or what was written since
/// a backup.
async fn lose(world: &World, fault: &RoundFault) {
    let backup = match fault.kind {
        Fault::LoseAll => None,
        _ => Some(world.network.truth.back_up()),
    };
    match fault.kind {
        Fault::Failover => sleep(Duration::from_millis(100 + fault.choice % 2_000)).await,
        _ => sleep(fault.hold).await,
    }
    let knew = moderation::who_knows(world);
    world.crowd.trouble_for_all();
    let nodes = world.network.nodes();
    (0..nodes).for_each(|node| world.network.set_node(node, NodeMode::Down));
    sleep(Duration::from_millis(200 + fault.choice % 5_000)).await;
    match backup {
        Some(backup) => world.network.truth.restore(backup),
        None => world.network.truth.lose_everything(),
    }
    moderation::data_is_lost(world);
    for node in 0..nodes {
        world.network.set_node(node, NodeMode::Up);
        world.network.all_doubt(node);
    }
    match fault.kind {
        Fault::OlderData => older_data_is_found(world).await,
        Fault::Failover => {
            world.notes().older_until = Some(Instant::now() + world.timing.repaired());
            exact_again(world).await;
        }
        _ => {
            a_close_is_forgotten(world);
            exact_again(world).await;
        }
    }
    moderation::data_is_back(world, &knew);
}

async fn flush_all(world: &World) {
    let knew = moderation::who_knows(world);
    world.crowd.trouble_for_all();
    world.network.truth.lose_everything();
    moderation::data_is_lost(world);
    a_close_is_forgotten(world);
    exact_again(world).await;
    moderation::data_is_back(world, &knew);
}

/// The store may have lost a close of which not every gateway has heard. Those who know of it close
/// the live again.
fn a_close_is_forgotten(world: &World) {
    world.notes().older_until = Some(Instant::now() + EXACT_AGAIN);
}

async fn exact_again(world: &World) {
    sleep(EXACT_AGAIN).await;
    world.crowd.all_well();
}

/// Another program writes into a slice, or a part of the data is lost without a sign.
async fn meddle(world: &World, fault: &RoundFault) {
    // Where nobody is, no gateway looks after the slices.
    let lives = world.lives_with_viewers();
    let Some(live) = lives
        .get(fault.choice as usize % lives.len().max(1))
        .copied()
    else {
        return;
    };
    let slices = world.truth().lives[live].slices.max(1);
    let index = 1 + (fault.choice >> 8) as u32 % slices;
    let slice = SliceId {
        set: OnlineSet::Live(world.live_id(live)),
        index,
        of: slices,
    };
    let store = &world.network.truth;
    let backup = store.back_up();
    if fault.kind == Fault::OlderSlice {
        let epoch = world.crowd.epoch(live);
        sleep(fault.hold).await;
        // The slices of an opening that is over are nobody's any more.
        if world.crowd.epoch(live) != epoch {
            return;
        }
    }
    world.trace.tell(
        None,
        &format!(
            "{:?} #{} meets slice {index} of l{live}",
            fault.kind, fault.id
        ),
    );
    world.crowd.trouble_for_all();
    match fault.kind {
        Fault::LoseSlice => store.lose_slice(&slice),
        Fault::OlderSlice => store.restore_slice(&backup, &slice),
        _ => store.write_as_another_program(&slice, |slice| match fault.choice >> 17 & 3 {
            0 => write_claims(slice, fault.choice),
            _ => write_sets(slice, fault.choice),
        }),
    }
    older_data_is_found(world).await;
}

/// Another program writes to a public set.
fn write_sets(slice: &mut StoredSlice, choice: u64) {
    let group = if choice >> 16 & 1 == 0 {
        Group::All
    } else {
        Group::Fans
    };
    let member = slice.members(group).next().cloned();
    if let Some(member) = member.filter(|_| !choice.is_multiple_of(3)) {
        slice.take_out(group, &member);
    }
    if choice % 3 != 1
        && let Ok(stranger) = UserId::parse("stranger")
    {
        slice.add_stranger(group, &stranger);
    }
}

/// Another program writes to the claims, the entries or the fence.
fn write_claims(slice: &mut StoredSlice, choice: u64) {
    let (Ok(nobody), Ok(stranger)) = (GatewayId::parse("nobody"), UserId::parse("stranger")) else {
        return;
    };
    let entries = slice.look(&nobody, Entries::All).entries;
    let gateway = entries.first().map(|(gateway, _)| gateway);
    let member = slice.members(Group::All).next().cloned();
    match (choice % 6, gateway, member) {
        (0, _, Some(member)) => slice.lose_claims(&member),
        (1, gateway, _) => slice.invent_claim(&stranger, gateway, Claim::Fan),
        (2, _, Some(member)) => slice.invent_claim(&member, None, Claim::Fan),
        (3, Some(gateway), _) => slice.lose_entry(gateway),
        (4, Some(gateway), _) => slice.change_entry(gateway, 1),
        _ => slice.lose_fence(),
    }
}

/// Gateways find what another program or a backup brought within a check and a bit.
async fn older_data_is_found(world: &World) {
    let within = world.timing.repaired();
    world.notes().older_until = Some(Instant::now() + within);
    sleep(within).await;
    world.crowd.all_well();
}

async fn step_clock(world: &World, fault: &RoundFault) {
    let by = (fault.choice % 240_000) as i64 - 120_000;
    world.network.truth.step_clock(by);
    sleep(fault.hold).await;
    world.network.truth.step_clock(-by);
}

impl Fault {
    /// Every kind.
    pub fn all() -> Vec<Self> {
        Self::value_variants().to_vec()
    }

    /// Whether the store has less or other data after it.
    pub(crate) fn loses_data(self) -> bool {
        let loses = [
            Self::LoseAll,
            Self::FlushAll,
            Self::LoseSlice,
            Self::Failover,
            Self::OlderData,
            Self::OlderSlice,
        ];
        loses.contains(&self)
    }

    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
