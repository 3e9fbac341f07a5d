//! What a receiver of webhooks took, held against what happened.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use serde_json::Value;

use crate::report::RunReport;

/// What must have arrived of each live: that it opened, so many removals in their order, that it
/// closed.
pub(crate) struct ExpectedEvents {
    removed: usize,
    lives: Vec<String>,
}

impl ExpectedEvents {
    pub(crate) fn new(removed: usize) -> Self {
        Self {
            removed,
            lives: Vec::new(),
        }
    }

    pub(crate) fn live(&mut self, name: &str) {
        self.lives.push(name.to_owned());
    }

    fn story(&self) -> Vec<(String, Value)> {
        let removals = (0..self.removed)
            .map(|user| ("user.removed".to_owned(), Value::from(format!("u{user}"))));
        let opened = std::iter::once(("live.opened".to_owned(), Value::Null));
        opened
            .chain(removals)
            .chain([("live.closed".to_owned(), Value::Null)])
            .collect()
    }
}

/// An event as it was taken: what the receiver found wrong, or `ok`.
pub(crate) struct TakenEvent {
    verdict: String,
    event: Value,
}

/// Reads what the receiver wrote. A line that is being written is left out.
pub(crate) fn read(file: &str) -> anyhow::Result<Vec<TakenEvent>> {
    let text = std::fs::read_to_string(file).with_context(|| file.to_owned())?;
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(arrival_in).collect()
}

/// The arrival in a line of the receiver.
fn arrival_in(line: &str) -> anyhow::Result<TakenEvent> {
    let (verdict, body) = line.split_once(' ').context("a line without a body")?;
    Ok(TakenEvent {
        verdict: verdict.to_owned(),
        event: serde_json::from_str(body)?,
    })
}

#[derive(Debug, Serialize)]
pub(crate) struct ComparedArrivals {
    lives: usize,
    /// Events that had to arrive.
    expected: usize,
    /// Of these, those that did not.
    pub(crate) missing: usize,
    /// Requests that the receiver took.
    taken: usize,
    /// Of these, repeats of an event.
    repeats: usize,
    down_seconds: f64,
    /// From the moment in which the receiver was back.
    all_there_seconds: f64,
    #[serde(skip)]
    failures: Vec<String>,
}

impl ComparedArrivals {
    pub(crate) fn report(&self) -> anyhow::Result<RunReport> {
        let mut report = RunReport::of(self)?;
        for failure in &self.failures {
            report.must(false, failure);
        }
        Ok(report)
    }

    pub(crate) fn new(
        expected: &ExpectedEvents,
        taken: &[TakenEvent],
        (down, after): (Duration, Duration),
    ) -> Self {
        let mut failures = Vec::new();
        let mut known: HashMap<&str, &Value> = HashMap::new();
        let mut stories: HashMap<&str, Vec<(String, Value)>> = HashMap::new();
        let mut repeats = 0;
        for TakenEvent { verdict, event } in taken {
            let id = event["id"].as_str().unwrap_or_default();
            let live = event["live_id"].as_str().unwrap_or_default();
            let kind = event["type"].as_str().unwrap_or_default();
            if verdict != "ok" {
                failures.push(format!("{id}: a wrong {verdict}"));
            }
            if let Some(before) = known.insert(id, event) {
                repeats += 1;
                if before != event {
                    failures.push(format!("{id}: a repeat differs"));
                }
                continue;
            }
            stories
                .entry(live)
                .or_default()
                .push((kind.to_owned(), event["user_id"].clone()));
        }
        let right = expected.story();
        let mut missing = 0;
        for live in &expected.lives {
            let story = stories.remove(live.as_str()).unwrap_or_default();
            if story != right {
                missing += right.iter().filter(|event| !story.contains(event)).count();
                failures.push(format!("{live}: {story:?}"));
            }
        }
        failures.extend(stories.keys().map(|live| format!("{live}: no such live")));
        Self {
            lives: expected.lives.len(),
            expected: expected.lives.len() * right.len(),
            missing,
            taken: taken.len(),
            repeats,
            down_seconds: down.as_secs_f64(),
            all_there_seconds: after.as_secs_f64(),
            failures,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compared(events: &[(&str, Value)]) -> ComparedArrivals {
        let mut expected = ExpectedEvents::new(1);
        expected.live("a");
        let arrival = |(verdict, event): &(&str, Value)| TakenEvent {
            verdict: (*verdict).to_owned(),
            event: event.clone(),
        };
        let taken: Vec<TakenEvent> = events.iter().map(arrival).collect();
        ComparedArrivals::new(&expected, &taken, (Duration::ZERO, Duration::ZERO))
    }

    fn event(id: &str, kind: &str) -> Value {
        let mut event = json!({"id": id, "live_id": "a", "type": kind});
        if kind == "user.removed" {
            event["user_id"] = "u0".into();
        }
        event
    }

    #[test]
    fn equal_repeats_are_right_and_all_else_is_wrong() {
        let [opened, removed, closed] = [
            ("1", "live.opened"),
            ("2", "user.removed"),
            ("3", "live.closed"),
        ]
        .map(|(id, kind)| ("ok", event(id, kind)));
        let right = compared(&[
            opened.clone(),
            opened.clone(),
            removed.clone(),
            opened.clone(),
            closed.clone(),
        ]);
        assert_eq!(
            (right.failures.len(), right.missing, right.repeats),
            (0, 0, 2)
        );
        assert_eq!(compared(&[opened.clone(), closed.clone()]).missing, 1);
        assert_eq!(
            compared(&[opened.clone(), closed.clone(), removed.clone()])
                .failures
                .len(),
            1,
            "out of order"
        );
        let forged = ("signature", event("2", "user.removed"));
        assert_eq!(
            compared(&[opened.clone(), forged, closed.clone()])
                .failures
                .len(),
            1
        );
        let other = (
            "ok",
            json!({"id": "1", "live_id": "a", "type": "live.opened", "at": 2}),
        );
        assert_eq!(
            compared(&[opened, other, removed, closed]).failures.len(),
            1,
            "a repeat that differs"
        );
    }
}
