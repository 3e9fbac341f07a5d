//! How the viewers of a live on one gateway spread over networks, ways, ages of ids and times of
//! joining; and the questions about that which gateways ask each other. The subscriber leaves
//! questions and answers here, and `features/shape` takes them.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::conn::SeatWay;
use super::queue::Queue;
use crate::base::address_prefix::AddressPrefix;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Epoch, GatewayId, LiveId};

/// The ages of ids that are told apart, in seconds: an hour, a day, a week, thirty days, a year.
pub const ID_AGES: [u64; 5] = [3_600, 86_400, 604_800, 2_592_000, 31_536_000];

/// So many minutes are told apart in which viewers joined.
pub const MINUTES: usize = 60;

/// So many networks a gateway tells of at most: a message has room for them.
pub const MOST_NETWORKS: usize = 1_000;

/// So many answers wait at most. A platform has fewer gateways.
const MOST_ANSWERS: usize = 256;

/// So many questions wait at most. A gateway answers them within milliseconds.
const MOST_QUESTIONS: usize = 64;

/// What is known of how a viewer came to a live.
#[derive(Debug, Clone, Copy)]
pub struct SeatOrigin {
    pub network: AddressPrefix,
    pub way: SeatWay,
    pub joined_at: UnixMillis,
    /// When the user's id was made, as the token says.
    pub id_made_at: Option<UnixMillis>,
    pub is_guest: bool,
}

/// How viewers spread. Everybody counts once, with the newest connection.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiveShape {
    pub viewers: u64,
    /// The guests among them.
    pub guests: u64,
    /// By [`SeatWay`].
    pub ways: [u64; 3],
    /// The ids that are younger than each of [`ID_AGES`] and no younger one, then the older ones,
    /// then those of whose age nothing is known.
    pub id_ages: [u64; ID_AGES.len() + 2],
    /// How many joined in each of the last [`MINUTES`], the present one first, then how many came
    /// before.
    pub joined: Vec<u64>,
    /// The networks with most viewers, by their names in this live, each with its viewers.
    pub networks: Vec<(u64, u64)>,
    /// How many networks there are.
    pub all_networks: u64,
}

impl Default for LiveShape {
    fn default() -> Self {
        Self {
            viewers: 0,
            guests: 0,
            ways: [0; 3],
            id_ages: [0; ID_AGES.len() + 2],
            joined: vec![0; MINUTES + 1],
            networks: Vec::new(),
            all_networks: 0,
        }
    }
}

impl LiveShape {
    /// Counts a viewer, apart from the network.
    pub fn count(&mut self, origin: &SeatOrigin, now: UnixMillis) {
        self.viewers += 1;
        self.guests += u64::from(origin.is_guest);
        self.ways[origin.way as usize] += 1;
        let age = origin.id_made_at.map(|at| now.saturating_sub(at) / 1_000);
        let age = match age {
            Some(age) => ID_AGES.partition_point(|limit| *limit <= age),
            None => ID_AGES.len() + 1,
        };
        self.id_ages[age] += 1;
        let minute = now.saturating_sub(origin.joined_at) / 60_000;
        self.joined[(minute as usize).min(MINUTES)] += 1;
    }

    /// Whether a gateway can have said that.
    pub fn is_possible(&self) -> bool {
        self.joined.len() == MINUTES + 1 && self.networks.len() <= MOST_NETWORKS
    }

    /// Adds the viewers on another gateway, apart from the networks.
    pub fn add(&mut self, other: &Self) {
        self.viewers = self.viewers.saturating_add(other.viewers);
        self.guests = self.guests.saturating_add(other.guests);
        add_each(&mut self.ways, &other.ways);
        add_each(&mut self.id_ages, &other.id_ages);
        add_each(&mut self.joined, &other.joined);
    }
}

fn add_each(sums: &mut [u64], more: &[u64]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(*more);
    }
}

/// A gateway asks for the shape of an opening of a live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShapeQuestion {
    pub number: u64,
    pub live: LiveId,
    pub epoch: Epoch,
}

/// An answer, with the gateway that gives it.
pub type ShapeAnswer = (GatewayId, LiveShape);

/// Questions of other gateways, and answers to those of this one.
#[derive(Debug, Default)]
pub struct ShapeMail {
    pub questions: Queue<ShapeQuestion>,
    /// Where the answers to each question go.
    waiting: Mutex<HashMap<u64, mpsc::Sender<ShapeAnswer>>>,
}

impl ShapeMail {
    /// Takes a question. False if too many wait.
    pub fn asked(&self, question: ShapeQuestion) -> bool {
        let has_room = self.questions.len() < MOST_QUESTIONS;
        if has_room {
            self.questions.push(question);
        }
        has_room
    }

    /// Where the answers to a question come, until [`Self::forget`].
    pub fn wait_for(&self, number: u64) -> mpsc::Receiver<ShapeAnswer> {
        let (answer, answers) = mpsc::channel(MOST_ANSWERS);
        self.waiting.lock().insert(number, answer);
        answers
    }

    pub fn forget(&self, number: u64) {
        self.waiting.lock().remove(&number);
    }

    /// Takes an answer, which may be for another gateway. Each gateway gives one.
    pub fn answered(&self, number: u64, gateway: &GatewayId, shape: LiveShape) {
        if let Some(answer) = self.waiting.lock().get(&number) {
            let _ = answer.try_send((gateway.clone(), shape));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(joined_at: UnixMillis, id_made_at: Option<UnixMillis>) -> SeatOrigin {
        SeatOrigin {
            network: AddressPrefix::default(),
            way: SeatWay::Http,
            joined_at,
            id_made_at,
            is_guest: id_made_at.is_none(),
        }
    }

    #[test]
    fn viewers_are_counted_by_the_age_of_the_id_and_by_the_minute_of_joining() {
        let now = 100_000_000_000;
        let mut shape = LiveShape::default();
        shape.count(&origin(now, Some(now - 3_599_999)), now);
        shape.count(&origin(now - 59_999, Some(now - 3_600_000)), now);
        shape.count(&origin(now - 60_000, Some(0)), now);
        // Somebody whose clock is ahead, and somebody of whom nothing is known.
        shape.count(&origin(now + 5, Some(now + 5)), now);
        shape.count(&origin(0, None), now);
        assert_eq!(shape.id_ages, [2, 1, 0, 0, 0, 1, 1]);
        assert_eq!((shape.joined[0], shape.joined[1]), (3, 1));
        assert_eq!(shape.joined[MINUTES], 1);
        assert_eq!((shape.viewers, shape.guests, shape.ways), (5, 1, [0, 5, 0]));
        let mut sum = shape.clone();
        sum.add(&shape);
        assert_eq!((sum.viewers, sum.joined[0], sum.id_ages[0]), (10, 6, 4));
    }
}
