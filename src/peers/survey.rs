//! What the walk found in the store, told to all gateways. One gateway reads each live once in `check-every` and says
//! what it found; a gateway that holds the live and expected the same need not read it too. So the cost of checks does
//! not grow with the number of gateways that hold a live.
//!
//! Nothing depends on this message. A gateway that finds a difference, or hears nothing, checks the live itself.

use super::message::{PeerMessage, SurveyedLive, SurveyedSlice};
use super::subscriber::Subscriber;
use crate::base::ids::GatewayId;
use crate::presence::Room;
use crate::store::{LiveRecord, Peaks, SliceSurvey, ViewerTotals};

/// A message names at most about this many parts of slices. A live that has more is left to the gateways' own checks.
const MAX_PARTS: usize = 2_000;

/// Puts what the walk found into messages.
#[derive(Debug, Default)]
pub struct Surveys {
    full: Vec<PeerMessage>,
    gateways: Vec<GatewayId>,
    lives: Vec<SurveyedLive>,
    parts: usize,
}

impl Surveys {
    /// Adds an open live with all its slices.
    pub fn add(&mut self, record: &LiveRecord, viewers: ViewerTotals, slices: &[SliceSurvey]) {
        let parts = slices.iter().map(|slice| 1 + slice.parts.len()).sum::<usize>();
        if parts > MAX_PARTS {
            return;
        }
        if self.parts + parts > MAX_PARTS {
            self.fill();
        }
        self.parts += parts;
        let slices = slices.iter().map(|slice| self.slice(slice)).collect();
        self.lives.push(SurveyedLive {
            live: record.live.clone(),
            epoch: record.epoch,
            removals: record.removals,
            peaks: (record.peaks.viewers, record.peaks.fans),
            viewers: (viewers.viewers, viewers.numbers),
            slices,
        });
    }

    /// The messages.
    pub fn finish(mut self) -> Vec<PeerMessage> {
        self.fill();
        self.full
    }

    fn slice(&mut self, slice: &SliceSurvey) -> SurveyedSlice {
        let parts = slice.parts.iter().map(|part| (self.place(&part.gateway), part.entry, part.held));
        (slice.card, parts.collect())
    }

    fn place(&mut self, gateway: &GatewayId) -> usize {
        self.gateways.iter().position(|known| known == gateway).unwrap_or_else(|| {
            self.gateways.push(gateway.clone());
            self.gateways.len() - 1
        })
    }

    fn fill(&mut self) {
        let (gateways, lives) = (std::mem::take(&mut self.gateways), std::mem::take(&mut self.lives));
        self.parts = 0;
        if !lives.is_empty() {
            self.full.push(PeerMessage::Survey { gateways, lives });
        }
    }
}

impl Subscriber {
    /// Takes in what the walk found of the lives of which this gateway has a room.
    pub(super) fn take_survey(&self, gateways: &[GatewayId], lives: &[SurveyedLive]) {
        let own = self.gateways.id();
        let place = gateways.iter().position(|gateway| *gateway == own);
        for found in lives {
            let Some(room) = self.rooms.get(&found.live).filter(|room| room.end().is_none()) else { continue };
            if room.record.epoch == found.epoch {
                let (viewers, fans) = found.peaks;
                room.note_peaks_told(Peaks { viewers, fans });
            }
            if self.agrees(&room, found, place) {
                self.checks.confirmed(&room);
            } else {
                self.checks.check_at(&room, self.clock.now());
            }
        }
    }

    /// Whether a live is as this gateway expects it; `place` is the gateway's own in the message.
    fn agrees(&self, room: &Room, found: &SurveyedLive, place: Option<usize>) -> bool {
        let incarnation = self.gateways.own.incarnation().number;
        let viewers = ViewerTotals { viewers: found.viewers.0, numbers: found.viewers.1 };
        (found.epoch, found.removals) == (room.record.epoch, room.bans.last())
            && viewers == room.expected_viewers(&self.gateways.roster(), incarnation)
            && found.slices.len() == room.slices().len()
            && found.slices.iter().zip(room.slices()).all(|((card, parts), slice)| {
                let own = parts.iter().find(|(part, ..)| Some(*part) == place);
                let (entry, held) = own.map_or((None, 0), |(_, entry, held)| (Some(*entry), *held));
                slice.expect(incarnation).is_some_and(|expected| expected.is_met(entry, held, *card))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{Epoch, LiveId, UserId};
    use crate::peers::message;
    use crate::store::{LiveState, OpenedBy, SlicePart};

    #[test]
    fn messages_hold_all_lives_that_fit_one_and_leave_the_others_out() {
        let gateways: Vec<GatewayId> = (0..40).map(|_| GatewayId::random()).collect();
        let mut surveys = Surveys::default();
        for (n, slices) in [1, 256, 1, 20, 20, 20, 1].into_iter().enumerate() {
            let record = LiveRecord {
                live: LiveId::parse(&format!("live{n}")).unwrap(),
                state: LiveState::Open,
                streamer: UserId::parse("s1").unwrap(),
                epoch: Epoch(1),
                slices,
                opened_at: 0,
                opened_by: OpenedBy::Service,
                peaks: Peaks::default(),
                closure: None,
                removals: 0,
            };
            let part = |gateway: &GatewayId| SlicePart { gateway: gateway.clone(), entry: 7, held: 2 };
            let slice = SliceSurvey { fence: None, card: 3, parts: gateways.iter().map(part).collect() };
            surveys.add(&record, ViewerTotals::default(), &vec![slice; slices as usize]);
        }
        let mut told = Vec::new();
        for survey in surveys.finish() {
            let text = survey.text(&gateways[0]);
            assert!(text.len() < 64 * 1024, "{} bytes", text.len());
            let Ok(message::Received { message: PeerMessage::Survey { gateways: named, lives }, .. }) =
                message::read(&text)
            else {
                panic!("no survey: {text}")
            };
            assert_eq!(named, gateways);
            told.extend(lives.into_iter().map(|live| (live.live.to_string(), live.slices.len())));
        }
        let expected = [("live0", 1), ("live2", 1), ("live3", 20), ("live4", 20), ("live5", 20), ("live6", 1)];
        assert_eq!(told, expected.map(|(live, slices)| (live.to_owned(), slices)));
    }
}
