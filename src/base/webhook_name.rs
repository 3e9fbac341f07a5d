//! The names of the webhooks: each receiver of events has one.

use super::ids::{InvalidId, check_name, id_type};

/// The webhook of the settings `webhook-url` and `webhook-secret-file`.
const DEFAULT: &str = "default";

id_type!(
    /// The name of a webhook. It stands in paths, in Redis, in metrics and in the log.
    WebhookName
);

impl WebhookName {
    /// Takes 1 to 32 bytes of `[a-z0-9-]`.
    pub fn parse(name: &str) -> Result<Self, InvalidId> {
        check_name(name)?;
        Ok(Self(name.into()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_name_is_the_default() {
        assert!(WebhookName::default().is_default());
        assert!(!WebhookName::parse("crm").unwrap().is_default());
    }
}
