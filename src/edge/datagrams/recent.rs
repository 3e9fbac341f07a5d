//! A table of fixed size that remembers something about sessions or addresses for a moment. A new
//! entry takes the place of an older one, which is then forgotten early.

/// How many entries there are.
const PLACES: usize = 4_096;

/// Keys are as good as hashes: nobody outside can choose them.
#[derive(Debug)]
pub(super) struct Recent<V>(Box<[Option<(u64, V)>]>);

impl<V: Copy> Default for Recent<V> {
    fn default() -> Self {
        Self(vec![None; PLACES].into())
    }
}

impl<V: Copy> Recent<V> {
    pub(super) fn get(&self, key: u64) -> Option<V> {
        match self.0[place(key)] {
            Some((of, value)) if of == key => Some(value),
            _ => None,
        }
    }

    pub(super) fn put(&mut self, key: u64, value: V) {
        self.0[place(key)] = Some((key, value));
    }
}

fn place(key: u64) -> usize {
    key as usize % PLACES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_entry_of_a_place_is_remembered() {
        let mut recent = Recent::default();
        recent.put(7, 'a');
        recent.put(8, 'b');
        assert_eq!((recent.get(7), recent.get(8)), (Some('a'), Some('b')));
        let shares_the_place = 7 + PLACES as u64;
        assert_eq!(recent.get(shares_the_place), None);
        recent.put(shares_the_place, 'c');
        assert_eq!(
            (recent.get(7), recent.get(shares_the_place)),
            (None, Some('c'))
        );
    }
}
