//! The alert rules and the dashboard: Prometheus's own tool accepts and tests them, they name
//! metrics that exist, and the documents say of each alert what to do.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use rollcall::base::{metrics, process};
use serde_json::Value;

use super::tools::succeeds;
use super::{has_table, read};

const RULES: &str = "docs/alerts.yml";
const RULE_TESTS: &str = "tests/documents/alerts.yml";
const DASHBOARD: &str = "docs/grafana.json";

/// What no alert may fire on. The first has every series that an alert looks at.
const WELL: [&str; 5] = [
    "a healthy gateway",
    "an idle gateway",
    "a gateway that just started",
    "a rolling restart",
    "a storm of newcomers while a replica takes over",
];

fn promtool(args: &[&str]) {
    succeeds(Command::new("promtool").args(args), "");
}

fn yaml(path: &str) -> Value {
    yaml_serde::from_str(&read(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}"))
}

fn alerts() -> Vec<Value> {
    let rules = yaml(RULES);
    let alerts: Vec<Value> = list(&rules["groups"])
        .iter()
        .flat_map(|group| list(&group["rules"]))
        .cloned()
        .collect();
    assert!(alerts.len() > 20, "{RULES} has {} alerts", alerts.len());
    alerts
}

/// The names of all series that a scrape has.
fn series() -> BTreeSet<String> {
    let own = metrics::ALL
        .iter()
        .map(|(name, kind, _)| (format!("rollcall_{name}"), *kind));
    let of_process = process::ALL
        .iter()
        .map(|(name, kind, _)| ((*name).to_owned(), *kind));
    let all = own.chain(of_process).flat_map(|(name, kind)| {
        let endings: &[&str] = match kind {
            kind if kind.contains("Histogram") => &["_bucket", "_sum", "_count"],
            kind if kind.contains("Counter") => &["_total"],
            _ => &[""],
        };
        endings
            .iter()
            .map(move |ending| format!("{name}{ending}"))
            .collect::<Vec<_>>()
    });
    // Prometheus's own, of each scrape.
    all.chain(["up".to_owned()]).collect()
}

/// The metrics that an expression names.
fn named(expr: &str) -> BTreeSet<String> {
    // What is quoted is a value.
    let outside: String = expr.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    let words = outside.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_metric = |word: &&str| {
        *word == "up" || word.starts_with("rollcall_") || word.starts_with("process_")
    };
    words.filter(is_metric).map(str::to_owned).collect()
}

/// The expressions of the dashboard, with the title of their panel.
fn dashboard() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&read(DASHBOARD)).unwrap();
    let of_panel = |panel: &Value| {
        let title = text(&panel["title"]).to_owned();
        let targets = list(&panel["targets"]).to_vec();
        targets
            .into_iter()
            .map(move |target| (title.clone(), text(&target["expr"]).to_owned()))
    };
    let found: Vec<_> = list(&dashboard["panels"])
        .iter()
        .flat_map(of_panel)
        .collect();
    assert!(found.len() > 40, "{DASHBOARD} has {} graphs", found.len());
    found
}

#[test]
fn each_alert_fires_on_made_up_series_and_not_on_a_healthy_gateway() {
    promtool(&["check", "rules", RULES]);
    promtool(&["test", "rules", RULE_TESTS]);
    let tests = yaml(RULE_TESTS);
    let (healthy, sick): (Vec<_>, Vec<_>) = list(&tests["tests"])
        .iter()
        .partition(|test| !text(&test["name"]).starts_with("Rollcall"));
    assert_eq!(
        healthy
            .iter()
            .map(|test| text(&test["name"]))
            .collect::<Vec<_>>(),
        WELL
    );
    assert!(
        healthy
            .iter()
            .flat_map(|test| list(&test["promql_expr_test"]))
            .all(|test| {
                text(&test["expr"]) == "ALERTS{alertstate=\"firing\"}"
                    && list(&test["exp_samples"]).is_empty()
            })
    );
    let input = list(&healthy[0]["input_series"])
        .iter()
        .map(|series| text(&series["series"]));
    let input: BTreeSet<String> = input.flat_map(named).collect();
    for alert in alerts() {
        let name = text(&alert["alert"]);
        let labels = format!("{{alertname=\"{name}\"}}");
        let fires = |test: &&Value| {
            let mut samples = list(&test["promql_expr_test"])
                .iter()
                .flat_map(|test| list(&test["exp_samples"]));
            samples.any(|sample| sample["labels"] == labels.as_str())
        };
        assert!(
            sick.iter().copied().any(|test| fires(&test)),
            "{RULE_TESTS} does not make {name} fire"
        );
        let missing: Vec<_> = named(text(&alert["expr"]))
            .difference(&input)
            .cloned()
            .collect();
        assert!(
            missing.is_empty(),
            "the healthy gateway of {RULE_TESTS} lacks {missing:?}, which {name} looks at"
        );
    }
}

#[test]
fn alerts_and_graphs_name_metrics_that_exist() {
    let series = series();
    let rules = alerts().into_iter().map(|alert| {
        (
            text(&alert["alert"]).to_owned(),
            text(&alert["expr"]).to_owned(),
        )
    });
    for (place, expr) in rules.chain(dashboard()) {
        let named = named(&expr);
        assert!(!named.is_empty(), "{place:?} names no metric: {expr}");
        let unknown: Vec<_> = named.difference(&series).collect();
        assert!(
            unknown.is_empty(),
            "{place:?} names {unknown:?}, which do not exist"
        );
    }
}

#[test]
fn the_graphs_are_expressions_that_prometheus_understands() {
    let mut rules = String::from("groups:\n- name: graphs\n  rules:\n");
    for (place, (_, expr)) in dashboard().iter().enumerate() {
        let expr = expr.replace("$__rate_interval", "5m");
        rules.push_str(&format!(
            "  - record: graph_{place}\n    expr: '{}'\n",
            expr.replace('\'', "''")
        ));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), rules).unwrap();
    promtool(&["check", "rules", file.path().to_str().unwrap()]);
}

#[test]
fn the_scrape_jobs_of_the_documents_are_valid_and_have_the_name_that_alerts_expect() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("alerts.yml"), read(RULES)).unwrap();
    for document in ["docs/metrics.md", "docs/operations.md"] {
        let text = read(document);
        let blocks = text
            .split("```yaml\n")
            .skip(1)
            .filter_map(|rest| rest.split("```").next());
        let jobs: Vec<_> = blocks
            .filter(|block| block.starts_with("scrape_configs:"))
            .collect();
        let [job] = jobs[..] else {
            panic!("{document} has {} blocks of scrape_configs", jobs.len())
        };
        assert!(job.contains("job_name: rollcall\n"), "{job}");
        let file = folder.path().join("prometheus.yml");
        // Debian's promtool is built without what asks Kubernetes.
        let job: String = job
            .lines()
            .filter(|line| !line.contains("kubernetes_sd_configs"))
            .map(|l| format!("{l}\n"))
            .collect();
        std::fs::write(&file, job).unwrap();
        let file = file.to_str().unwrap();
        promtool(&["check", "config", "--syntax-only", file]);
    }
}

#[test]
fn the_document_on_metrics_has_the_table_of_alerts() {
    let mut table = String::from("| alert | severity | fires when |\n| --- | --- | --- |\n");
    for alert in alerts() {
        let (name, expr) = (
            text(&alert["alert"]),
            text(&alert["expr"]).replace('|', "\\|"),
        );
        let wait = alert["for"]
            .as_str()
            .map_or(String::new(), |wait| format!(" for {wait}"));
        let severity = text(&alert["labels"]["severity"]);
        let link = format!("[{name}](operations.md#{})", name.to_lowercase());
        table.push_str(&format!("| {link} | {severity} | `{expr}`{wait} |\n"));
    }
    has_table("docs/metrics.md", "alerts", &table);
}

/// An alert's section quotes what the rule says, and may say more.
#[test]
fn the_document_on_operations_says_of_each_alert_what_to_do() {
    let document = read("docs/operations.md");
    let sections: BTreeMap<&str, &str> = document
        .split("\n### ")
        .skip(1)
        .filter_map(|section| section.split_once('\n'))
        .filter(|(heading, _)| heading.starts_with("Rollcall"))
        .collect();
    let words = |text: &str| {
        text.split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
            .replace('`', "")
    };
    let mut unknown: BTreeSet<&str> = sections.keys().copied().collect();
    let mut missing = String::new();
    for alert in alerts() {
        let (name, notes) = (text(&alert["alert"]), &alert["annotations"]);
        let (summary, todo) = (text(&notes["summary"]), text(&notes["description"]));
        unknown.remove(name);
        assert_eq!(
            text(&notes["runbook_url"]),
            format!("docs/operations.md#{}", name.to_lowercase())
        );
        let said = sections
            .get(name)
            .map(|section| words(section))
            .unwrap_or_default();
        if !said.contains(&words(summary)) || !said.contains(&words(todo)) {
            missing.push_str(&format!("### {name}\n\n{summary} {todo}\n\n"));
        }
    }
    assert!(missing.is_empty(), "docs/operations.md lacks\n\n{missing}");
    assert!(
        unknown.is_empty(),
        "docs/operations.md has sections of alerts that do not exist: {unknown:?}"
    );
}
