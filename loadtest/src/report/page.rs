//! A report as one file to look at: its plots alone, or a page with its table, its plots and its
//! text.

use std::path::Path;

use anyhow::{Context, bail};

pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    /// What the figures belong to.
    pub(crate) machine: String,
    /// By row.
    pub(crate) table: Vec<[String; 2]>,
    pub(crate) svg: String,
    pub(crate) text: String,
}

impl Page<'_> {
    /// Writes the plots to an `.svg` file, or everything to an `.html` file.
    pub(crate) fn write(&self, file: &Path) -> anyhow::Result<()> {
        let whole = match file.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => self.svg.clone(),
            Some("html") => self.html(),
            _ => bail!("{}: a report is .html or .svg", file.display()),
        };
        std::fs::write(file, whole).with_context(|| file.display().to_string())
    }

    pub(crate) fn html(&self) -> String {
        let rows = self
            .table
            .iter()
            .map(|[name, what]| format!("<tr><td>{}<td>{}\n", escape(name), escape(what)));
        let Self { title, svg, .. } = self;
        format!(
            "<!doctype html><meta charset=utf-8><title>{title}</title>\n\
             <style>body{{font:14px sans-serif;margin:2em}}pre{{overflow-x:auto}}td{{padding:.2em .8em}}</style>\n\
             <h1>{title}</h1><p>{}</p><table>{}</table>{svg}<pre>{}</pre>\n",
            escape(&self.machine),
            rows.collect::<String>(),
            escape(&self.text)
        )
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
