//! What features keep in the embedded store, each under a lock of its own. The store does not know
//! what it is.

use std::any::{Any, TypeId};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use parking_lot::{ArcMutexGuard, Mutex, RawMutex};

use crate::base::ids::{LiveId, UserId};
use crate::store::{ErasedSome, LiveEpoch};

/// What a feature keeps.
pub(crate) trait State: Clone + Default + Send + 'static {
    /// Removes all that names the user, and tells what it was.
    fn erase(&mut self, erasure: &mut StateErasure<'_>);
}

/// The erasure of a user from the states of features.
pub(crate) struct StateErasure<'a> {
    pub(crate) user: &'a UserId,
    /// The lives that the user owns.
    pub(crate) lives: HashSet<LiveId>,
    /// Those of them that are closed. Their records are erased.
    pub(crate) closed: Vec<LiveId>,
    /// The epochs whose stays the core is to forget.
    pub(crate) forgotten: Vec<LiveEpoch>,
    /// What was found so far.
    pub(crate) step: ErasedSome,
}

/// The state of a feature, locked.
pub(crate) type StateGuard<T> = ArcMutexGuard<RawMutex, T>;

type AnyState = Arc<dyn Any + Send + Sync>;

/// The state of one feature, how to copy it, and how to erase a user from it.
#[derive(Clone)]
struct FeatureState {
    value: AnyState,
    copy: fn(&AnyState) -> AnyState,
    erase: fn(&AnyState, &mut StateErasure<'_>),
}

fn copy<T: State>(value: &AnyState) -> AnyState {
    match value.downcast_ref::<Mutex<T>>() {
        Some(value) => Arc::new(Mutex::new(value.lock().clone())),
        None => value.clone(),
    }
}

fn erase<T: State>(value: &AnyState, erasure: &mut StateErasure<'_>) {
    if let Some(value) = value.downcast_ref::<Mutex<T>>() {
        value.lock().erase(erasure);
    }
}

/// The states of features, by their types.
#[derive(Default)]
pub(crate) struct States(Mutex<HashMap<TypeId, FeatureState>>);

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("States").field(&self.0.lock().len()).finish()
    }
}

impl States {
    /// The state of this type; its default if there is none.
    pub(crate) fn lock<T: State>(&self) -> StateGuard<T> {
        let value = self
            .0
            .lock()
            .entry(TypeId::of::<T>())
            .or_insert_with(|| FeatureState {
                value: Arc::new(Mutex::new(T::default())),
                copy: copy::<T>,
                erase: erase::<T>,
            })
            .value
            .clone();
        let value = value
            .downcast::<Mutex<T>>()
            .unwrap_or_else(|_| unreachable!("each value lies under its own type"));
        value.lock_arc()
    }

    /// A copy of all states.
    pub(crate) fn copied(&self) -> Self {
        let states = self.0.lock();
        let mut copied = states.clone();
        for state in copied.values_mut() {
            state.value = (state.copy)(&state.value);
        }
        Self(Mutex::new(copied))
    }

    /// Erases a user from all states. Locks one after the other.
    pub(crate) fn erase(&self, erasure: &mut StateErasure<'_>) {
        let states: Vec<FeatureState> = self.0.lock().values().cloned().collect();
        for state in states {
            (state.erase)(&state.value, erasure);
        }
    }

    /// Sets all states back to a copy.
    pub(crate) fn restore(&self, copied: Self) {
        *self.0.lock() = copied.0.into_inner();
    }
}
