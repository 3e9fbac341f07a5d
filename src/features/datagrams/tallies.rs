//! Counts what became of each datagram. The counters are looked up once, because a look into the
//! family costs as much as the rest of the bookkeeping.

use prometheus_client::metrics::counter::Counter;

use crate::base::metrics::{Metrics, OutcomeLabel};

/// What became of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// A beat of a viewer who is here.
    Beat,
    /// A hello of a session that this gateway has.
    Hello,
    /// A hello of a session that another gateway has or had; this one tries to go on with it.
    Resumed,
    /// The client left.
    Left,
    /// The client was asked to show that it receives what is sent to its address.
    Challenged,
    /// The session is over, or goes on elsewhere; the client was told.
    Over,
    /// It arrived before, or too late to tell.
    Replayed,
    /// No datagram of a client, by its length or its first byte.
    Malformed,
    /// No gateway made the session's key, or the sender does not have the session's secret.
    Forged,
    /// Beyond a limit, and not looked at or not answered.
    Limited,
}

impl Fate {
    const ALL: [Self; 10] = [
        Self::Beat,
        Self::Hello,
        Self::Resumed,
        Self::Left,
        Self::Challenged,
        Self::Over,
        Self::Replayed,
        Self::Malformed,
        Self::Forged,
        Self::Limited,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Beat => "beat",
            Self::Hello => "hello",
            Self::Resumed => "resumed",
            Self::Left => "left",
            Self::Challenged => "challenged",
            Self::Over => "over",
            Self::Replayed => "replayed",
            Self::Malformed => "malformed",
            Self::Forged => "forged",
            Self::Limited => "limited",
        }
    }
}

pub(crate) struct Tallies([Counter; Fate::ALL.len()]);

impl Tallies {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        Self(Fate::ALL.map(|fate| {
            let result = fate.label();
            let counter = metrics.datagrams.get_or_create(&OutcomeLabel { result });
            counter.clone()
        }))
    }

    pub(crate) fn count(&self, fate: Fate) {
        self.0[fate as usize].inc();
    }

    #[cfg(test)]
    pub(crate) fn of(&self, fate: Fate) -> u64 {
        self.0[fate as usize].get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fate_has_its_own_counter() {
        for (place, fate) in Fate::ALL.into_iter().enumerate() {
            assert_eq!(fate as usize, place);
        }
        let metrics = Metrics::default();
        let tallies = Tallies::new(&metrics);
        tallies.count(Fate::Left);
        tallies.count(Fate::Left);
        let text = metrics.render().unwrap();
        assert!(
            text.contains("datagrams_total{result=\"left\"} 2"),
            "{text}"
        );
        assert!(
            text.contains("datagrams_total{result=\"beat\"} 0"),
            "{text}"
        );
    }
}
