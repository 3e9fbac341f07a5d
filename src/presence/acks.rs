//! The texts with which a room's heartbeats are acknowledged, kept while its figures stay. The
//! session makes the texts.

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::figures::Figures;
use super::seats::Fan;

/// One text for each answer of the fan check: unknown, no, yes.
#[derive(Debug, Default)]
pub struct CachedAcks {
    figures: Figures,
    /// The revision of the information that the texts have; 0 without.
    info: u32,
    texts: Option<[Utf8Bytes; 3]>,
}

impl CachedAcks {
    pub fn new(figures: Figures, info: u32, texts: [Utf8Bytes; 3]) -> Self {
        Self {
            figures,
            info,
            texts: Some(texts),
        }
    }

    /// The text for a viewer, if it has the newest figures and this revision of the information.
    pub fn text(&self, figures: Figures, info: u32, fan: Fan) -> Option<&Utf8Bytes> {
        let is_newest = (self.figures, self.info) == (figures, info);
        Some(&self.texts.as_ref().filter(|_| is_newest)?[fan as usize])
    }
}
