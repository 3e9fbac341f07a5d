//! What the embedded store forgets by itself, as plain data.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

use crate::base::clock::UnixMillis;

/// A value that is forgotten at a time.
#[derive(Debug, Clone)]
pub(crate) struct ExpiringValue<V> {
    pub(crate) value: V,
    pub(crate) until: UnixMillis,
}

/// Values by their names, each until its time is over.
#[derive(Debug, Clone)]
pub(crate) struct Expiring<K, V> {
    kept: HashMap<K, ExpiringValue<V>>,
    /// The same, in the order in which they are due to be forgotten.
    due: BTreeSet<(UnixMillis, K)>,
}

impl<K, V> Default for Expiring<K, V> {
    fn default() -> Self {
        Self {
            kept: HashMap::new(),
            due: BTreeSet::new(),
        }
    }
}

impl<K: Clone + Eq + Hash + Ord, V: Clone> Expiring<K, V> {
    /// What is kept under a name. Forgets whatever is due.
    pub(crate) fn get(&mut self, name: &K, now: UnixMillis) -> Option<V> {
        while let Some((until, due)) = self.due.first().cloned()
            && until <= now
        {
            self.remove(&due);
        }
        Some(self.kept.get(name)?.value.clone())
    }

    pub(crate) fn put(&mut self, name: &K, value: V, until: UnixMillis) {
        self.remove(name);
        self.kept
            .insert(name.clone(), ExpiringValue { value, until });
        self.due.insert((until, name.clone()));
    }

    fn remove(&mut self, name: &K) {
        if let Some(kept) = self.kept.remove(name) {
            self.due.remove(&(kept.until, name.clone()));
        }
    }

    /// Puts another value in the place of those that are meant. Answers how many there were.
    pub(crate) fn replace(&mut self, by: &V, is_meant: impl Fn(&V) -> bool) -> u64 {
        let mut replaced = 0;
        for kept in self.kept.values_mut() {
            if is_meant(&kept.value) {
                kept.value = by.clone();
                replaced += 1;
            }
        }
        replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_due_is_forgotten_and_what_was_replaced_is_there_until_then() {
        let mut answers = Expiring::default();
        answers.put(&1, "claim", 10);
        answers.put(&1, "answer", 20);
        answers.put(&2, "other", 15);
        assert_eq!(answers.get(&1, 14), Some("answer"));
        assert_eq!(answers.get(&2, 15), None);
        assert_eq!((answers.kept.len(), answers.due.len()), (1, 1));
        assert_eq!(answers.replace(&"erased", |text| *text == "answer"), 1);
        assert_eq!(answers.get(&1, 19), Some("erased"));
        assert_eq!(answers.get(&1, 20), None);
        assert!(answers.kept.is_empty() && answers.due.is_empty());
    }
}
