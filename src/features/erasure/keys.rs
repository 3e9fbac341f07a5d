//! The keys of erasures, all in one slot. Those of jobs name their users until the job is done.

use crate::base::ids::ErasureId;
use crate::store::redis::family::{
    Family,
    KeyType::{Hash, Stream, Zset},
    families,
};
use crate::store::redis::keys::Keys;

families! {
    /// Users to be erased: jobs that gateways share. Empty at rest. Never expires.
    ERASURES, fn erasures() = Family::new(Stream, "rollcall:erasures");

    /// User → `<worker> <how far it got, as JSON>`. Empty at rest.
    ERASURES_PROGRESS, fn erasures_progress() = Family::new(Hash, "{rollcall:erasures}:progress");

    /// User → the erasure that runs. Empty at rest.
    ERASURES_ASKED, fn erasures_asked() = Family::new(Hash, "{rollcall:erasures}:asked");

    /// `asked_at`, `ended_at` and `found` (JSON) of an erasure. It does not name the user.
    ERASURE_REPORT, fn erasure_report(id: &ErasureId) =
        Family::new(Hash, "{rollcall:erasures}:report:<erasure_id>");

    /// A digest of each user whose erasure ended within a day, scored by the end. It does not name the
    /// users. Expires a day after the last end.
    ERASED, fn erased() = Family::new(Zset, "{rollcall:erasures}:erased");
}
