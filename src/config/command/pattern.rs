//! The pattern of `rollcall keys`.

/// The longest pattern, in bytes. A key of two ids is shorter.
const LONGEST_PATTERN: usize = 1_024;

/// Refuses a broken pattern. Redis would accept it, and find nothing.
pub(super) fn parse(pattern: &str) -> Result<String, &'static str> {
    if pattern.is_empty() || pattern.len() > LONGEST_PATTERN {
        return Err("must have 1 to 1024 bytes; * finds every key");
    }
    let mut escaped = false;
    let mut in_class = false;
    for c in pattern.chars() {
        if escaped {
            escaped = false;
            continue;
        }
        match c {
            '\\' => escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
    }
    if escaped {
        return Err("ends with a backslash; write two for one");
    }
    if in_class {
        return Err("has a [ without its ]; write \\[ for the character itself");
    }
    Ok(pattern.to_owned())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_broken_pattern_is_told_from_one_that_finds_nothing() {
        for good in [
            "*",
            "online-fans:*",
            "{live:4[0-9]}:*",
            "a\\[b",
            "a]b",
            "h?llo",
            "[\\]]",
            "日本*",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in ["", "live:[0-9", "live:\\", "[\\]", &"x".repeat(1_025)] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
