//! The answers that the embedded store keeps, as plain data.

use std::collections::HashMap;

use crate::base::clock::UnixMillis;
use crate::store::AnswerName;

/// An answer, or the claim to one.
#[derive(Debug)]
struct Kept {
    text: String,
    until: UnixMillis,
}

#[derive(Debug, Default)]
pub(super) struct KeptAnswers(HashMap<AnswerName, Kept>);

impl KeptAnswers {
    pub(super) fn get(&self, name: &AnswerName) -> Option<&str> {
        self.0.get(name).map(|kept| kept.text.as_str())
    }

    pub(super) fn put(&mut self, name: &AnswerName, text: &str, until: UnixMillis) {
        let text = text.to_owned();
        self.0.insert(name.clone(), Kept { text, until });
    }

    /// Forgets the answers whose time is over.
    pub(super) fn forget(&mut self, now: UnixMillis) {
        self.0.retain(|_, kept| kept.until > now);
    }

    /// Forgets the answers that are meant. Answers how many there were.
    pub(super) fn erase(&mut self, is_meant: impl Fn(&str) -> bool) -> u64 {
        let before = self.0.len();
        self.0.retain(|_, kept| !is_meant(&kept.text));
        (before - self.0.len()) as u64
    }
}
