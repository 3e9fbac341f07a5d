//! The guide for contributors and the map of the code name files that exist. Each recipe of the
//! guide names all files that its example touches, and no more files than a reader can keep in
//! mind.

use std::collections::BTreeSet;

use super::{files_below, read, root, rows};

const GUIDE: &str = "docs/contributing.md";
const MAP: &str = "src/lib.rs";

/// A recipe of the guide, and how its example is spelled in the files that it touches.
struct Recipe {
    heading: &'static str,
    most_files: usize,
    spellings: &'static [&'static str],
}

const RECIPES: &[Recipe] = &[
    Recipe {
        heading: "Add an HTTP route",
        most_files: 4,
        spellings: &[
            "\"/v1/users/{user_id}/following\"",
            "follows::following",
            "Self::Following",
            "`GET /v1/users/{user_id}/following`",
        ],
    },
    Recipe {
        heading: "Add a client message",
        most_files: 10,
        spellings: &["unwatch", "Unwatch"],
    },
    Recipe {
        heading: "Add a setting",
        most_files: 4,
        spellings: &["handshake-rate", "handshake_rate"],
    },
    Recipe {
        heading: "Add a store call",
        most_files: 5,
        spellings: &[
            "\n        async fn follow(",
            "\n    async fn follow(",
            "scripts::FOLLOW",
            "FOLLOW =",
            "scripts/follow.lua",
        ],
    },
];

/// The files of a recipe's table.
fn listed(guide: &str, heading: &str) -> BTreeSet<String> {
    let section = guide
        .split(&format!("\n## {heading}\n"))
        .nth(1)
        .unwrap_or_else(|| panic!("no recipe {heading:?}"));
    let section = section.split("\n## ").next().unwrap();
    rows(section).into_iter().map(|(file, _)| file).collect()
}

fn is_test(file: &str) -> bool {
    file.contains("/tests/") || file.ends_with("/tests.rs")
}

impl Recipe {
    /// Whether a file spells the example, in its path or in its text.
    fn touches(&self, file: &str) -> bool {
        let text = format!("{file}\n{}", read(file));
        self.spellings
            .iter()
            .any(|spelling| text.contains(spelling))
    }
}

#[test]
fn each_recipe_names_every_file_of_its_example_and_no_other() {
    let guide = read(GUIDE);
    let code = files_below("src");
    for recipe in RECIPES {
        let listed = listed(&guide, recipe.heading);
        let touched: BTreeSet<&String> = code
            .iter()
            .filter(|file| !is_test(file) && recipe.touches(file))
            .collect();
        let missing: Vec<_> = touched
            .into_iter()
            .filter(|file| !listed.contains(*file))
            .collect();
        let needless: Vec<_> = listed.iter().filter(|file| !recipe.touches(file)).collect();
        let heading = recipe.heading;
        assert!(
            missing.is_empty(),
            "{heading:?} in {GUIDE} does not name {missing:?}"
        );
        assert!(
            needless.is_empty(),
            "{heading:?} in {GUIDE} names {needless:?}, which its example does not touch"
        );
        assert!(
            listed.len() <= recipe.most_files,
            "{heading:?} needs {} files, at most {}: make one of them follow from another",
            listed.len(),
            recipe.most_files
        );
    }
}

#[test]
fn every_spelling_of_an_example_occurs_in_a_file_of_its_recipe() {
    let guide = read(GUIDE);
    for recipe in RECIPES {
        let listed = listed(&guide, recipe.heading);
        for spelling in recipe.spellings {
            let occurs = listed
                .iter()
                .any(|file| format!("{file}\n{}", read(file)).contains(spelling));
            assert!(
                occurs,
                "{:?}: no listed file has {spelling:?}",
                recipe.heading
            );
        }
    }
}

/// The pieces of `code` that are paths: a file with its ending, or a folder of the repository.
fn paths(text: &str) -> Vec<&str> {
    let is_path = |code: &&str| {
        let of_words = code
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c));
        let is_file = [".rs", ".md", ".lua"]
            .iter()
            .any(|ending| code.ends_with(ending));
        let is_below = ["src/", "tests/", "docs/"]
            .iter()
            .any(|folder| code.starts_with(folder));
        of_words && (is_file || is_below)
    };
    text.split('`').skip(1).step_by(2).filter(is_path).collect()
}

#[test]
fn every_file_that_the_guide_or_the_map_names_exists() {
    let (guide, map) = (read(GUIDE), read(MAP));
    let prose: String = map
        .lines()
        .filter(|line| line.starts_with("//!"))
        .map(|line| format!("{line}\n"))
        .collect();
    let named = paths(&guide).into_iter().chain(paths(&prose));
    // The map names the files of the code as seen from `src`.
    let exists = |path: &str| root().join(path).exists() || root().join("src").join(path).exists();
    let missing: Vec<&str> = named.filter(|path| !exists(path)).collect();
    assert!(missing.is_empty(), "no such files: {missing:?}");
}

#[test]
fn the_map_and_the_guide_name_the_layers_lowest_first() {
    let tidy = read("tests/tidy.rs");
    let table = tidy
        .split_once("const LAYERS")
        .unwrap()
        .1
        .split_once("\n];")
        .unwrap()
        .0;
    let layer = |line: &str| Some(line.split_once('"')?.1.split_once('"')?.0.to_owned());
    let layers = table.split("\n    (").skip(1).filter_map(layer);
    let is_layer = |name: &String| name != "testing" && root().join("src").join(name).is_dir();
    let layers: Vec<String> = layers.filter(is_layer).collect();
    assert!(
        layers.len() > 5,
        "the table of layers is written otherwise than this reads it: {layers:?}"
    );

    let item = |line: &str| {
        let line = line.strip_prefix("//! - ")?.trim_start_matches('[');
        Some(line.strip_prefix('`')?.split_once('`')?.0.to_owned())
    };
    assert_eq!(
        read(MAP).lines().filter_map(item).collect::<Vec<_>>(),
        layers,
        "{MAP}"
    );
    let guide = read(GUIDE).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        guide.contains(&layers.join(", ")),
        "{GUIDE} does not name {}",
        layers.join(", ")
    );
}
