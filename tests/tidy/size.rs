//! How large the repository is: lines without comments, blank lines and, in `src`, tests. Only the
//! folders that are counted here have a ceiling.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{Tree, is_test};
use super::lexer::{tokens_with_literals, without_tests};

/// The lines of each folder at the top of the repository, and of each entry of `src`.
pub fn sizes(tree: &Tree) -> BTreeMap<String, usize> {
    let mut sizes = BTreeMap::new();
    for (file, text) in tree {
        let mut names = file.split('/');
        let top = names.next().unwrap_or_default();
        let entry = names.next().unwrap_or_default();
        if top == "src" && (is_test(file) || entry == "testing") {
            continue;
        }
        let lines = lines(text, top == "src");
        *sizes.entry(top.to_owned()).or_default() += lines;
        if top == "src" {
            *sizes.entry(format!("src/{entry}")).or_default() += lines;
        }
    }
    sizes
}

/// The lines on which there is code.
fn lines(text: &str, of_production: bool) -> usize {
    let mut code = tokens_with_literals(text);
    if of_production {
        code = without_tests(&code).0;
    }
    let on_lines = code.iter().flat_map(|token| {
        let last = token.line + token.text.matches('\n').count();
        token.line..=last
    });
    on_lines.collect::<BTreeSet<usize>>().len()
}

/// Folders that have more lines than their ceiling allows.
pub fn too_large(sizes: &BTreeMap<String, usize>, ceilings: &[(&str, usize)]) -> Vec<String> {
    let mut findings = Vec::new();
    for (folder, most) in ceilings {
        let lines = sizes.get(*folder).copied().unwrap_or_default();
        if lines > *most {
            findings.push(format!(
                "{folder}: {lines} lines, at most {most}: let one thing go for another"
            ));
        }
    }
    findings
}
