//! Owns every key in Redis: its name, its type and its lifetime. No other file spells a key, except
//! that a feature declares the keys that nothing else knows in its own folder. A contract is a key
//! that other services read; the others are the gateways' own.
//!
//! A [`Family`] is declared once, and [`Keys`] is the only way to make a key or a channel: it begins
//! each with the installation's prefix.
//!
//! A slice's companions carry the slice's key in braces as their hash tag, so they live in the
//! slice's hash slot and one script may change them together. The prefix stands before the braces,
//! so that one pattern matches all keys of an installation, and inside them, because the slice's
//! own key has it. Neither ids nor prefixes contain braces, so none can move a key to another slot.

use std::fmt::Display;
use std::time::Duration;

use super::family::{
    AllFamilies, Family,
    KeyType::{Hash, Set, Stream, Text, Zset},
    Names, Own, families, split_before_key,
};
use super::slice_name::read_slice;
use crate::base::ids::{Epoch, Group, LiveId, OnlineSet, SliceId, USERS_SLICES, UserId};
use crate::base::key_prefix::KeyPrefix;
use crate::base::session_key::SessionKey;
use crate::base::webhook_name::WebhookName;
use crate::store::ATTENDANCE_KEPT;
use crate::store::LiveEpoch;
use crate::store::{
    AnswerName, Channel, Edge, MAX_BAN, PersonalData, QueueKind, Rank, WebhookQueue,
};

/// How long the leases outlive the last renewal of any of them.
pub const LEASES_TTL: Duration = Duration::from_secs(2 * 24 * 3600);

/// How long slices and their companions outlive their last write.
pub const SLICE_TTL: Duration = Duration::from_secs(6 * 3600);

/// How long a closed slice's fence outlives the close.
pub const CLOSED_FENCE_TTL: Duration = Duration::from_secs(24 * 3600);

/// How long removals and bans outlive the last of them, unless the live closes before: as long as
/// the longest ban.
pub const REMOVALS_TTL: Duration = MAX_BAN;

/// How long the keys of attendance outlive their last write or renewal. This is longer than
/// [`ATTENDANCE_KEPT`], after which the walk deletes them in the background: a large key that
/// expires holds up the server.
pub const ATTENDANCE_TTL: Duration = Duration::from_secs(ATTENDANCE_KEPT.as_secs() + 2 * 24 * 3600);

/// How long the history of an open live outlives its last point. The history of a closed live
/// lives as long as its record.
pub const HISTORY_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long the list of a streamer's open lives outlives the last opening.
pub const CLAIMS_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

/// How long the confirmed viewers of a slice outlive the last confirmation. Gateways take those out
/// before whose minute is over, because a large key that expires holds up the server.
pub const CONFIRMED_TTL: Duration = Duration::from_secs(10 * 60);

/// How long the totals of a slice outlive its last write: its fence, and the counters of different
/// users. A close counts and deletes them.
pub const TOTALS_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

families! {
    /// The open lives, scored by `opened_at` in Unix milliseconds. Never expires.
    LIVES, fn lives() = Family::new(Zset, "lives").contract();

    /// The lives of [`LIVES`], scored by viewers, for listings by size. In the same hash slot, so that
    /// one script changes all three lists. Never expires.
    BY_VIEWERS = Family::new(Zset, "{lives}:by_viewers");

    /// The same, scored by fans.
    BY_FANS = Family::new(Zset, "{lives}:by_fans");

    /// The gateway that walks over all open lives. Expires unless that gateway renews it.
    WALKER, fn walker() = Family::new(Text, "rollcall:sweeper");

    /// Gateway → its lease, `<start, Unix ms>:<last renewal, Unix ms>:<renewals>:<unheard>`, where the
    /// last are the numbers of the channels on which the gateway is not heard, with commas. After a
    /// burial `dead:<Unix ms>:<last renewal, Unix ms>`, or `dead:<Unix ms>` if the gateway ended itself
    /// or had no lease, for a day. Expires [`LEASES_TTL`] after the last renewal.
    LEASES, fn leases() = Family::new(Hash, "rollcall:leases");

    /// A random text that some gateway wrote and that never changes. A server with another text, or none,
    /// has lost its data or is another server. In a cluster each master has a canary of its own,
    /// [`CANARY_OF_MASTER`]. Never expires. A canary that moves to another master with its slot stays
    /// there.
    CANARY, fn canary() = Family::new(Text, "rollcall:canary");

    /// A master's own [`CANARY`] in a cluster; the number is one whose slot that master serves.
    CANARY_OF_MASTER, fn canary_of_master(number: u32) = Family::new(Text, "rollcall:canary:{<n>}");

    /// The record of a live.
    ///
    /// | field | what |
    /// | --- | --- |
    /// | `state` | `open`, `closing` or `closed` |
    /// | `streamer_id` | the owner |
    /// | `epoch` | the number of this opening; at least the Unix time in seconds of the opening |
    /// | `slices` | the number of slices over which its viewers are spread |
    /// | `opened_at` | Unix milliseconds |
    /// | `opened_by` | `streamer` or `service` |
    /// | `peak_viewers`, `peak_fans` | the highest counts of the epoch so far |
    /// | `title`, `streamer_timeout_s` | from the opening or a later change; absent if there is none |
    /// | `attendance` | `1` if it was opened with attendance; absent otherwise |
    /// | `invisible` | `1` if it is in no feed; absent otherwise |
    /// | `hosts` | the hosts of the live, with spaces; absent if there are none |
    /// | `version` | of `info`, `title`, `streamer_timeout_s` and `hosts`; absent if none changed, and as `info` is |
    /// | `info`, `info_version` | a back end's text for clients, and its `version`; absent once a close has begun |
    /// | `viewers`, `fans`, `counted_at` | the counts a moment ago, and when they were written; absent as `info` is |
    /// | `guests` | how many of the viewers are guests; absent until one came, and as `info` is |
    /// | `stream` | `on` or `lost`, since when, and how many heartbeats its sessions sent; absent without a stream |
    /// | `removals` | the number of the last removal or lifting of a ban; absent while there was none |
    /// | `event:<n>`, `last_event` | the events that are not in the stream yet, and the number of the last one |
    /// | `counts_told` | the figures of the last `live.counts`, and when it was noted |
    /// | `joins`, `leaves` | the joins and leaves over all gateways, up to `counted_at`; absent while nobody came |
    /// | `watched_ms` | the sum of the viewers' times in the live, up to `counted_at` |
    /// | `unique_viewers`, `unique_fans` | the different users who came; absent while open, or if not counted |
    /// | `closed_at`, `reason` | when and why its close began; absent while open |
    RECORD, fn live(live: &LiveId) =
        Family::new(Hash, "live:<live_id>").contract().names(Names::Otherwise);

    /// Users who were sent out of an open live, or whose ban was lifted (`+` before the user), scored by
    /// the number of the change. The last [`crate::store::MAX_CHANGES`] users. Expires [`REMOVALS_TTL`]
    /// after the last write.
    REMOVALS, fn removals(live: &LiveId) = Family::new(Zset, "{live:<live_id>}:removals")
        .names(Names::Members(Some(PersonalData::Bans)));

    /// The users who may not join an open live, scored by the end of the ban, in Unix milliseconds.
    /// Expires as [`REMOVALS`].
    BANS, fn bans(live: &LiveId) =
        Family::new(Zset, "{live:<live_id>}:bans").names(Names::Members(Some(PersonalData::Bans)));

    /// `state` → what media servers told of the streams of a live, as JSON, and `version`, which grows
    /// with each write. Outlasts the close, because messages come late.
    STREAMS, fn streams(live: &LiveId) = Family::new(Hash, "{live:<live_id>}:streams");

    /// `<epoch> <when it was closed, Unix ms>` of the last epoch of a live that an erasure took away. It
    /// does not name the streamer. Expires a day after the erasure.
    ERASED_LIVE, fn erased_live(live: &LiveId) = Family::new(Text, "{live:<live_id>}:erased");

    /// The history of an epoch's figures, with an entry for each bucket of time in which they changed. The
    /// id of an entry is the begin of the bucket, in Unix milliseconds, and how often the entry was
    /// replaced. The newest point of an open live is in the record. Outlasts the close, as the record
    /// does.
    HISTORY = Family::new(Stream, "{live:<live_id>}:history@<epoch>");

    /// The lives that a streamer's own tokens opened, scored by the last claim of each, in Unix
    /// milliseconds. The member `:pace` has the time up to which all openings so far would last at the
    /// allowed pace. Expires [`CLAIMS_TTL`] after the last opening.
    CLAIMED_LIVES, fn claimed_lives(streamer: &UserId) =
        Family::new(Zset, "{past-lives:<streamer_id>}:open").own(Own::Untold);

    /// The fans in a slice of a live, or the users in a slice of a set of the platform. One key for a live
    /// of one slice, numbered from 1 otherwise. All other keys of the slice lie beside it. Expires
    /// [`SLICE_TTL`] after the last write, as all of them do unless they say something else.
    SLICE, fn slice(slice: &SliceId) = Family::new(Set, "<slice>").contract().names(Names::Online);

    /// All viewers in a slice of a live.
    VIEWERS = Family::new(Set, "{<live_slice>}:viewers").contract().names(Names::Online);

    /// User → `<since> <claim> <claim>…`, what gateways claim of users. This is the truth of which the
    /// public sets are a copy. `since` is when the user of a live came, in Unix milliseconds; it is empty
    /// in the other sets. A claim is the token of a gateway, as [`GATEWAYS`] has it, and what the user is
    /// there: `3` a member, `3f` a fan, `3=<live>,<live>` a user of the platform who is in these lives on
    /// the gateway, the live joined last at the end. The claim made last comes last. A user leaves with
    /// the last claim.
    WHO, fn who(slice: &SliceId) = Family::new(Hash, "{<slice>}:who").names(Names::Online);

    /// Gateway → its entry: `<token>:<number of its last call>`, with `+` behind it until the gateway has
    /// said all that it holds, or `<token>:dead` from its burial until its claims are taken out. The token
    /// stands for the gateway in the claims; a gateway that makes a new entry gets a new token. A gateway
    /// that lets go of the slice takes its entry away. For the users of the platform, the hash also has
    /// `#<token>` → gateway for each living gateway.
    GATEWAYS, fn gateways(slice: &SliceId) = Family::new(Hash, "{<slice>}:gateways");

    /// `open:<epoch>:<version>:<incarnation>:<joins>-<leaves>:<fans>:<entries>:<last token>` or
    /// `closed:<epoch>:<joins>-<leaves>:<different viewers>:<different fans>`. Joins and leaves count the
    /// first claims on users and the ends of their last claims over the epoch, so their difference is the
    /// number of members. `fans` is the number of users with a claim that says fan, `entries` the number
    /// of fields of [`GATEWAYS`]. The incarnation is the version at which the slice forgot all claims
    /// last, or began. From then on until gateways have said again whom they hold,
    /// `:<users with a claim>:<Unix ms of the begin>` is behind the fence. The number of users is -1 then
    /// if another program wrote meanwhile. Expires [`TOTALS_TTL`] after the last write, and
    /// [`CLOSED_FENCE_TTL`] after the close.
    FENCE, fn fence(slice: &SliceId) = Family::new(Text, "{<slice>}:fence");

    /// A HyperLogLog: the users who came to the slice since its epoch began. It exists only if they are
    /// counted. Expires [`TOTALS_TTL`] after the last write.
    UNIQUES = Family::new(Text, "{<live_slice>}:uniques");

    /// The same of the fans.
    UNIQUE_FANS = Family::new(Text, "{<live_slice>}:unique-fans");

    /// The viewers of an epoch whom a back end confirmed, scored by when, in Unix milliseconds. Who
    /// leaves is taken out. Expires [`CONFIRMED_TTL`] after the last confirmation.
    CONFIRMED, fn confirmed(slice: &SliceId, epoch: Epoch) =
        Family::new(Zset, "{<live_slice>}:confirmed@<epoch>").names(Names::Members(None));

    /// User → `<number> <watched before, ms> <id> <joined_at> <left_at or ->`, the user's latest session in
    /// an epoch of a live with attendance; and `<user> <number>` → `<id> <joined_at> <left_at>` for each
    /// earlier one. Outlasts the close; expires [`ATTENDANCE_TTL`] after the last write.
    STAYS, fn stays(slice: &SliceId, epoch: Epoch) =
        Family::new(Hash, "{<live_slice>}:stays@<epoch>").names(Names::Otherwise);

    /// `<user> <number>` for each session of an epoch of a live with attendance, scored by its begin in
    /// Unix milliseconds. An erasure takes users out of it together with [`STAYS`], and it expires as
    /// that does.
    SESSIONS, fn sessions(slice: &SliceId, epoch: Epoch) =
        Family::new(Zset, "{<live_slice>}:sessions@<epoch>");

    /// The users of a slice who are not online, scored by when each was seen last, in Unix milliseconds. In
    /// the hash slot of the online users, so that one script may look at both. Never expires: users are
    /// forgotten one by one.
    LAST_SEEN = Family::new(Zset, "last-seen:{<slice>}").contract().names(Names::Otherwise);

    /// `text` or `u32`, the form of the members in [`LAST_SEEN`]. Never expires.
    LAST_SEEN_IDS, fn last_seen_ids() = Family::new(Text, "rollcall:last-seen-ids");

    /// The events, one per entry, with the fields `id`, `type`, `live_id` and `data`. Capped.
    EVENTS, fn events() = Family::new(Stream, "rollcall:events").contract();

    /// The audit trail, whose events are in [`EVENTS`], too. Capped.
    AUDIT_TRAIL, fn audit_trail() =
        Family::new(Stream, "{rollcall:events}:audit").contract().names(Names::Otherwise);

    /// The ids of the events that were appended to [`EVENTS`] a moment ago, scored by the time until which
    /// they are known. Expires.
    APPENDED_EVENTS, fn appended_events() = Family::new(Zset, "{rollcall:events}:appended");

    /// The events that a webhook did not accept, with the additional fields `why` and `attempts`. Capped,
    /// and each expires after a month.
    DEAD_EVENTS = Family::new(Stream, "{rollcall:events}:dead<:webhook>").names(Names::Otherwise);

    /// The events that a webhook is sent again, as in [`EVENTS`]. Capped, and each expires after a month.
    REPLAYS = Family::new(Stream, "{rollcall:events}:replay<:webhook>").names(Names::Otherwise);

    /// The gateway that sends the events of the stream. Expires unless that gateway renews it.
    SENDER = Family::new(Text, "{rollcall:events}:sender<:webhook>");

    /// The same of the events that are sent again.
    REPLAY_SENDER = Family::new(Text, "{rollcall:events}:replay-sender<:webhook>");

    /// Whom the user follows, scored by the time of the follow. The platform may write it, too. Never
    /// expires.
    FOLLOWING = Family::new(Zset, "following:<user_id>")
        .contract()
        .own(Own::Told(PersonalData::Following, "ZCARD"))
        .names(Names::Members(None));

    /// The same from the other end.
    FOLLOWERS = Family::new(Zset, "followers:<user_id>")
        .contract()
        .own(Own::Told(PersonalData::Followers, "ZCARD"))
        .names(Names::Members(None));

    /// Folded login → the user with this login. Never expires. An erasure goes over it page by page.
    USERS, fn users() = Family::new(Hash, "users").contract().names(Names::Large);

    /// The profile of a user: `login`, `name`, `signup` (Unix ms), and `former`, the previous login. Never
    /// expires.
    USER, fn user(user: &UserId) =
        Family::new(Hash, "user:<user_id>").contract().names(Names::Otherwise);

    /// What a request that may be repeated asked for, and its answer. Expires a day after the request.
    ANSWER, fn answer(name: &AnswerName) =
        Family::new(Text, "rollcall:answer:<digest>").names(Names::Otherwise);

    /// `<number> <why>`, the ids of a session without a socket below the number are over. In the slot of
    /// the gateways' channel, on which the script that writes it publishes.
    SESSION_END = Family::new(Text, "{<gateways>}:ended:<session>");

    /// The secrets behind sessions without a socket that the gateways made up, a line each. The first one
    /// signs. Never expires.
    PRESENCE_SECRET, fn presence_secret() = Family::new(Text, "rollcall:presence-secret");

    /// The thing that changes → `<begin, Unix ms> <how>`. These are changes of several keys that are under
    /// way or were left half done. The hash of a user's id decides the partition of the user's changes.
    /// Empty at rest.
    CHANGES, fn changes(partition: u64) =
        Family::new(Hash, "rollcall:changes:<p>").names(Names::Unfinished);
}

/// What distinguishes the keys and the group of a webhook: nothing for the webhook of the setting
/// `webhook-url`, because it was the only one once.
pub(crate) fn webhook_suffix(webhook: &WebhookName) -> String {
    if webhook.is_default() {
        String::new()
    } else {
        format!(":{webhook}")
    }
}

/// A key of a live or of a slice, read back from its name, with its family.
#[derive(Debug, Clone, PartialEq)]
pub enum ReadKey {
    /// A key of a live.
    Live(LiveId, &'static Family),
    /// A key of a slice: the set, and the number of the slice; `None` if the set has only one.
    Slice(OnlineSet, Option<u32>, &'static Family),
}

/// Makes the keys and channels of one installation, and reads them back. By default there is no
/// prefix.
#[derive(Debug, Clone)]
pub struct Keys {
    prefix: KeyPrefix,
    /// The beginning of all channels, behind the prefix.
    channels: String,
}

impl Default for Keys {
    fn default() -> Self {
        Self::new(KeyPrefix::default(), 0)
    }
}

impl Keys {
    /// The keys that begin with this prefix, in this database of the server. Redis keeps the keys
    /// of its databases apart and passes messages to all of them, so the channels have the number.
    pub fn new(prefix: KeyPrefix, database: u8) -> Self {
        let channels = match database {
            0 => "rollcall:".to_owned(),
            number => format!("rollcall:{number}:"),
        };
        Self { prefix, channels }
    }

    /// The key of a family with these ids, in the order of its name.
    pub(crate) fn make(&self, family: &Family, ids: &[&dyn Display]) -> String {
        family.make(self.prefix.as_str(), ids.iter())
    }

    /// The ids in a key of a family; `None` for another key.
    pub(crate) fn read<'k>(&self, family: &Family, key: &'k str) -> Option<Vec<&'k str>> {
        family.read(self.prefix.as_str(), key)
    }

    /// The list of open lives that is scored by these figures.
    pub fn top(&self, rank: Rank) -> String {
        match rank {
            Rank::Viewers => self.make(&BY_VIEWERS, &[]),
            Rank::Fans => self.make(&BY_FANS, &[]),
        }
    }

    /// The list of open lives with its ranks: the keys of the scripts that change them.
    pub(crate) fn list(&self) -> Vec<String> {
        vec![self.lives(), self.top(Rank::Viewers), self.top(Rank::Fans)]
    }

    /// A key of the family `HISTORY`.
    pub fn history(&self, of: &LiveEpoch) -> String {
        self.make(&HISTORY, &[&of.live, &of.epoch])
    }

    /// The set of the users of a group of a slice: `SLICE` or `VIEWERS`.
    pub fn members(&self, slice: &SliceId, group: Group) -> String {
        match (&slice.set, group) {
            (OnlineSet::Live(_), Group::All) => self.make(&VIEWERS, &[slice]),
            _ => self.slice(slice),
        }
    }

    /// The keys of a slice with which the keys of its scripts begin: all members, the claims, the
    /// entries and the fence; of a live also the fans.
    pub(crate) fn of_slice(&self, slice: &SliceId) -> Vec<String> {
        let mut keys = vec![
            self.members(slice, Group::All),
            self.who(slice),
            self.gateways(slice),
            self.fence(slice),
        ];
        if slice.set.live().is_some() {
            keys.push(self.members(slice, Group::Fans));
        }
        keys
    }

    /// The users of a group who came to a slice: `UNIQUES` or `UNIQUE_FANS`.
    pub fn uniques(&self, slice: &SliceId, group: Group) -> String {
        match group {
            Group::All => self.make(&UNIQUES, &[slice]),
            Group::Fans => self.make(&UNIQUE_FANS, &[slice]),
        }
    }

    /// Adds the key of the times at which users of the platform were seen last.
    pub(crate) fn with_last_seen(&self, slice: &SliceId, mut keys: Vec<String>) -> Vec<String> {
        if slice.set == OnlineSet::Users {
            keys.push(self.last_seen(slice.index));
        }
        keys
    }

    /// Adds the keys of the sessions that users of a live have in an epoch.
    pub(crate) fn with_sessions(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        mut keys: Vec<String>,
    ) -> Vec<String> {
        if slice.set.live().is_some() {
            keys.extend([self.stays(slice, epoch), self.sessions(slice, epoch)]);
        }
        keys
    }

    /// Adds the keys that count the different users of a live.
    pub(crate) fn with_uniques(&self, slice: &SliceId, mut keys: Vec<String>) -> Vec<String> {
        if slice.set.live().is_some() {
            keys.extend([Group::All, Group::Fans].map(|group| self.uniques(slice, group)));
        }
        keys
    }

    /// Adds the key of the confirmed viewers of a live.
    pub(crate) fn with_confirmed(
        &self,
        slice: &SliceId,
        epoch: Epoch,
        mut keys: Vec<String>,
    ) -> Vec<String> {
        if slice.set.live().is_some() {
            keys.push(self.confirmed(slice, epoch));
        }
        keys
    }

    /// The users who have a socket now, in one of [`USERS_SLICES`] slices.
    pub fn online_users(&self, index: u32) -> String {
        self.slice(&users_slice(index))
    }

    /// A key of the family `LAST_SEEN`.
    pub fn last_seen(&self, slice: u32) -> String {
        self.make(&LAST_SEEN, &[&users_slice(slice)])
    }

    /// The keys that say in which lives the online users of a slice are: the claims, and the
    /// gateways that make them.
    pub fn whereabouts(&self, slice: u32) -> [String; 2] {
        let slice = users_slice(slice);
        [self.who(&slice), self.gateways(&slice)]
    }

    /// All keys that say whether users of a slice are online, since when not, and in which lives
    /// they are.
    pub(crate) fn of_users(&self, slice: u32) -> Vec<String> {
        let [who, gateways] = self.whereabouts(slice);
        vec![
            self.online_users(slice),
            self.last_seen(slice),
            who,
            gateways,
        ]
    }

    /// A key of the family `DEAD_EVENTS`.
    pub fn dead_events(&self, webhook: &WebhookName) -> String {
        self.make(&DEAD_EVENTS, &[&webhook_suffix(webhook)])
    }

    /// A key of the family `REPLAYS`.
    pub fn replays(&self, webhook: &WebhookName) -> String {
        self.make(&REPLAYS, &[&webhook_suffix(webhook)])
    }

    /// The key that says which gateway sends the events of a queue.
    pub fn event_sender(&self, queue: &WebhookQueue) -> String {
        let webhook = webhook_suffix(&queue.webhook);
        match queue.kind {
            QueueKind::Stream => self.make(&SENDER, &[&webhook]),
            QueueKind::Replay => self.make(&REPLAY_SENDER, &[&webhook]),
        }
    }

    /// The stream of a queue.
    pub fn queue(&self, queue: &WebhookQueue) -> String {
        match queue.kind {
            QueueKind::Stream => self.events(),
            QueueKind::Replay => self.replays(&queue.webhook),
        }
    }

    /// The follow graph from one end: `FOLLOWING` or `FOLLOWERS`.
    pub fn edge(&self, user: &UserId, edge: Edge) -> String {
        match edge {
            Edge::Following => self.make(&FOLLOWING, &[user]),
            Edge::Followers => self.make(&FOLLOWERS, &[user]),
        }
    }

    /// A key of the family `SESSION_END`.
    pub fn session_end(&self, session: &SessionKey) -> String {
        self.make(&SESSION_END, &[&self.gateways_channel(), session])
    }

    /// A glob that every key of the follow graph matches, and few others do.
    pub fn edge_keys(&self) -> String {
        self.matching("follow*:*")
    }

    /// Reads a key of the follow graph back.
    pub fn read_edge(&self, key: &str) -> Option<(UserId, Edge)> {
        for (family, edge) in [(&FOLLOWING, Edge::Following), (&FOLLOWERS, Edge::Followers)] {
            if let Some(ids) = self.read(family, key) {
                return Some((UserId::parse(ids[0]).ok()?, edge));
            }
        }
        None
    }

    /// A glob that every profile matches.
    pub fn user_keys(&self) -> String {
        self.matching("user:*")
    }

    /// Reads the key of a profile back.
    pub fn read_user(&self, key: &str) -> Option<UserId> {
        UserId::parse(self.read(&USER, key)?[0]).ok()
    }

    /// The keys that a live or a user with this id would have, if the id were valid. Of the sets of
    /// a live, these are the keys of one slice.
    pub(crate) fn named_after(&self, id: &str) -> Vec<String> {
        let mut keys = vec![self.make(&SLICE, &[&format_args!("online-fans:{id}")])];
        for family in self.families() {
            let ids: Vec<&str> = family.ids().collect();
            let is_named = matches!(ids[..], ["live_id" | "user_id" | "streamer_id"]);
            if is_named && !family.name.starts_with('{') {
                keys.push(self.make(family, &[&id]));
            }
        }
        keys
    }

    /// A glob for this installation's keys, made of a glob without prefixes. A key that begins with
    /// another key in braces has the prefix inside the braces, too.
    pub fn matching(&self, glob: &str) -> String {
        let prefix = &self.prefix;
        match split_before_key(glob) {
            ("", glob) => format!("{prefix}{glob}"),
            (before, after) => format!("{prefix}{before}{prefix}{after}"),
        }
    }

    /// The kind of a key, for people: its name without the prefix, with `*` for ids and numbers.
    /// `None` for a key of another installation.
    pub fn kind(&self, key: &str) -> Option<String> {
        let name = key.strip_prefix(self.prefix.as_str())?;
        let Some((key, companion)) = self.split_beside(name) else {
            return Some(plain_kind(name));
        };
        let key = plain_kind(key);
        match companion.find([':', '@']) {
            Some(end) => Some(format!("{{{key}}}:{}*", &companion[..=end])),
            None => Some(format!("{{{key}}}:{companion}")),
        }
    }

    /// Splits a name without its prefix that begins with another key in braces: the name of that
    /// key without its prefix, and the companion's own name.
    fn split_beside<'a>(&self, name: &'a str) -> Option<(&'a str, &'a str)> {
        name.strip_prefix('{')?
            .strip_prefix(self.prefix.as_str())?
            .split_once("}:")
    }

    /// A glob that every key of a live matches, and few others do.
    pub fn live_keys(&self) -> String {
        self.matching("*li[nv]e*")
    }

    /// Reads a key's name back. `None` for a name that is no key of a live or a slice, or that no
    /// gateway would spell in this way.
    pub fn read_key(&self, key: &str) -> Option<ReadKey> {
        for family in [&RECORD, &REMOVALS, &BANS, &STREAMS, &HISTORY] {
            if let Some(ids) = self.read(family, key) {
                return Some(ReadKey::Live(LiveId::parse(ids[0]).ok()?, family));
            }
        }
        for family in [
            &SLICE,
            &VIEWERS,
            &WHO,
            &GATEWAYS,
            &FENCE,
            &UNIQUES,
            &UNIQUE_FANS,
        ] {
            if let Some(ids) = self.read(family, key) {
                let (set, index) = read_slice(ids[0])?;
                return Some(ReadKey::Slice(set, index, family));
            }
        }
        None
    }

    /// The keys of a trial of a server, beside its canary and in the canary's slot. They exist for
    /// a moment only.
    pub(crate) fn trial(canary: &str) -> Vec<String> {
        let names = "string set hash sorted-set stream users bits copy";
        let keys = names.split(' ');
        keys.map(|name| format!("{canary}:trial-{name}")).collect()
    }

    /// The channel of a trial of a server, in the slot of its canary.
    pub(crate) fn trial_channel(canary: &str) -> String {
        format!("{canary}:trial")
    }

    /// A key of each family, to try out what a user of Redis may touch.
    pub(crate) fn one_of_each(&self) -> Vec<String> {
        let mut keys = Vec::new();
        for slice in [
            "online-fans:0",
            "online-users_slice1",
            "online-streamers_slice1",
        ] {
            for family in self.families() {
                let gateways = self.gateways_channel();
                let ids = family.ids().map(|id| match id {
                    "slice" => slice,
                    "live_slice" => "online-fans:0",
                    "live_epoch" => "0@0",
                    "gateways" => &gateways,
                    ":webhook" => "",
                    _ => "0",
                });
                keys.push(family.make(self.prefix.as_str(), ids));
            }
        }
        keys.sort();
        keys.dedup();
        keys
    }

    /// The name of the gateways' channel behind the prefix.
    fn gateways_channel(&self) -> String {
        format!("{}gateways", self.channels)
    }

    /// The channel of messages between gateways (sharded pub/sub). Every gateway listens on the
    /// gateways' channel. A live's channel shares the hash slot of its record, so that a script
    /// which changes the record publishes in the same step.
    pub fn channel(&self, channel: &Channel) -> String {
        let (prefix, begin) = (&self.prefix, &self.channels);
        match channel {
            Channel::Gateways => format!("{prefix}{}", self.gateways_channel()),
            Channel::Live(live) => format!("{prefix}{begin}{{{}}}", self.live(live)),
            Channel::Moves(live) => format!("{prefix}{begin}{{{}}}:moves", self.live(live)),
            Channel::Echo(number) => format!("{prefix}{begin}echo:{{{number}}}"),
        }
    }

    /// Reads a channel's name back.
    pub fn read_channel(&self, name: &str) -> Option<Channel> {
        let name = name.strip_prefix(self.prefix.as_str())?;
        let name = name.strip_prefix(&self.channels)?;
        if name == "gateways" {
            return Some(Channel::Gateways);
        }
        if let Some(number) = name.strip_prefix("echo:{") {
            return number.strip_suffix('}')?.parse().ok().map(Channel::Echo);
        }
        let (record, rest) = name.strip_prefix('{')?.split_once('}')?;
        let channel = match rest {
            "" => Channel::Live,
            ":moves" => Channel::Moves,
            _ => return None,
        };
        let live = self.read(&RECORD, record)?[0];
        Some(channel(LiveId::parse(live).ok()?))
    }
}

/// The kind of a key that has no other key in braces before it.
fn plain_kind(name: &str) -> String {
    if let Some((set, _)) = name.split_once("_slice")
        && !set.contains(':')
    {
        return format!("{set}_slice*");
    }
    // Most kinds have one word, and an id follows the first colon. These have two words.
    let mut start = 0;
    for word in ["rollcall:", "statuses:"] {
        if name.starts_with(word) {
            start = word.len();
        }
    }
    match name[start..].find(':') {
        Some(end) => format!("{}*", &name[..=start + end]),
        None => name.to_owned(),
    }
}

/// A slice of the users of the platform.
fn users_slice(index: u32) -> SliceId {
    SliceId {
        set: OnlineSet::Users,
        index,
        of: USERS_SLICES,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    use crate::base::ids::STREAMERS_SLICES;

    fn id(index: u32, of: u32) -> SliceId {
        SliceId::of_live(LiveId::parse("42").unwrap(), index, of)
    }

    fn prefixed(prefix: &str) -> Keys {
        Keys::new(KeyPrefix::parse(prefix).unwrap(), 0)
    }

    /// Without a prefix, with one, and with one that goes on where that one ends.
    pub(crate) fn installations() -> [Keys; 3] {
        ["", "app:", "app:rollcall:"].map(prefixed)
    }

    #[test]
    fn slices_are_named_as_the_contract_says() {
        let (keys, app) = (Keys::default(), prefixed("app:"));
        assert_eq!(
            (keys.slice(&id(1, 1)), app.slice(&id(1, 1))),
            ("online-fans:42".into(), "app:online-fans:42".into())
        );
        assert_eq!(keys.slice(&id(3, 8)), "online-fans:42_slice3");
        assert_eq!(keys.fence(&id(3, 8)), "{online-fans:42_slice3}:fence");
        assert_eq!(app.fence(&id(1, 1)), "app:{app:online-fans:42}:fence");
        assert_eq!(
            keys.members(&id(3, 8), Group::Fans),
            "online-fans:42_slice3"
        );
        assert_eq!(
            keys.members(&id(3, 8), Group::All),
            "{online-fans:42_slice3}:viewers"
        );
        assert_eq!(
            app.members(&id(1, 1), Group::All),
            "app:{app:online-fans:42}:viewers"
        );
        let users = SliceId::all(OnlineSet::Users, USERS_SLICES).last().unwrap();
        assert_eq!(keys.members(&users, Group::All), "online-users_slice64");
        assert_eq!(app.slice(&users), "app:online-users_slice64");
    }

    /// The keys of a live and of slices, each with what it is.
    fn named(keys: &Keys, live_id: &LiveId) -> Vec<(String, ReadKey)> {
        let of_live = |family| ReadKey::Live(live_id.clone(), family);
        let history = keys.history(&LiveEpoch {
            live: live_id.clone(),
            epoch: Epoch(7),
        });
        let mut named = vec![
            (keys.live(live_id), of_live(&RECORD)),
            (keys.bans(live_id), of_live(&BANS)),
            (keys.streams(live_id), of_live(&STREAMS)),
            (history, of_live(&HISTORY)),
        ];
        let all = OnlineSet::Live(live_id.clone());
        let ids = [
            (&all, 1, 1),
            (&all, 12, 16),
            (&OnlineSet::Users, 64, USERS_SLICES),
            (&OnlineSet::Streamers, 16, STREAMERS_SLICES),
        ];
        for (set, index, of) in ids {
            let slice_id = SliceId {
                set: set.clone(),
                index,
                of,
            };
            let number = (of > 1).then_some(index);
            let mut name = |key, what| named.push((key, ReadKey::Slice(set.clone(), number, what)));
            name(keys.slice(&slice_id), &SLICE);
            name(keys.who(&slice_id), &WHO);
            name(keys.gateways(&slice_id), &GATEWAYS);
            name(keys.fence(&slice_id), &FENCE);
            if set.live().is_some() {
                name(keys.members(&slice_id, Group::All), &VIEWERS);
                name(keys.uniques(&slice_id, Group::All), &UNIQUES);
                name(keys.uniques(&slice_id, Group::Fans), &UNIQUE_FANS);
            }
        }
        named
    }

    #[test]
    fn a_key_is_read_back_as_it_was_named_by_its_own_installation() {
        let live_id = LiveId::parse("my_slice").unwrap();
        for (at, keys) in installations().iter().enumerate() {
            for (key, what) in named(keys, &live_id) {
                for (reads, other) in installations().iter().enumerate() {
                    let right = (at == reads).then(|| what.clone());
                    assert_eq!(other.read_key(&key), right, "{key}");
                }
            }
            for other in [
                "lives",
                "live:a b",
                "online-fans:a_slice007",
                "{online-fans:a}:other",
                "{online-users_slice1}:viewers",
                "{online-users_slice1}:lives",
                "{online-fans:a}:held:gw-1",
                "{live:a}:history@",
                "{live:a}:history@07",
                "following:x",
                "",
                "online-users",
                "online-users_slice0",
                "online-users_slice65",
                "online-users:_slice1",
                "{online-users_slice1}:other",
            ] {
                let other = format!("{}{other}", keys.prefix);
                assert_eq!(keys.read_key(&other), None, "{other}");
            }
        }
    }

    #[test]
    fn a_kind_has_a_star_for_every_id_and_no_prefix() {
        for (key, kind) in [
            ("online-fans:42", "online-fans:*"),
            ("online-fans:a:b_slice3", "online-fans:*"),
            ("online-users_slice3", "online-users_slice*"),
            ("lives", "lives"),
            ("rollcall:leases", "rollcall:leases"),
            ("rollcall:changes:7", "rollcall:changes:*"),
            ("statuses:on-air:u1", "statuses:on-air:*"),
            ("attendance:42@7:{p3}", "attendance:*"),
            ("last-seen:{online-users_slice3}", "last-seen:*"),
            ("", ""),
            ("{", "{"),
            ("{}:", "{}:"),
        ] {
            assert_eq!(Keys::default().kind(key).as_deref(), Some(kind), "{key}");
        }
        let (app, live) = (prefixed("app:"), LiveId::parse("a-b").unwrap());
        let history = app.history(&LiveEpoch {
            live: live.clone(),
            epoch: Epoch(7),
        });
        let slice = SliceId::of_live(live, 3, 8);
        let (stays, who) = (app.stays(&slice, Epoch(7)), app.who(&slice));
        for (key, kind, glob) in [
            (history.as_str(), "{live:*}:history@*", "{live:a*"),
            (&stays, "{online-fans:*}:stays@*", "{online-fans:*}:stays@*"),
            (&who, "{online-fans:*}:who", "{online-fans:*}:who"),
            (
                &app.last_seen(3),
                "last-seen:*",
                "last-seen:{online-users_slice3}",
            ),
            (&app.lives(), "lives", "lives"),
        ] {
            assert_eq!(app.kind(key).as_deref(), Some(kind), "{key}");
            let glob = app.matching(glob);
            let parts: Vec<&str> = glob.split('*').collect();
            assert!(
                key.starts_with(parts[0]) && key.contains(parts[parts.len() / 2]),
                "{key} {glob}"
            );
        }
        assert_eq!(app.kind("lives"), None);
    }

    #[test]
    fn what_is_known_of_the_users_of_a_slice_shares_a_hash_slot() {
        let slot = |key: &str| fred::util::redis_keyslot(key.as_bytes());
        assert_eq!(
            Keys::default().last_seen(7),
            "last-seen:{online-users_slice7}"
        );
        for keys in installations() {
            for key in keys.of_users(7) {
                assert_eq!(slot(&key), slot(&keys.online_users(7)), "{key}");
            }
            assert_eq!(
                keys.read_key(&keys.last_seen(7)),
                None,
                "it is no key of a live or a slice"
            );
        }
    }

    #[test]
    fn a_record_and_what_is_noted_beside_it_share_a_hash_slot() {
        let slot = |key: &str| fred::util::redis_keyslot(key.as_bytes());
        let id = LiveId::parse("42").unwrap();
        for keys in installations() {
            let channel = keys.channel(&Channel::Live(id.clone()));
            let history = keys.history(&LiveEpoch {
                live: id.clone(),
                epoch: Epoch(7),
            });
            let beside = [
                keys.removals(&id),
                keys.bans(&id),
                keys.streams(&id),
                channel,
                history,
            ];
            for key in &beside {
                assert_eq!(slot(key), slot(&keys.live(&id)), "{key}");
            }
            let streamer = UserId::parse("s1").unwrap();
            let [list, summaries] = keys.past_lives(&streamer);
            assert_eq!(slot(&list), slot(&summaries));
            assert_eq!(slot(&list), slot(&keys.claimed_lives(&streamer)));
        }
    }

    #[test]
    fn the_list_and_its_ranks_share_a_hash_slot() {
        for keys in installations() {
            let slots = keys
                .list()
                .into_iter()
                .map(|key| fred::util::redis_keyslot(key.as_bytes()));
            assert_eq!(slots.collect::<std::collections::HashSet<_>>().len(), 1);
        }
    }

    #[test]
    fn a_channel_is_read_back_as_it_was_named_by_its_own_installation() {
        // A live may be called as the gateways' channel is.
        let live = LiveId::parse("gateways").unwrap();
        for there in [
            Channel::Gateways,
            Channel::Live(live.clone()),
            Channel::Moves(live),
            Channel::Echo(3),
        ] {
            let in_databases = [1, 11].map(|database| Keys::new(KeyPrefix::default(), database));
            let all: Vec<Keys> = installations().into_iter().chain(in_databases).collect();
            for (at, keys) in all.iter().enumerate() {
                for (reads, other) in all.iter().enumerate() {
                    let right = (at == reads).then(|| there.clone());
                    assert_eq!(
                        other.read_channel(&keys.channel(&there)),
                        right,
                        "{there:?}"
                    );
                }
            }
        }
        for other in [
            "",
            "rollcall:",
            "rollcall:{live:}",
            "rollcall:{live:a b}",
            "rollcall:{live:42",
            "rollcall:{42}",
            "rollcall:echo:",
            "rollcall:echo:3",
            "rollcall:{live:42}:",
            "42",
        ] {
            assert_eq!(Keys::default().read_channel(other), None, "{other}");
        }
    }

    #[test]
    fn a_slice_and_its_companions_share_a_hash_slot() {
        let slot = |key: &str| fred::util::redis_keyslot(key.as_bytes());
        for keys in installations() {
            for slice_id in [id(1, 1), id(3, 8)] {
                let home = slot(&keys.slice(&slice_id));
                let beside = keys.with_uniques(&slice_id, keys.of_slice(&slice_id));
                let beside = keys.with_confirmed(&slice_id, Epoch(7), beside);
                for key in keys.with_sessions(&slice_id, Epoch(7), beside) {
                    assert_eq!(slot(&key), home, "{key}");
                }
            }
        }
    }
}
