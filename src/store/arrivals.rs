//! How many users came to an epoch of a live and how many left it, as each gateway counts them. A user who comes to a
//! gateway becomes a viewer there; one who has left the last socket there is none any more.
//!
//! Every total only grows and has one writer, the process that counts it, so of two values the higher is the later one:
//! they may be told in any order, late and twice. What a gateway counted stays when the gateway is gone.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::base::ids::GatewayId;

/// The most processes whose totals are known of an epoch; those of further ones are not counted.
pub const MAX_ORIGINS: usize = 256;

/// Totals of one process, or of all.
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
}

/// The totals of each process, which a random id names as long as the process runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Arrivals(Vec<(GatewayId, Arrived)>);

impl Arrivals {
    /// Takes in what a process counted. True if that is more than was known.
    pub fn note(&mut self, origin: &GatewayId, arrived: Arrived) -> bool {
        if let Some((_, known)) = self.0.iter_mut().find(|(other, _)| other == origin) {
            let before = std::mem::replace(known, known.max(arrived));
            return before != *known;
        }
        let is_news = arrived != Arrived::default() && self.0.len() < MAX_ORIGINS;
        if is_news {
            self.0.push((origin.clone(), arrived));
        }
        is_news
    }

    /// Takes in what others know. True if that is more than was known.
    pub fn merge(&mut self, others: &Self) -> bool {
        others.0.iter().fold(false, |news, (origin, arrived)| self.note(origin, *arrived) | news)
    }

    /// Whether this has all that `other` has.
    pub fn covers(&self, other: &Self) -> bool {
        !self.clone().merge(other)
    }

    /// What a process counted.
    pub fn of(&self, origin: &GatewayId) -> Arrived {
        self.0.iter().find(|(other, _)| other == origin).map(|(_, arrived)| *arrived).unwrap_or_default()
    }

    /// What all counted together.
    pub fn sum(&self) -> Arrived {
        self.0.iter().fold(Arrived::default(), |sum, (_, arrived)| Arrived {
            joins: sum.joins.saturating_add(arrived.joins),
            leaves: sum.leaves.saturating_add(arrived.leaves),
        })
    }

    /// Reads what [`fmt::Display`] writes. Skips what another program wrote.
    pub fn parse(text: &str) -> Self {
        let mut arrivals = Self::default();
        for word in text.split(' ') {
            let mut fields = word.split(':');
            let number = |fields: &mut std::str::Split<'_, char>| fields.next().and_then(|n| n.parse().ok());
            let origin = fields.next().and_then(|origin| GatewayId::parse(origin).ok());
            if let (Some(origin), Some(joins), Some(leaves)) = (origin, number(&mut fields), number(&mut fields)) {
                arrivals.note(&origin, Arrived { joins, leaves });
            }
        }
        arrivals
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (origin, Arrived { joins, leaves })) in self.0.iter().enumerate() {
            let space = if place == 0 { "" } else { " " };
            write!(f, "{space}{origin}:{joins}:{leaves}")?;
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
    fn as_many_processes_are_known_as_may_be() {
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
