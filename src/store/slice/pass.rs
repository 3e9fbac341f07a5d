//! A pass over a slice: it drops the claims of dead gateways, and brings the public sets in line
//! with the claims. So it repairs both what a crash leaves and what another program writes.

use std::collections::HashMap;

use super::StoredSlice;
use super::entry::EntryToken;
use crate::base::clock::UnixMillis;
use crate::base::ids::{Group, UserId};
use crate::store::slices::{Drift, Pass, PassCursor, PassPhase, Passed, SliceEntry};

/// About as many users are looked at in a part of a pass.
const PASS_PAGE: usize = 500;

/// What one page did.
#[derive(Default)]
struct PassPage {
    /// The cursor of the next page of this phase.
    next: Option<u64>,
    looked: usize,
    /// Claims that were taken out: those of dead gateways, and those of nobody.
    released: u64,
    ownerless: u64,
    drift: Drift,
}

/// Whose each token is; one that is missing is nobody's.
type Owners = HashMap<EntryToken, Owner>;

/// A gateway with an entry.
enum Owner {
    Living,
    Dead { last_heard: UnixMillis },
}

impl StoredSlice {
    /// Makes a part of a pass; see [`crate::store::Slices::pass`]. The caller must know that the
    /// dead gateways were buried.
    pub fn pass(&mut self, pass: &Pass, now: UnixMillis) -> Option<Passed> {
        self.departed.clear();
        if self.fence.is_none() && (self.has_keys() || pass.known.version > 0) {
            self.begin(pass.epoch, pass.known, now);
        }
        if !self.is_open_in(pass.epoch) {
            return None;
        }
        let rebuild = self.counted.rebuild;
        self.guard(pass.known, pass.wrong, now);
        let mut has_changed = pass.from.is_none() && self.mark_dead(pass);
        let mut passed = Passed {
            next: Some(pass.from.unwrap_or(PassCursor {
                phase: PassPhase::Claims,
                cursor: 0,
            })),
            size: self.size(),
            released: 0,
            drift: Drift::default(),
        };
        let mut looked = 0;
        while let Some(at) = passed.next
            && looked < PASS_PAGE
        {
            let page = match at.phase {
                PassPhase::Claims => self.pass_claims(pass, at.cursor, now),
                PassPhase::Members => self.pass_group(Group::All, pass, at.cursor, now),
                PassPhase::Fans => self.pass_group(Group::Fans, pass, at.cursor, now),
            };
            has_changed |= page.has_changed();
            looked += page.looked;
            passed.released += page.released;
            passed.drift.stray += page.drift.stray;
            passed.drift.missing += page.drift.missing;
            passed.next = self.place_after(pass, at.phase, page.next);
            if passed.next.is_none() && at.phase == PassPhase::Fans {
                self.compare_sizes(pass, now);
            }
        }
        if passed.next.is_none() {
            has_changed |= self.drop_dead(pass);
        }
        if has_changed || self.counted.rebuild != rebuild {
            self.move_on(now);
        }
        passed.size = self.size();
        Some(passed)
    }

    /// Marks the entries of dead gateways, so that none of their calls that are still under way
    /// makes a claim. Returns whether there were any.
    fn mark_dead(&mut self, pass: &Pass) -> bool {
        let mut has_changed = false;
        for (gateway, _) in &pass.dead {
            if let Some(entry) = self.entries.get_mut(gateway) {
                has_changed |= entry.state != SliceEntry::Dead;
                entry.state = SliceEntry::Dead;
            }
        }
        has_changed
    }

    /// Drops the marked entries of dead gateways, who have no claims any more. Returns whether
    /// there were any.
    fn drop_dead(&mut self, pass: &Pass) -> bool {
        let mut has_changed = false;
        for (gateway, _) in &pass.dead {
            if self.entry(gateway) == Some(SliceEntry::Dead) {
                self.drop_entry(gateway);
                has_changed = true;
            }
        }
        has_changed
    }

    /// Drops the claims on a page of users that are no living gateway's. Then brings the public
    /// sets in line with the other claims on these users.
    fn pass_claims(&mut self, pass: &Pass, cursor: u64, now: UnixMillis) -> PassPage {
        let found = self.who.page(cursor, PASS_PAGE);
        let mut page = PassPage {
            next: found.next,
            looked: found.users.len(),
            drift: self.drift_among(&found.users),
            ..PassPage::default()
        };
        if self.is_unexplained(page.drift) {
            self.forget(pass.known, now);
            return PassPage::default();
        }
        let owners = self.owners(pass, now);
        for user in &found.users {
            self.drop_unowned(user, &owners, &mut page, now);
        }
        page
    }

    /// How the public sets differ from the claims on these users. In a rebuild they may.
    fn drift_among(&self, users: &[UserId]) -> Drift {
        let mut drift = Drift::default();
        if self.is_in_rebuild() {
            return drift;
        }
        for user in users {
            let claimed = self.claimed(user);
            let is_fan = self.fans.contains(user);
            drift.missing += u64::from(self.is_shown(user) && !self.members.contains(user));
            drift.missing += u64::from(claimed.is_fan && !is_fan);
            drift.stray += u64::from(!claimed.is_fan && is_fan);
        }
        drift
    }

    /// Whether there is a drift although all sizes agree. Then nobody can tell whether another
    /// program wrote to the public sets or to the claims.
    fn is_unexplained(&self, drift: Drift) -> bool {
        drift != Drift::default() && !self.differs()
    }

    /// Drops the claims on a user that are no living gateway's, and shows the others.
    fn drop_unowned(
        &mut self,
        user: &UserId,
        owners: &Owners,
        page: &mut PassPage,
        now: UnixMillis,
    ) {
        let mut unowned = Vec::new();
        let mut last_here = 0;
        for (token, _) in self.claims_on(user) {
            let last_heard = match owners.get(&token) {
                Some(Owner::Living) => continue,
                Some(Owner::Dead { last_heard }) => {
                    page.released += 1;
                    *last_heard
                }
                None => {
                    page.ownerless += 1;
                    now
                }
            };
            last_here = last_here.max(last_heard);
            unowned.push(token);
        }
        for token in unowned {
            self.change_claims(user, |claims| claims.retract(token));
        }
        if self.is_in_rebuild() {
            return;
        }
        self.show(user);
        self.leave_unless_claimed(user, last_here);
        self.show_fan(user);
    }

    /// Whose the tokens of the slice are. A dead gateway that the pass does not know was heard now.
    fn owners(&self, pass: &Pass, now: UnixMillis) -> Owners {
        let mut owners = Owners::new();
        for (gateway, entry) in &self.entries {
            let owner = if entry.state == SliceEntry::Dead {
                let known = pass.dead.iter().find(|(dead, _)| dead == gateway);
                let last_heard = known.map_or(now, |(_, last_heard)| *last_heard);
                Owner::Dead { last_heard }
            } else {
                Owner::Living
            };
            owners.insert(entry.token, owner);
        }
        owners
    }

    /// Takes the users on a page of a public set out of it on whom there is no such claim.
    fn pass_group(&mut self, group: Group, pass: &Pass, cursor: u64, now: UnixMillis) -> PassPage {
        if self.is_in_rebuild() {
            return PassPage::default();
        }
        let found = self.members_of(group).page(cursor, PASS_PAGE);
        let looked = found.users.len();
        let mut strays = found.users;
        strays.retain(|user| match group {
            Group::All => !self.is_shown(user),
            Group::Fans => !self.claimed(user).is_fan,
        });
        let drift = Drift {
            stray: strays.len() as u64,
            missing: 0,
        };
        if self.is_unexplained(drift) {
            self.forget(pass.known, now);
            return PassPage::default();
        }
        for stray in &strays {
            match group {
                Group::All => self.remove_member(stray, now),
                Group::Fans => _ = self.fans.remove(stray),
            }
        }
        PassPage {
            next: found.next,
            looked,
            drift,
            ..PassPage::default()
        }
    }

    /// A whole pass leaves as many members and fans as the claims say. If the calls have counted
    /// other numbers of fans or guests, another program wrote a claim in the place of another one.
    fn compare_sizes(&mut self, pass: &Pass, now: UnixMillis) {
        if !self.is_in_rebuild() && self.differs() {
            self.forget(pass.known, now);
        }
    }

    /// Where the pass goes on after a page. In a rebuild nobody leaves the public sets, so the pass
    /// ends with the claims.
    fn place_after(&self, pass: &Pass, phase: PassPhase, next: Option<u64>) -> Option<PassCursor> {
        if let Some(cursor) = next {
            return Some(PassCursor { phase, cursor });
        }
        if pass.only_claims || self.is_in_rebuild() {
            return None;
        }
        let has_fans = pass.slice.set.groups().contains(&Group::Fans);
        let phase = match phase {
            PassPhase::Claims => PassPhase::Members,
            PassPhase::Members if has_fans => PassPhase::Fans,
            PassPhase::Members | PassPhase::Fans => return None,
        };
        Some(PassCursor { phase, cursor: 0 })
    }
}

impl PassPage {
    fn has_changed(&self) -> bool {
        self.released + self.ownerless > 0 || self.drift != Drift::default()
    }
}
