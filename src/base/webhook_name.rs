//! The names of the webhooks: each receiver of events has one.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::media_server::is_table_name;

/// The webhook of the settings `webhook-url` and `webhook-secret-file`.
const DEFAULT: &str = "default";

/// The name of a webhook: 1 to 32 bytes of `[a-z0-9-]`. It stands in paths, in Redis, in metrics and
/// in the log.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct WebhookName(Arc<str>);

impl WebhookName {
    /// Reads a name. `None` if it is empty, too long, or has other characters.
    pub fn parse(name: &str) -> Option<Self> {
        if is_table_name(name) {
            Some(Self(name.into()))
        } else {
            None
        }
    }

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the settings `webhook-url` and `webhook-secret-file` describe it, and no table does.
    pub fn is_default(&self) -> bool {
        self.as_str() == DEFAULT
    }
}

impl Default for WebhookName {
    fn default() -> Self {
        Self(DEFAULT.into())
    }
}

impl fmt::Display for WebhookName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_stand_in_a_path() {
        for name in ["default", "crm-2", "7"] {
            assert_eq!(WebhookName::parse(name).unwrap().as_str(), name);
        }
        for name in ["", "CRM", "a b", "a/b", "a:b"] {
            assert_eq!(WebhookName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn only_one_name_is_the_default() {
        assert!(WebhookName::default().is_default());
        assert!(!WebhookName::parse("crm").unwrap().is_default());
    }
}
