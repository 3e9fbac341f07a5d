//! The two text formats of a scrape: OpenMetrics, and the older format of Prometheus, which every
//! tool reads.

use std::collections::BTreeSet;

/// A text format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// The one that Prometheus asks for first.
    OpenMetrics,
    /// Version 0.0.4 of the text format of Prometheus.
    Prometheus,
}

impl TextFormat {
    /// Chooses by the values of a request's `Accept` headers. A client that does not ask for
    /// OpenMetrics by name, or prefers plain text, gets the format that every tool reads.
    pub(crate) fn asked_for<'a>(accept: impl IntoIterator<Item = &'a str>) -> Self {
        let mut open_metrics: f64 = 0.0;
        let mut plain: f64 = 0.0;
        for range in accept.into_iter().flat_map(|line| line.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = weight(parts);
            match kind.as_str() {
                "application/openmetrics-text" => open_metrics = weight.max(open_metrics),
                "text/plain" => plain = weight.max(plain),
                _ => {}
            }
        }
        if open_metrics > 0.0 && open_metrics >= plain {
            Self::OpenMetrics
        } else {
            Self::Prometheus
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// The weight of a media type by its parameters: `q`, or 1 without it.
fn weight<'a>(parameters: impl Iterator<Item = &'a str>) -> f64 {
    for parameter in parameters {
        if let Some((name, value)) = parameter.split_once('=')
            && name.eq_ignore_ascii_case("q")
        {
            return value.trim().parse().unwrap_or(0.0);
        }
    }
    1.0
}

/// A line with the help or the type of a metric.
struct MetricHead<'a> {
    keyword: &'static str,
    metric: &'a str,
    rest: &'a str,
}

impl<'a> MetricHead<'a> {
    /// `None` for any other line.
    fn parse(line: &'a str) -> Option<Self> {
        for keyword in ["# HELP ", "# TYPE "] {
            if let Some(rest) = line.strip_prefix(keyword) {
                let (metric, rest) = rest.split_once(' ')?;
                return Some(Self {
                    keyword,
                    metric,
                    rest,
                });
            }
        }
        None
    }
}

/// The names of the counters in a scrape, without the ending of their samples.
fn counters(open_metrics: &str) -> BTreeSet<&str> {
    let mut counters = BTreeSet::new();
    for line in open_metrics.lines() {
        if let Some(of_metric) = line.strip_prefix("# TYPE ")
            && let Some(name) = of_metric.strip_suffix(" counter")
        {
            counters.insert(name);
        }
    }
    counters
}

/// Turns OpenMetrics into the older format, in which the head of a counter has the ending of its
/// samples, and nothing marks the end.
pub(super) fn in_prometheus_format(open_metrics: &str) -> String {
    let counters = counters(open_metrics);
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        if line == "# EOF" || line.starts_with("# UNIT ") {
            continue;
        }
        match MetricHead::parse(line) {
            Some(head) if counters.contains(head.metric) => {
                text.extend([head.keyword, head.metric, "_total ", head.rest]);
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scrape_gets_the_format_that_it_asks_for() {
        const PROMETHEUS: &str = "application/openmetrics-text;version=1.0.0;q=0.5,\
                                  application/openmetrics-text;version=0.0.1;q=0.4,\
                                  text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        for (accept, right) in [
            (PROMETHEUS, TextFormat::OpenMetrics),
            ("application/openmetrics-text", TextFormat::OpenMetrics),
            (
                "Application/OpenMetrics-Text; Version=1.0.0; Q=1",
                TextFormat::OpenMetrics,
            ),
            ("text/plain", TextFormat::Prometheus),
            (
                "text/plain;version=0.0.4;q=1,*/*;q=0.1",
                TextFormat::Prometheus,
            ),
            (
                "text/plain;q=0.9, application/openmetrics-text;q=0.5",
                TextFormat::Prometheus,
            ),
            (
                "application/openmetrics-text;q=0, text/plain;q=0.1",
                TextFormat::Prometheus,
            ),
            ("*/*", TextFormat::Prometheus),
            ("text/html", TextFormat::Prometheus),
        ] {
            assert_eq!(TextFormat::asked_for([accept]), right, "{accept}");
        }
        assert_eq!(TextFormat::asked_for([]), TextFormat::Prometheus);
        let two_lines = ["text/plain;q=0.1", "application/openmetrics-text;q=0.2"];
        assert_eq!(TextFormat::asked_for(two_lines), TextFormat::OpenMetrics);
    }

    #[test]
    fn only_the_heads_of_counters_differ_and_the_end() {
        let open_metrics = "# HELP a Sums.\n# TYPE a counter\na_total 1\n# HELP b Now.\n# TYPE b gauge\nb 2\n# EOF\n";
        let right = "# HELP a_total Sums.\n# TYPE a_total counter\na_total 1\n# HELP b Now.\n# TYPE b gauge\nb 2\n";
        assert_eq!(in_prometheus_format(open_metrics), right);
    }
}
