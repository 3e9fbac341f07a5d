//! The rules of moderation that this gateway knows: who is banned from the platform or by a streamer,
//! who moderates for a streamer, and whose tokens were revoked. Every join asks here, so no join
//! waits for the store. `features/moderation` reads the rules from the store and notes them here.
//!
//! A rule is one text, `<name>\n<what it says>`, in one allocation: there may be a million bans. The
//! store says until when a ban runs by its own clock, and a look at the store says what time it is
//! there.

use std::borrow::Borrow;
use std::cmp::Ordering as Order;
use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::{Notify, watch};

use crate::base::actor::Actor;
use crate::base::clock::{AtomicMoment, Millis, Moment, UnixMillis};
use crate::base::identity::Role;
use crate::base::ids::UserId;

/// How old the last look at the store may be when a join is answered, as long as the store answers,
/// in ms. A gateway looks each second.
const FRESH: Millis = 2_500;

/// What a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RuleName {
    /// The user may not come to the platform.
    Ban(UserId),
    /// The user may not come to the lives of a streamer.
    StreamerBan {
        /// The streamer.
        streamer: UserId,
        /// Who is banned.
        user: UserId,
    },
    /// The user moderates in the lives of a streamer.
    Moderator {
        /// The streamer.
        streamer: UserId,
        /// Who moderates.
        user: UserId,
    },
    /// The user's tokens that were issued before the rule was made are refused.
    Revoked(UserId),
}

impl RuleName {
    /// Reads what `Display` writes; ids have no spaces.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let letter = parts.next()?;
        let first = UserId::parse(parts.next()?).ok()?;
        let second = match parts.next() {
            Some(id) => Some(UserId::parse(id).ok()?),
            None => None,
        };
        if parts.next().is_some() {
            return None;
        }
        match (letter, second) {
            ("b", None) => Some(Self::Ban(first)),
            ("r", None) => Some(Self::Revoked(first)),
            ("s", Some(user)) => Some(Self::StreamerBan {
                streamer: first,
                user,
            }),
            ("m", Some(user)) => Some(Self::Moderator {
                streamer: first,
                user,
            }),
            _ => None,
        }
    }

    /// The user whom the rule is about.
    pub fn user(&self) -> &UserId {
        match self {
            Self::Ban(user) | Self::Revoked(user) => user,
            Self::StreamerBan { user, .. } | Self::Moderator { user, .. } => user,
        }
    }

    /// The streamer in whose lives the rule holds; `None` if it holds everywhere.
    pub fn streamer(&self) -> Option<&UserId> {
        match self {
            Self::Ban(_) | Self::Revoked(_) => None,
            Self::StreamerBan { streamer, .. } | Self::Moderator { streamer, .. } => Some(streamer),
        }
    }

    /// Whether this actor made the rule as a moderator, and not as the streamer or a back end.
    pub fn is_by_moderator(&self, by: Option<&Actor>) -> bool {
        match by {
            Some(Actor::Bearer(role, by)) => *role != Role::Service && Some(by) != self.streamer(),
            Some(Actor::Key(_)) | None => false,
        }
    }

    /// The kind, for events and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Ban(_) => "ban",
            Self::StreamerBan { .. } => "streamer_ban",
            Self::Moderator { .. } => "moderator",
            Self::Revoked(_) => "tokens_revoked",
        }
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ban(user) => write!(f, "b {user}"),
            Self::StreamerBan { streamer, user } => write!(f, "s {streamer} {user}"),
            Self::Moderator { streamer, user } => write!(f, "m {streamer} {user}"),
            Self::Revoked(user) => write!(f, "r {user}"),
        }
    }
}

/// Which rules a list is about.
#[derive(Debug, Clone, Copy)]
pub enum RuleList<'a> {
    /// Those of the platform.
    Bans,
    /// Those of a streamer.
    StreamerBans(&'a UserId),
    /// Those of a streamer.
    Moderators(&'a UserId),
}

impl RuleList<'_> {
    /// The begin of the names of its rules; what follows is the user.
    fn prefix(self) -> String {
        match self {
            Self::Bans => "b ".to_owned(),
            Self::StreamerBans(streamer) => format!("s {streamer} "),
            Self::Moderators(streamer) => format!("m {streamer} "),
        }
    }
}

/// What a rule says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleTerms {
    /// When it ends, by the store's clock; `None`: never.
    pub until: Option<UnixMillis>,
    /// When it was made, by the store's clock.
    pub at: UnixMillis,
    /// Who made it; `None` if the gateway asked for no credentials, or the actor was erased.
    pub by: Option<Actor>,
    /// A text for people.
    pub reason: Option<String>,
}

impl RuleTerms {
    /// Reads what `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(4, ' ');
        let until = parts.next()?.parse().ok()?;
        let at = parts.next()?.parse().ok()?;
        let by = parts.next()?;
        let reason = parts.next().unwrap_or_default();
        Some(Self {
            until: (until > 0).then_some(until),
            at,
            by: Actor::parse(by),
            reason: (!reason.is_empty()).then(|| reason.to_owned()),
        })
    }

    /// Whether the rule is over at this time of the store.
    pub fn is_over(&self, now: UnixMillis) -> bool {
        self.until.is_some_and(|until| until <= now)
    }
}

impl fmt::Display for RuleTerms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.until.unwrap_or(0), self.at)?;
        match &self.by {
            Some(by) => write!(f, "{by}")?,
            None => f.write_str("-")?,
        }
        match &self.reason {
            Some(reason) => write!(f, " {reason}"),
            None => Ok(()),
        }
    }
}

/// A ban that runs, for the client whom it keeps out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningBan {
    /// Whether it is one of the platform.
    pub is_everywhere: bool,
    /// Whether a moderator made it, and neither the streamer nor a back end.
    pub by_moderator: bool,
    /// When it ends, in Unix milliseconds; `None`: never.
    pub until: Option<UnixMillis>,
    /// A text for people.
    pub reason: Option<String>,
}

impl fmt::Display for RunningBan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_everywhere {
            "this user is banned"
        } else {
            "this user is banned from the lives of this streamer"
        })?;
        match self.until {
            Some(until) => write!(f, " until {until} (Unix ms)")?,
            None => f.write_str(" without an end")?,
        }
        match &self.reason {
            Some(reason) => write!(f, ": {reason}"),
            None => Ok(()),
        }
    }
}

/// A rule, ordered and found by its name.
#[derive(Debug)]
struct RuleLine(Box<str>);

impl RuleLine {
    fn new(name: &str, terms: &str) -> Self {
        Self(format!("{name}\n{terms}").into_boxed_str())
    }

    fn parts(&self) -> (&str, &str) {
        self.0.split_once('\n').unwrap_or((&self.0, ""))
    }

    fn name(&self) -> &str {
        self.parts().0
    }

    fn terms(&self) -> Option<RuleTerms> {
        RuleTerms::parse(self.parts().1)
    }
}

impl Borrow<str> for RuleLine {
    fn borrow(&self) -> &str {
        self.name()
    }
}

impl PartialEq for RuleLine {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for RuleLine {}

impl PartialOrd for RuleLine {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for RuleLine {
    fn cmp(&self, other: &Self) -> Order {
        self.name().cmp(other.name())
    }
}

/// All rules, while they are read from the store.
#[derive(Debug, Default)]
pub struct RuleSet(BTreeSet<RuleLine>);

impl RuleSet {
    /// Notes what a rule says; `None` if there is no such rule.
    pub fn note(&mut self, name: &str, terms: Option<&str>) {
        match terms {
            Some(terms) => {
                self.0.replace(RuleLine::new(name, terms));
            }
            None => {
                self.0.remove(name);
            }
        }
    }

    fn has(&self, letters: &[&str]) -> bool {
        letters.iter().any(|letter| self.from(letter).is_some())
    }

    /// The first rule whose name begins so.
    fn from(&self, prefix: &str) -> Option<&RuleLine> {
        let first = self.range(prefix).next()?;
        first.name().starts_with(prefix).then_some(first)
    }

    /// The rules from this name on.
    fn range(&self, begin: &str) -> impl Iterator<Item = &RuleLine> {
        self.0
            .range::<str, _>((Bound::Included(begin), Bound::Unbounded))
    }
}

/// The rules that this gateway knows.
#[derive(Debug)]
pub struct KnownRules {
    /// Whether there may be bans. Without any, a join takes no lock; so it is with the others.
    has_bans: AtomicBool,
    has_moderators: AtomicBool,
    has_revoked: AtomicBool,
    known: RwLock<RuleSet>,
    /// The store's time when this gateway's clock stood at 0.
    store_start: AtomicU64,
    /// Whether something reads the rules here. Joins wait for it.
    expected: AtomicBool,
    /// Whether they were read.
    is_known: AtomicBool,
    /// When the last look began that had an answer.
    looked_at: AtomicMoment,
    /// Looks that began before this may have missed what others did.
    doubted_at: AtomicMoment,
    /// How many looks have ended, with an answer or without one.
    looks: watch::Sender<u64>,
    wanted: Notify,
}

impl Default for KnownRules {
    fn default() -> Self {
        Self {
            has_bans: AtomicBool::new(false),
            has_moderators: AtomicBool::new(false),
            has_revoked: AtomicBool::new(false),
            known: RwLock::default(),
            store_start: AtomicU64::new(0),
            expected: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            looked_at: AtomicMoment::new(Moment::START),
            doubted_at: AtomicMoment::new(Moment::START),
            looks: watch::Sender::new(0),
            wanted: Notify::new(),
        }
    }
}

impl KnownRules {
    // ------------------------------------------------------------------ the questions of the core

    /// The ban that keeps a user from the platform.
    pub fn ban(&self, user: &UserId, now: Moment) -> Option<RunningBan> {
        if !self.has_bans.load(Ordering::Acquire) {
            return None;
        }
        self.running(&RuleName::Ban(user.clone()), now)
    }

    /// The ban that keeps a user from the lives of a streamer.
    pub fn ban_by(&self, streamer: &UserId, user: &UserId, now: Moment) -> Option<RunningBan> {
        if !self.has_bans.load(Ordering::Acquire) {
            return None;
        }
        let by_streamer = RuleName::StreamerBan {
            streamer: streamer.clone(),
            user: user.clone(),
        };
        self.ban(user, now)
            .or_else(|| self.running(&by_streamer, now))
    }

    /// The ban that keeps a host of a live out of it: a moderator's keeps no host out.
    pub fn ban_of_host(&self, streamer: &UserId, user: &UserId, now: Moment) -> Option<RunningBan> {
        self.ban_by(streamer, user, now)
            .filter(|ban| !ban.by_moderator)
    }

    fn running(&self, name: &RuleName, now: Moment) -> Option<RunningBan> {
        let terms = self.terms(name)?;
        if terms.is_over(self.store_time(now)) {
            return None;
        }
        Some(RunningBan {
            is_everywhere: matches!(name, RuleName::Ban(_)),
            by_moderator: name.is_by_moderator(terms.by.as_ref()),
            until: terms.until,
            reason: terms.reason,
        })
    }

    /// Whether anybody moderates for anybody.
    pub fn has_moderators(&self) -> bool {
        self.has_moderators.load(Ordering::Acquire)
    }

    /// Whether a user moderates in the lives of a streamer.
    pub fn is_moderator(&self, streamer: &UserId, user: &UserId) -> bool {
        let name = || RuleName::Moderator {
            streamer: streamer.clone(),
            user: user.clone(),
        };
        self.has_moderators() && self.terms(&name()).is_some()
    }

    /// Whether a token that was issued at this time is refused; `None` if it does not say when it
    /// was issued.
    pub fn is_revoked(&self, user: &UserId, issued_at: Option<UnixMillis>) -> bool {
        if !self.has_revoked.load(Ordering::Acquire) {
            return false;
        }
        match self.terms(&RuleName::Revoked(user.clone())) {
            Some(terms) => issued_at.is_none_or(|issued| issued < terms.at),
            None => false,
        }
    }

    // ----------------------------------------------------------------------------- whole rules

    /// What a rule says, even if it is over.
    pub fn terms(&self, name: &RuleName) -> Option<RuleTerms> {
        let known = self.known.read();
        known.0.get(name.to_string().as_str())?.terms()
    }

    /// Up to `limit` running rules of a list, by the id of the user, after this one.
    pub fn page(
        &self,
        list: RuleList<'_>,
        after: Option<&UserId>,
        limit: usize,
        now: Moment,
    ) -> Vec<(UserId, RuleTerms)> {
        let prefix = list.prefix();
        let begin = match after {
            // The first name that is greater than that of the user.
            Some(user) => format!("{prefix}{user}\0"),
            None => prefix.clone(),
        };
        let now = self.store_time(now);
        let known = self.known.read();
        let mut page = Vec::new();
        for line in known.range(&begin) {
            let Some(user) = line.name().strip_prefix(&prefix) else {
                break;
            };
            if page.len() == limit {
                break;
            }
            if let (Ok(user), Some(terms)) = (UserId::parse(user), line.terms())
                && !terms.is_over(now)
            {
                page.push((user, terms));
            }
        }
        page
    }

    /// How many running rules a list has, up to `most`.
    pub fn count(&self, list: RuleList<'_>, most: usize, now: Moment) -> usize {
        self.page(list, None, most, now).len()
    }

    /// How many rules there are.
    pub fn total(&self) -> usize {
        self.known.read().0.len()
    }

    /// Up to `limit` rules as the store keeps them, in the order of their names, after this name.
    pub fn texts(&self, after: Option<&str>, limit: usize) -> Vec<(String, String)> {
        let begin = match after {
            Some(name) => format!("{name}\0"),
            None => String::new(),
        };
        let known = self.known.read();
        let lines = known.range(&begin).take(limit);
        lines
            .map(|line| {
                let (name, terms) = line.parts();
                (name.to_owned(), terms.to_owned())
            })
            .collect()
    }

    // -------------------------------------------------------------------- what the store tells

    /// Notes changes of rules.
    pub fn change(&self, changes: &[(String, Option<String>)]) {
        let mut known = self.known.write();
        for (name, terms) in changes {
            known.note(name, terms.as_deref());
        }
        self.note_kinds(&known);
    }

    /// Takes these rules in the place of all.
    pub fn replace(&self, rules: RuleSet) {
        let mut known = self.known.write();
        let former = std::mem::replace(&mut *known, rules);
        self.note_kinds(&known);
        drop(known);
        // It may be large, and nobody needs to wait for it.
        drop(former);
    }

    fn note_kinds(&self, known: &RuleSet) {
        let has = |letters| known.has(letters);
        self.has_bans.store(has(&["b ", "s "]), Ordering::Release);
        self.has_moderators.store(has(&["m "]), Ordering::Release);
        self.has_revoked.store(has(&["r "]), Ordering::Release);
    }

    /// Forgets the rules that are over among the `count` after this name. Returns where to go on;
    /// `None` at the end.
    pub fn forget_over(&self, after: Option<&str>, count: usize, now: Moment) -> Option<String> {
        let now = self.store_time(now);
        let some = self.texts(after, count);
        let over: Vec<(String, Option<String>)> = some
            .iter()
            .filter(|(_, terms)| RuleTerms::parse(terms).is_some_and(|it| it.is_over(now)))
            .map(|(name, _)| (name.clone(), None))
            .collect();
        if !over.is_empty() {
            self.change(&over);
        }
        if some.len() < count {
            return None;
        }
        some.into_iter().last().map(|(name, _)| name)
    }

    /// The store's time.
    pub fn store_time(&self, now: Moment) -> UnixMillis {
        self.store_start.load(Ordering::Relaxed) + now.as_millis()
    }

    /// Notes what time the store has.
    pub fn note_store_time(&self, store: UnixMillis, now: Moment) {
        let start = store.saturating_sub(now.as_millis());
        self.store_start.store(start, Ordering::Relaxed);
    }

    // ---------------------------------------------------------------------- looks at the store

    /// From now on joins wait until the rules are known.
    pub fn expect(&self) {
        self.expected.store(true, Ordering::Release);
    }

    /// Whether joins may be answered: the rules were read at least once, or nothing reads them.
    pub fn are_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire) || !self.expected.load(Ordering::Acquire)
    }

    /// Whether the last look at the store is too long ago, or in doubt.
    pub fn are_stale(&self, now: Moment) -> bool {
        let looked_at = self.looked_at.load();
        let is_in_doubt = looked_at < self.doubted_at.load();
        self.expected.load(Ordering::Acquire)
            && (!self.are_known() || is_in_doubt || now.since(looked_at) > FRESH)
    }

    /// The store was away, or may have lost writes: the next join waits for a look that begins
    /// later.
    pub fn doubt(&self, now: Moment) {
        self.doubted_at.advance(now);
        self.want_look();
    }

    /// Notes the end of a look that began at this time; `None` if the store had no answer.
    pub fn note_look(&self, began: Option<Moment>) {
        if let Some(began) = began {
            self.looked_at.advance(began);
            self.is_known.store(true, Ordering::Release);
        }
        self.looks.send_modify(|looks| *looks += 1);
    }

    /// Asks for a look at the store now.
    pub fn want_look(&self) {
        self.wanted.notify_one();
    }

    /// Waits until somebody asks for a look.
    pub async fn look_wanted(&self) {
        self.wanted.notified().await;
    }

    /// Waits until a look ends that began at this time or later, or until `most` looks have ended,
    /// or so much time is over.
    pub async fn look_after(&self, asked: Moment, most: u32, within: Duration) {
        if !self.expected.load(Ordering::Acquire) {
            return;
        }
        let mut looks = self.looks.subscribe();
        let looking = async {
            for _ in 0..most {
                self.want_look();
                if looks.changed().await.is_err() || self.looked_at.load() >= asked {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(within, looking).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock::moment;
    use crate::base::identity::Role;

    fn user(id: &str) -> UserId {
        UserId::parse(id).unwrap()
    }

    fn ban(until: u64) -> Option<String> {
        Some(format!("{until} 1 key:backend much noise"))
    }

    fn by_streamer(streamer: &str, banned: &str) -> String {
        let (streamer, user) = (user(streamer), user(banned));
        RuleName::StreamerBan { streamer, user }.to_string()
    }

    #[test]
    fn names_and_terms_are_read_back_as_they_were_written() {
        let (streamer, user) = (user("s:1@x"), user("u1"));
        for name in [
            RuleName::Ban(user.clone()),
            RuleName::StreamerBan {
                streamer: streamer.clone(),
                user: user.clone(),
            },
            RuleName::Moderator {
                streamer,
                user: user.clone(),
            },
            RuleName::Revoked(user.clone()),
        ] {
            assert_eq!(RuleName::parse(&name.to_string()), Some(name));
        }
        for text in [
            "",
            "b",
            "b ",
            "b u1 u2",
            "s u1",
            "s u1 u2 u3",
            "x u1",
            "b {u}",
        ] {
            assert_eq!(RuleName::parse(text), None, "{text}");
        }
        for terms in [
            RuleTerms {
                until: Some(7),
                at: 5,
                by: Some(Actor::Bearer(Role::Viewer, user)),
                reason: Some("two  words".to_owned()),
            },
            RuleTerms {
                until: None,
                at: 0,
                by: None,
                reason: None,
            },
        ] {
            assert_eq!(RuleTerms::parse(&terms.to_string()), Some(terms));
        }
        assert_eq!(RuleTerms::parse("x 1 -"), None);
    }

    #[test]
    fn a_ban_keeps_a_user_out_until_it_ends_by_the_clock_of_the_store() {
        let rules = KnownRules::default();
        let [ann, bob, sam] = ["ann", "bob", "sam"].map(user);
        rules.note_store_time(10_000, moment(1_000));
        assert_eq!(rules.ban_by(&sam, &ann, moment(1_000)), None);
        rules.change(&[
            ("b ann".to_owned(), ban(12_000)),
            (by_streamer("sam", "bob"), ban(0)),
        ]);
        let running = rules.ban_by(&sam, &ann, moment(2_999)).unwrap();
        assert!(running.is_everywhere);
        assert_eq!(
            running.to_string(),
            "this user is banned until 12000 (Unix ms): much noise"
        );
        assert_eq!(rules.ban(&ann, moment(3_000)), None, "it is over");
        assert_eq!(rules.ban(&bob, moment(3_000)), None, "by the streamer only");
        let running = rules.ban_by(&sam, &bob, moment(u64::MAX / 2)).unwrap();
        assert_eq!((running.is_everywhere, running.until), (false, None));
        assert_eq!(
            rules.ban_by(&ann, &bob, moment(0)),
            None,
            "another streamer"
        );
        // What is over is forgotten, a few rules at a time.
        assert_eq!(
            rules.forget_over(None, 1, moment(3_000)).as_deref(),
            Some("b ann")
        );
        assert_eq!(rules.forget_over(Some("b ann"), 9, moment(3_000)), None);
        assert_eq!(rules.total(), 1);
        rules.change(&[(by_streamer("sam", "bob"), None)]);
        assert!(!rules.has_bans.load(Ordering::Relaxed) && rules.total() == 0);
    }

    #[test]
    fn tokens_of_before_are_refused_and_later_ones_are_good() {
        let rules = KnownRules::default();
        let ann = user("ann");
        assert!(!rules.is_revoked(&ann, None));
        rules.change(&[("r ann".to_owned(), Some("0 5000 -".to_owned()))]);
        assert!(rules.is_revoked(&ann, Some(4_999)) && rules.is_revoked(&ann, None));
        assert!(!rules.is_revoked(&ann, Some(5_000)));
        assert!(!rules.is_revoked(&user("an"), Some(0)));
    }

    #[test]
    fn pages_have_the_running_rules_of_one_list_only() {
        let rules = KnownRules::default();
        let sam = user("sam");
        let mut all = RuleSet::default();
        for (name, terms) in [
            (by_streamer("sam", "u1"), ban(0)),
            (by_streamer("sam", "u10"), ban(5)),
            (by_streamer("sam", "u2"), ban(90)),
            (by_streamer("sam.2", "u3"), ban(0)),
            (by_streamer("sa", "u4"), ban(0)),
            ("b u9".to_owned(), ban(0)),
            ("m sam u7".to_owned(), ban(0)),
        ] {
            all.note(&name, terms.as_deref());
        }
        rules.replace(all);
        rules.note_store_time(10, moment(0));
        let list = |list, after: Option<&str>, limit| -> Vec<String> {
            let after = after.map(user);
            let page = rules.page(list, after.as_ref(), limit, moment(0));
            page.into_iter().map(|(user, _)| user.to_string()).collect()
        };
        assert_eq!(list(RuleList::StreamerBans(&sam), None, 9), ["u1", "u2"]);
        assert_eq!(list(RuleList::StreamerBans(&sam), None, 1), ["u1"]);
        assert_eq!(list(RuleList::StreamerBans(&sam), Some("u1"), 9), ["u2"]);
        assert_eq!(list(RuleList::Bans, None, 9), ["u9"]);
        assert_eq!(list(RuleList::Moderators(&sam), None, 9), ["u7"]);
        assert!(rules.is_moderator(&sam, &user("u7")));
        assert!(!rules.is_moderator(&sam, &user("u1")));
        assert_eq!(rules.texts(Some("m sam u7"), 2).len(), 2);
    }

    /// Of a ban with ids of ten bytes and no reason, this is the text; the tree adds 16 bytes for
    /// each, and is at least half full.
    #[test]
    fn a_ban_is_small() {
        assert_eq!(size_of::<RuleLine>(), 16);
        let ban = RuleLine::new("b user-00001", "1732000600000 1732000000000 key:backend");
        assert!(ban.0.len() <= 56, "{}", ban.0.len());
    }

    #[tokio::test(start_paused = true)]
    async fn joins_wait_for_a_look_that_is_fresh() {
        let rules = KnownRules::default();
        assert!(
            rules.are_known() && !rules.are_stale(moment(9_999)),
            "nothing reads them"
        );
        rules.expect();
        assert!(!rules.are_known() && rules.are_stale(moment(0)));
        rules.note_look(Some(moment(100)));
        assert!(rules.are_known() && !rules.are_stale(moment(2_600)));
        assert!(rules.are_stale(moment(2_601)));
        rules.doubt(moment(200));
        assert!(rules.are_stale(moment(201)), "the look began before");
        let looked = async {
            for began in [None, Some(moment(2_000)), Some(moment(3_000))] {
                rules.look_wanted().await;
                rules.note_look(began);
            }
        };
        let waited = rules.look_after(moment(2_700), 5, Duration::from_secs(9));
        tokio::join!(waited, looked);
        assert!(!rules.are_stale(moment(5_000)));
        // Nobody looks any more.
        rules
            .look_after(moment(9_000), 2, Duration::from_secs(9))
            .await;
    }
}
