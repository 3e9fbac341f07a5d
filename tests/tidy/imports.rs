//! Finds which file imports from which other file of the same crate. The layer and circle rules
//! build on it.
//!
//! Its limits: it reads text, not types. It does not see what a macro defines or expands to, what a
//! glob import brings in beyond the module it names, `#[path]` attributes, or a method that is
//! called on a value whose type the file never names.

use std::collections::{BTreeMap, BTreeSet};

use super::lexer::{Token, starts_with, tokens, without_tests};

/// Paths of files to their text.
pub type Tree = BTreeMap<String, String>;

/// A module's names from the root of the crate on; the root itself is empty.
type Path = Vec<String>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    pub from: String,
    pub line: usize,
    pub to: String,
}

/// A path as somebody wrote it.
#[derive(Debug)]
struct Written {
    module: Path,
    path: Path,
    line: usize,
    place: Place,
}

#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// A `use` that makes the path known as this name.
    Use { name: String, public: bool },
    /// Amid other code.
    Code,
}

#[derive(Debug, Default)]
struct Module {
    file: String,
    defines: BTreeSet<String>,
    /// Names that a `use` brings in, with what they stand for.
    uses: BTreeMap<String, Path>,
    globs: Vec<Path>,
}

/// All that is known of one crate.
#[derive(Debug, Default)]
struct Crate {
    modules: BTreeMap<Path, Module>,
    written: BTreeMap<String, Vec<Written>>,
    /// Whether this is the library `rollcall`, which its program names so.
    is_rollcall: bool,
    /// Names that occur in a file outside its `use` lines.
    mentions: BTreeMap<String, BTreeSet<String>>,
}

/// Each import between two files below `root`, once. Tests are left out.
pub fn imports(tree: &Tree, root: &str) -> Vec<Import> {
    let mut parsed = Crate {
        is_rollcall: root == "src",
        ..Crate::default()
    };
    let mut tests = Vec::new();
    for (file, text) in tree
        .iter()
        .filter(|(file, _)| file.starts_with(&format!("{root}/")) && !is_test(file))
    {
        let module = module_of(file, root);
        let (code, test_modules) = without_tests(&tokens(text));
        tests.extend(
            test_modules
                .into_iter()
                .map(|name| [module.as_slice(), &[name]].concat()),
        );
        parsed.read(file, &module, &code);
    }
    let is_test_module = |module: &Path| tests.iter().any(|test| module.starts_with(test));
    parsed.modules.retain(|module, _| !is_test_module(module));
    parsed
        .written
        .values_mut()
        .for_each(|written| written.retain(|written| !is_test_module(&written.module)));
    parsed.imports()
}

pub fn is_test(file: &str) -> bool {
    file.ends_with("/tests.rs") || file.contains("/tests/")
}

fn module_of(file: &str, root: &str) -> Path {
    let inner = file[root.len() + 1..].trim_end_matches(".rs");
    let mut names: Path = inner.split('/').map(str::to_owned).collect();
    match names.last().map(String::as_str) {
        Some("mod") => drop(names.pop()),
        Some("lib") if names.len() == 1 => names.clear(),
        // The root of a crate without a library; beside a library it is a module that nobody can
        // name.
        Some("main") if names.len() == 1 && root != "src" => names.clear(),
        _ => {}
    }
    names
}

impl Crate {
    fn read(&mut self, file: &str, module: &Path, code: &[Token]) {
        self.modules.entry(module.clone()).or_default().file = file.to_owned();
        let (mut inner, mut ends, mut depth, mut at) = (module.clone(), Vec::new(), 0, 0);
        while at < code.len() {
            let rest = &code[at..];
            let text = rest[0].text.as_str();
            let next = rest
                .get(1)
                .filter(|next| next.is_name())
                .map(|next| next.text.clone());
            at += 1;
            match (text, next) {
                // Who may use an item is no import.
                ("pub", _) if starts_with(&rest[1..], &["(", "in"]) => {
                    at += rest.iter().take_while(|token| token.text != ")").count();
                }
                ("use", _) if !starts_with(&rest[1..], &["<"]) => {
                    let public = at > 1 && matches!(code[at - 2].text.as_str(), "pub" | ")");
                    at += self.read_use(file, &inner, &rest[1..], public);
                }
                ("mod", Some(name)) if starts_with(&rest[2..], &["{"]) => {
                    ends.push(depth);
                    depth += 1;
                    inner.push(name);
                    self.modules.entry(inner.clone()).or_default().file = file.to_owned();
                    at += 2;
                }
                (
                    "fn" | "struct" | "enum" | "trait" | "type" | "const" | "static" | "union",
                    Some(name),
                ) if depth == ends.len() => {
                    self.modules
                        .entry(inner.clone())
                        .or_default()
                        .defines
                        .insert(name);
                }
                ("{", _) => depth += 1,
                ("}", _) => {
                    depth -= 1;
                    if ends.last() == Some(&depth) {
                        ends.pop();
                        inner.pop();
                    }
                }
                _ if rest[0].is_name() => {
                    at += self.read_path(file, &inner, rest);
                }
                _ => {}
            }
        }
    }

    /// A path in the code. Answers how many more tokens it took.
    fn read_path(&mut self, file: &str, module: &Path, code: &[Token]) -> usize {
        let mut path = vec![code[0].text.clone()];
        while starts_with(&code[path.len() * 2 - 1..], &["::"])
            && let Some(name) = code.get(path.len() * 2).filter(|token| token.is_name())
        {
            path.push(name.text.clone());
        }
        self.mentions
            .entry(file.to_owned())
            .or_default()
            .insert(path[0].clone());
        let taken = path.len() * 2 - 2;
        if path.len() > 1 {
            self.write(
                file,
                Written {
                    module: module.clone(),
                    path,
                    line: code[0].line,
                    place: Place::Code,
                },
            );
        }
        taken
    }

    /// A `use` up to its `;`. Answers how many tokens it took.
    fn read_use(&mut self, file: &str, module: &Path, code: &[Token], public: bool) -> usize {
        let (mut prefix, mut outer, mut at): (Path, Vec<Path>, usize) = (Vec::new(), Vec::new(), 0);
        let mut name: Option<String> = None;
        while at < code.len() {
            let token = &code[at];
            match token.text.as_str() {
                "{" => outer.push(prefix.clone()),
                "}" | "," | ";" => {
                    if let Some(name) = name.take() {
                        let path = prefix.clone();
                        let place = Place::Use { name, public };
                        self.write(
                            file,
                            Written {
                                module: module.clone(),
                                path,
                                line: token.line,
                                place,
                            },
                        );
                    }
                    match token.text.as_str() {
                        "," => prefix = outer.last().cloned().unwrap_or_default(),
                        "}" => prefix = outer.pop().unwrap_or_default(),
                        _ => return at + 1,
                    }
                }
                "as" => {
                    at += 1;
                    name = code.get(at).map(|alias| alias.text.clone());
                }
                "self" if !prefix.is_empty() => name = prefix.last().cloned(),
                "::" => {}
                text => {
                    prefix.push(text.to_owned());
                    name = Some(text.to_owned());
                }
            }
            at += 1;
        }
        at
    }

    fn write(&mut self, file: &str, written: Written) {
        let known = self.modules.entry(written.module.clone()).or_default();
        if let Place::Use { name, .. } = &written.place {
            let target = written.path.clone();
            if name == "*" {
                known.globs.push(target[..target.len() - 1].to_vec());
            } else {
                known.uses.insert(name.clone(), target);
            }
        }
        self.written
            .entry(file.to_owned())
            .or_default()
            .push(written);
    }

    fn imports(&self) -> Vec<Import> {
        let mut found = BTreeMap::new();
        for (file, written) in &self.written {
            let mentions = self.mentions.get(file);
            for written in written {
                let used = |name: &String| mentions.is_some_and(|mentions| mentions.contains(name));
                let Some(path) = self.absolute(&written.module, &written.path) else {
                    continue;
                };
                let counts = match &written.place {
                    Place::Code => true,
                    Place::Use { name, public: true } => used(name),
                    // The paths that begin with the module's name tell what is taken from it.
                    Place::Use { name, .. } => !(self.modules.contains_key(&path) && used(name)),
                };
                let Some(to) = self.file_of(&path, 0).filter(|to| counts && to != file) else {
                    continue;
                };
                found.entry((file.clone(), to)).or_insert(written.line);
            }
        }
        found
            .into_iter()
            .map(|((from, to), line)| Import { from, line, to })
            .collect()
    }

    /// The path from the root of the crate on, unless it leads into another crate.
    fn absolute(&self, module: &Path, path: &[String]) -> Option<Path> {
        let (first, rest) = path.split_first()?;
        let known = self.modules.get(module);
        let child = [module.as_slice(), std::slice::from_ref(first)].concat();
        match first.as_str() {
            "crate" => Some(rest.to_vec()),
            "rollcall" if self.is_rollcall => Some(rest.to_vec()),
            "self" => Some([module.as_slice(), rest].concat()),
            "super" => {
                let mut above = module.clone();
                above.pop();
                let ups = rest.iter().take_while(|name| *name == "super").count();
                above.truncate(above.len().saturating_sub(ups));
                Some([above.as_slice(), &rest[ups..]].concat())
            }
            _ if self.modules.contains_key(&child) => Some([module.as_slice(), path].concat()),
            _ => {
                let stands_for = known?
                    .uses
                    .get(first)
                    .filter(|target| target.first() != Some(first))?;
                let target = self.absolute(module, stands_for)?;
                Some([target.as_slice(), rest].concat())
            }
        }
    }

    /// The file that defines what the path names; `use` lines on the way are followed.
    fn file_of(&self, path: &[String], hops: usize) -> Option<String> {
        let depth = (0..=path.len())
            .rev()
            .find(|depth| self.modules.contains_key(&path[..*depth]))?;
        let (module, known) = self.modules.get_key_value(&path[..depth])?;
        let here = || Some(known.file.clone());
        let Some(item) = path.get(depth).filter(|_| hops < 16) else {
            return here();
        };
        if known.defines.contains(item) {
            return here();
        }
        if let Some(target) = known
            .uses
            .get(item)
            .and_then(|target| self.absolute(module, target))
        {
            let target = [target.as_slice(), &path[depth + 1..]].concat();
            return self.file_of(&target, hops + 1);
        }
        let through_glob = known.globs.iter().find_map(|glob| {
            let target = self.absolute(module, glob)?;
            let there = self.modules.get(&target)?;
            let has = there.defines.contains(item) || there.uses.contains_key(item);
            has.then(|| self.file_of(&[target.as_slice(), &path[depth..]].concat(), hops + 1))
                .flatten()
        });
        through_glob.or_else(here)
    }
}
