//! The keys of the core and of all features.

use crate::base::key_prefix::KeyPrefix;
use crate::store::redis::erasing::AllErasers;
use crate::store::redis::family::{AllFamilies, Names};
use crate::store::redis::keys::Keys;

#[test]
fn every_key_is_of_one_family_and_one_installation() {
    let installations =
        ["", "app:", "app:rollcall:"].map(|prefix| Keys::new(KeyPrefix::parse(prefix).unwrap(), 0));
    let mut known = 0;
    for (at, keys) in installations.iter().enumerate() {
        for key in keys.one_of_each() {
            for (reads, other) in installations.iter().enumerate() {
                let mut families = other.families();
                families.retain(|family| other.read(family, &key).is_some());
                assert_eq!(
                    families.len(),
                    usize::from(at == reads),
                    "{key}: {families:?}"
                );
                known += families.len();
            }
        }
    }
    assert!(known >= 3 * Keys::default().families().len());
}

#[test]
fn who_names_users_in_a_way_of_its_own_has_an_eraser() {
    let keys = Keys::default();
    let mut families = keys.families();
    families.retain(|family| matches!(family.names, Names::Otherwise | Names::Large));
    let mut named: Vec<&str> = families.iter().map(|family| family.name).collect();
    let erasers = keys.erasers();
    let mut erased: Vec<&str> = erasers.iter().map(|(family, _)| family.name).collect();
    named.sort_unstable();
    erased.sort_unstable();
    assert_eq!(named, erased);
}
