//! The rules themselves: pure functions from a tree of files to a list of findings. Each finding
//! begins with a file and, where it has one, a line, and says what to do.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{Import, Tree, imports, is_test};
use super::lexer::{starts_with, tokens, without_tests};

pub type Findings = Vec<String>;

/// A layer and the layers below it, from which it may import, with blanks between them.
pub type Layers<'a> = &'a [(&'a str, &'a str)];

/// Imports from a layer that the importing layer may not use, and files without a layer.
pub fn upward_imports(tree: &Tree, layers: Layers<'_>) -> Findings {
    let below = |name: &str| {
        let layer = layers.iter().find(|(layer, _)| *layer == name);
        layer.map(|(_, below)| *below)
    };
    let entries: BTreeSet<&str> = tree
        .keys()
        .filter(|file| file.starts_with("src/"))
        .map(|f| layer_of(f))
        .collect();
    let homeless = entries.into_iter().filter(|entry| below(entry).is_none());
    let homeless = homeless
        .map(|entry| format!("src/{entry}: in no layer: add it to the table in tests/tidy.rs"));
    let upward = imports(tree, "src").into_iter().filter_map(|import| {
        let Import { from, line, to } = import;
        let (upper, lower) = (layer_of(&from), layer_of(&to));
        // The root only lists the modules: whatever goes through it is resolved to its file.
        let is_fine = upper == lower
            || lower == "lib"
            || below(upper).is_none_or(|below| below.split(' ').any(|layer| layer == lower));
        let what = format!("{upper} may not import from {lower} ({to})");
        let todo = "move what both need to a layer below";
        (!is_fine).then(|| format!("{from}:{line}: {what}: {todo}"))
    });
    homeless.chain(upward).collect()
}

/// Imports between the folders in `root` that are not listed (who, from whom, why), and what is
/// listed and does not happen. The files in `root` itself may import from all folders. So may a file
/// that has the name of the other folder: it is what its own folder offers to that one, and goes with
/// either.
pub fn imports_between(tree: &Tree, root: &str, listed: &[(&str, &str, &str)]) -> Findings {
    let folder = |file: &str| {
        let inner = file.strip_prefix(root)?.strip_prefix('/')?;
        let (folder, _) = inner.split_once('/')?;
        Some(folder.to_owned())
    };
    let mut happen: BTreeSet<(String, String)> = BTreeSet::new();
    let mut findings = Findings::new();
    for Import { from, line, to } in imports(tree, "src") {
        let (Some(who), Some(whom)) = (folder(&from), folder(&to)) else {
            continue;
        };
        let offered = format!("{root}/{who}/{whom}");
        let is_offered = from
            .strip_prefix(&offered)
            .is_some_and(|rest| rest.starts_with(['/', '.']));
        if who == whom || is_offered {
            continue;
        }
        if !listed.iter().any(|(a, b, _)| *a == who && *b == whom) {
            findings.push(format!(
                "{from}:{line}: {who} may not take from {whom} ({to}) unless tests/tidy.rs says why"
            ));
        }
        happen.insert((who, whom));
    }
    for (who, whom, _) in listed {
        if !happen.contains(&((*who).to_owned(), (*whom).to_owned())) {
            findings.push(format!(
                "tests/tidy.rs: {who} takes nothing from {whom}: strike it out"
            ));
        }
    }
    findings
}

/// The name below `src`, for `base/ids.rs`, `base.rs` and `base/mod.rs` alike.
fn layer_of(file: &str) -> &str {
    let inner = file.strip_prefix("src/").unwrap_or(file);
    inner
        .split('/')
        .next()
        .unwrap_or(inner)
        .trim_end_matches(".rs")
}

/// Files that import from each other, directly or by way of others.
pub fn file_circles(tree: &Tree, root: &str) -> Findings {
    circles(imports(tree, root), |circle| circle.len() > 1)
}

/// Folders side by side that import from each other. `foo.rs` belongs to the folder `foo`.
pub fn folder_circles(tree: &Tree, root: &str) -> Findings {
    let imports = imports(tree, root);
    let files = tree.keys().filter(|file| file.starts_with(root));
    let folders: BTreeSet<String> = files.flat_map(|file| above(file)).collect();
    let parents: BTreeSet<&str> = folders.iter().map(|folder| parent(folder)).collect();
    let within = |parent: &str| {
        // Who lies in this folder itself, or below it in which of its folders or files.
        let child = |file: &str| {
            let name = file
                .strip_prefix(parent)?
                .strip_prefix('/')?
                .split('/')
                .next()?;
            Some(format!("{parent}/{}", name.trim_end_matches(".rs")))
        };
        let between = imports.iter().filter_map(|Import { from, line, to }| {
            let (from_child, to_child) = (child(from)?, child(to)?);
            (from_child != to_child).then(|| (from_child, to_child, format!("{from}:{line}")))
        });
        let mut seen = BTreeSet::new();
        let between = between.filter(|(from, to, _)| seen.insert((from.clone(), to.clone())));
        found_circles(&between.collect::<Vec<_>>(), |circle| {
            circle
                .iter()
                .filter(|name| folders.contains(**name))
                .count()
                > 1
        })
    };
    parents.into_iter().flat_map(within).collect()
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The folders in which a file lies, the root not included.
fn above(file: &str) -> impl Iterator<Item = String> + '_ {
    file.match_indices('/')
        .skip(1)
        .map(|(place, _)| file[..place].to_owned())
}

fn circles(imports: Vec<Import>, is_wrong: impl Fn(&BTreeSet<&str>) -> bool) -> Findings {
    let edges = imports.into_iter().map(|Import { from, line, to }| {
        let place = format!("{from}:{line}");
        (from, to, place)
    });
    found_circles(&edges.collect::<Vec<_>>(), is_wrong)
}

/// The strongly connected components among these edges that are wrong. An edge is who imports, from
/// whom, and where.
fn found_circles(
    edges: &[(String, String, String)],
    is_wrong: impl Fn(&BTreeSet<&str>) -> bool,
) -> Findings {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to, _) in edges {
        next.entry(from).or_default().push(to);
    }
    let reached: BTreeMap<&str, BTreeSet<&str>> = next
        .keys()
        .map(|from| (*from, reach(from, &next)))
        .collect();
    let reaches = |from: &str, to: &str| {
        reached
            .get(from)
            .is_some_and(|reached| reached.contains(to))
    };
    let mut components = BTreeSet::new();
    for node in next.keys().filter(|node| reaches(node, node)) {
        components.insert(
            next.keys()
                .filter(|o| reaches(node, o) && reaches(o, node))
                .copied()
                .collect::<BTreeSet<_>>(),
        );
    }
    let wrong = components.into_iter().filter(|circle| is_wrong(circle));
    let told = wrong.map(|circle| {
        let inside = edges
            .iter()
            .filter(|(from, to, _)| circle.contains(&**from) && circle.contains(&**to));
        let lines: Vec<String> = inside
            .map(|(_, to, place)| format!("  {place} imports from {to}"))
            .collect();
        let members: Vec<&str> = circle.iter().copied().collect();
        let what = "import each other: move what they share to a file below them";
        format!("{} {what}\n{}", members.join(", "), lines.join("\n"))
    });
    told.collect()
}

fn reach<'a>(from: &'a str, next: &BTreeMap<&str, Vec<&'a str>>) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(node) = open.pop() {
        open.extend(
            next.get(node)
                .into_iter()
                .flatten()
                .filter(|there| reached.insert(**there)),
        );
    }
    reached
}

/// A root with more files and folders than one looks through at a glance.
pub fn crowded_root(tree: &Tree, root: &str, most: usize) -> Findings {
    let inner = tree
        .keys()
        .filter_map(|file| file.strip_prefix(root)?.strip_prefix('/'));
    let entries: BTreeSet<&str> = inner.filter_map(|inner| inner.split('/').next()).collect();
    let message = || {
        format!(
            "{root}: {} entries, at most {most}: move files into the folder of a layer",
            entries.len()
        )
    };
    (entries.len() > most).then(message).into_iter().collect()
}

/// Clients of HTTP services that are made elsewhere than in `place`, where they get what all of
/// them need.
pub fn clients_elsewhere(tree: &Tree, place: &str) -> Findings {
    const MADE_BY: [&[&str]; 5] = [
        &["Client", "::", "builder"],
        &["Client", "::", "new"],
        &["Client", "::", "default"],
        &["ClientBuilder", "::", "new"],
        &["reqwest", "::", "get"],
    ];
    let mut findings = Findings::new();
    for (file, text) in tree
        .iter()
        .filter(|(file, _)| *file != place && !is_test(file))
    {
        let (code, _) = without_tests(&tokens(text));
        for at in 0..code.len() {
            if MADE_BY.iter().any(|made| starts_with(&code[at..], made)) {
                findings.push(format!(
                    "{file}:{}: make clients of HTTP services with {place}",
                    code[at].line
                ));
            }
        }
    }
    findings
}

pub fn missing_heads(tree: &Tree) -> Findings {
    let headless = tree.iter().filter(|(_, text)| !text.starts_with("//!"));
    headless
        .map(|(file, _)| format!("{file}:1: begin with a `//!` that says what the file is for"))
        .collect()
}

pub fn long_lines(tree: &Tree, most: usize) -> Findings {
    let lines = tree.iter().flat_map(|(file, text)| {
        text.lines()
            .enumerate()
            .map(move |(n, line)| (file, n + 1, line))
    });
    let long = lines.map(|(file, number, line)| (file, number, line.chars().count()));
    let long = long.filter(|(_, _, columns)| *columns > most);
    long.map(|(file, number, columns)| {
        format!("{file}:{number}: {columns} columns, at most {most}: break it")
    })
    .collect()
}
