//! The texts with which a room's heartbeats are acknowledged, kept while its figures stay. The session makes the texts.

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::figures::Figures;
use super::seats::Fan;

/// One text for each answer of the fan check: unknown, no, yes.
#[derive(Debug, Default)]
pub struct CachedAcks {
    figures: Figures,
    texts: Option<[Utf8Bytes; 3]>,
}

impl CachedAcks {
    pub fn new(figures: Figures, texts: [Utf8Bytes; 3]) -> Self {
        Self { figures, texts: Some(texts) }
    }

    /// The text for a viewer, if it has the newest figures.
    pub fn text(&self, figures: Figures, fan: Fan) -> Option<&Utf8Bytes> {
        Some(&self.texts.as_ref().filter(|_| self.figures == figures)?[fan as usize])
    }
}
