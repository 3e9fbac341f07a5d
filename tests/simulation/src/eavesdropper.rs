//! Somebody who overhears the datagrams of all sessions and sends them again: to any gateway, from
//! anywhere, also with the address of their sender.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use tokio::time::sleep;

use crate::crowd::derived;
use crate::world::World;

/// How many datagrams the eavesdropper remembers.
const REMEMBERED: usize = 500;

/// The eavesdropper sends one so often, in seconds.
const REPEATED_EVERY: std::ops::Range<f64> = 0.01..0.3;

/// Where the eavesdropper is.
const ELSEWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::new(203, 0, 113, 9)), 53);

/// What the eavesdropper has heard, each with its sender.
#[derive(Default)]
pub(crate) struct Overheard(Mutex<VecDeque<(Vec<u8>, SocketAddr)>>);

impl Overheard {
    pub(crate) fn note(&self, datagram: &[u8], from: SocketAddr) {
        let mut heard = self.0.lock();
        if heard.len() == REMEMBERED {
            heard.pop_front();
        }
        heard.push_back((datagram.to_vec(), from));
    }

    fn any(&self, rng: &mut StdRng) -> Option<(Vec<u8>, SocketAddr)> {
        self.0.lock().iter().choose(rng).cloned()
    }
}

/// Repeats what was overheard.
pub(crate) async fn eavesdrop(world: Arc<World>) {
    let mut rng = StdRng::seed_from_u64(derived(world.plan.seed, "eavesdropper"));
    loop {
        sleep(Duration::from_secs_f64(rng.random_range(REPEATED_EVERY))).await;
        let Some((datagram, sender)) = world.overheard.any(&mut rng) else {
            continue;
        };
        let gateway = rng.random_range(0..world.plan.gateways);
        let from = if rng.random_bool(0.5) {
            sender
        } else {
            ELSEWHERE
        };
        // Nobody waits for the answer.
        drop(world.send_datagram(gateway, datagram, from));
    }
}
