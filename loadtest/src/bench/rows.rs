//! The rows of the table. Each row starts its own servers, lets the contenders take turns, and
//! notes the figures.

mod answers;
mod attendance;
mod close;
mod friends;
mod guests;
mod heartbeats;
mod holder;
mod in_process;
mod joins;
mod last_seen;
mod scripts;
mod sockets;
mod ways;

use futures_util::future::LocalBoxFuture;

use super::settings::Bench;
pub(crate) use in_process::child_main as hosted_main;

pub(crate) struct Row {
    /// The name that `--only` takes.
    pub(crate) name: &'static str,
    /// One line for `--list`.
    pub(crate) what: &'static str,
    pub(super) run: fn(&mut Bench) -> LocalBoxFuture<'_, anyhow::Result<()>>,
}

/// Every row, in the order in which they run.
pub(crate) const ALL: &[Row] = &[
    Row {
        name: "closed-loop",
        what: "200 sockets, each sends its next heartbeat when the last is answered",
        run: |bench| Box::pin(heartbeats::closed_loop(bench)),
    },
    Row {
        name: "paced",
        what: "10,000 sockets in 10 lives, all fans, a heartbeat each 5 s",
        run: |bench| Box::pin(heartbeats::paced(bench)),
    },
    Row {
        name: "ways",
        what: "10,000 clients each by WebSocket, HTTP and datagram, all fans, a beat each 5 s: CPU and memory",
        run: |bench| Box::pin(ways::run(bench)),
    },
    Row {
        name: "memory",
        what: "18,000 idle sockets, joined, all fans",
        run: |bench| Box::pin(sockets::memory(bench)),
    },
    Row {
        name: "connect",
        what: "10,000 sockets as fast as they come in, 64 at a time; Rollcall's also join",
        run: |bench| Box::pin(sockets::connect(bench)),
    },
    Row {
        name: "joins",
        what: "6,000 sockets of one live join at 2,000/s; then one fan alone comes and goes",
        run: |bench| Box::pin(joins::run(bench)),
    },
    Row {
        name: "sets",
        what: "10,000 viewers of one live, half fans, come at 2,000/s and go, with and without the users online",
        run: |bench| Box::pin(sockets::sets(bench)),
    },
    Row {
        name: "close",
        what: "a live of 1,000,000 fans in 20 slices: its counts are read, then it is closed",
        run: |bench| Box::pin(close::run(bench)),
    },
    Row {
        name: "gateways",
        what: "8,000 sockets in 10 lives over 1, 2, 4 and 8 gateways, a heartbeat each 5 s",
        run: |bench| Box::pin(sockets::gateways(bench)),
    },
    Row {
        name: "in-process",
        what: "--in-process viewers of one live without sockets, half fans, a heartbeat each 10 s",
        run: |bench| Box::pin(in_process::run_one_live(bench)),
    },
    Row {
        name: "small-lives",
        what: "--lives lives of --per-live viewers without sockets, all fans, a heartbeat each 5 s, \
               on 1 and 4 gateways",
        run: |bench| Box::pin(in_process::small_lives(bench)),
    },
    Row {
        name: "many-gateways",
        what: "--shared-lives lives with --shared-viewers fans on each of --gateways gateways, a heartbeat each 5 s",
        run: |bench| Box::pin(in_process::many_gateways(bench)),
    },
    Row {
        name: "last-seen",
        what: "Redis memory of 1,000,000 users: seen last in each form, online, in a live",
        run: |bench| Box::pin(last_seen::run(bench)),
    },
    Row {
        name: "friends",
        what: "friends online over HTTP: 1,000 followed, 1,000,000 users online; and their count",
        run: |bench| Box::pin(friends::run(bench)),
    },
    Row {
        name: "attendance",
        what: "who came to all, any, or one of seven lives of 100,000 fans, over HTTP, with sets and bitmaps",
        run: |bench| Box::pin(attendance::run(bench)),
    },
    Row {
        name: "guests",
        what: "20,000 fans, as many other users and as many guests of a live: CPU and memory of Redis",
        run: |bench| Box::pin(guests::run(bench)),
    },
    Row {
        name: "scripts",
        what: "Redis CPU of joins, fan checks, leaves, sweeps and closes by members, beside plain commands",
        run: |bench| Box::pin(scripts::run(bench)),
    },
];
