//! The rows of the table. Each row starts its own servers, lets the contenders take turns, and
//! notes the figures.

mod attendance;
mod close;
mod closed_loop;
mod connect;
mod friends;
mod gateways;
mod holder;
mod in_process;
mod joins;
mod last_seen;
mod memory;
mod paced;
mod scripts;
mod sets;
mod users;
mod ways;

use super::figures::Figures;
use super::settings::Bench;
pub(crate) use in_process::child_main as hosted_main;

pub(crate) struct Row {
    /// The name that `--only` takes.
    pub(crate) name: &'static str,
    /// One line for `--list` and the table.
    pub(crate) what: &'static str,
}

/// Every row, in the order in which they run.
pub(crate) const ALL: &[Row] = &[
    Row {
        name: closed_loop::NAME,
        what: "200 sockets, each sends its next heartbeat when the last is answered",
    },
    Row {
        name: paced::NAME,
        what: "10,000 sockets in 10 lives, all fans, a heartbeat each 5 s",
    },
    Row {
        name: ways::NAME,
        what: "10,000 clients each by WebSocket, HTTP and datagram, all fans, a beat each 5 s: CPU and memory",
    },
    Row {
        name: memory::NAME,
        what: "18,000 idle sockets, joined, all fans",
    },
    Row {
        name: connect::NAME,
        what: "10,000 sockets as fast as they come in, 64 at a time; Rollcall's also join",
    },
    Row {
        name: joins::NAME,
        what: "6,000 sockets of one live join at 2,000/s; then one fan alone comes and goes",
    },
    Row {
        name: sets::NAME,
        what: "10,000 viewers of one live, half fans, come at 2,000/s and go, with and without the users online",
    },
    Row {
        name: close::NAME,
        what: "a live of 1,000,000 fans in 20 slices: its counts are read, then it is closed",
    },
    Row {
        name: gateways::NAME,
        what: "8,000 sockets in 10 lives over 1, 2, 4 and 8 gateways, a heartbeat each 5 s",
    },
    Row {
        name: in_process::ONE,
        what: "--in-process viewers of one live without sockets, half fans, a heartbeat each 10 s",
    },
    Row {
        name: in_process::SMALL_LIVES,
        what: "--lives lives of --per-live viewers without sockets, all fans, a heartbeat each 5 s, \
               on 1 and 4 gateways",
    },
    Row {
        name: in_process::MANY_GATEWAYS,
        what: "--shared-lives lives with --shared-viewers fans on each of --gateways gateways, a heartbeat each 5 s",
    },
    Row {
        name: last_seen::NAME,
        what: "Redis memory of 1,000,000 users: seen last in each form, online, in a live",
    },
    Row {
        name: friends::NAME,
        what: "friends online over HTTP: 1,000 followed, 1,000,000 users online; and their count",
    },
    Row {
        name: attendance::NAME,
        what: "who came to all, any, or one of seven lives of 100,000 fans, over HTTP, with sets and bitmaps",
    },
    Row {
        name: scripts::NAME,
        what: "Redis CPU of each script by its members, beside plain commands in a pipeline",
    },
];

pub(super) async fn run(name: &str, bench: &Bench, figures: &mut Figures) -> anyhow::Result<()> {
    match name {
        closed_loop::NAME => Box::pin(closed_loop::run(bench, figures)).await,
        paced::NAME => Box::pin(paced::run(bench, figures)).await,
        ways::NAME => Box::pin(ways::run(bench, figures)).await,
        memory::NAME => Box::pin(memory::run(bench, figures)).await,
        connect::NAME => Box::pin(connect::run(bench, figures)).await,
        joins::NAME => Box::pin(joins::run(bench, figures)).await,
        sets::NAME => Box::pin(sets::run(bench, figures)).await,
        close::NAME => Box::pin(close::run(bench, figures)).await,
        gateways::NAME => Box::pin(gateways::run(bench, figures)).await,
        in_process::ONE => Box::pin(in_process::run_one(bench, figures)).await,
        in_process::SMALL_LIVES => Box::pin(in_process::run_small_lives(bench, figures)).await,
        in_process::MANY_GATEWAYS => Box::pin(in_process::run_many_gateways(bench, figures)).await,
        last_seen::NAME => Box::pin(last_seen::run(bench, figures)).await,
        friends::NAME => Box::pin(friends::run(bench, figures)).await,
        attendance::NAME => Box::pin(attendance::run(bench, figures)).await,
        scripts::NAME => Box::pin(scripts::run(bench, figures)).await,
        other => anyhow::bail!("no row {other:?}"),
    }
}
