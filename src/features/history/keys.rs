//! The keys of past lives.

use crate::base::ids::UserId;
use crate::store::PersonalData;
use crate::store::redis::family::{
    Family,
    KeyType::{Hash, Zset},
    Own, families,
};
use crate::store::redis::keys::Keys;

families! {
    /// `<live_id>@<epoch>`, a streamer's past lives, scored by the begin of their close. Expires when the
    /// newest is as old as a closed record may be.
    PAST_LIVES = Family::new(Zset, "past-lives:<streamer_id>").own(Own::Untold);

    /// `<live_id>@<epoch>` → the summary as JSON. Expires as [`PAST_LIVES`].
    SUMMARIES = Family::new(Hash, "{past-lives:<streamer_id>}:summaries")
        .own(Own::Told(PersonalData::PastLives, "HLEN"));
}

impl Keys {
    /// A streamer's `PAST_LIVES` and their `SUMMARIES`.
    pub(crate) fn past_lives(&self, streamer: &UserId) -> [String; 2] {
        [&PAST_LIVES, &SUMMARIES].map(|family| self.make(family, &[streamer]))
    }
}
