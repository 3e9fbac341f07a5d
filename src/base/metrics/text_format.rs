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
    /// Chooses by the values of a request's `Accept` headers. Who does not ask for OpenMetrics by
    /// name, or likes plain text better, gets what every tool reads.
    pub(crate) fn asked_for<'a>(accept: impl IntoIterator<Item = &'a str>) -> Self {
        let (mut open_metrics, mut plain) = (0.0, 0.0);
        for range in accept.into_iter().flat_map(|line| line.split(',')) {
            let mut parts = range.split(';').map(str::trim);
            let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
            let weight = parts
                .filter_map(|part| part.split_once('='))
                .find(|(name, _)| name.eq_ignore_ascii_case("q"));
            let weight: f64 =
                weight.map_or(1.0, |(_, weight)| weight.trim().parse().unwrap_or(0.0));
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

/// Turns OpenMetrics into the older format, in which the head of a counter has the ending of its
/// samples, and nothing marks the end.
pub(super) fn in_prometheus_format(open_metrics: &str) -> String {
    let lines = open_metrics
        .lines()
        .filter(|line| *line != "# EOF" && !line.starts_with("# UNIT "));
    let types = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let counters: BTreeSet<&str> = types
        .filter_map(|line| line.strip_suffix(" counter"))
        .collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in lines {
        let head = ["# HELP ", "# TYPE "]
            .into_iter()
            .find_map(|head| Some((head, line.strip_prefix(head)?)));
        match head.and_then(|(head, rest)| Some((head, rest.split_once(' ')?))) {
            Some((head, (name, rest))) if counters.contains(name) => {
                text.extend([head, name, "_total ", rest]);
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
