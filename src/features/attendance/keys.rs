//! The keys of attendance. The sessions lie beside the slices of viewers, see
//! [`crate::store::redis::keys::STAYS`]. All keys of this file but [`ATTENDANCE_DUE`] and
//! [`ATTENDANCE_FORM`] expire [`crate::store::redis::keys::ATTENDANCE_TTL`] after their last write or
//! renewal.

use async_trait::async_trait;
use fred::types::Value;

use super::redis::{bit, part_of};
use super::scripts;
use super::store::Attendance;
use crate::base::ids::{Epoch, OnlineSet, UserId};
use crate::store::redis::args;
use crate::store::redis::erasing::{ErasesKeys, Erasing, FamilyEraser, Look, Suspect};
use crate::store::redis::family::{
    Family,
    KeyType::{Hash, Set, Text, Zset},
    Names, Own, families,
};
use crate::store::redis::keys::{Keys, SESSIONS, STAYS};
use crate::store::redis::router::ScriptCall;
use crate::store::redis::slice_name::read_slice;
use crate::store::{LiveEpoch, PersonalData, StoreError, StoreResult};

families! {
    /// The facts about an epoch with attendance: `streamer_id`, `slices`, `opened_at` and, after the
    /// close, `closed_at`.
    ATTENDED, fn attended(of: &LiveEpoch) =
        Family::new(Hash, "attendance:<live_epoch>").names(Names::Otherwise);

    /// The fans of one part who were online at any time of an epoch. The parts of all epochs with the
    /// same number share a hash slot.
    ATTENDANCE_SET, fn attendance_set(of: &LiveEpoch, part: u32) =
        Family::new(Set, "attendance:<live_epoch>:{p<p>}").contract().names(Names::Otherwise);

    /// The fans of one part as bits. A fan's part is the number that is the fan's id, divided by 65,536.
    ATTENDANCE_BITS, fn attendance_bits(of: &LiveEpoch, part: u32) =
        Family::new(Text, "attendance:<live_epoch>:{b<b>}").contract().names(Names::Otherwise);

    /// The parts of an epoch that have bits.
    ATTENDANCE_PARTS, fn attendance_parts(of: &LiveEpoch) =
        Family::new(Set, "attendance:<live_epoch>:parts");

    /// `<live_id>@<epoch>`, the epochs of a streamer's lives whose attendance is kept, scored by
    /// `opened_at`.
    ATTENDED_LIVES, fn attended_lives(streamer: &UserId) =
        Family::new(Zset, "attended:<user_id>").own(Own::Untold);

    /// `<live_id>@<epoch>`, every epoch whose attendance is kept, scored by the time at which the walk
    /// looks after it next. Never expires.
    ATTENDANCE_DUE, fn attendance_due() = Family::new(Zset, "rollcall:attendance");

    /// `set` or `bitmap`, the form in which attendance is kept. Never expires.
    ATTENDANCE_FORM, fn attendance_form() = Family::new(Text, "rollcall:attendance-form");
}

pub(crate) static ERASERS: &[FamilyEraser] = &[
    (&ATTENDED, &Epochs),
    (&ATTENDANCE_SET, &Sets),
    (&ATTENDANCE_BITS, &Bits),
];

impl Keys {
    /// Globs that every key of attendance and of sessions matches, except the lists of epochs. Few
    /// other keys match.
    pub(crate) fn kept_keys(&self) -> [String; 2] {
        ["attendance:*", "{online-fans:*}:s*@*"].map(|glob| self.matching(glob))
    }

    /// Reads a key of attendance or of sessions back: whose it is, and its family.
    pub(crate) fn read_kept(&self, key: &str) -> Option<(LiveEpoch, &'static Family)> {
        for family in [
            &ATTENDED,
            &ATTENDANCE_SET,
            &ATTENDANCE_BITS,
            &ATTENDANCE_PARTS,
        ] {
            if let Some(ids) = self.read(family, key) {
                return Some((LiveEpoch::parse(ids[0])?, family));
            }
        }
        for family in [&STAYS, &SESSIONS] {
            if let Some(ids) = self.read(family, key)
                && let Some((OnlineSet::Live(live), _)) = read_slice(ids[0])
            {
                let epoch = Epoch(ids[1].parse().ok()?);
                return Some((LiveEpoch { live, epoch }, family));
            }
        }
        None
    }
}

/// The attendance of lives of the user goes as a whole.
struct Epochs;

#[async_trait]
impl ErasesKeys for Epochs {
    fn look(&self, key: &Suspect, _: &Erasing<'_>) -> Option<Look> {
        Some(Look::Read(("HGET", args![key.key, "streamer_id"])))
    }

    async fn act(&self, key: &Suspect, answer: Value, of: &mut Erasing<'_>) -> StoreResult<()> {
        let Some(epoch) = LiveEpoch::parse(&key.ids[0]).filter(|_| of.is_user(&answer)) else {
            return Ok(());
        };
        let attended = of.calls.attended(&epoch);
        let attended = match of.calls.router.call("attended", attended).await {
            // Another program garbled it.
            Err(StoreError::Nonsense(_)) => None,
            attended => attended?,
        };
        of.calls
            .forget_attendance(&epoch, attended.as_ref())
            .await?;
        of.step.is_dirty = true;
        Ok(())
    }
}

struct Sets;

impl ErasesKeys for Sets {
    fn look(&self, key: &Suspect, of: &Erasing<'_>) -> Option<Look> {
        if key.ids[1] != part_of(of.user).to_string() {
            return None;
        }
        let removal = ("SREM", args![key.key, of.user]);
        Some(Look::Erase(Some(PersonalData::Attendance), vec![removal]))
    }
}

struct Bits;

impl ErasesKeys for Bits {
    fn look(&self, key: &Suspect, of: &Erasing<'_>) -> Option<Look> {
        // An id that is no number has no bit.
        let bit = bit(of.user)?;
        if key.ids[1] != bit.part.to_string() {
            return None;
        }
        let call = ScriptCall {
            keys: vec![key.key.clone()],
            args: args![bit.offset],
        };
        Some(Look::Run(
            PersonalData::Attendance,
            &scripts::CLEAR_BIT,
            call,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{LiveId, SliceId};
    use crate::store::redis::keys::tests::installations;

    #[test]
    fn what_outlasts_a_close_is_read_back_and_matches_its_glob() {
        let of = LiveEpoch {
            live: LiveId::parse("my.live").unwrap(),
            epoch: Epoch(7),
        };
        let all = OnlineSet::Live(of.live.clone());
        for keys in installations() {
            let [attendance, sessions] = keys
                .kept_keys()
                .map(|glob| glob.split('*').map(str::to_owned).collect());
            let fits = |key: &str, parts: &Vec<String>| {
                key.starts_with(&parts[0]) && parts.iter().all(|it| key.contains(it))
            };
            for (key, family) in [
                (keys.attended(&of), &ATTENDED),
                (keys.attendance_set(&of, 5), &ATTENDANCE_SET),
                (keys.attendance_bits(&of, 5), &ATTENDANCE_BITS),
                (keys.attendance_parts(&of), &ATTENDANCE_PARTS),
            ] {
                assert_eq!(keys.read_kept(&key), Some((of.clone(), family)), "{key}");
                assert!(fits(&key, &attendance), "{key}");
            }
            for slice in SliceId::all(all.clone(), 1).chain(SliceId::all(all.clone(), 2)) {
                for (key, family) in [
                    (keys.stays(&slice, of.epoch), &STAYS),
                    (keys.sessions(&slice, of.epoch), &SESSIONS),
                ] {
                    assert_eq!(keys.read_kept(&key), Some((of.clone(), family)), "{key}");
                    assert!(fits(&key, &sessions), "{key}");
                }
                assert_eq!(keys.read_kept(&keys.who(&slice)), None);
            }
        }
        for other in [
            "attendance:42",
            "attended:u1",
            "{online-users_slice3}:stays@7",
        ] {
            assert_eq!(Keys::default().read_kept(other), None, "{other}");
        }
    }
}
