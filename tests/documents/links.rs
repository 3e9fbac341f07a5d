//! Links between the documents lead to a file and, where they name a heading, to one that is there.

use std::collections::BTreeSet;
use std::path::Path;

use super::{all, read, root};

/// What the target of a heading is called.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The lines that are not inside a code block.
fn prose(text: &str) -> Vec<&str> {
    let mut code = false;
    let outside = |line: &&str| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        !code && !fence
    };
    text.lines().filter(outside).collect()
}

fn anchors(text: &str) -> BTreeSet<String> {
    let heading = |line: &&str| line.starts_with('#');
    prose(text)
        .into_iter()
        .filter(heading)
        .map(|line| anchor(line.trim_start_matches('#')))
        .collect()
}

#[test]
fn every_link_leads_somewhere() {
    let mut broken = Vec::new();
    for document in all() {
        let text = read(&document);
        for line in prose(&text) {
            for link in line
                .split("](")
                .skip(1)
                .filter_map(|rest| rest.split(')').next())
            {
                if link.contains("://") || link.starts_with("mailto:") {
                    continue;
                }
                let (file, heading) = link.split_once('#').unwrap_or((link, ""));
                let target = match file {
                    "" => document.clone(),
                    file => document.parent().unwrap_or(Path::new("")).join(file),
                };
                let there = root().join(&target).exists();
                if !there || (!heading.is_empty() && !anchors(&read(&target)).contains(heading)) {
                    broken.push(format!("{}: {link}", document.display()));
                }
            }
        }
    }
    assert!(
        broken.is_empty(),
        "links that lead nowhere:\n{}",
        broken.join("\n")
    );
}
