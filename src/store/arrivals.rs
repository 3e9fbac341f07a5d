//! How many users came to an epoch of a live and how many left it, as each gateway counts them. A user who comes to a
//! gateway becomes a viewer there; one who has left the last socket there is none any more.
//!
//! Every total only grows and has one writer, the gateway that counts it, so of two values the higher is the later one:
//! they may be told in any order, late and twice. What a gateway counted stays when the gateway is gone: long after its
//! burial, its totals are folded into a sum. Whoever has not heard of the last fold may still tell the totals of those
//! who are folded, so the time of the fold goes with the totals, and of two texts the one with the later fold says
//! whose totals are not in the sum.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::clock::UnixMillis;
use crate::base::ids::GatewayId;

/// The most gateways whose totals are known of an epoch at a time; those of further ones are not counted.
pub const MAX_ORIGINS: usize = 1_024;

/// Totals of one gateway, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Arrived {
    /// Users who became viewers.
    pub joins: u64,
    /// Viewers who left.
    pub leaves: u64,
}

impl Arrived {
    pub(crate) fn max(self, other: Self) -> Self {
        Self { joins: self.joins.max(other.joins), leaves: self.leaves.max(other.leaves) }
    }

    fn plus(self, other: Self) -> Self {
        Self { joins: self.joins.saturating_add(other.joins), leaves: self.leaves.saturating_add(other.leaves) }
    }
}

/// The totals of each gateway, under its id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arrivals {
    words: Vec<(GatewayId, Arrived)>,
    /// The totals of gateways that are gone.
    folded: Arrived,
    /// When some were folded last; 0 is never.
    folded_at: UnixMillis,
}

impl Arrivals {
    /// Takes in what a gateway counted. True if that is more than was known.
    pub fn note(&mut self, origin: &GatewayId, arrived: Arrived) -> bool {
        if let Some((_, known)) = self.words.iter_mut().find(|(other, _)| other == origin) {
            let before = std::mem::replace(known, known.max(arrived));
            return before != *known;
        }
        let is_news = arrived != Arrived::default() && self.words.len() < MAX_ORIGINS;
        if is_news {
            self.words.push((origin.clone(), arrived));
        }
        is_news
    }

    /// Takes in what a gateway counted that knows of the fold at `folded_at`. If that is not the last one, the totals
    /// of a gateway that is not named here may be in the sum.
    pub fn hear(&mut self, origin: &GatewayId, arrived: Arrived, folded_at: UnixMillis) -> bool {
        let may_be_folded = folded_at < self.folded_at && self.of(origin) == Arrived::default();
        !may_be_folded && self.note(origin, arrived)
    }

    /// When some were folded last; 0 is never.
    pub fn folded_at(&self) -> UnixMillis {
        self.folded_at
    }

    /// Takes in what others know. True if that is more than was known. If only one side knows of the last fold, those
    /// count whom that side names: the others may be folded.
    pub fn merge(&mut self, others: &Self) -> bool {
        let mut others = others.clone();
        let is_newer = others.folded_at > self.folded_at;
        if is_newer {
            std::mem::swap(self, &mut others);
        }
        if self.folded_at > others.folded_at {
            others.words.retain(|(origin, _)| self.words.iter().any(|(known, _)| known == origin));
        }
        others.words.iter().fold(is_newer, |news, (origin, arrived)| self.note(origin, *arrived) | news)
    }

    /// Adds the totals of these gateways to those of all that are gone. They must not count any more. False if none
    /// of them has any here.
    pub fn fold(&mut self, gone: &[GatewayId], now: UnixMillis) -> bool {
        let (folded, words): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.words).into_iter().partition(|(origin, _)| gone.contains(origin));
        self.words = words;
        self.folded = folded.iter().fold(self.folded, |sum, (_, arrived)| sum.plus(*arrived));
        if !folded.is_empty() {
            self.folded_at = now.max(self.folded_at + 1);
        }
        !folded.is_empty()
    }

    /// Whether this has all that `other` has.
    pub fn covers(&self, other: &Self) -> bool {
        !self.clone().merge(other)
    }

    /// The gateways whose totals are not folded.
    pub fn origins(&self) -> impl Iterator<Item = &GatewayId> {
        self.words.iter().map(|(origin, _)| origin)
    }

    /// What a gateway counted.
    pub fn of(&self, origin: &GatewayId) -> Arrived {
        self.words.iter().find(|(other, _)| other == origin).map(|(_, arrived)| *arrived).unwrap_or_default()
    }

    /// What all counted together.
    pub fn sum(&self) -> Arrived {
        self.words.iter().fold(self.folded, |sum, (_, arrived)| sum.plus(*arrived))
    }

    /// Reads what [`fmt::Display`] writes. Skips what another program wrote.
    pub fn parse(text: &str) -> Self {
        let mut arrivals = Self::default();
        for word in text.split(' ') {
            let numbers = |text: &str, between| -> Option<Vec<u64>> {
                text.split(between).map(|number| number.parse().ok()).collect()
            };
            if let Some([at, joins, leaves]) = numbers(word, '/').as_deref() {
                (arrivals.folded_at, arrivals.folded) = (*at, Arrived { joins: *joins, leaves: *leaves });
            } else if let Some((origin, totals)) = word.split_once(':')
                && let (Ok(origin), Some([joins, leaves])) = (GatewayId::parse(origin), numbers(totals, ':').as_deref())
            {
                arrivals.note(&origin, Arrived { joins: *joins, leaves: *leaves });
            }
        }
        arrivals
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { words, folded, folded_at } = self;
        let mut space = "";
        if *folded_at > 0 {
            write!(f, "{folded_at}/{}/{}", folded.joins, folded.leaves)?;
            space = " ";
        }
        for (origin, Arrived { joins, leaves }) in words {
            write!(f, "{space}{origin}:{joins}:{leaves}")?;
            space = " ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn origin(name: &str) -> GatewayId {
        GatewayId::parse(name).unwrap()
    }

    fn arrived(joins: u64, leaves: u64) -> Arrived {
        Arrived { joins, leaves }
    }

    #[test]
    fn of_two_totals_the_higher_counts_in_whatever_order_they_come() {
        let mut all = Arrivals::default();
        assert!(all.note(&origin("a"), arrived(5, 2)) && all.note(&origin("b"), arrived(1, 0)));
        assert!(!all.note(&origin("a"), arrived(4, 1)) && !all.note(&origin("c"), arrived(0, 0)));
        assert!(all.note(&origin("a"), arrived(5, 3)));
        assert_eq!(
            (all.sum(), all.of(&origin("a")), all.of(&origin("c"))),
            (arrived(6, 3), arrived(5, 3), arrived(0, 0))
        );
        assert_eq!(Arrivals::parse(&all.to_string()), all);
        let fewer = Arrivals::parse("a:5:2");
        assert!(all.covers(&fewer) && !fewer.covers(&all));
    }

    #[test]
    fn totals_of_the_gone_are_in_the_sum_once_whoever_tells_them_again() {
        let before = Arrivals::parse("a:5:2 b:3:0");
        let mut folded = before.clone();
        assert!(folded.fold(&[origin("a"), origin("x")], 1_000) && !folded.fold(&[origin("a")], 2_000));
        assert_eq!((folded.to_string().as_str(), folded.sum()), ("1000/5/2 b:3:0", arrived(8, 2)));
        assert_eq!(Arrivals::parse(&folded.to_string()), folded);
        // One who has not heard of it tells old totals, and new ones of those who are known.
        let late = Arrivals::parse("a:6:2 b:4:1 c:1:0");
        let mut told = folded.clone();
        assert!(!told.merge(&before) && told.merge(&late) && folded.covers(&before) && !before.covers(&folded));
        assert_eq!(told.to_string(), "1000/5/2 b:4:1");
        // One who hears of it forgets them.
        let mut hears = late;
        assert!(hears.merge(&folded) && !hears.merge(&folded));
        assert_eq!(hears.to_string(), "1000/5/2 b:4:1");
        assert!(hears.fold(&[origin("b")], 500), "the clock went back");
        assert_eq!(hears.to_string(), "1001/9/3");
    }

    #[test]
    fn as_many_gateways_are_known_as_may_be() {
        let mut all = Arrivals::default();
        for n in 0..MAX_ORIGINS + 5 {
            all.note(&origin(&n.to_string()), arrived(1, 0));
        }
        assert_eq!(all.sum().joins, MAX_ORIGINS as u64);
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parser_panic(text in ".{0,80}") {
            let _ = Arrivals::parse(&text).sum();
        }
    }
}
