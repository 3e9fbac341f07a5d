//! `rollcall events list` shows the events that gateways gave up, because a webhook did not take
//! them. `rollcall events replay` puts such events among those that the webhook is sent again.

use std::fmt;

use serde::Serialize;
use serde_json::value::RawValue;

use crate::base::exit;
use crate::base::webhook_name::WebhookName;
use crate::cli::common::{open, print};
use crate::config::{Config, EventsAction, EventsArgs};
use crate::store::{DeadEvent, EntryId, Events, MAX_EVENTS, StoreResult};

/// Maximum events that a list shows.
const MAX_LISTED: usize = 1_000;

/// An event that a gateway gave up.
#[derive(Debug, Serialize)]
struct ListedEvent {
    /// The argument of `rollcall events replay`.
    entry: String,
    id: String,
    why: String,
    attempts: u64,
    event: Box<RawValue>,
}

impl ListedEvent {
    /// Shows data that is no JSON as null. Only another program can have written such data.
    fn of(entry: EntryId, dead: DeadEvent) -> Self {
        let DeadEvent {
            event,
            why,
            attempts,
        } = dead;
        let data = RawValue::from_string(event.data).unwrap_or_else(|_| RawValue::NULL.to_owned());
        Self {
            entry: entry.to_string(),
            id: event.id,
            why,
            attempts,
            event: data,
        }
    }
}

/// The oldest events that gateways gave up.
#[derive(Debug, Serialize)]
struct DeadList {
    events: Vec<ListedEvent>,
    /// Whether there are more.
    more: bool,
}

impl fmt::Display for DeadList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.events.is_empty() {
            return f.write_str("no event was given up");
        }
        for ListedEvent {
            entry,
            why,
            attempts,
            event,
            ..
        } in &self.events
        {
            writeln!(
                f,
                "{entry}  sent {attempts} times, then given up: {why}\n    {event}"
            )?;
        }
        let replay = "rollcall events replay ENTRY (or --all) sends them again";
        if self.more {
            write!(f, "and more; {replay}")
        } else {
            f.write_str(replay)
        }
    }
}

/// The number of events that the webhook is sent again.
#[derive(Debug, Serialize)]
struct ReplayedCount {
    replayed: u64,
}

impl fmt::Display for ReplayedCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} will be sent again", self.replayed)
    }
}

/// Says that the settings have webhooks, and none of this name. Settings that name no webhook say
/// nothing about which there are.
fn not_in_settings(config: &Config, name: &WebhookName) -> Option<String> {
    let known = config.webhook_endpoints();
    if known.is_empty() || known.iter().any(|webhook| webhook.name == *name) {
        return None;
    }
    let names: Vec<&str> = known.iter().map(|webhook| webhook.name.as_str()).collect();
    let names = names.join(", ");
    Some(format!(
        "the settings have no webhook named {name}; --webhook takes one of: {names}"
    ))
}

/// Lists or replays events, writes the result to standard output and returns the exit code.
pub async fn run(config: &Config, args: &EventsArgs) -> anyhow::Result<u8> {
    if let Some(why) = not_in_settings(config, &args.webhook) {
        return Ok(exit::say(exit::WRONG_SETTINGS, why));
    }
    let store = open(config).await?;
    let replayed = match &args.action {
        EventsAction::List => {
            let listed = list(&store, &args.webhook).await?;
            return Ok(print(exit::STOPPED, &listed, args.json));
        }
        EventsAction::Replay {
            entry: Some(entry), ..
        } => match EntryId::parse(entry) {
            Some(entry) => u64::from(store.replay_dead(&args.webhook, entry).await?),
            None => {
                return Ok(exit::say(
                    exit::WRONG_SETTINGS,
                    "an entry is written as in 1732000000000-0",
                ));
            }
        },
        EventsAction::Replay { entry: None, .. } => {
            replay_all(&store, &args.webhook, config.events_kept).await?
        }
    };
    let code = print(exit::STOPPED, &ReplayedCount { replayed }, args.json);
    if replayed == 0 && matches!(args.action, EventsAction::Replay { all: false, .. }) {
        let why =
            "no event with this entry was given up; rollcall events list shows those that were";
        return Ok(exit::say(exit::WRONG_SETTINGS, why));
    }
    Ok(code)
}

async fn list(store: &impl Events, webhook: &WebhookName) -> StoreResult<DeadList> {
    let mut events: Vec<ListedEvent> = Vec::new();
    let mut after = None;
    loop {
        let page = store.dead_events(webhook, after, MAX_EVENTS).await?;
        after = page.last().map(|(entry, _)| *entry);
        let more = after.is_some() && events.len() + page.len() > MAX_LISTED;
        events.extend(
            page.into_iter()
                .map(|(entry, dead)| ListedEvent::of(entry, dead))
                .take(MAX_LISTED - events.len()),
        );
        if after.is_none() || more {
            return Ok(DeadList { events, more });
        }
    }
}

/// Replays the events in their order. Stops after `max` events, because gateways may give up more
/// meanwhile.
async fn replay_all(store: &impl Events, webhook: &WebhookName, max: u64) -> StoreResult<u64> {
    let mut replayed = 0;
    let mut after = None;
    while replayed < max {
        let page = store.dead_events(webhook, after, MAX_EVENTS).await?;
        let Some((last, _)) = page.last() else { break };
        after = Some(*last);
        for (entry, _) in page {
            if store.replay_dead(webhook, entry).await? {
                replayed += 1;
            }
        }
    }
    Ok(replayed)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::base::secret::Secret;
    use crate::config::WebhookEndpoint;

    #[test]
    fn a_webhook_that_the_settings_do_not_have_is_refused_with_those_that_they_have() {
        let name = |text: &str| WebhookName::parse(text).unwrap();
        let with = |names: &[&str]| {
            let mut config = Config::default();
            for text in names {
                config.webhooks.push(WebhookEndpoint {
                    name: name(text),
                    url: Secret::new("https://example.org"),
                    secret_file: PathBuf::from("/a"),
                    events: Vec::new(),
                });
            }
            config
        };
        assert_eq!(not_in_settings(&with(&[]), &name("crm")), None);
        assert_eq!(not_in_settings(&with(&["crm"]), &name("crm")), None);
        for wrong in ["typo", "default"] {
            let why = not_in_settings(&with(&["crm", "log"]), &name(wrong)).unwrap();
            assert!(why.contains(wrong) && why.ends_with(": crm, log"), "{why}");
        }
    }
}
