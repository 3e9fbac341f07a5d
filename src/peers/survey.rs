//! Tells all gateways what the walk found in the store. One gateway reads each live once in
//! `check-every` and says what it found. A gateway that holds the live and expected the same need
//! not read it too. So the cost of checks does not grow with the number of gateways that hold a
//! live.
//!
//! Nothing depends on this message. A gateway that finds a difference, or hears nothing, checks the
//! live itself.

use std::collections::HashSet;

use super::message::{PeerMessage, SurveyedLive, SurveyedSlice};
use super::subscriber::Subscriber;
use crate::base::ids::GatewayId;
use crate::presence::Room;
use crate::store::{
    ExpectedSlice, Figures, FoundSlice, LiveRecord, MAX_MESSAGE, Peaks, SliceSize, SliceSurvey,
};

/// The most bytes that parts of a message may take: numbers have up to 20 digits.
const LIVE_BYTES: usize = 128 + 10 * 20;
const SLICE_BYTES: usize = 9 + 3 * 20;
const PART_BYTES: usize = 6 + 4 * 20;
const ENVELOPE_BYTES: usize = 256;

/// Puts what the walk found into messages.
#[derive(Debug, Default)]
pub struct Surveys {
    full: Vec<PeerMessage>,
    gateways: Vec<GatewayId>,
    lives: Vec<SurveyedLive>,
    /// The most bytes that the lives so far may take.
    bytes: usize,
}

/// The most bytes that a live and the names of its gateways may take.
fn bytes(record: &LiveRecord, slices: &[SliceSurvey]) -> usize {
    let parts = slices.iter().flat_map(|slice| &slice.parts);
    let names: HashSet<&GatewayId> = parts.clone().map(|part| &part.gateway).collect();
    let names: usize = names.into_iter().map(|name| name.as_str().len() + 3).sum();
    LIVE_BYTES
        + record.live.as_str().len()
        + slices.len() * SLICE_BYTES
        + parts.count() * PART_BYTES
        + names
}

impl Surveys {
    /// Adds an open live with all its slices. A live that does not fit in a message is left to the
    /// gateways' own checks.
    pub fn add(&mut self, record: &LiveRecord, slices: &[SliceSurvey]) {
        let bytes = bytes(record, slices);
        if ENVELOPE_BYTES + bytes > MAX_MESSAGE {
            return;
        }
        if ENVELOPE_BYTES + self.bytes + bytes > MAX_MESSAGE {
            self.fill();
        }
        self.bytes += bytes;
        let slices = slices.iter().map(|slice| self.slice(slice)).collect();
        let counted = record
            .counted
            .map(|counted| counted.figures)
            .unwrap_or_default();
        self.lives.push(SurveyedLive {
            live: record.live.clone(),
            epoch: record.epoch,
            removals: record.removals,
            version: record.version,
            counted: (counted.viewers, counted.fans),
            peaks: (record.peaks.viewers, record.peaks.fans),
            slices,
        });
    }

    /// The messages.
    pub fn finish(mut self) -> Vec<PeerMessage> {
        self.fill();
        self.full
    }

    fn slice(&mut self, slice: &SliceSurvey) -> SurveyedSlice {
        let parts = slice.parts.iter().map(|part| {
            (
                self.place(&part.gateway),
                part.entry,
                part.held,
                part.held_fans,
            )
        });
        (slice.card, slice.fans, slice.leaves, parts.collect())
    }

    fn place(&mut self, gateway: &GatewayId) -> usize {
        match self.gateways.iter().position(|known| known == gateway) {
            Some(place) => place,
            None => {
                self.gateways.push(gateway.clone());
                self.gateways.len() - 1
            }
        }
    }

    fn fill(&mut self) {
        let gateways = std::mem::take(&mut self.gateways);
        let lives = std::mem::take(&mut self.lives);
        self.bytes = 0;
        if !lives.is_empty() {
            self.full.push(PeerMessage::Survey { gateways, lives });
        }
    }
}

impl Subscriber {
    /// Takes in the walk's findings about the lives with a room here.
    pub(super) fn take_survey(&self, gateways: &[GatewayId], lives: &[SurveyedLive]) {
        let own = self.gateways.id();
        let place = gateways.iter().position(|gateway| *gateway == own);
        for found in lives {
            let Some(room) = self.rooms.get(&found.live) else {
                continue;
            };
            if room.end().is_some() {
                continue;
            }
            if room.record.epoch == found.epoch {
                let (viewers, fans) = found.peaks;
                room.note_peaks_written(Peaks { viewers, fans });
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
        if found.epoch != room.record.epoch
            || found.removals != room.bans.last()
            || found.version != room.info.newest().version
        {
            return false;
        }
        // A change that waits for its write is no difference.
        if !room.counting.queued.is_set() {
            let (viewers, fans) = found.counted;
            if (Figures { viewers, fans }) != room.totals().0 {
                return false;
            }
        }
        // The next check tells the peers again what they could not be told, so it must not be put
        // off.
        if room.has_unpublished_viewers() || found.slices.len() != room.slices().len() {
            return false;
        }
        let incarnation = self.gateways.own.incarnation().number;
        for (found, slice) in found.slices.iter().zip(room.slices()) {
            let Some(expected) = slice.expect(incarnation) else {
                return false;
            };
            if !is_met(&expected, found, place) {
                return false;
            }
        }
        true
    }
}

/// Whether a slice is as this gateway expects it; `place` is the gateway's own in the message.
fn is_met(expected: &ExpectedSlice, found: &SurveyedSlice, place: Option<usize>) -> bool {
    let (card, fans, leaves, parts) = found;
    let mut slice = FoundSlice {
        entry: None,
        held: 0,
        held_fans: 0,
        size: SliceSize {
            card: *card,
            fans: *fans,
            leaves: *leaves,
            // The walk tells nothing of lives with slices in doubt, and no versions.
            version: expected.size.version,
            in_doubt: false,
        },
        noted: None,
    };
    for (gateway, entry, held, held_fans) in parts {
        if Some(*gateway) == place {
            slice.entry = Some(*entry);
            slice.held = *held;
            slice.held_fans = *held_fans;
            break;
        }
    }
    expected.is_met(&slice)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{Epoch, LiveId, UserId};
    use crate::peers::message;
    use crate::store::{Info, LiveState, OpenedBy, RecordEvents, SlicePart, Sums, Terms};

    /// A live in which every number is as long as it can be.
    fn surveyed(surveys: &mut Surveys, live: &str, slices: u32, gateways: &[GatewayId]) {
        let record = LiveRecord {
            live: LiveId::parse(live).unwrap(),
            state: LiveState::Open,
            streamer: UserId::parse("s1").unwrap(),
            epoch: Epoch(u64::MAX),
            slices,
            opened_at: 0,
            opened_by: OpenedBy::Service,
            peaks: Peaks {
                viewers: u64::MAX,
                fans: u64::MAX,
            },
            closure: None,
            removals: u64::MAX,
            terms: Terms::default(),
            version: u64::MAX,
            info: Info::default(),
            counted: None,
            sums: Sums::default(),
            events: RecordEvents::default(),
            stream: None,
        };
        let part = |gateway: &GatewayId| SlicePart {
            gateway: gateway.clone(),
            entry: u64::MAX,
            held: u64::MAX,
            held_fans: u64::MAX,
        };
        let slice = SliceSurvey {
            fence: None,
            card: u64::MAX,
            fans: u64::MAX,
            leaves: u64::MAX,
            noted: None,
            may_be_in_doubt: false,
            parts: gateways.iter().map(part).collect(),
        };
        surveys.add(&record, &vec![slice; slices as usize]);
    }

    #[test]
    fn every_message_fits_and_every_live_that_fits_one_is_told() {
        let gateways: Vec<GatewayId> = (0..40)
            .map(|n| GatewayId::parse(&format!("{n:x>64}")).unwrap())
            .collect();
        let mut surveys = Surveys::default();
        let lives = (0..1_000).map(|n| (format!("{n:0>64}"), [1, 1, 10, 1, 128][n % 5], n % 41));
        for (live, slices, held_by) in lives.clone() {
            surveyed(&mut surveys, &live, slices, &gateways[..held_by]);
        }
        let mut told = HashSet::new();
        for survey in surveys.finish() {
            let text = survey.text(&gateways[0]);
            assert!(text.len() <= MAX_MESSAGE, "{} bytes", text.len());
            let Ok(message::Received {
                message: PeerMessage::Survey { lives, .. },
                ..
            }) = message::read(&text)
            else {
                panic!("no survey: {text}")
            };
            told.extend(lives.into_iter().map(|live| live.live.to_string()));
        }
        for (live, slices, _) in lives {
            assert!(told.contains(&live) || slices > 1, "{live} was left out");
        }
        assert!(told.len() > 800, "{}", told.len());
    }
}
