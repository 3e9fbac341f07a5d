//! Makes text safe for a terminal. Text that comes from elsewhere can hold characters that move the
//! cursor, change colours or turn the line around, so commands pass it through [`harmless`] before
//! they print it.

use std::io::IsTerminal;

use unicode_width::UnicodeWidthChar;

/// The most marks of no width after one character, such as the vowels and tones of Thai.
const MOST_MARKS: usize = 3;

/// Whether a stream shows colours: it is a terminal, and `NO_COLOR` is not set.
pub fn has_colour(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The text on one line, with `?` for each control character and without invisible characters that
/// change the text around them.
pub fn harmless(text: &str) -> String {
    let mut marks = 0;
    let shown = text
        .chars()
        .filter(|c| !is_invisible(*c))
        .map(|c| if c.is_control() { '?' } else { c });
    shown
        .filter(|c| {
            marks = if c.width() == Some(0) { marks + 1 } else { 0 };
            marks <= MOST_MARKS
        })
        .collect()
}

/// Characters that show nothing and change how others are shown: the direction of the text,
/// joiners, variants.
fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e0fff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_and_invisible_ones_do_nothing() {
        assert_eq!(harmless("\u{1b}[31mred\u{7}\r\n\u{9b}2J"), "?[31mred????2J");
        assert_eq!(harmless("abc\u{202e}fed\u{200f}\u{2066}"), "abcfed");
        assert_eq!(harmless("ที่นี่ 日本 café"), "ที่นี่ 日本 café");
        assert_eq!(
            harmless(&format!("a{}b", "\u{301}".repeat(50))),
            format!("a{}b", "\u{301}".repeat(3))
        );
    }
}
