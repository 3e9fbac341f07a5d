//! The answers that the embedded store keeps, as plain data.

use std::collections::{BTreeSet, HashMap};

use crate::base::clock::UnixMillis;
use crate::store::{AnswerName, ERASED_ANSWER};

/// An answer, or the claim to one.
#[derive(Debug)]
struct Kept {
    text: String,
    until: UnixMillis,
}

#[derive(Debug, Default)]
pub(super) struct KeptAnswers {
    kept: HashMap<AnswerName, Kept>,
    /// The same, in the order in which they are due to be forgotten.
    due: BTreeSet<(UnixMillis, AnswerName)>,
}

impl KeptAnswers {
    /// What is kept under a name. Forgets whatever is due.
    pub(super) fn get(&mut self, name: &AnswerName, now: UnixMillis) -> Option<String> {
        while let Some((until, due)) = self.due.first().cloned()
            && until <= now
        {
            self.remove(&due);
        }
        Some(self.kept.get(name)?.text.clone())
    }

    pub(super) fn put(&mut self, name: &AnswerName, text: &str, until: UnixMillis) {
        self.remove(name);
        let text = text.to_owned();
        self.kept.insert(name.clone(), Kept { text, until });
        self.due.insert((until, name.clone()));
    }

    fn remove(&mut self, name: &AnswerName) {
        if let Some(kept) = self.kept.remove(name) {
            self.due.remove(&(kept.until, name.clone()));
        }
    }

    /// Puts [`ERASED_ANSWER`] in the place of the answers that are meant. Answers how many there were.
    pub(super) fn erase(&mut self, is_meant: impl Fn(&str) -> bool) -> u64 {
        let mut erased = 0;
        for kept in self.kept.values_mut() {
            if is_meant(&kept.text) {
                kept.text = ERASED_ANSWER.to_owned();
                erased += 1;
            }
        }
        erased
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_forgotten_and_what_was_erased_says_so_until_then() {
        let mut answers = KeptAnswers::default();
        let [one, two] = [1, 2].map(|n| AnswerName::of_digest(&[n; 16]));
        answers.put(&one, "claim", 10);
        answers.put(&one, "answer", 20);
        answers.put(&two, "other", 15);
        assert_eq!(answers.get(&one, 14).as_deref(), Some("answer"));
        assert_eq!(answers.get(&two, 15), None);
        assert_eq!((answers.kept.len(), answers.due.len()), (1, 1));
        assert_eq!(answers.erase(|text| text == "answer"), 1);
        assert_eq!(answers.get(&one, 19).as_deref(), Some(ERASED_ANSWER));
        assert_eq!(answers.get(&one, 20), None);
        assert!(answers.kept.is_empty() && answers.due.is_empty());
    }
}
