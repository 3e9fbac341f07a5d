//! What features keep in the embedded store, each under a lock of its own. The store does not know
//! what it is.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::{ArcMutexGuard, Mutex, RawMutex};

/// The state of a feature, locked.
pub(crate) type StateGuard<T> = ArcMutexGuard<RawMutex, T>;

type AnyState = Arc<dyn Any + Send + Sync>;

/// The state of one feature, and how to copy it.
struct State {
    value: AnyState,
    copy: fn(&AnyState) -> AnyState,
}

fn copy<T: Clone + Send + 'static>(value: &AnyState) -> AnyState {
    match value.downcast_ref::<Mutex<T>>() {
        Some(value) => Arc::new(Mutex::new(value.lock().clone())),
        None => value.clone(),
    }
}

/// The states of features, by their types.
#[derive(Default)]
pub(crate) struct States(Mutex<HashMap<TypeId, State>>);

impl fmt::Debug for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("States").field(&self.0.lock().len()).finish()
    }
}

impl States {
    /// The state of this type; its default if there is none.
    pub(crate) fn lock<T: Clone + Default + Send + 'static>(&self) -> StateGuard<T> {
        let value = self
            .0
            .lock()
            .entry(TypeId::of::<T>())
            .or_insert_with(|| State {
                value: Arc::new(Mutex::new(T::default())),
                copy: copy::<T>,
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
        let copied = states.iter().map(|(id, state)| {
            let value = (state.copy)(&state.value);
            (
                *id,
                State {
                    value,
                    copy: state.copy,
                },
            )
        });
        Self(Mutex::new(copied.collect()))
    }

    /// Sets all states back to a copy.
    pub(crate) fn restore(&self, copied: Self) {
        *self.0.lock() = copied.0.into_inner();
    }
}
