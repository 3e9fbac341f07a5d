//! Compares the documents with the code: every setting, metric, close code, error code, route,
//! problem and key is named in them, every link leads somewhere, the guide for contributors names the
//! files that a change touches, and what is shipped beside the program (alert rules, dashboard, image,
//! units) is valid and fits it. `tests/stores/acl.rs` holds the ACL rules for operators.

#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

#[path = "support/program.rs"]
#[allow(dead_code)]
mod program;
#[path = "support/redis_server.rs"]
mod redis_server;
#[path = "support/socket.rs"]
#[allow(dead_code)]
mod socket;
#[path = "support/wait.rs"]
#[allow(dead_code)]
mod wait;

#[path = "documents"]
mod documents {
    mod alerts;
    mod contributing;
    mod http;
    mod kubernetes;
    mod links;
    mod packaging;
    mod runbooks;
    mod scrape;
    mod shell;
    mod tables;
    mod tools;
    mod tour;
    mod trial;

    use std::path::{Path, PathBuf};

    /// The root of the project.
    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR"))
    }

    /// The text of a document.
    fn read(path: impl AsRef<Path>) -> String {
        let path = root().join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
    }

    /// README.md and everything in docs/, from the root.
    fn all() -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = std::fs::read_dir(root().join("docs"))
            .unwrap()
            .map(|entry| Path::new("docs").join(entry.unwrap().file_name()))
            .filter(|path| path.extension().is_some_and(|ext| ext == "md"))
            .collect();
        found.push("README.md".into());
        found.sort();
        found
    }

    /// The files of a folder of the project and its folders, sorted.
    fn files_below(folder: &str) -> Vec<String> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let entry = entry.unwrap();
            let path = format!("{folder}/{}", entry.file_name().to_str().unwrap());
            if entry.path().is_dir() {
                found.extend(files_below(&path));
            } else {
                found.push(path);
            }
        }
        found.sort();
        found
    }

    /// A document has a table between two comments with its name.
    fn has_table(document: &str, name: &str, table: &str) {
        let (from, to) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
        let (text, table) = (read(document), table.trim());
        let found = between(&text, &from, &to);
        assert!(
            found == Some(table),
            "{document} must have this, markers included:\n\n{from}\n{table}\n{to}\n\nit has: {found:#?}"
        );
    }

    /// What stands between two markers, trimmed.
    fn between<'a>(text: &'a str, from: &str, to: &str) -> Option<&'a str> {
        Some(text.split_once(from)?.1.split_once(to)?.0.trim())
    }

    /// Every table row whose first cell is one piece of `code`: that text, and the other cells.
    fn rows(text: &str) -> Vec<(String, Vec<String>)> {
        let row = |line: &str| {
            let line = line.replace("\\|", "\0");
            let mut cells = line
                .strip_prefix('|')?
                .strip_suffix('|')?
                .split('|')
                .map(|cell| cell.trim().replace('\0', "|"));
            let first = cells
                .next()?
                .strip_prefix('`')?
                .strip_suffix('`')?
                .to_owned();
            Some((first, cells.collect()))
        };
        text.lines().filter_map(row).collect()
    }
}
