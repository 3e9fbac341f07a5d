//! Splits Rust source into names, punctuation and literals, without comments and code that is
//! compiled for tests only. The import rules read these tokens, and the rule on the size counts
//! their lines; nothing here knows what an import is.

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub text: String,
    pub line: usize,
}

impl Token {
    pub fn is_name(&self) -> bool {
        self.text
            .starts_with(|c: char| c.is_alphabetic() || c == '_')
    }
}

/// The names and the punctuation of a file. `::` is one token.
pub fn tokens(source: &str) -> Vec<Token> {
    let mut found = tokens_with_literals(source);
    found.retain(|Token { text, .. }| {
        let is_name = text.chars().all(|c| c.is_alphanumeric() || c == '_');
        is_name || text == "::" || text.len() == 1
    });
    found
}

/// The same with strings and characters. A string may have several lines.
pub fn tokens_with_literals(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while at < chars.len() {
        let start = at;
        at = end_of_token(&chars, at);
        let text: String = chars[start..at].iter().collect();
        let lines = text.matches('\n').count();
        let is_comment = text.starts_with("//") || text.starts_with("/*");
        if !is_comment && !text.trim().is_empty() {
            found.push(Token { text, line });
        }
        line += lines;
    }
    found
}

fn end_of_token(chars: &[char], at: usize) -> usize {
    let next = |n: usize| chars.get(at + n).copied().unwrap_or('\0');
    let line_end = || {
        chars[at..]
            .iter()
            .position(|c| *c == '\n')
            .map_or(chars.len(), |n| at + n)
    };
    match (chars[at], next(1)) {
        ('/', '/') => line_end(),
        ('/', '*') => end_of_comment(chars, at),
        ('"', _) => end_of_string(chars, at + 1),
        ('b', '"') => end_of_string(chars, at + 2),
        ('r', '"' | '#') => end_of_raw_string(chars, at + 1),
        ('b', 'r') if matches!(next(2), '"' | '#') => end_of_raw_string(chars, at + 2),
        ('\'', '\\') => (at + 3..chars.len())
            .find(|n| chars[*n] == '\'')
            .map_or(chars.len(), |n| n + 1),
        ('\'', _) if next(2) == '\'' => at + 3,
        (':', ':') => at + 2,
        (c, _) if c.is_alphanumeric() || c == '_' => (at..chars.len())
            .find(|n| !chars[*n].is_alphanumeric() && chars[*n] != '_')
            .unwrap_or(chars.len()),
        _ => at + 1,
    }
}

fn end_of_comment(chars: &[char], mut at: usize) -> usize {
    let mut depth = 0;
    while at + 1 < chars.len() {
        match (chars[at], chars[at + 1]) {
            ('/', '*') => depth += 1,
            ('*', '/') => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    chars.len()
}

fn end_of_string(chars: &[char], mut at: usize) -> usize {
    while at < chars.len() && chars[at] != '"' {
        at += if chars[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(chars.len())
}

/// `at` is the first `#` or `"` after the `r`. A raw name such as `r#type` ends after its `#`.
fn end_of_raw_string(chars: &[char], at: usize) -> usize {
    let hashes = chars[at..].iter().take_while(|c| **c == '#').count();
    if chars.get(at + hashes) != Some(&'"') {
        return at + hashes;
    }
    let closes = |n: &usize| {
        chars[*n] == '"' && chars[*n + 1..].iter().take_while(|c| **c == '#').count() >= hashes
    };
    (at + hashes + 1..chars.len())
        .find(closes)
        .map_or(chars.len(), |n| n + 1 + hashes)
}

/// The tokens without items behind `#[cfg(test)]`, and the names of the modules among those items.
pub fn without_tests(tokens: &[Token]) -> (Vec<Token>, Vec<String>) {
    let (mut kept, mut modules, mut at) = (Vec::new(), Vec::new(), 0);
    while at < tokens.len() {
        if !starts_with(&tokens[at..], &["#", "[", "cfg", "(", "test", ")", "]"]) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let end = end_of_item(tokens, at + 7);
        let mut pairs = tokens[at + 7..end].windows(2);
        modules.extend(
            pairs
                .find(|pair| pair[0].text == "mod")
                .map(|pair| pair[1].text.clone()),
        );
        at = end;
    }
    (kept, modules)
}

pub fn starts_with(tokens: &[Token], texts: &[&str]) -> bool {
    tokens.len() >= texts.len()
        && tokens
            .iter()
            .zip(texts)
            .all(|(token, text)| token.text == *text)
}

/// An item ends with a `;`, or with the `}` of its body.
fn end_of_item(tokens: &[Token], mut at: usize) -> usize {
    let (mut depth, mut ends_at_brace) = (0, true);
    while at < tokens.len() {
        match tokens[at].text.as_str() {
            "use" | "static" if depth == 0 => ends_at_brace = false,
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            ";" if depth == 0 => return at + 1,
            _ => {}
        }
        at += 1;
        if depth == 0 && ends_at_brace && tokens[at - 1].text == "}" {
            return at;
        }
    }
    at
}
