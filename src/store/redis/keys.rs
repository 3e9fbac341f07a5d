//! Owns every key in Redis: its name, its type and its lifetime. No other file spells a key, except
//! that a feature may have a file for keys that nothing else knows. The word "contract" marks the
//! keys that other services read; the others are the gateways' own.
//!
//! [`Keys`] is the only way to make a key or a channel, and it begins each with the installation's
//! prefix.
//!
//! A slice's companions carry the slice's key in braces as their hash tag, so they live in the
//! slice's hash slot and one script may change them together. The prefix stands before the braces,
//! so that one pattern matches all keys of an installation, and inside them, because the slice's
//! own key has it. Neither ids nor prefixes contain braces, so none can move a key to another slot.

use std::fmt::{self, Display};
use std::time::Duration;

use crate::base::ids::{
    Epoch, ErasureId, Group, ListName, LiveId, OnlineSet, STREAMERS_SLICES, SliceId, USERS_SLICES,
    UserId,
};
use crate::base::key_prefix::KeyPrefix;
use crate::base::session_key::{KEY_BYTES, SessionKey};
use crate::base::webhook_name::WebhookName;
use crate::store::ATTENDANCE_KEPT;
use crate::store::LiveEpoch;
use crate::store::{AnswerName, Channel, Edge, MAX_BAN, QueueKind, Rank, WebhookQueue};

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

/// How long the totals of a slice outlive its last write: its fence, and the counters of different
/// users. A close counts and deletes them.
pub const TOTALS_TTL: Duration = Duration::from_secs(30 * 24 * 3600);

const EVENTS: &str = "rollcall:events";

/// What distinguishes the keys and the group of a webhook: nothing for the webhook of the setting
/// `webhook-url`.
pub(crate) fn webhook_suffix(webhook: &WebhookName) -> String {
    if webhook.is_default() {
        String::new()
    } else {
        format!(":{webhook}")
    }
}

const FANS: &str = "online-fans:";
const USERS: &str = "online-users";
const STREAMERS: &str = "online-streamers";

/// The end of a slice's key: its number, unless it is the only one.
struct Suffix<'a>(&'a SliceId);

impl fmt::Display for Suffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.of > 1 {
            write!(f, "_slice{}", self.0.index)
        } else {
            Ok(())
        }
    }
}

/// The meaning of a key, read back from its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadKey {
    /// A key of a live.
    Live(LiveId, LiveKey),
    /// A key of a slice: the set, the number of the slice (`None` if the set has only one), and
    /// which of its keys.
    Slice(OnlineSet, Option<u32>, SliceKey),
}

/// Which key of a live.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LiveKey {
    /// `live:<live_id>`
    Record,
    /// The users who were sent out, or those who may not come back.
    Removals,
    /// The history of an epoch's figures.
    History(Epoch),
    /// What media servers told of the live's streams.
    Streams,
}

/// Which key of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SliceKey {
    /// The set of a group.
    Set(Group),
    /// What gateways claim of users.
    Who,
    /// The gateways' entries.
    Gateways,
    /// The fence.
    Fence,
    /// The users of a group who came at any time.
    Uniques(Group),
}

/// The contents of a key that outlasts a close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeptKey {
    /// The fans who came.
    Attendance,
    /// The sessions of a slice.
    Sessions,
}

/// Makes the keys and channels of one installation, and reads them back. By default there is no
/// prefix.
#[derive(Debug, Clone)]
pub struct Keys {
    pub(crate) prefix: KeyPrefix,
    /// The beginning of all channels.
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
            0 => format!("{prefix}rollcall:"),
            number => format!("{prefix}rollcall:{number}:"),
        };
        Self { prefix, channels }
    }

    pub(crate) fn key(&self, name: impl Display) -> String {
        format!("{}{name}", self.prefix)
    }

    /// A key in the slot of another one.
    pub(crate) fn beside(&self, key: &str, name: impl Display) -> String {
        format!("{}{{{key}}}:{name}", self.prefix)
    }

    /// ZSET, contract: the open lives, scored by `opened_at` in Unix milliseconds. Never expires.
    pub fn lives(&self) -> String {
        self.key("lives")
    }

    /// ZSET: the lives of [`Self::lives`], scored by viewers or by fans, for listings by size. In
    /// the same hash slot, so that one script changes all three. Never expires.
    pub fn top(&self, rank: Rank) -> String {
        let by = match rank {
            Rank::Viewers => "by_viewers",
            Rank::Fans => "by_fans",
        };
        self.beside(&self.lives(), by)
    }

    /// The list of open lives with its ranks: the keys of the scripts that change them.
    pub(crate) fn list(&self) -> Vec<String> {
        vec![self.lives(), self.top(Rank::Viewers), self.top(Rank::Fans)]
    }

    /// STRING: the gateway that walks over all open lives. Expires unless that gateway renews it.
    pub fn walker(&self) -> String {
        self.key("rollcall:sweeper")
    }

    /// HASH: gateway → its lease, `<start, Unix ms>:<last renewal, Unix ms>:<renewals>:<unheard>`,
    /// where the last are the numbers of the channels on which the gateway is not heard, with
    /// commas. After a burial `dead:<Unix ms>:<last renewal, Unix ms>`, or `dead:<Unix ms>` if the
    /// gateway ended itself or had no lease, for a day.
    pub fn leases(&self) -> String {
        self.key("rollcall:leases")
    }

    /// STRING: a random text that some gateway wrote and that never changes. A server with another
    /// text, or none, has lost its data or is another server. In a cluster each master has a canary
    /// of its own, [`Self::canary_of_master`]. Never expires. A canary that moves to another master
    /// with its slot stays there.
    pub fn canary(&self) -> String {
        self.key("rollcall:canary")
    }

    /// A master's own [`Self::canary`] in a cluster; the number is one whose slot that master
    /// serves.
    pub fn canary_of_master(&self, number: u32) -> String {
        format!("{}:{{{number}}}", self.canary())
    }

    /// HASH, contract: the record of a live.
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
    /// | `version` | of `info`, `title` and `streamer_timeout_s`; absent if none changed, and as `info` is |
    /// | `info`, `info_version` | a back end's text for clients, and its `version`; absent once a close has begun |
    /// | `viewers`, `fans`, `counted_at` | the counts a moment ago, and when they were written; absent as `info` is |
    /// | `stream` | `on` or `lost`, since when, and how many heartbeats its sessions sent; absent without a stream |
    /// | `removals` | the number of the last removal or lifting of a ban; absent while there was none |
    /// | `event:<n>`, `last_event` | the events that are not in the stream yet, and the number of the last one |
    /// | `counts_told` | the figures of the last `live.counts`, and when it was noted |
    /// | `joins`, `leaves` | the joins and leaves over all gateways, up to `counted_at`; absent while nobody came |
    /// | `watched_ms` | the sum of the viewers' times in the live, up to `counted_at` |
    /// | `unique_viewers`, `unique_fans` | the different users who came; absent while open, or if not counted |
    /// | `closed_at`, `reason` | when and why its close began; absent while open |
    pub fn live(&self, live: &LiveId) -> String {
        self.key(format_args!("live:{live}"))
    }

    /// ZSET: users who were sent out of an open live, or whose ban was lifted (`+` before the
    /// user), scored by the number of the change. The last [`crate::store::MAX_CHANGES`] users.
    pub fn removals(&self, live: &LiveId) -> String {
        self.beside(&self.live(live), "removals")
    }

    /// ZSET: the users who may not join an open live, scored by the end of the ban, in Unix
    /// milliseconds.
    pub fn bans(&self, live: &LiveId) -> String {
        self.beside(&self.live(live), "bans")
    }

    /// HASH: `state` → what media servers told of the streams of a live, as JSON, and `version`,
    /// which grows with each write. Outlasts the close, because messages come late.
    pub fn streams(&self, live: &LiveId) -> String {
        self.beside(&self.live(live), "streams")
    }

    /// STRING: `<epoch> <when it was closed, Unix ms>` of the last epoch of a live that an erasure took
    /// away. It does not name the streamer. Expires a day after the erasure.
    pub fn erased_live(&self, live: &LiveId) -> String {
        self.beside(&self.live(live), "erased")
    }

    /// STRING: the live to which a session publishes with a stream key, or for a minute the live and
    /// the streamer that a media server was told of a session, by a digest of the server, the
    /// session and the stream.
    pub fn stream_key(&self, digest: &str) -> String {
        self.key(format_args!("rollcall:stream-key:{digest}"))
    }

    /// STREAM: the history of an epoch's figures, with an entry for each bucket of time in which
    /// they changed. The id of an entry is the begin of the bucket, in Unix milliseconds, and how
    /// often the entry was replaced. The newest point of an open live is in the record. Outlasts
    /// the close, as the record does.
    pub fn history(&self, of: &LiveEpoch) -> String {
        self.beside(&self.live(&of.live), format_args!("history@{}", of.epoch))
    }

    /// ZSET: `<live_id>@<epoch>`, a streamer's past lives, scored by the begin of their close. And
    /// HASH: `<live_id>@<epoch>` → the summary as JSON. Both expire when the newest is as old as a
    /// closed record may be.
    pub fn past_lives(&self, streamer: &UserId) -> [String; 2] {
        let list = self.key(format_args!("past-lives:{streamer}"));
        let summaries = self.beside(&list, "summaries");
        [list, summaries]
    }

    /// ZSET: the lives that a streamer's own tokens opened, scored by the last claim of each, in
    /// Unix milliseconds. The member `:pace` has the time up to which all openings so far would
    /// last at the allowed pace. In the slot of the past lives.
    pub fn claimed_lives(&self, streamer: &UserId) -> String {
        let [list, _] = self.past_lives(streamer);
        self.beside(&list, "open")
    }

    /// SET, contract: the fans in a slice of a live, or the users in a slice of a set of the
    /// platform. One key for a live of one slice, numbered from 1 otherwise. All other keys of the
    /// slice lie beside it.
    pub fn slice(&self, slice: &SliceId) -> String {
        match &slice.set {
            OnlineSet::Live(live) => self.key(format_args!("{FANS}{live}{}", Suffix(slice))),
            OnlineSet::Users => self.key(format_args!("{USERS}{}", Suffix(slice))),
            OnlineSet::Streamers => self.key(format_args!("{STREAMERS}{}", Suffix(slice))),
        }
    }

    /// SET, contract: the users of a group of a slice. For a live, the set of all viewers lies
    /// beside the set of fans.
    pub fn members(&self, slice: &SliceId, group: Group) -> String {
        match (&slice.set, group) {
            (OnlineSet::Live(_), Group::All) => self.beside(&self.slice(slice), "viewers"),
            (OnlineSet::Live(_), Group::Fans) | (OnlineSet::Users | OnlineSet::Streamers, _) => {
                self.slice(slice)
            }
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

    /// HASH: user → `<since> <claim> <claim>…`, what gateways claim of users. This is the truth of
    /// which the public sets are a copy. `since` is when the user of a live came, in Unix
    /// milliseconds; it is empty in the other sets. A claim is the token of a gateway, as
    /// [`Self::gateways`] has it, and what the user is there: `3` a member, `3f` a fan,
    /// `3=<live>,<live>` a user of the platform who is in these lives on the gateway, the live
    /// joined last at the end. The claim made last comes last. A user leaves with the last claim.
    pub fn who(&self, slice: &SliceId) -> String {
        self.beside(&self.slice(slice), "who")
    }

    /// HASH: user → `<number> <watched before, ms> <id> <joined_at> <left_at or ->`, the user's
    /// latest session in an epoch of a live with attendance; and `<user> <number>` →
    /// `<id> <joined_at> <left_at>` for each earlier one. Outlasts the close, as attendance does.
    pub fn stays(&self, slice: &SliceId, epoch: Epoch) -> String {
        self.beside(&self.slice(slice), format_args!("stays@{epoch}"))
    }

    /// ZSET: `<user> <number>` for each session of an epoch of a live with attendance, scored by
    /// its begin in Unix milliseconds. Outlasts the close, as attendance does.
    pub fn sessions(&self, slice: &SliceId, epoch: Epoch) -> String {
        self.beside(&self.slice(slice), format_args!("sessions@{epoch}"))
    }

    /// HASH: the facts about an epoch with attendance: `streamer_id`, `slices`, `opened_at` and,
    /// after the close, `closed_at`.
    pub fn attended(&self, of: &LiveEpoch) -> String {
        self.key(format_args!("attendance:{of}"))
    }

    /// SET, contract: the fans of one part who were online at any time of an epoch. The parts of
    /// all epochs with the same number share a hash slot.
    pub fn attendance_set(&self, of: &LiveEpoch, part: u32) -> String {
        self.key(format_args!("attendance:{of}:{{p{part}}}"))
    }

    /// STRING, contract: the fans of one part as bits. A fan's part is the number that is the fan's
    /// id, divided by 65,536.
    pub fn attendance_bits(&self, of: &LiveEpoch, part: u32) -> String {
        self.key(format_args!("attendance:{of}:{{b{part}}}"))
    }

    /// SET: the parts of an epoch that have bits.
    pub fn attendance_parts(&self, of: &LiveEpoch) -> String {
        self.key(format_args!("attendance:{of}:parts"))
    }

    /// ZSET: `<live_id>@<epoch>`, the epochs of a streamer's lives whose attendance is kept, scored
    /// by `opened_at`.
    pub fn attended_lives(&self, streamer: &UserId) -> String {
        self.key(format_args!("attended:{streamer}"))
    }

    /// ZSET: `<live_id>@<epoch>`, every epoch whose attendance is kept, scored by the time at which
    /// the walk looks after it next.
    pub fn attendance_due(&self) -> String {
        self.key("rollcall:attendance")
    }

    /// STRING: `set` or `bitmap`, the form in which attendance is kept. Never expires.
    pub fn attendance_form(&self) -> String {
        self.key("rollcall:attendance-form")
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
            keys.extend([
                self.uniques(slice, Group::All),
                self.uniques(slice, Group::Fans),
            ]);
        }
        keys
    }

    /// SET, contract: the users who have a socket now, in one of [`USERS_SLICES`] slices.
    pub fn online_users(&self, index: u32) -> String {
        self.slice(&users_slice(index))
    }

    /// ZSET, contract: the users of a slice who are not online, scored by when each was seen last,
    /// in Unix milliseconds. In the hash slot of the online users, so that one script may look at
    /// both. Never expires: users are forgotten one by one.
    pub fn last_seen(&self, slice: u32) -> String {
        self.key(format_args!("last-seen:{{{}}}", self.online_users(slice)))
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

    /// STREAM, contract: the events, one per entry, with the fields `id`, `type`, `live_id` and
    /// `data`. Capped.
    pub fn events(&self) -> String {
        self.key(EVENTS)
    }

    /// STREAM, contract: the audit trail, whose events are in [`Self::events`], too. Capped.
    pub fn audit_trail(&self) -> String {
        self.beside(&self.events(), "audit")
    }

    /// ZSET: the ids of the events that were appended to [`Self::events`] a moment ago, scored by the
    /// time until which they are known. Expires.
    pub fn appended_events(&self) -> String {
        self.beside(&self.events(), "appended")
    }

    /// A key about a webhook, beside the stream of events. The webhook of the setting `webhook-url`
    /// has no suffix, because it was the only one once.
    fn of_webhook(&self, name: &str, webhook: &WebhookName) -> String {
        let suffix = webhook_suffix(webhook);
        self.beside(&self.events(), format_args!("{name}{suffix}"))
    }

    /// STREAM: the events that a webhook did not accept, with the additional fields `why` and
    /// `attempts`. Capped, and each expires after a month.
    pub fn dead_events(&self, webhook: &WebhookName) -> String {
        self.of_webhook("dead", webhook)
    }

    /// STREAM: the events that a webhook is sent again, as in [`Self::events`]. Capped, and each
    /// expires after a month.
    pub fn replays(&self, webhook: &WebhookName) -> String {
        self.of_webhook("replay", webhook)
    }

    /// STRING: the gateway that sends the events of a queue. Expires unless that gateway renews it.
    pub fn event_sender(&self, queue: &WebhookQueue) -> String {
        let name = match queue.kind {
            QueueKind::Stream => "sender",
            QueueKind::Replay => "replay-sender",
        };
        self.of_webhook(name, &queue.webhook)
    }

    /// The stream of a queue.
    pub fn queue(&self, queue: &WebhookQueue) -> String {
        match queue.kind {
            QueueKind::Stream => self.events(),
            QueueKind::Replay => self.replays(&queue.webhook),
        }
    }

    /// STREAM: the last attempts to send events to a webhook, each as JSON in the field `delivery`.
    /// Capped, and expires a month after the last one.
    pub fn deliveries(&self, webhook: &WebhookName) -> String {
        self.of_webhook("deliveries", webhook)
    }

    /// HASH: when the last event arrived at a webhook, and when and why one did not. Expires a month
    /// after the last attempt.
    pub fn webhook_status(&self, webhook: &WebhookName) -> String {
        self.of_webhook("status", webhook)
    }

    /// STRING: `text` or `u32`, the form of the members in the keys of [`Self::last_seen`]. Never
    /// expires.
    pub fn last_seen_ids(&self) -> String {
        self.key("rollcall:last-seen-ids")
    }

    /// HASH: gateway → its entry: `<token>:<number of its last call>`, with `+` behind it until the
    /// gateway has said all that it holds, or `<token>:dead` from its burial until its claims are
    /// taken out. The token stands for the gateway in the claims; a gateway that makes a new entry
    /// gets a new token. A gateway that lets go of the slice takes its entry away. For the users of
    /// the platform, the hash also has `#<token>` → gateway for each living gateway.
    pub fn gateways(&self, slice: &SliceId) -> String {
        self.beside(&self.slice(slice), "gateways")
    }

    /// STRING, a HyperLogLog: the users of a group who came to the slice since its epoch began. It
    /// exists only if they are counted.
    pub fn uniques(&self, slice: &SliceId, group: Group) -> String {
        let name = match group {
            Group::All => "uniques",
            Group::Fans => "unique-fans",
        };
        self.beside(&self.slice(slice), name)
    }

    /// STRING:
    /// `open:<epoch>:<version>:<incarnation>:<joins>-<leaves>:<fans>:<entries>:<last token>` or
    /// `closed:<epoch>:<joins>-<leaves>:<different viewers>:<different fans>`. Joins and leaves
    /// count the first claims on users and the ends of their last claims over the epoch, so their
    /// difference is the number of members. `fans` is the number of users with a claim that says
    /// fan, `entries` the number of fields of [`Self::gateways`]. The incarnation is the version at which
    /// the slice forgot all claims last, or began. From then on until gateways have said again whom
    /// they hold, `:<users with a claim>:<Unix ms of the begin>` is behind the fence. The number of
    /// users is -1 then if another program wrote meanwhile.
    pub fn fence(&self, slice: &SliceId) -> String {
        self.beside(&self.slice(slice), "fence")
    }

    /// ZSET, contract: the follow graph from one end, scored by the time of the follow. The
    /// platform may write it, too. Never expires.
    pub fn edge(&self, user: &UserId, edge: Edge) -> String {
        match edge {
            Edge::Following => self.key(format_args!("following:{user}")),
            Edge::Followers => self.key(format_args!("followers:{user}")),
        }
    }

    /// HASH, contract: folded login → the user with this login. Never expires.
    pub fn users(&self) -> String {
        self.key("users")
    }

    /// HASH, contract: the profile of a user: `login`, `name`, `signup` (Unix ms), and `former`,
    /// the previous login. Never expires.
    pub fn user(&self, user: &UserId) -> String {
        self.key(format_args!("user:{user}"))
    }

    /// ZSET: the members of a user's list, scored by when each was added. Never expires.
    pub fn list_of(&self, owner: &UserId, list: &ListName) -> String {
        self.key(format_args!("list:{list}:{owner}"))
    }

    /// STRING: what a request that may be repeated asked for, and its answer. Expires a day after
    /// the request.
    pub fn answer(&self, name: &AnswerName) -> String {
        self.key(format_args!("rollcall:answer:{name}"))
    }

    /// STRING: `<number> <why>`, the ids of a session without a socket below the number are over. In
    /// the slot of the gateways' channel, on which the script that writes it publishes.
    pub fn session_end(&self, session: &SessionKey) -> String {
        let channel = self.channel(&Channel::Gateways);
        self.beside(&channel, format_args!("ended:{session}"))
    }

    /// STRING: the secrets behind sessions without a socket that the gateways made up, a line each. The
    /// first one signs. Never expires.
    pub fn presence_secret(&self) -> String {
        self.key("rollcall:presence-secret")
    }

    /// STREAM: jobs that bring a status to the followers of its author, or take it from them.
    /// Gateways share the jobs as one consumer group. Empty at rest. Never expires.
    pub fn fanout(&self) -> String {
        self.key("rollcall:fanout")
    }

    /// HASH: job → `<worker> <how far it got>`, in the slot of [`Self::fanout`]. Empty at rest.
    pub fn fanout_progress(&self) -> String {
        self.beside(&self.fanout(), "progress")
    }

    /// ZSET: the authors whose statuses have no such jobs, scored by the time since which they have
    /// none. Never expires.
    pub fn pulled(&self) -> String {
        self.key("rollcall:pulled")
    }

    /// STREAM: users to be erased. Gateways share the jobs as those of [`Self::fanout`]. Empty at
    /// rest. Never expires.
    pub fn erasures(&self) -> String {
        self.key("rollcall:erasures")
    }

    /// HASH: user → `<worker> <how far it got, as JSON>`, in the slot of [`Self::erasures`]. Empty
    /// at rest.
    pub fn erasures_progress(&self) -> String {
        self.beside(&self.erasures(), "progress")
    }

    /// HASH: user → the erasure that runs, in the same slot. Empty at rest.
    pub fn erasures_asked(&self) -> String {
        self.beside(&self.erasures(), "asked")
    }

    /// HASH: `asked_at`, `ended_at` and `found` (JSON) of an erasure, in the same slot. It does not
    /// name the user.
    pub fn erasure_report(&self, id: &ErasureId) -> String {
        self.beside(&self.erasures(), format_args!("report:{id}"))
    }

    /// ZSET, in the same slot: a digest of each user whose erasure ended within a day, scored by the
    /// end. It does not name the users. Expires a day after the last end.
    pub fn erased(&self) -> String {
        self.beside(&self.erasures(), "erased")
    }

    /// HASH: the thing that changes → `<begin, Unix ms> <how>`. These are changes of several keys
    /// that are under way or were left half done. The hash of a user's id decides the partition of
    /// the user's changes. Empty at rest.
    pub fn changes(&self, partition: u64) -> String {
        self.key(format_args!("rollcall:changes:{partition}"))
    }

    /// A glob that every key of the follow graph matches, and few others do.
    pub fn edge_keys(&self) -> String {
        self.key("follow*:*")
    }

    /// Reads a key of the follow graph back.
    pub fn read_edge(&self, key: &str) -> Option<(UserId, Edge)> {
        let (edge, user) = key.strip_prefix(self.prefix.as_str())?.split_once(':')?;
        let edge = match edge {
            "following" => Edge::Following,
            "followers" => Edge::Followers,
            _ => return None,
        };
        Some((UserId::parse(user).ok()?, edge))
    }

    /// A glob that every profile matches.
    pub fn user_keys(&self) -> String {
        self.key("user:*")
    }

    /// Reads the key of a profile back.
    pub fn read_user(&self, key: &str) -> Option<UserId> {
        let name = key.strip_prefix(self.prefix.as_str())?;
        UserId::parse(name.strip_prefix("user:")?).ok()
    }

    /// The keys that a live or a user with this id would have, if the id were valid. Of the sets of
    /// a live, these are the keys of one slice.
    pub(crate) fn named_after(&self, id: &str) -> Vec<String> {
        let families = [
            "live:",
            FANS,
            "following:",
            "followers:",
            "user:",
            "past-lives:",
            "attended:",
            "statuses:home:",
            "statuses:feed:",
            "statuses:profile:",
            "statuses:on-air:",
        ];
        families
            .map(|family| self.key(format_args!("{family}{id}")))
            .into()
    }

    /// A glob for this installation's keys, made of a glob without prefixes. A key that begins with
    /// another key in braces has the prefix inside the braces, too.
    pub fn matching(&self, glob: &str) -> String {
        for before in ["", "last-seen:"] {
            if let Some(after) = glob.strip_prefix(before)
                && let Some(after) = after.strip_prefix('{')
            {
                return self.key(format_args!("{before}{{{}{after}", self.prefix));
            }
        }
        self.key(glob)
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

    /// Splits a name without its prefix that [`Self::beside`] made: the name of the other key
    /// without its prefix, and the companion's own name.
    pub(crate) fn split_beside<'a>(&self, name: &'a str) -> Option<(&'a str, &'a str)> {
        name.strip_prefix('{')?
            .strip_prefix(self.prefix.as_str())?
            .split_once("}:")
    }

    /// A glob that every key of a live matches, and few others do.
    pub fn live_keys(&self) -> String {
        self.key("*li[nv]e*")
    }

    /// Reads a key's name back. `None` for a name that is no key of a live or a slice, or that no
    /// gateway would spell in this way.
    pub fn read_key(&self, key: &str) -> Option<ReadKey> {
        let name = key.strip_prefix(self.prefix.as_str())?;
        if let Some(live) = name.strip_prefix("live:") {
            return Some(ReadKey::Live(LiveId::parse(live).ok()?, LiveKey::Record));
        }
        if let Some((set, index)) = read_slice(name) {
            let group = *set.groups().last()?;
            return Some(ReadKey::Slice(set, index, SliceKey::Set(group)));
        }
        let (beside, companion) = self.split_beside(name)?;
        if let Some(live) = beside.strip_prefix("live:") {
            let companion = match companion {
                "removals" | "bans" => LiveKey::Removals,
                "streams" => LiveKey::Streams,
                other => LiveKey::History(Epoch(read_number(other.strip_prefix("history@")?)?)),
            };
            return Some(ReadKey::Live(LiveId::parse(live).ok()?, companion));
        }
        let (set, index) = read_slice(beside)?;
        let companion = match companion {
            "who" => SliceKey::Who,
            "gateways" => SliceKey::Gateways,
            "fence" => SliceKey::Fence,
            "viewers" if set.live().is_some() => SliceKey::Set(Group::All),
            "uniques" if set.live().is_some() => SliceKey::Uniques(Group::All),
            "unique-fans" if set.live().is_some() => SliceKey::Uniques(Group::Fans),
            _ => return None,
        };
        Some(ReadKey::Slice(set, index, companion))
    }

    /// Globs that every key of attendance and of sessions matches, except the lists of epochs. Few
    /// other keys match.
    pub fn kept_keys(&self) -> [String; 2] {
        [
            self.key("attendance:*"),
            self.beside(&self.key(format_args!("{FANS}*")), "s*@*"),
        ]
    }

    /// Reads a key of attendance or of sessions back.
    pub fn read_kept(&self, key: &str) -> Option<(LiveEpoch, KeptKey)> {
        let name = key.strip_prefix(self.prefix.as_str())?;
        if let Some(of) = name.strip_prefix("attendance:") {
            let of = LiveEpoch::parse(of.split(':').next()?)?;
            return Some((of, KeptKey::Attendance));
        }
        let (beside, companion) = self.split_beside(name)?;
        let epoch = match companion.split_once('@')? {
            ("stays" | "sessions", epoch) => Epoch(epoch.parse().ok()?),
            _ => return None,
        };
        let (OnlineSet::Live(live), _) = read_slice(beside)? else {
            return None;
        };
        Some((LiveEpoch { live, epoch }, KeptKey::Sessions))
    }

    /// The keys of a trial of a server, beside its canary and in the canary's slot. They exist for
    /// a moment only.
    pub(crate) fn trial(canary: &str) -> Vec<String> {
        let names = [
            "string",
            "set",
            "hash",
            "sorted-set",
            "stream",
            "users",
            "bits",
            "copy",
        ];
        names
            .iter()
            .map(|name| format!("{canary}:trial-{name}"))
            .collect()
    }

    /// The channel of a trial of a server, in the slot of its canary.
    pub(crate) fn trial_channel(canary: &str) -> String {
        format!("{canary}:trial")
    }

    /// A key of each kind, with the given ids.
    pub(crate) fn one_of_each(&self, live: &LiveId, user: &UserId, list: &ListName) -> Vec<String> {
        let epoch = Epoch(0);
        let webhook = WebhookName::default();
        let of = LiveEpoch {
            live: live.clone(),
            epoch,
        };
        let sets = [
            OnlineSet::Live(live.clone()),
            OnlineSet::Users,
            OnlineSet::Streamers,
        ];
        let mut keys = vec![
            self.lives(),
            self.top(Rank::Viewers),
            self.walker(),
            self.leases(),
            self.canary(),
            self.live(live),
            self.removals(live),
            self.streams(live),
            self.erased_live(live),
            self.stream_key("0"),
            self.attended(&of),
            self.attended_lives(user),
            self.attendance_due(),
            self.attendance_form(),
            self.last_seen(1),
            self.last_seen_ids(),
            self.events(),
            self.audit_trail(),
            self.appended_events(),
            self.dead_events(&webhook),
            self.replays(&webhook),
            self.deliveries(&webhook),
            self.webhook_status(&webhook),
            self.edge(user, Edge::Following),
            self.edge(user, Edge::Followers),
            self.users(),
            self.user(user),
            self.key(format_args!("statuses:home:{user}")),
            self.beside(&self.key(format_args!("statuses:profile:{user}")), "posts"),
            self.list_of(user, list),
            self.answer(&AnswerName::of_digest(&[0; 16])),
            self.session_end(&SessionKey::from_bytes([0; KEY_BYTES])),
            self.presence_secret(),
            self.fanout(),
            self.fanout_progress(),
            self.erasures(),
            self.erasures_progress(),
            self.erased(),
            self.pulled(),
            self.changes(0),
        ];
        keys.extend(self.past_lives(user));
        for set in sets {
            let of = if set.live().is_some() {
                1
            } else {
                USERS_SLICES
            };
            let slice = SliceId { set, index: 1, of };
            keys.extend([
                self.slice(&slice),
                self.members(&slice, Group::All),
                self.fence(&slice),
            ]);
        }
        keys
    }

    /// The channel of messages between gateways (sharded pub/sub). Every gateway listens on the
    /// gateways' channel. A live's channel shares the hash slot of its record, so that a script
    /// which changes the record publishes in the same step.
    pub fn channel(&self, channel: &Channel) -> String {
        let begin = &self.channels;
        match channel {
            Channel::Gateways => format!("{begin}gateways"),
            Channel::Live(live) => format!("{begin}{{{}}}", self.live(live)),
            Channel::Moves(live) => format!("{begin}{{{}}}:moves", self.live(live)),
            Channel::Echo(number) => format!("{begin}echo:{{{number}}}"),
        }
    }

    /// Reads a channel's name back.
    pub fn read_channel(&self, name: &str) -> Option<Channel> {
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
        match self.read_key(record)? {
            ReadKey::Live(live, LiveKey::Record) => Some(channel(live)),
            _ => None,
        }
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

/// The sets of the platform: the beginning of their keys, and their numbers of slices.
const PLATFORM_SETS: [(&str, OnlineSet, u32); 2] = [
    (USERS, OnlineSet::Users, USERS_SLICES),
    (STREAMERS, OnlineSet::Streamers, STREAMERS_SLICES),
];

/// A slice of the users of the platform.
fn users_slice(index: u32) -> SliceId {
    SliceId {
        set: OnlineSet::Users,
        index,
        of: USERS_SLICES,
    }
}

pub(crate) fn read_slice(key: &str) -> Option<(OnlineSet, Option<u32>)> {
    for (name, set, of) in PLATFORM_SETS {
        if let Some(suffix) = key.strip_prefix(name) {
            let index = read_index(suffix.strip_prefix("_slice")?)?;
            if (1..=of).contains(&index) {
                return Some((set, Some(index)));
            }
            return None;
        }
    }
    let name = key.strip_prefix(FANS)?;
    if let Ok(live) = LiveId::parse(name) {
        return Some((OnlineSet::Live(live), None));
    }
    let (live, index) = name.rsplit_once("_slice")?;
    let live = LiveId::parse(live).ok()?;
    Some((OnlineSet::Live(live), Some(read_index(index)?)))
}

/// Reads the number of a slice. Each slice has one name: no gateway writes `_slice007`.
fn read_index(index: &str) -> Option<u32> {
    read_number(index)?.try_into().ok()
}

fn read_number(text: &str) -> Option<u64> {
    let number: u64 = text.parse().ok()?;
    if number.to_string() == text {
        Some(number)
    } else {
        None
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

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
            for key in [
                keys.attended(&of),
                keys.attendance_set(&of, 5),
                keys.attendance_bits(&of, 5),
                keys.attendance_parts(&of),
            ] {
                assert_eq!(
                    keys.read_kept(&key),
                    Some((of.clone(), KeptKey::Attendance)),
                    "{key}"
                );
                assert!(fits(&key, &attendance), "{key}");
            }
            for slice in SliceId::all(all.clone(), 1).chain(SliceId::all(all.clone(), 2)) {
                for key in [
                    keys.stays(&slice, of.epoch),
                    keys.sessions(&slice, of.epoch),
                ] {
                    assert_eq!(
                        keys.read_kept(&key),
                        Some((of.clone(), KeptKey::Sessions)),
                        "{key}"
                    );
                    assert!(fits(&key, &sessions), "{key}");
                }
                assert_eq!(keys.read_kept(&keys.who(&slice)), None);
            }
        }
        assert_eq!(Keys::default().read_kept("attendance:42"), None);
        assert_eq!(
            Keys::default().read_kept("{online-users_slice3}:stays@7"),
            None
        );
    }

    /// The keys of a live and of slices, each with what it is.
    fn named(keys: &Keys, live_id: &LiveId) -> Vec<(String, ReadKey)> {
        let of_live = |key| ReadKey::Live(live_id.clone(), key);
        let mut named = vec![
            (keys.live(live_id), of_live(LiveKey::Record)),
            (keys.bans(live_id), of_live(LiveKey::Removals)),
            (keys.streams(live_id), of_live(LiveKey::Streams)),
            (
                keys.history(&LiveEpoch {
                    live: live_id.clone(),
                    epoch: Epoch(7),
                }),
                of_live(LiveKey::History(Epoch(7))),
            ),
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
            name(keys.who(&slice_id), SliceKey::Who);
            name(keys.gateways(&slice_id), SliceKey::Gateways);
            name(keys.fence(&slice_id), SliceKey::Fence);
            for group in set.groups() {
                name(keys.members(&slice_id, *group), SliceKey::Set(*group));
                if set.live().is_some() {
                    name(keys.uniques(&slice_id, *group), SliceKey::Uniques(*group));
                }
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
                assert_eq!(keys.read_key(&keys.key(other)), None, "{other}");
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
            let [list, summaries] = keys.past_lives(&UserId::parse("s1").unwrap());
            assert_eq!(slot(&list), slot(&summaries));
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
                for key in keys.with_sessions(&slice_id, Epoch(7), beside) {
                    assert_eq!(slot(&key), home, "{key}");
                }
            }
        }
    }
}
