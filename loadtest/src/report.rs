//! What a run found: figures with names, and what of them is wrong. Every tool fills a [`RunReport`];
//! the JSON document, the text, the page and the exit code all come from it.
//!
//! Scripts read the document, so a figure keeps its name and place. [`text`] shows any document, and
//! knows no tool.

pub(crate) mod plot;
mod text;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::args::ArgError;
use crate::proc_stats::MachineSpec;
use crate::tally::Latencies;
pub(crate) use text::ValueSpread;

/// The whole document.
#[derive(Debug, Serialize)]
pub(crate) struct RunReport {
    #[serde(flatten)]
    figures: Map<String, Value>,
    passed: bool,
    /// Promises that were broken.
    failures: Vec<String>,
    /// What took too long, which only a calm machine can judge.
    slow: Vec<String>,
    /// The run checked too little to be a success, even without `--check`.
    #[serde(skip)]
    is_incomplete: bool,
}

impl RunReport {
    /// The fields of `found` are the figures. The program's version and the machine belong to them.
    pub(crate) fn of(found: &impl Serialize) -> anyhow::Result<Self> {
        let Value::Object(mut figures) = serde_json::to_value(found)? else {
            bail!("figures without names");
        };
        figures.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
        figures.insert(
            "machine".to_owned(),
            serde_json::to_value(MachineSpec::read())?,
        );
        Ok(Self {
            figures,
            passed: true,
            failures: Vec::new(),
            slow: Vec::new(),
            is_incomplete: false,
        })
    }

    /// What `--check` calls a failure, unless it holds.
    pub(crate) fn must(&mut self, holds: bool, else_why: impl Into<String>) {
        if !holds {
            self.passed = false;
            self.failures.push(else_why.into());
        }
    }

    /// The same for what a busy machine delays.
    pub(crate) fn must_be_quick(&mut self, holds: bool, else_why: impl Into<String>) {
        if !holds {
            self.passed = false;
            self.slow.push(else_why.into());
        }
    }

    /// What fails the run even without `--check`.
    pub(crate) fn must_not_stop(&mut self, holds: bool, else_why: impl Into<String>) {
        self.must(holds, else_why);
        self.is_incomplete |= !holds;
    }

    /// The errors by kind, of which there must be none.
    pub(crate) fn must_have_no_errors(&mut self, errors: &BTreeMap<String, u64>) {
        for (kind, times) in errors {
            self.must(false, format!("{times} errors {kind}"));
        }
    }

    #[cfg(test)]
    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    #[cfg(test)]
    pub(crate) fn slow(&self) -> &[String] {
        &self.slow
    }

    fn wrong(&self) -> impl Iterator<Item = &String> {
        self.failures.iter().chain(&self.slow)
    }

    pub(crate) fn write_json(&self, file: &Path) -> anyhow::Result<()> {
        std::fs::write(file, serde_json::to_string_pretty(self)?)
            .with_context(|| file.display().to_string())
    }

    /// Writes the plots to an `.svg` file, or a page with the plots and the text to an `.html` file.
    pub(crate) fn write_page(&self, file: &Path, title: &str, svg: &str) -> anyhow::Result<()> {
        let whole = match file.extension().and_then(|extension| extension.to_str()) {
            Some("svg") => svg.to_owned(),
            Some("html") => self.html(title, svg),
            _ => bail!("{}: a report is .html or .svg", file.display()),
        };
        std::fs::write(file, whole).with_context(|| file.display().to_string())
    }

    fn html(&self, title: &str, svg: &str) -> String {
        let text = self.to_string().replace('&', "&amp;").replace('<', "&lt;");
        format!(
            "<!doctype html><meta charset=utf-8><title>{title}</title>\n\
             <style>body{{font:14px sans-serif;margin:2em}}pre{{overflow-x:auto}}</style>\n\
             <h1>{title}</h1>{svg}<pre>{text}</pre>\n"
        )
    }
}

/// Runs a tool to its end, or until it is interrupted, and prints its report.
pub(crate) fn end(
    run: impl Future<Output = anyhow::Result<RunReport>>,
    json: bool,
    check: bool,
) -> ExitCode {
    let found = on_runtime(async {
        tokio::select! {
            done = Box::pin(run) => done,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        }
    });
    print(found, json, check)
}

/// Runs a process that has gateways or viewers in it.
pub(crate) fn on_runtime<T>(whole: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let done = runtime.block_on(Box::pin(whole));
    // A generator's thread or a blocked read must not hold the end up.
    runtime.shutdown_timeout(Duration::from_secs(2));
    done
}

/// Prints a report, as one JSON document or as text. Exits with 1 if it fails.
pub(crate) fn print(found: anyhow::Result<RunReport>, json: bool, check: bool) -> ExitCode {
    let report = match found {
        Ok(report) => report,
        Err(error) => return ArgError::exit(&error),
    };
    if json {
        match serde_json::to_string_pretty(&report) {
            Ok(text) => println!("{text}"),
            Err(error) => eprintln!("loadtest: the report cannot be written: {error}"),
        }
    } else {
        println!("{report}");
    }
    let fails = report.is_incomplete || (check && !report.passed);
    if fails {
        report.wrong().for_each(|why| eprintln!("loadtest: {why}"));
    }
    ExitCode::from(u8::from(fails))
}

/// A distribution in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Quantiles {
    pub(crate) count: u64,
    pub(crate) p50: u64,
    pub(crate) p90: u64,
    pub(crate) p99: u64,
    pub(crate) p999: u64,
    pub(crate) max: u64,
}

impl Quantiles {
    pub(crate) fn of(latencies: &Latencies) -> Self {
        Self {
            count: latencies.count(),
            p50: latencies.at(0.5),
            p90: latencies.at(0.9),
            p99: latencies.at(0.99),
            p999: latencies.at(0.999),
            max: latencies.max(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_verdict_is_in_the_document_the_text_and_the_page() {
        let mut report = RunReport::of(&json!({"sockets": {"lost": 3}})).unwrap();
        report.must(true, "nobody is there");
        assert!(report.to_string().contains("passed"), "{report}");
        report.must(false, "3 < 4");
        report.must_be_quick(false, "late");
        let document = serde_json::to_value(&report).unwrap();
        assert_eq!(document["sockets"]["lost"], 3);
        assert_eq!(document["failures"], json!(["3 < 4"]));
        assert_eq!(document["slow"], json!(["late"]));
        assert_eq!(document["passed"], false);
        assert!(report.to_string().contains("failed\n  3 < 4\n  late"));
        assert!(report.html("t", "<svg>").contains("<svg><pre>"));
        assert!(report.html("t", "<svg>").contains("3 &lt; 4"));
    }
}
