//! Keeps what this gateway knows of the rules like the store: looks at the store each second, at
//! once when a gateway says that rules changed, and when a join finds that the last look is too old.
//! Then it ends what a new rule forbids.
//!
//! A store that has lost the rules is told those that this gateway knows. They hold here meanwhile.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::store::{ModerationStore, RESTORED_AT_ONCE, RULES_PAGE, RulesPage, RulesPlace};
use crate::base::clock::Moment;
use crate::base::ids::UserId;
use crate::peers::core::Core;
use crate::presence::Room;
use crate::presence::conn::Signals;
use crate::presence::rules::{RuleList, RuleName, RuleSet, RuleTerms};
use crate::session::context::SessionContext;
use crate::store::{StoreError, StoreResult};

/// How often a gateway looks whether rules changed.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How many rules are looked at after each look, whether they are over.
const FORGET_AT_ONCE: usize = 2_000;

/// How many sessions are looked at before other tasks have a turn.
const IN_A_ROW: usize = 1_000;

/// How often reading all rules begins anew in one look, because the store lost them meanwhile.
const MOST_TRIES: usize = 3;

pub(crate) struct RuleKeeper {
    pub(crate) core: Arc<Core>,
    store: Arc<dyn ModerationStore>,
    sessions: Arc<SessionContext>,
    state: Mutex<KeeperState>,
}

#[derive(Debug, Default)]
struct KeeperState {
    /// How far the rules are known; `None` before the first look.
    place: Option<RulesPlace>,
    /// The rule that changed last, as far as is known; `None` if there is none.
    newest: Option<NewestRule>,
    /// After which rule to look next whether it is over.
    forgotten_to: Option<String>,
}

/// A rule, with the number of its last change. A store that came back without its last writes lacks
/// it, however many changes were made there since.
#[derive(Debug, Clone)]
struct NewestRule {
    name: String,
    number: u64,
    /// What it says; `None` if it was lifted.
    terms: Option<RuleTerms>,
}

impl NewestRule {
    /// That of a page; `None` if the page has no changes.
    fn of(page: &RulesPage) -> Option<Self> {
        let (name, says) = page.changes.last()?;
        Some(Self {
            name: name.clone(),
            number: page.read_to,
            terms: says.as_deref().and_then(RuleTerms::parse),
        })
    }
}

impl RuleKeeper {
    pub(crate) fn new(
        core: Arc<Core>,
        store: Arc<dyn ModerationStore>,
        sessions: Arc<SessionContext>,
    ) -> Self {
        Self {
            core,
            store,
            sessions,
            state: Mutex::default(),
        }
    }

    /// Runs until told to stop.
    pub(crate) async fn run(self, stop: CancellationToken) {
        loop {
            self.look_and_carry_out().await;
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.core.rules.look_wanted() => {}
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    pub(crate) async fn look_and_carry_out(&self) {
        let began = self.core.clock.now();
        let looked = self.look().await;
        self.core.metrics.rules.set(self.core.rules.total() as i64);
        match looked {
            Ok(()) => self.core.rules.note_look(Some(began)),
            Err(error) => {
                tracing::debug!(%error, "the rules of moderation were not read, will try again");
                self.core.rules.note_look(None);
            }
        }
        let from = self.state.lock().forgotten_to.take();
        let now = self.core.clock.now();
        let next = self
            .core
            .rules
            .forget_over(from.as_deref(), FORGET_AT_ONCE, now);
        self.state.lock().forgotten_to = next;
    }

    /// Reads what changed since the last look, and carries it out.
    async fn look(&self) -> StoreResult<()> {
        let (known, newest) = {
            let state = self.state.lock();
            (state.place.clone(), state.newest.clone())
        };
        let Some(known) = known else {
            return self.read_all().await;
        };
        let mut place = known;
        // The newest rule is read again: the store must have it.
        let mut since = match &newest {
            Some(newest) => newest.number.saturating_sub(1),
            None => place.last,
        };
        loop {
            let page = self.page(since).await?;
            let is_older = page.place.name != place.name || page.place.last < place.last;
            if is_older || self.lacks(&page, newest.as_ref()) {
                self.give_back(&place).await?;
                return self.read_all().await;
            }
            if place.last < page.floor {
                return self.read_all().await;
            }
            let fresh = match page.changes.split_first() {
                Some((first, others)) if self.is_known(first) => others,
                _ => &page.changes,
            };
            self.core.rules.change(fresh);
            place.last = reached(&page);
            since = place.last;
            {
                let mut state = self.state.lock();
                state.place = Some(place.clone());
                if let Some(newest) = NewestRule::of(&page) {
                    state.newest = Some(newest);
                }
            }
            // Before the next page, which may have no answer.
            self.carry_out(fresh).await;
            if page.changes.len() < RULES_PAGE {
                return Ok(());
            }
        }
    }

    /// Whether a page from the newest rule on must have that rule, and has not.
    fn lacks(&self, page: &RulesPage, newest: Option<&NewestRule>) -> bool {
        let Some(newest) = newest else {
            return false;
        };
        // It changed again, which may be told on a later page; or what was left of it is gone.
        let may_be_elsewhere = page.changes.len() >= RULES_PAGE || page.floor >= newest.number;
        if may_be_elsewhere || page.changes.iter().any(|(name, _)| *name == newest.name) {
            return false;
        }
        let now = self.core.rules.store_time(self.core.clock.now());
        let terms = newest.terms.as_ref();
        // One that is over may be dropped at any time.
        terms.is_none_or(|terms| !terms.is_over(now))
    }

    /// Whether a rule says what this gateway knows.
    fn is_known(&self, (name, says): &(String, Option<String>)) -> bool {
        let says = says.as_deref().and_then(RuleTerms::parse);
        let name = RuleName::parse(name);
        name.is_some_and(|name| self.core.rules.terms(&name) == says)
    }

    /// Reads all rules, which take the place of those that are known, and carries them out.
    async fn read_all(&self) -> StoreResult<()> {
        for _ in 0..MOST_TRIES {
            if let Some((rules, place, newest)) = self.read_once().await? {
                self.core.rules.replace(rules);
                {
                    let mut state = self.state.lock();
                    (state.place, state.newest) = (Some(place), newest);
                }
                self.carry_out_all().await;
                return Ok(());
            }
        }
        let why = "the rules of moderation are lost again and again";
        Err(StoreError::Nonsense(why.to_owned()))
    }

    /// `None` if the store lost the rules meanwhile.
    async fn read_once(&self) -> StoreResult<Option<(RuleSet, RulesPlace, Option<NewestRule>)>> {
        let mut rules = RuleSet::default();
        let mut newest = None;
        let mut place: Option<RulesPlace> = None;
        loop {
            let since = place.as_ref().map_or(0, |place| place.last);
            let page = self.page(since).await?;
            let is_another = place
                .as_ref()
                .is_some_and(|place| place.name != page.place.name);
            if is_another || page.place.last < since {
                return Ok(None);
            }
            for (name, says) in &page.changes {
                rules.note(name, says.as_deref());
            }
            newest = NewestRule::of(&page).or(newest);
            let is_last = page.changes.len() < RULES_PAGE;
            let now = RulesPlace {
                name: page.place.name.clone(),
                last: reached(&page),
            };
            if is_last {
                return Ok(Some((rules, now, newest)));
            }
            place = Some(now);
        }
    }

    async fn page(&self, since: u64) -> StoreResult<RulesPage> {
        let page = self.store.rules_since(since, RULES_PAGE).await?;
        let now = self.core.clock.now();
        self.core.rules.note_store_time(page.at, now);
        Ok(page)
    }

    /// Writes the rules that this gateway knows into a store that has lost them. Those of users who
    /// were erased since stay away.
    async fn give_back(&self, known: &RulesPlace) -> StoreResult<()> {
        let rules = &self.core.rules;
        let mut after: Option<String> = None;
        let mut given = 0;
        loop {
            let some = rules.texts(after.as_deref(), RESTORED_AT_ONCE);
            after = some.last().map(|(name, _)| name.clone());
            let is_last = some.len() < RESTORED_AT_ONCE;
            let now = self.core.clock.now();
            let kept: Vec<(String, String)> = some
                .into_iter()
                .filter(|(name, says)| self.is_worth_keeping(name, says, now))
                .collect();
            if !kept.is_empty() {
                self.store.restore_rules(known, &kept).await?;
                given += kept.len();
            }
            if is_last {
                break;
            }
        }
        if given > 0 {
            tracing::warn!(
                rules = given,
                "the store had lost rules of moderation; wrote them again"
            );
        }
        Ok(())
    }

    fn is_worth_keeping(&self, name: &str, says: &str, now: Moment) -> bool {
        let (Some(name), Some(terms)) = (RuleName::parse(name), RuleTerms::parse(says)) else {
            return false;
        };
        let erasing = &self.core.erasing;
        let is_erased =
            |user: &UserId| erasing.contains(user) || erasing.has_erased_since(user, terms.at);
        !terms.is_over(self.core.rules.store_time(now))
            && !is_erased(name.user())
            && !name.streamer().is_some_and(is_erased)
    }

    // --------------------------------------------------------------- what rules do to who is here

    async fn carry_out(&self, changes: &[(String, Option<String>)]) {
        let mut concerns_sessions = false;
        let mut moderators = HashSet::new();
        for (name, _) in changes {
            match RuleName::parse(name) {
                Some(RuleName::Ban(_) | RuleName::Revoked(_)) => concerns_sessions = true,
                Some(RuleName::StreamerBan { streamer, user }) => {
                    for room in self.core.rooms.of_streamer(&streamer) {
                        self.remove_banned(&room, &user);
                    }
                }
                Some(RuleName::Moderator { user, .. }) => {
                    moderators.insert(user);
                }
                None => {}
            }
        }
        if concerns_sessions || !moderators.is_empty() {
            self.carry_out_on_sessions(|user| moderators.contains(user))
                .await;
        }
    }

    async fn carry_out_all(&self) {
        self.carry_out_on_sessions(|_| true).await;
        for room in self.core.rooms.all() {
            let streamer = &room.record.streamer;
            let mut after: Option<UserId> = None;
            loop {
                let now = self.core.clock.now();
                let list = RuleList::StreamerBans(streamer);
                let some = self.core.rules.page(list, after.as_ref(), IN_A_ROW, now);
                for (user, _) in &some {
                    self.remove_banned(&room, user);
                }
                if some.len() < IN_A_ROW {
                    break;
                }
                after = some.into_iter().last().map(|(user, _)| user);
                tokio::task::yield_now().await;
            }
        }
    }

    /// Ends the sessions that may not go on, and has those look that may moderate now, or no longer.
    async fn carry_out_on_sessions(&self, may_moderate: impl Fn(&UserId) -> bool) {
        for conns in self.sessions.reaper.open_conns().chunks(IN_A_ROW) {
            for conn in conns {
                self.sessions.apply_rules(conn);
                if may_moderate(&conn.identity.user) {
                    conn.signal(Signals::YOU);
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Takes the seat of a user who is banned from the room. A join in between is either refused or
    /// found: the ban is known before.
    fn remove_banned(&self, room: &Arc<Room>, user: &UserId) {
        let now = self.core.clock.now();
        if room.kept_out(user, now).is_none() {
            return;
        }
        if room.remove_user(user, now) > 0 {
            self.core.rooms.user_changed(room, user);
        }
        if room.info.names_host(user) {
            // A host may also watch without a seat.
            room.signal_user(user, Signals::YOU);
        }
    }
}

/// The number up to which the changes are known after this page.
fn reached(page: &RulesPage) -> u64 {
    if page.changes.len() < RULES_PAGE {
        page.place.last
    } else {
        page.read_to
    }
}
