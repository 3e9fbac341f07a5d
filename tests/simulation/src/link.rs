//! The way from one gateway to the store: every call of [`WholeStore`] becomes a message that travels
//! there, is carried out when it arrives, and is answered.

mod arguments;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rollcall::base::clock::UnixMillis;
use rollcall::base::ids::{
    Epoch, ErasureId, GatewayId, Group, ListName, LiveId, Login, OnlineSet, SliceId, USERS_SLICES,
    UserId,
};
use rollcall::base::session_key::SessionKey;
use rollcall::base::webhook_name::WebhookName;
use rollcall::config::{AttendanceForm, SeenIds};
use rollcall::features::WholeStore;
use rollcall::features::attendance::store::*;
use rollcall::features::erasure::store::*;
use rollcall::features::feeds::store::fanout_jobs::*;
use rollcall::features::feeds::store::lists::*;
use rollcall::features::feeds::store::statuses::*;
use rollcall::features::feeds::store::timelines::*;
use rollcall::features::history::store::*;
use rollcall::features::media::store::*;
use rollcall::features::profiles::store::*;
use rollcall::features::webhooks::store::*;
use rollcall::store::memory::MemoryStore;
use rollcall::store::*;
use tokio::sync::watch;
use tokio::time::Instant;

use self::arguments::Argument;
use crate::network::{Call, Network, at_once};

/// The store as one gateway reaches it.
pub(crate) struct Link {
    network: Arc<Network>,
    /// Which gateway, and which start of it.
    number: usize,
    seen_ids: SeenIds,
}

impl Link {
    pub(crate) fn new(network: Arc<Network>, number: usize, seen_ids: SeenIds) -> Self {
        Self {
            network,
            number,
            seen_ids,
        }
    }

    fn slice(&self, slice: &SliceId) -> usize {
        match &slice.set {
            OnlineSet::Live(live) => self.network.node_of((live.to_string(), slice.index)),
            OnlineSet::Users => self.network.node_of(slice.index),
            OnlineSet::Streamers => self.network.node_of(("streamers", slice.index)),
        }
    }

    fn live(&self, live: &LiveId) -> usize {
        self.network.node_of(live.to_string())
    }

    fn user(&self, user: &UserId) -> usize {
        self.network.node_of(user.to_string())
    }

    /// Where lies what is known of these users: a node that is away, if there is one, since then
    /// the call fails.
    fn users(&self, users: &[UserId]) -> usize {
        let mut nodes = users
            .iter()
            .map(|user| self.number(user.slice_index(USERS_SLICES)));
        let first = nodes.clone().next().unwrap_or_default();
        nodes
            .find(|node| self.part(*node).is_some())
            .unwrap_or(first)
    }

    fn number(&self, number: u32) -> usize {
        self.network.node_of(number)
    }

    /// Where the list of open lives, the leases and the stream of events lie.
    fn list(&self) -> usize {
        0
    }

    /// What a part of a batch meets whose node is away; `None` if all is well.
    fn part(&self, node: usize) -> Option<StoreError> {
        self.network.part(self.number, node)
    }
}

/// Calls that end as one: they travel to one node.
macro_rules! calls {
    (
        $trait:ident {
            $([$kind:ident] $name:ident($($arg:ident: $type:ty),*) -> $reply:ty, at $node:ident($($of:expr)?);)*
            $(else $($written:tt)*)?
        }
    ) => {
        #[async_trait]
        impl $trait for Link {
            $(async fn $name(&self $(, $arg: $type)*) -> StoreResult<$reply> {
                let node = self.$node($($of)?);
                let call = Call { name: stringify!($name), link: self.number, node, writes: calls!(@ $kind) };
                let owned = ($(Argument::own($arg),)*);
                let run = move |store: &MemoryStore| {
                    let ($($arg,)*) = &owned;
                    at_once(store.$name($(Argument::lend($arg)),*))
                };
                self.network.call(call, run, Err).await
            })*
            $($($written)*)?
        }
    };
    (@ read) => { false };
    (@ write) => { true };
}

/// Calls about several things, each with an answer of its own. A thing on a node that is away has
/// an error.
macro_rules! batches {
    ($self:ident, $kind:ident $name:ident($($arg:ident),*), $asked:ident, $node:expr) => {{
        let asked = $asked.len();
        let nodes: Vec<usize> = $asked.iter().map($node).collect();
        let node = nodes.iter().copied().find(|node| $self.part(*node).is_none()).unwrap_or_default();
        let call = Call { name: stringify!($name), link: $self.number, node, writes: calls!(@ $kind) };
        let owned = ($(Argument::own($arg),)*);
        let run = move |store: &MemoryStore| {
            let ($($arg,)*) = &owned;
            at_once(store.$name($(Argument::lend($arg)),*))
        };
        let failed = move |why: StoreError| (0..asked).map(|_| Err(why.clone())).collect();
        let mut answers = $self.network.call(call, run, failed).await;
        for (answer, node) in answers.iter_mut().zip(nodes) {
            if let Some(why) = $self.part(node) {
                *answer = Err(why);
            }
        }
        answers
    }};
}

calls! {
    LiveStore {
        [write] open_live(request: &OpenLive) -> OpenReply, at live(&request.live);
        [read] load_live(live: &LiveId) -> Option<LiveRecord>, at live(live);
        [write] keep_live(known: &LiveRecord, message: &str) -> Standing, at live(&known.live);
        [write] change_live(request: &ChangeLive) -> ChangeReply, at live(&request.live);
        [write] list_live(live: &LiveId, opened_at: UnixMillis) -> (), at list();
        [write] begin_close(request: &CloseLive) -> CloseReply, at live(&request.live);
        [write] finish_close(request: &FinishClose) -> Option<LiveRecord>, at live(&request.live);
        [read] lives_page(after: Option<&ListedLive>, limit: usize) -> Vec<ListedLive>, at list();
        [write] delist(live: &LiveId) -> (), at list();
        [write] take_walk_turn(gateway: &GatewayId, ttl: Duration, dead: &HashSet<GatewayId>) -> bool, at list();
        [read] are_listed(lives: &[LiveId]) -> Vec<bool>, at list();
        else
        async fn load_lives(&self, lives: &[LiveId]) -> Vec<StoreResult<Option<LiveRecord>>> {
            batches!(self, read load_lives(lives), lives, |live| self.live(live))
        }
    }
}

calls! {
    Slices {
        [write] pass(pass: &Pass) -> Option<Passed>, at slice(&pass.slice);
        [read] claims_page(slice: &SliceId, cursor: u64) -> ClaimsPage, at slice(slice);
        [write] close_slice(slice: &SliceId, epoch: Epoch) -> SliceTotals, at slice(slice);
        [read] is_member(slice: &SliceId, group: Group, user: &UserId) -> bool, at slice(slice);
        [read] are_members(slice: &SliceId, group: Group, users: &[UserId]) -> Vec<bool>, at slice(slice);
        [read] members_page(slice: &SliceId, group: Group, cursor: u64) -> MemberPage, at slice(slice);
        [read] since_of(slice: &SliceId, users: &[UserId]) -> Vec<Option<UnixMillis>>, at slice(slice);
        else
        /// The store refuses a call that makes an entry and arrives late, by its own clock.
        async fn apply(&self, call: &Apply) -> StoreResult<ApplyReply> {
            let apply = call.clone();
            let not_after = self.network.store_time() + LATEST_ENTRY.as_millis() as UnixMillis;
            let call = Call { name: "apply", link: self.number, node: self.slice(&call.slice), writes: true };
            self.network.call(call, move |store: &MemoryStore| Ok(store.apply_until(&apply, not_after)), Err).await
        }

        async fn look(
            &self,
            slices: &[SliceId],
            gateway: &GatewayId,
            entries: Entries,
        ) -> Vec<StoreResult<SliceLook>> {
            batches!(self, read look(slices, gateway, entries), slices, |slice| self.slice(slice))
        }
    }
}

calls! {
    Counts {
        [write] count_live(request: &CountLive) -> CountReply, at live(&request.live);
        [write] rank_lives(figures: &[(LiveId, Figures)]) -> (), at list();
        [read] ranked_figures(lives: &[LiveId]) -> Vec<Option<Figures>>, at list();
        [read] top_lives(rank: Rank, after: Option<&RankedLive>, limit: usize) -> Vec<RankedLive>, at list();
    }
}

calls! {
    History {
        [read] history(of: &LiveEpoch, from: UnixMillis, to: UnixMillis) -> Vec<Point>, at live(&of.live);
        [write] add_past_live(summary: &Summary, keep: Duration) -> (), at list();
        [read] past_lives(streamer: &UserId, after: Option<&PastLive>, limit: usize) -> Vec<Summary>, at user(streamer);
        [read] past_live(streamer: &UserId, of: &LiveEpoch) -> Option<Summary>, at user(streamer);
    }
}

calls! {
    LeaseStore {
        [write] renew_lease(renewal: &RenewLease) -> LeaseReply, at list();
        [write] end_lease(gateway: &GatewayId) -> (), at list();
    }
}

calls! {
    Streamers {
        [write] claim_live(streamer: &UserId, live: &LiveId, limits: ClaimLimits) -> Claimed, at user(streamer);
        [write] release_live(streamer: &UserId, live: &LiveId, until: UnixMillis) -> (), at user(streamer);
    }
}

calls! {
    StreamStore {
        [read] load_streams(live: &LiveId) -> KnownStreams, at live(live);
        [write] write_streams(request: &WriteStreams) -> StreamsReply, at live(&request.live);
        [write] note_publishing(digest: &str, publishing: &Publishing, lifetime: Duration) -> (), at list();
        [read] find_publishing(digest: &str) -> Option<Publishing>, at list();
    }
}

calls! {
    Moderation {
        [write] remove_user(request: &RemoveUser) -> RemoveReply, at live(&request.live);
        [write] lift_ban(request: &LiftBan) -> LiftReply, at live(&request.live);
        [read] removals_since(live: &LiveId, epoch: Epoch, since: u64) -> Option<Removals>, at live(live);
        [read] bans_page(live: &LiveId, after: Option<&Ban>, limit: usize) -> Vec<Ban>, at live(live);
        [write] restore_bans(live: &LiveId, epoch: Epoch, bans: &[(UserId, Duration)]) -> (), at live(live);
    }
}

calls! {
    Events {
        [write] append_events(events: &[Event], kept: u64) -> (), at list();
        [write] drop_old_events(ages: &EventAges) -> (), at list();
        [write] settle_events(appended: &[(LiveId, Vec<u64>)]) -> (), at list();
        [write] note_counts(live: &LiveId, epoch: Epoch) -> NotedCounts, at live(live);
        [write] read_events(request: &ReadEvents) -> SenderTurn, at list();
        [write] acknowledge_events(queue: &WebhookQueue, entries: &[EntryId]) -> (), at list();
        [write] bury_event(
            queue: &WebhookQueue,
            gateway: &GatewayId,
            entry: EntryId,
            dead: &DeadEvent,
            kept: u64
        ) -> BuryReply, at list();
        [write] end_sending(queue: &WebhookQueue, gateway: &GatewayId) -> (), at list();
        [read] dead_events(
            webhook: &WebhookName,
            after: Option<EntryId>,
            limit: usize
        ) -> Vec<(EntryId, DeadEvent)>, at list();
        [write] replay_dead(webhook: &WebhookName, entry: EntryId) -> bool, at list();
        [read] events_after(after: EntryId, until: UnixMillis) -> Vec<StreamEvent>, at list();
        [write] replay_events(webhook: &WebhookName, events: &[Event], kept: u64) -> (), at list();
    }
}

calls! {
    Deliveries {
        [write] note_deliveries(webhook: &WebhookName, deliveries: &[Delivery]) -> (), at list();
        [read] deliveries(
            webhook: &WebhookName,
            before: Option<EntryId>,
            limit: usize
        ) -> Vec<(EntryId, Delivery)>, at list();
        [read] webhook_status(webhook: &WebhookName) -> WebhookStatus, at list();
    }
}

calls! {
    Follows {
        [write] follow(user: &UserId, streamer: &UserId) -> bool, at user(user);
        [write] unfollow(user: &UserId, streamer: &UserId) -> bool, at user(user);
        [read] follows(streamer: &UserId, users: &[UserId]) -> Vec<bool>, at user(streamer);
        [read] follow_count(user: &UserId, edge: Edge) -> u64, at user(user);
        [write] finish_changes() -> FinishedChanges, at list();
        [read] newest_followed(user: &UserId, most: usize) -> Vec<UserId>, at user(user);
        [read] follow_page(user: &UserId, edge: Edge, after: Option<&Followed>, limit: usize)
            -> Vec<Followed>, at user(user);
        else
        async fn follows_each(&self, asked: &[(UserId, Vec<UserId>)]) -> Vec<StoreResult<Vec<bool>>> {
            let mut answers = Vec::with_capacity(asked.len());
            for (streamer, users) in asked {
                answers.push(self.follows(streamer, users).await);
            }
            answers
        }

        async fn are_following(&self, pairs: &[(UserId, UserId)]) -> Vec<StoreResult<bool>> {
            batches!(self, read are_following(pairs), pairs, |(_, streamer)| self.user(streamer))
        }
    }
}

calls! {
    Profiles {
        [write] put_profile(user: &UserId, login: &Login, name: &str) -> PutProfile, at user(user);
        [read] profile(user: &UserId) -> Option<Profile>, at user(user);
    }
}

calls! {
    Statuses {
        [write] put_post(status: &StatusId, post: &Post) -> Post, at list();
        [write] drop_post(status: &StatusId) -> bool, at list();
        [read] count_posts(author: &UserId) -> u64, at user(author);
        else
        async fn posts(&self, statuses: &[StatusId]) -> Vec<StoreResult<Option<Post>>> {
            batches!(self, read posts(statuses), statuses, |_| self.list())
        }
    }
}

calls! {
    Timelines {
        [read] timeline_len(timeline: &Timeline) -> u64, at list();
        [write] add_to_timelines(entry: &Entry, to: &[Timeline], looked: Instant) -> (), at list();
        [write] add_entries(timeline: &Timeline, entries: &[Entry]) -> (), at list();
        [write] remove_from_timelines(status: &StatusId, from: &[Timeline]) -> (), at list();
        [write] remove_entries(timeline: &Timeline, statuses: &[StatusId]) -> (), at list();
        else
        async fn read_timelines(
            &self,
            asked: &[(Timeline, Option<Entry>)],
            limit: usize,
        ) -> Vec<StoreResult<Vec<Entry>>> {
            batches!(self, read read_timelines(asked, limit), asked, |_| self.list())
        }

        async fn are_on_timelines(&self, asked: &[(Timeline, StatusId)]) -> Vec<StoreResult<bool>> {
            batches!(self, read are_on_timelines(asked), asked, |_| self.list())
        }
    }
}

calls! {
    Erasures {
        [write] ask_erasure(user: &UserId) -> ErasureId, at list();
        [read] erasure(id: &ErasureId) -> Option<Erasure>, at list();
        [read] erasure_news(after: UnixMillis) -> ErasureNews, at list();
        [write] take_erasure(worker: &GatewayId) -> Option<TakenErasure>, at list();
        [write] keep_erasure(worker: &GatewayId, taken: &TakenErasure) -> bool, at list();
        [write] finish_erasure(worker: &GatewayId, taken: &TakenErasure) -> (), at list();
        [write] erase_some(user: &UserId, place: &str) -> ErasedSome, at list();
    }
}

calls! {
    Answers {
        [write] claim_answer(name: &AnswerName, claim: &str, keep: Duration) -> Option<String>, at list();
        [write] keep_answer(name: &AnswerName, claim: &str, answer: &str, keep: Duration) -> String, at list();
    }
}

calls! {
    SessionEnds {
        [write] end_sessions(ended: &[EndedSession], message: &str) -> (), at list();
        [read] ended_sessions(keys: &[SessionKey]) -> Vec<EndedSession>, at list();
    }
}

calls! {
    SharedSecrets {
        [write] share_secrets(own: &[String]) -> Vec<String>, at list();
    }
}

calls! {
    UserLists {
        [write] put_in_list(owner: &UserId, list: &ListName, member: &UserId) -> PutInList, at user(owner);
        [write] take_out_of_list(owner: &UserId, list: &ListName, member: &UserId) -> bool, at user(owner);
        [read] list_members(owner: &UserId, list: &ListName) -> Vec<UserId>, at user(owner);
    }
}

calls! {
    FanoutJobs {
        [write] enqueue_fanout(job: &Job) -> (), at list();
        [write] take_fanouts(worker: &GatewayId, most: usize) -> TakenJobs, at list();
        [write] keep_fanout(worker: &GatewayId, job: &TakenJob) -> bool, at list();
        [write] finish_fanout(worker: &GatewayId, job: &TakenJob) -> (), at list();
        [read] is_being_added(status: &StatusId) -> bool, at list();
        [read] pulled_authors() -> Vec<(UserId, UnixMillis)>, at list();
        [read] pulled_since(author: &UserId) -> Option<UnixMillis>, at list();
        [write] set_pulled(author: &UserId, since: Option<UnixMillis>) -> (), at list();
    }
}

calls! {
    LastSeen {
        [write] fix_seen_ids(ids: SeenIds) -> SeenIds, at list();
        [write] note_seen(seen: &[(UserId, UnixMillis)], apart: Duration) -> Vec<(UserId, UnixMillis)>, at list();
        [read] seen_in_slice(slice: u32, from: UnixMillis, after: Option<&Seen>, limit: usize)
            -> Vec<Seen>, at number(slice);
        [write] forget_seen(slice: u32, before: UnixMillis) -> u64, at number(slice);
        else
        fn seen_order(&self) -> SeenIds {
            self.seen_ids
        }
    }
}

calls! {
    OnlineUsers {
        [read] count_online(span: Span) -> OnlineCount, at list();
        [read] presence_of(users: &[UserId]) -> Vec<UserPresence>, at users(users);
        [read] whereabouts_of(users: &[UserId]) -> Vec<Whereabouts>, at users(users);
    }
}

calls! {
    Attendance {
        [write] fix_attendance_form(form: AttendanceForm) -> AttendanceForm, at list();
        [write] begin_attendance(of: &LiveEpoch, attended: &Attended) -> (), at live(&of.live);
        [write] note_attendance(of: &LiveEpoch, users: &[UserId]) -> Vec<UserId>, at live(&of.live);
        [write] end_attendance(of: &LiveEpoch, closed_at: UnixMillis) -> (), at live(&of.live);
        [read] attended(of: &LiveEpoch) -> Option<Attended>, at live(&of.live);
        [read] attended_lives(streamer: &UserId, from: UnixMillis, limit: usize) -> Vec<LiveEpoch>, at user(streamer);
        [read] attendance_parts(lives: &[LiveEpoch]) -> Vec<u32>, at list();
        [read] attendees(which: Attending, lives: &[LiveEpoch], part: u32) -> Attendees, at list();
        [read] have_attended(of: &LiveEpoch, users: &[UserId]) -> Vec<bool>, at live(&of.live);
        [read] attendance_due(now: UnixMillis, limit: usize) -> Vec<LiveEpoch>, at list();
        [write] renew_attendance(of: &LiveEpoch, attended: &Attended, next: UnixMillis) -> (), at live(&of.live);
        [write] forget_attendance(of: &LiveEpoch, attended: Option<&Attended>) -> (), at live(&of.live);
    }
}

calls! {
    LatestStays {
        [read] latest_sessions(of: &LiveEpoch, slices: u32, users: &[UserId]) -> Vec<Option<Stay>>, at live(&of.live);
    }
}

calls! {
    Sessions {
        [read] count_sessions(of: &LiveEpoch, slices: u32, span: Span) -> u64, at live(&of.live);
        [read] sessions_in_slice(
            of: &LiveEpoch,
            slice: &SliceId,
            from: UnixMillis,
            after: Option<&SessionPlace>,
            limit: usize
        ) -> Vec<Session>, at slice(slice);
        [read] were_there(of: &LiveEpoch, attended: &Attended, users: &[UserId], span: Span)
            -> Vec<bool>, at live(&of.live);
    }
}

#[async_trait]
impl Bus for Link {
    async fn publish(&self, channel: &Channel, message: String) -> StoreResult<u64> {
        let node = match channel {
            Channel::Live(live) | Channel::Moves(live) => self.live(live),
            Channel::Gateways | Channel::Echo(_) => self.list(),
        };
        let call = Call {
            name: "publish",
            link: self.number,
            node,
            writes: false,
        };
        let (network, from, channel) = (self.network.clone(), self.number, channel.clone());
        let run = move |_: &MemoryStore| Ok(network.spread(Some(from), &channel, &message));
        self.network.call(call, run, Err).await
    }

    fn subscribe(&self, live: &LiveId) {
        self.network
            .subscribe(self.number, Channel::Live(live.clone()));
    }

    fn unsubscribe(&self, live: &LiveId) {
        self.network
            .unsubscribe(self.number, &Channel::Live(live.clone()));
    }

    fn hear_moves(&self, live: &LiveId) {
        self.network
            .subscribe(self.number, Channel::Moves(live.clone()));
    }

    fn ignore_moves(&self, live: &LiveId) {
        self.network
            .unsubscribe(self.number, &Channel::Moves(live.clone()));
    }

    fn ask_ready(&self, channel: &Channel) {
        self.network.ask_ready(self.number, channel);
    }

    fn events(&self) -> BusEvents {
        self.network.events(self.number)
    }

    fn unheard(&self) -> watch::Receiver<Option<Doubt>> {
        self.network.unheard(self.number)
    }
}

impl Status for Link {
    fn health(&self) -> watch::Receiver<Health> {
        self.network.health(self.number)
    }

    fn parts(&self) -> watch::Receiver<Arc<Parts>> {
        self.network.parts(self.number)
    }

    fn doubts(&self) -> Doubts {
        self.network.doubts(self.number)
    }

    fn slot_of_live(&self, live: &LiveId) -> Slot {
        Slot(self.live(live) as u16)
    }

    fn slot_of_slice(&self, slice: &SliceId) -> Slot {
        Slot(self.slice(slice) as u16)
    }

    fn kind(&self) -> &'static str {
        "simulated"
    }
}

impl WholeStore for Link {
    fn for_clients(self: Arc<Self>) -> Arc<dyn WholeStore> {
        self
    }
}
