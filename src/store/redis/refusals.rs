//! The refusals of one server, by its own sentences, and when the log must tell of them: at once,
//! then once a minute for as long as they last, and when they are over. Pure; `now` comes in.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The time between two log lines on a refusal that lasts.
const REMIND: Duration = Duration::from_secs(60);
/// A refusal is over when the server has not repeated it for this long. A write that waits for
/// Redis is retried every two seconds.
const OVER: Duration = Duration::from_secs(60);
/// Maximum sentences to tell apart; a further one counts by its first word.
const MOST: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct RefusalLog(Mutex<HashMap<String, ToldRefusal>>);

#[derive(Debug)]
struct ToldRefusal {
    last: Instant,
    told: Instant,
    /// Calls refused since the last log line.
    untold: u64,
}

impl RefusalLog {
    /// Notes that the server refused a call with this sentence. If a log line is due, returns the
    /// number of calls refused since the last one.
    pub(crate) fn note(&self, said: &str, now: Instant) -> Option<u64> {
        let mut refusals = self.0.lock();
        let kind = if refusals.len() < MOST || refusals.contains_key(said) {
            said
        } else {
            first_word(said)
        };
        let Some(refusal) = refusals.get_mut(kind) else {
            if refusals.len() < MOST * 2 {
                refusals.insert(
                    kind.to_owned(),
                    ToldRefusal {
                        last: now,
                        told: now,
                        untold: 0,
                    },
                );
            }
            return Some(1);
        };
        refusal.last = now;
        refusal.untold += 1;
        if now.duration_since(refusal.told) < REMIND {
            return None;
        }
        refusal.told = now;
        Some(std::mem::take(&mut refusal.untold))
    }

    /// The sentences with which the server has refused no call for a while. Returns each once.
    pub(crate) fn take_over(&self, now: Instant) -> Vec<String> {
        let mut refusals = self.0.lock();
        let over = refusals.extract_if(|_, refusal| now.duration_since(refusal.last) >= OVER);
        over.map(|(said, _)| said).collect()
    }
}

fn first_word(said: &str) -> &str {
    said.split(' ').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = "OOM command not allowed when used memory > 'maxmemory'.";

    #[test]
    fn each_sentence_is_told_at_once_and_then_once_a_minute() {
        let refusals = RefusalLog::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert_eq!(refusals.note(FULL, at(0)), Some(1));
        assert_eq!(refusals.note(FULL, at(1)), None);
        assert_eq!(
            refusals.note("NOREPLICAS Not enough good replicas to write.", at(1)),
            Some(1)
        );
        assert_eq!(refusals.note(FULL, at(59)), None);
        assert_eq!(refusals.note(FULL, at(60)), Some(3));
        assert_eq!(refusals.note(FULL, at(61)), None);
    }

    #[test]
    fn it_is_over_when_nothing_was_refused_for_a_minute() {
        let refusals = RefusalLog::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        refusals.note(FULL, at(0));
        refusals.note(FULL, at(30));
        assert!(refusals.take_over(at(89)).is_empty());
        assert_eq!(refusals.take_over(at(90)), [FULL]);
        assert!(refusals.take_over(at(91)).is_empty());
        assert_eq!(refusals.note(FULL, at(92)), Some(1), "it begins anew");
    }

    #[test]
    fn however_many_sentences_there_are_few_are_kept() {
        let refusals = RefusalLog::default();
        let now = Instant::now();
        for n in 0..1_000 {
            refusals.note(&format!("ERR number {n}"), now);
        }
        assert_eq!(refusals.0.lock().len(), MOST + 1);
        assert_eq!(refusals.note("ERR number 1001", now), None);
    }
}
