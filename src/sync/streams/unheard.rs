//! Ends of sessions that could not be written because the store was away. Most servers say once that
//! a session ended. The gateway keeps what they said in memory, and tries again; it is lost if the
//! gateway stops meanwhile.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::base::ids::LiveId;
use crate::store::Heard;

/// Ends that wait at a time. Later ones are lost.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub struct Unheard(Mutex<VecDeque<(LiveId, Heard)>>);

impl Unheard {
    /// Keeps an end. False if too many wait.
    pub fn keep(&self, live: &LiveId, heard: &Heard) -> bool {
        let mut waiting = self.0.lock();
        if waiting.len() >= MOST {
            return false;
        }
        waiting.push_back((live.clone(), heard.clone()));
        true
    }

    /// The end that waits longest.
    pub(super) fn next(&self) -> Option<(LiveId, Heard)> {
        self.0.lock().pop_front()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}
