//! Permits with a bound on the permits that are held with the same key. The map contains a key only
//! while a permit with it is held, so the map is never larger than the number of permits.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// Maps of up to this capacity are not worth shrinking.
const FEW: usize = 64;

#[derive(Debug)]
pub(crate) struct KeyedPermits {
    most: u32,
    held: Mutex<HashMap<u64, u32>>,
}

/// The right to be one of the few with a key; its drop returns it.
#[derive(Debug)]
pub(crate) struct KeyedPermit {
    permits: Arc<KeyedPermits>,
    key: u64,
}

impl KeyedPermits {
    pub(crate) fn new(most: u32) -> Arc<Self> {
        Arc::new(Self {
            most,
            held: Mutex::default(),
        })
    }

    /// A permit, unless as many as allowed are held with this key.
    pub(crate) fn acquire(self: &Arc<Self>, key: u64) -> Option<KeyedPermit> {
        let mut keys = self.held.lock();
        let held = keys.entry(key).or_insert(0);
        // An entry that was just made is below the bound, so no refusal leaves one behind.
        if *held >= self.most {
            return None;
        }
        *held += 1;
        Some(KeyedPermit {
            permits: self.clone(),
            key,
        })
    }
}

impl Drop for KeyedPermit {
    fn drop(&mut self) {
        let mut keys = self.permits.held.lock();
        let Some(held) = keys.get_mut(&self.key) else {
            return;
        };
        *held -= 1;
        if *held == 0 {
            keys.remove(&self.key);
            if keys.capacity() > FEW.max(4 * keys.len()) {
                let room = 2 * keys.len();
                keys.shrink_to(room);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_than_the_bound_are_held_with_one_key() {
        let permits = KeyedPermits::new(2);
        let first = permits.acquire(1).unwrap();
        let _second = permits.acquire(1).unwrap();
        assert!(permits.acquire(1).is_none());
        assert!(permits.acquire(2).is_some());
        drop(first);
        assert!(permits.acquire(1).is_some());
    }

    #[test]
    fn keys_vanish_with_their_permits() {
        let permits = KeyedPermits::new(1);
        let herd: Vec<_> = (0..10_000)
            .map(|key| permits.acquire(key).unwrap())
            .collect();
        assert_eq!(permits.held.lock().len(), 10_000);
        drop(herd);
        let keys = permits.held.lock();
        assert!(
            keys.is_empty() && keys.capacity() <= FEW,
            "{} keys, room for {}",
            keys.len(),
            keys.capacity()
        );
    }

    #[test]
    fn a_permit_is_small() {
        assert_eq!(size_of::<Option<KeyedPermit>>(), 16);
    }
}
