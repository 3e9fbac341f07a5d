//! A table of bounded size that remembers something about sessions or addresses for a moment. What
//! was put last is forgotten last, whatever the keys are: nobody makes the table forget one entry by
//! adding another that resembles it.

use std::collections::HashMap;
use std::mem;

/// How many of the newest entries are remembered at least. There are twice as many at most.
const REMEMBERED: usize = 2_048;

#[derive(Debug)]
pub(crate) struct Recent<V> {
    newer: HashMap<u64, V>,
    /// Forgotten all at once, when `newer` is full and takes its place.
    older: HashMap<u64, V>,
}

impl<V> Default for Recent<V> {
    fn default() -> Self {
        Self {
            newer: HashMap::new(),
            older: HashMap::new(),
        }
    }
}

impl<V: Copy> Recent<V> {
    pub(crate) fn get(&self, key: u64) -> Option<V> {
        let newest = self.newer.get(&key);
        newest.or_else(|| self.older.get(&key)).copied()
    }

    pub(crate) fn put(&mut self, key: u64, value: V) {
        self.newer.insert(key, value);
        if self.newer.len() == REMEMBERED {
            self.older = mem::take(&mut self.newer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANY: u64 = REMEMBERED as u64;

    #[test]
    fn the_newest_value_of_a_key_is_remembered() {
        let mut recent = Recent::default();
        recent.put(7, 'a');
        recent.put(8, 'b');
        recent.put(7, 'c');
        assert_eq!((recent.get(7), recent.get(8)), (Some('c'), Some('b')));
        assert_eq!(recent.get(9), None);
    }

    #[test]
    fn the_newest_entries_are_remembered_and_the_oldest_are_not() {
        let mut recent = Recent::default();
        for key in 0..10 * MANY {
            recent.put(key, key);
            let oldest_sure = (key + 1).saturating_sub(MANY);
            assert_eq!(recent.get(oldest_sure), Some(oldest_sure));
            assert_eq!(recent.get(key), Some(key));
            if let Some(forgotten) = key.checked_sub(2 * MANY) {
                assert_eq!(recent.get(forgotten), None);
            }
        }
    }
}
