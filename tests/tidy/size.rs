//! How large the repository is: lines without comments, blank lines and, in `src`, tests, and type
//! names that mean several things. What is counted here has a ceiling.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{Tree, is_test};
use super::lexer::{tokens, tokens_with_literals, without_tests};

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

/// The names of types that several files define. Tests are left out, and so are types that belong
/// to a trait or to a function.
pub fn shared_names(tree: &Tree) -> BTreeSet<String> {
    let mut known = BTreeSet::new();
    let mut shared = BTreeSet::new();
    for (_, text) in tree.iter().filter(|(file, _)| !is_test(file)) {
        let names = type_names(text);
        shared.extend(names.intersection(&known).cloned());
        known.extend(names);
    }
    shared
}

fn type_names(text: &str) -> BTreeSet<String> {
    let (code, _) = without_tests(&tokens(text));
    let mut names = BTreeSet::new();
    let mut depth = 0;
    for pair in code.windows(2) {
        match pair[0].text.as_str() {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            "struct" | "enum" | "trait" | "type" if depth == 0 => {
                names.insert(pair[1].text.clone());
            }
            _ => {}
        }
    }
    names
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
