//! The texts that acknowledge a room's heartbeats, kept while the figures stay the same. The
//! session makes the texts.

use tokio_tungstenite::tungstenite::Utf8Bytes;

use super::figures::Figures;
use super::seats::Fan;

/// One text for each answer of the fan check: unknown, no, yes.
#[derive(Debug, Default)]
pub struct CachedAcks {
    figures: Figures,
    /// The revision of the information in the texts; 0 without information.
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
        if self.figures != figures || self.info != info {
            return None;
        }
        let texts = self.texts.as_ref()?;
        Some(&texts[fan as usize])
    }
}
