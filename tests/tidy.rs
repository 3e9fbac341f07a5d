//! Holds the shape of the code: layers that import only from below, no import circles, a short
//! root, a `//!` at the head of each file, lines that fit, and no more of them than there were. It
//! reads text, so its import rules have limits: see `tidy/imports.rs`.
//!
//! Code for tests is exempt from the import rules: `#[cfg(test)]` items, files named `tests.rs`,
//! and `tests` folders.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "tidy"]
mod parts {
    pub mod imports;
    pub mod lexer;
    pub mod rules;
    pub mod size;
}

use std::fs;
use std::path::Path;

use parts::imports::Tree;
use parts::rules::{
    Findings, Layers, clients_elsewhere, crowded_root, file_circles, folder_circles,
    imports_between, long_lines, missing_heads, upward_imports,
};
use parts::size::{shared_names, sizes, too_large};

/// The layers of `src`, lowest first, each with those that it may import from.
const LAYERS: Layers<'_> = &[
    ("base", ""),
    ("config", "base"),
    ("auth", "base config"),
    ("store", "base config"),
    ("presence", "base config auth store"),
    ("peers", "base config store presence"),
    ("dashboards", "base config store presence peers"),
    ("sync", "base config store presence peers dashboards"),
    (
        "session",
        "base config auth store presence peers dashboards sync",
    ),
    (
        "edge",
        "base config auth store presence peers dashboards sync session",
    ),
    // The commands ask gateways over HTTP, and read the answers with the types that the handlers
    // write.
    ("cli", "base config auth store sync edge"),
    // The features stand on the core, which knows none of them.
    ("features", CORE),
    (
        "gateway",
        "base config auth store presence peers dashboards sync session edge cli features",
    ),
    ("lib", ""),
    // For unit tests only.
    (
        "testing",
        "base config auth store presence peers sync session edge features gateway",
    ),
    (
        "main",
        "base config auth store presence peers dashboards sync session edge cli features gateway",
    ),
];

/// The layers of the core, lowest first.
const CORE: &str = "base config auth store presence peers dashboards sync session edge cli";

/// Which feature takes something from which other one, and why.
const BETWEEN_FEATURES: &[(&str, &str, &str)] =
    &[("feeds", "profiles", "only users with a profile announce")];

/// The most lines without comments, blank lines and, in `src`, tests. Lower a number when much has
/// gone; never raise one.
const CEILINGS: &[(&str, usize)] = &[("src", 74_450), ("loadtest", 21_600), ("tests", 54_650)];

/// The most names of types that several files define. A search for a name should find one thing.
/// Lower the number when a name has gone; never raise it.
const SHARED_NAMES: usize = 2;

const MOST_ENTRIES: usize = 16;
const MOST_COLUMNS: usize = 120;

/// All Rust files below these folders of the repository.
fn read(folders: &[&str]) -> Tree {
    fn add(folder: &Path, root: &Path, tree: &mut Tree) {
        for entry in fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
        {
            if entry.is_dir() {
                add(&entry, root, tree);
            } else if entry.extension().is_some_and(|ending| ending == "rs") {
                let name = entry
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .replace('\\', "/");
                tree.insert(name, fs::read_to_string(&entry).unwrap());
            }
        }
    }
    let (root, mut tree) = (Path::new(env!("CARGO_MANIFEST_DIR")), Tree::new());
    folders
        .iter()
        .for_each(|folder| add(&root.join(folder), root, &mut tree));
    tree
}

fn none(findings: &[String]) {
    assert!(
        findings.is_empty(),
        "{} findings:\n{}",
        findings.len(),
        findings.join("\n")
    );
}

#[test]
fn every_layer_imports_from_below_only() {
    none(&upward_imports(&read(&["src"]), LAYERS));
}

#[test]
fn features_take_from_each_other_what_is_listed_only() {
    none(&imports_between(
        &read(&["src"]),
        "src/features",
        BETWEEN_FEATURES,
    ));
}

/// The house as `docs/contributing.md` shows it: the layers of the core, and the features with what
/// they take from each other.
fn house(tree: &Tree) -> String {
    let mut picture = String::from("```text\ngateway, main: the wiring\n\nfeatures\n");
    let mut features: Vec<&str> = Vec::new();
    for file in tree.keys() {
        if let Some((feature, _)) = file
            .strip_prefix("src/features/")
            .and_then(|rest| rest.split_once('/'))
        {
            features.push(feature);
        }
    }
    features.retain(|feature| *feature != "tests");
    features.dedup();
    for feature in features {
        let taken: Vec<&str> = BETWEEN_FEATURES
            .iter()
            .filter(|(who, ..)| *who == feature)
            .map(|(_, whom, _)| *whom)
            .collect();
        let taken = if taken.is_empty() {
            String::new()
        } else {
            format!(" takes from {}", taken.join(", "))
        };
        picture.push_str(&format!("  {feature}{taken}\n"));
    }
    picture.push_str("\ncore, each from those below it\n");
    for layer in CORE.split(' ').rev() {
        picture.push_str(&format!("  {layer}\n"));
    }
    picture + "```\n"
}

#[test]
fn the_guide_shows_the_house() {
    let guide =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/contributing.md"))
            .unwrap();
    let (_, rest) = guide.split_once("<!-- the house -->\n").unwrap();
    let (shown, _) = rest.split_once("<!-- end of the house -->").unwrap();
    let house = house(&read(&["src"]));
    assert!(
        shown == house,
        "docs/contributing.md shows another house than this one:\n{house}"
    );
}

#[test]
fn no_files_import_each_other() {
    let tree = read(&["src", "loadtest/src"]);
    for root in ["src", "loadtest/src"] {
        none(&file_circles(&tree, root));
    }
}

#[test]
fn no_folders_import_each_other() {
    let tree = read(&["src", "loadtest/src"]);
    for root in ["src", "loadtest/src"] {
        none(&folder_circles(&tree, root));
    }
}

#[test]
fn the_root_is_short() {
    none(&crowded_root(&read(&["src"]), "src", MOST_ENTRIES));
}

#[test]
fn clients_of_http_services_are_made_in_one_place() {
    none(&clients_elsewhere(
        &read(&["src"]),
        "src/base/http_client.rs",
    ));
}

#[test]
fn every_file_says_what_it_is_for() {
    none(&missing_heads(&read(&["src", "tests", "loadtest"])));
}

#[test]
fn every_line_of_the_tests_fits() {
    none(&long_lines(&read(&["tests"]), MOST_COLUMNS));
}

#[test]
fn every_line_of_the_code_fits() {
    none(&long_lines(&read(&["src", "loadtest"]), MOST_COLUMNS));
}

#[test]
fn the_repository_does_not_grow() {
    let sizes = sizes(&read(&["src", "loadtest", "tests"]));
    for (folder, lines) in &sizes {
        println!("{lines:>7} {folder}");
    }
    none(&too_large(&sizes, CEILINGS));
}

#[test]
fn nearly_every_name_of_a_type_means_one_thing() {
    let shared = shared_names(&read(&["src", "loadtest/src", "tests/simulation/src"]));
    assert!(shared.len() <= SHARED_NAMES, "too many: {shared:#?}");
}

// ---------------------------------------------------------------- each rule finds what was planted

fn tree(files: &[(&str, &str)]) -> Tree {
    files
        .iter()
        .map(|(file, text)| ((*file).to_owned(), (*text).to_owned()))
        .collect()
}

/// There is exactly one finding, and it says all of these.
fn finds(found: &Findings, words: &[&str]) {
    assert!(
        found.len() == 1 && words.iter().all(|word| found[0].contains(word)),
        "{words:?} in {found:#?}"
    );
}

#[test]
fn an_upward_import_is_found() {
    let low = "//! .\nuse std::fmt;\nuse crate::sync::{flush::Flusher, lease};\nfn a() { lease::renew(); }";
    let high = "use crate::store::Slice;\npub struct Flusher;";
    let files = [
        ("src/store.rs", low),
        ("src/sync/flush.rs", high),
        ("src/sync/lease.rs", "pub fn renew() {}"),
    ];
    let found = upward_imports(&tree(&files), LAYERS);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found[0].starts_with("src/store.rs:3: store may not import from sync (src/sync/flush.rs)"),
        "{found:#?}"
    );
    assert!(
        found[1].starts_with("src/store.rs:4: store may not import from sync (src/sync/lease.rs)"),
        "{found:#?}"
    );
}

#[test]
fn an_upward_path_amid_the_code_is_found() {
    let files = [
        ("src/base/ids.rs", "fn a() -> crate::edge::auth::Token {\n}"),
        ("src/edge/auth.rs", ""),
    ];
    finds(
        &upward_imports(&tree(&files), LAYERS),
        &["src/base/ids.rs:1:", "src/edge/auth.rs"],
    );
}

#[test]
fn an_upward_import_through_a_re_export_is_found_where_the_item_is_defined() {
    let files = [
        (
            "src/lib.rs",
            "pub mod base { pub mod ids; }\npub use crate::edge::auth::Token;",
        ),
        ("src/base/ids.rs", "use crate::Token;"),
        ("src/edge/auth.rs", "pub struct Token;"),
    ];
    finds(
        &upward_imports(&tree(&files), &[LAYERS, &[("lib", "edge")]].concat()),
        &["src/base/ids.rs:1:", "auth.rs"],
    );
}

#[test]
fn an_import_between_two_folders_is_found_unless_it_is_listed() {
    let files = [
        ("src/features/mod.rs", "pub mod a;\npub mod b;"),
        ("src/features/a/mod.rs", "pub struct A;"),
        ("src/features/b/mod.rs", "\nuse crate::features::a::A;"),
    ];
    let found = imports_between(&tree(&files), "src/features", &[]);
    finds(&found, &["src/features/b/mod.rs:2: b may not take from a"]);
    let listed = [("b", "a", "why")];
    none(&imports_between(&tree(&files), "src/features", &listed));
    let unneeded = [("b", "a", "why"), ("a", "b", "why")];
    let found = imports_between(&tree(&files), "src/features", &unneeded);
    finds(&found, &["a takes nothing from b"]);
}

#[test]
fn what_a_folder_offers_to_another_may_import_from_it() {
    let mut files = vec![
        ("src/features/mod.rs", "pub mod a;\npub mod b;"),
        ("src/features/a/mod.rs", "pub struct A;"),
        ("src/features/b/mod.rs", "mod a;\nmod more;"),
        (
            "src/features/b/a.rs",
            "mod calls;\nuse crate::features::a::A;",
        ),
        ("src/features/b/a/calls.rs", "use crate::features::a::A;"),
    ];
    none(&imports_between(&tree(&files), "src/features", &[]));
    files.push(("src/features/b/more.rs", "use crate::features::a::A;"));
    let found = imports_between(&tree(&files), "src/features", &[]);
    finds(&found, &["src/features/b/more.rs:1: b may not take from a"]);
}

#[test]
fn a_file_without_a_layer_is_found() {
    finds(
        &upward_imports(&tree(&[("src/helpers/all.rs", "")]), LAYERS),
        &["src/helpers: in no layer"],
    );
}

#[test]
fn a_circle_of_two_files_is_found() {
    let files = [
        ("src/a/one.rs", "use super::two::Two;\npub struct One;"),
        ("src/a/two.rs", "\nuse crate::a::one::One;\npub struct Two;"),
        ("src/a/three.rs", "use super::{one::One, two::Two};"),
    ];
    let found = file_circles(&tree(&files), "src");
    finds(
        &found,
        &[
            "src/a/one.rs:1 imports from src/a/two.rs",
            "src/a/two.rs:2 imports from src/a/one.rs",
        ],
    );
    assert!(!found[0].contains("three"), "{found:#?}");
}

#[test]
fn a_visibility_is_no_import() {
    let files = [
        (
            "src/a/one.rs",
            "use crate::a::b::two::Two;\npub struct One;",
        ),
        ("src/a/b/two.rs", "pub(in crate::a::one) struct Two;"),
    ];
    assert_eq!(file_circles(&tree(&files), "src"), Findings::new());
}

#[test]
fn a_parent_that_uses_a_child_that_uses_the_parents_own_items_is_a_circle() {
    let child = ("src/room/seat.rs", "use super::Room;\npub struct Seat;");
    let parent = |text| tree(&[("src/room.rs", text), child]);
    finds(
        &file_circles(
            &parent("mod seat;\nuse seat::Seat;\npub struct Room(Seat);"),
            "src",
        ),
        &["src/room/seat.rs:1"],
    );
    finds(
        &file_circles(
            &parent("mod seat;\npub use seat::Seat;\npub struct Room(Seat);"),
            "src",
        ),
        &["src/room.rs:2"],
    );
    finds(
        &file_circles(&parent("mod seat;\npub struct Room(seat::Seat);"), "src"),
        &["src/room.rs:2"],
    );
    none(&file_circles(
        &parent("mod seat;\npub use seat::Seat;\npub struct Room;"),
        "src",
    ));
}

#[test]
fn children_that_import_each_other_through_their_parent_are_no_circle_with_it() {
    let files = [
        (
            "src/room.rs",
            "mod seat;\nmod hall;\npub use seat::Seat;\npub use hall::Hall;\nfn a() { hall::b() }",
        ),
        ("src/room/seat.rs", "pub struct Seat;"),
        (
            "src/room/hall.rs",
            "use super::Seat;\npub struct Hall(Seat);\npub fn b() {}",
        ),
    ];
    none(&file_circles(&tree(&files), "src"));
}

#[test]
fn a_circle_of_two_folders_is_found() {
    let files = [
        ("src/sync.rs", "pub mod flush;\npub mod lease;"),
        ("src/sync/flush.rs", "use crate::peers::message::Message;"),
        ("src/sync/lease.rs", "pub struct Lease;"),
        ("src/peers/message.rs", "pub struct Message;"),
        (
            "src/peers/publisher.rs",
            "\n\nuse crate::sync::lease::Lease;",
        ),
    ];
    none(&file_circles(&tree(&files), "src"));
    let words = [
        "src/sync/flush.rs:1 imports from src/peers",
        "src/peers/publisher.rs:3 imports from src/sync",
    ];
    finds(&folder_circles(&tree(&files), "src"), &words);
}

#[test]
fn tests_comments_and_strings_import_nothing() {
    let one = "// use crate::two::Two;\n/* crate::two::Two */\n\
        const A: &str = \"crate::two::Two\"; const B: char = '\"';\n\
        #[cfg(test)]\nmod tests { use crate::two::Two; }\n#[cfg(test)]\nmod fakes;\npub struct One<'a>(&'a str);";
    let files = [
        ("src/one.rs", one),
        ("src/one/fakes.rs", "use crate::two::Two;"),
        ("src/one/tests.rs", "use crate::two::Two;"),
        ("src/two.rs", "use crate::one::One;\npub struct Two;"),
    ];
    none(&file_circles(&tree(&files), "src"));
}

#[test]
fn a_crowded_root_is_found() {
    let mut crowd = tree(&[("src/base/ids.rs", ""), ("src/base/clock.rs", "")]);
    crowd.extend((1..16).map(|n| (format!("src/file{n}.rs"), String::new())));
    none(&crowded_root(&crowd, "src", MOST_ENTRIES));
    crowd.insert("src/one_more.rs".to_owned(), String::new());
    finds(
        &crowded_root(&crowd, "src", MOST_ENTRIES),
        &["src: 17 entries, at most 16"],
    );
}

#[test]
fn a_client_that_is_made_elsewhere_is_found() {
    let files = [
        ("src/base/http_client.rs", "fn a() { Client::builder() }"),
        (
            "src/auth/keys.rs",
            "\nfn a() { reqwest::Client::new() }\n#[cfg(test)]\nmod tests { fn a() { Client::new() } }",
        ),
        ("src/auth/tests.rs", "fn a() { Client::builder() }"),
    ];
    finds(
        &clients_elsewhere(&tree(&files), "src/base/http_client.rs"),
        &["src/auth/keys.rs:2:"],
    );
}

#[test]
fn a_missing_head_is_found() {
    finds(
        &missing_heads(&tree(&[
            ("src/a.rs", "//! Fine.\n"),
            ("src/b.rs", "use std::fmt;\n"),
        ])),
        &["src/b.rs:1:"],
    );
}

#[test]
fn a_long_line_is_found() {
    let (fits, long) = ("é".repeat(120), "x".repeat(121));
    finds(
        &long_lines(
            &tree(&[("src/a.rs", &format!("{fits}\n{long}\n"))]),
            MOST_COLUMNS,
        ),
        &["src/a.rs:2: 121 columns"],
    );
}

#[test]
fn lines_of_code_are_counted_and_too_many_are_found() {
    let code = "//! .\n\nfn a() {\n    // Why.\n    b(\"\nc\");\n}\n#[cfg(test)]\nmod tests { }\n";
    let files = [
        ("src/a/one.rs", code),
        ("src/a/tests.rs", code),
        ("src/testing/b.rs", code),
        ("tests/c.rs", code),
    ];
    let sizes = sizes(&tree(&files));
    let expected = [("src", 4), ("src/a", 4), ("tests", 6)];
    assert_eq!(sizes, expected.map(|(name, n)| (name.to_owned(), n)).into());
    none(&too_large(&sizes, &[("src", 4), ("tests", 6)]));
    finds(
        &too_large(&sizes, &[("src", 3)]),
        &["src: 4 lines, at most 3"],
    );
}

#[test]
fn a_name_of_two_types_is_found() {
    let one = "struct Seat;\ntype Row<T> = Vec<T>;\nimpl Seat { type Item = Row<u8>; }";
    let two = "pub enum Seat {}\nfn a() { struct Row; }\ntype Item = u8;";
    let files = [
        ("src/one.rs", one),
        ("src/two.rs", two),
        ("src/tests.rs", "struct Row;\ntype Item = u8;"),
    ];
    assert_eq!(shared_names(&tree(&files)), ["Seat".to_owned()].into());
}
