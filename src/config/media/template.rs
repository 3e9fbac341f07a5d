//! Texts with placeholders, such as `{app}-{name}`: how the id of a live, or of a streamer, follows
//! from what a media server says of a stream.

/// What a placeholder stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placeholder {
    /// The name of the stream.
    Name,
    /// The application that the stream is in; empty if the server has none.
    App,
    /// The id of the live.
    Live,
    /// The streamer, as the publisher or the server names them; empty if nobody does.
    Streamer,
}

impl Placeholder {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Name, Self::App, Self::Live, Self::Streamer];

    /// The word in braces.
    fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::App => "app",
            Self::Live => "live",
            Self::Streamer => "streamer_id",
        }
    }
}

/// Why a text is no template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// A brace without its partner.
    #[error("has a brace without its partner")]
    Brace,
    /// An unknown placeholder.
    #[error("has an unknown word in braces; use {0}")]
    Word(String),
}

/// A text with placeholders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Placeholder(Placeholder),
}

/// `{name}`.
impl Default for Template {
    fn default() -> Self {
        Self(vec![Piece::Placeholder(Placeholder::Name)])
    }
}

impl Template {
    /// Reads a template, which may have only these placeholders.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, allowed: &[Placeholder]) -> Result<Self, TemplateError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = rest.find(['{', '}']) {
            let before = &rest[..open];
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            if rest[open..].starts_with('}') {
                return Err(TemplateError::Brace);
            }
            let inside = &rest[open + 1..];
            let close = inside.find('}').ok_or(TemplateError::Brace)?;
            let word = &inside[..close];
            let Some(placeholder) = allowed.iter().find(|known| known.word() == word) else {
                return Err(TemplateError::Word(words(allowed)));
            };
            pieces.push(Piece::Placeholder(*placeholder));
            rest = &inside[close + 1..];
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// The text with the values of its placeholders.
    pub fn fill<'a>(&self, value: impl Fn(Placeholder) -> &'a str) -> String {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(piece) => text.push_str(piece),
                Piece::Placeholder(placeholder) => text.push_str(value(*placeholder)),
            }
        }
        text
    }
}

fn words(allowed: &[Placeholder]) -> String {
    let mut words = Vec::new();
    for placeholder in allowed {
        words.push(format!("{{{}}}", placeholder.word()));
    }
    words.join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(template: &str) -> String {
        let template = Template::parse(template, &Placeholder::ALL).unwrap();
        template.fill(|placeholder| match placeholder {
            Placeholder::Name => "42",
            Placeholder::App => "live",
            Placeholder::Live => "live-42",
            Placeholder::Streamer => "s1",
        })
    }

    #[test]
    fn placeholders_get_their_values() {
        assert_eq!(filled("{name}"), "42");
        assert_eq!(filled("{app}-{name}"), "live-42");
        assert_eq!(filled("room.{live}.{streamer_id}"), "room.live-42.s1");
        assert_eq!(filled("main"), "main");
        let usual = Template::default();
        assert_eq!(Template::parse("{name}", &[Placeholder::Name]), Ok(usual));
    }

    #[test]
    fn a_wrong_template_is_refused() {
        let allowed = [Placeholder::Name, Placeholder::App];
        for text in ["{name", "name}", "}{", "{"] {
            let read = Template::parse(text, &allowed);
            assert_eq!(read, Err(TemplateError::Brace), "{text}");
        }
        for text in ["{nmae}", "{}", "{live}", "{{name}}"] {
            let words = "{name} or {app}".to_owned();
            let read = Template::parse(text, &allowed);
            assert_eq!(read, Err(TemplateError::Word(words)), "{text}");
        }
    }
}
