//! The queues of changed rooms and slices, which the loops in `sync`, `peers` and `dashboards`
//! drain. A queue does not hold the changes: each room or slice is in it once, so it is bounded,
//! and the loop looks at the present state when it comes.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The items that wait for one loop.
#[derive(Debug)]
pub struct Queue<T> {
    waiting: Mutex<Vec<T>>,
    notify: Notify,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            notify: Notify::new(),
        }
    }
}

impl<T> Queue<T> {
    pub fn push(&self, item: T) {
        self.waiting.lock().push(item);
        self.notify.notify_one();
    }

    /// Pushes an item unless it is queued already, which costs only one atomic operation.
    pub fn push_once(&self, queued: &Queued, item: impl FnOnce() -> T) {
        if !queued.0.swap(true, Ordering::AcqRel) {
            self.push(item());
        }
    }

    pub fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.waiting.lock())
    }

    pub fn len(&self) -> usize {
        self.waiting.lock().len()
    }

    /// Waits for a push after the last wait.
    pub async fn wait(&self) {
        self.notify.notified().await;
    }
}

/// An item's mark for one queue: whether the item is in it.
#[derive(Debug, Default)]
pub struct Queued(AtomicBool);

impl Queued {
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    /// Clears the mark. The caller does so before it reads the item's state, so that a later change
    /// queues the item again.
    pub fn clear(&self) {
        self.0.store(false, Ordering::Release);
    }
}
