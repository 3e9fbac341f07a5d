//! Sends spans to an OpenTelemetry collector, over OTLP (HTTP with protobuf), from a thread of its
//! own. Only with the feature `otlp`. A collector that is slow or away costs nothing but spans:
//! those beyond a queue of 2,048 are dropped.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, Method};
use opentelemetry::KeyValue;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{TraceContextExt, TracerProvider};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use tracing::{Level, Metadata, Span, Subscriber};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{LevelFilter, filter_fn};
use tracing_subscriber::registry::LookupSpan;

use super::traces::Traces;

/// The timeout of one call to the collector.
const TIMEOUT: Duration = Duration::from_secs(5);

/// How long the end of the process waits for the last spans to go out.
const LAST: Duration = Duration::from_secs(2);

/// Whether this process sends spans.
static SENDS: AtomicBool = AtomicBool::new(false);

/// Sends the spans. Its drop sends the last ones.
#[derive(Debug)]
pub struct Export(Option<SdkTracerProvider>);

impl Drop for Export {
    fn drop(&mut self) {
        if let Some(provider) = &self.0 {
            // A collector that is away loses them.
            let _ = provider.shutdown_with_timeout(LAST);
        }
    }
}

pub(super) fn layer<S>(
    traces: Option<&Traces>,
) -> anyhow::Result<(Option<impl Layer<S> + use<S>>, Export)>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let Some(traces) = traces else {
        return Ok((None, Export(None)));
    };
    let provider = provider(traces)?;
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(env!("CARGO_PKG_NAME")))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(filter_fn(is_traced).with_max_level_hint(LevelFilter::DEBUG));
    SENDS.store(true, Ordering::Relaxed);
    Ok((Some(layer), Export(Some(provider))))
}

/// Selects the spans of this program, and the log lines for operators inside them.
fn is_traced(what: &Metadata<'_>) -> bool {
    let is_own = what.target().split("::").next() == Some(env!("CARGO_PKG_NAME"));
    let most_verbose = if what.is_span() {
        Level::DEBUG
    } else {
        Level::INFO
    };
    is_own && *what.level() <= most_verbose
}

fn provider(traces: &Traces) -> anyhow::Result<SdkTracerProvider> {
    let exporter = SpanExporter::builder()
        .with_http()
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(format!(
            "{}/v1/traces",
            traces.endpoint.trim_end_matches('/')
        ))
        .with_timeout(TIMEOUT)
        .build()?;
    let resource = Resource::builder()
        .with_service_name(env!("CARGO_PKG_NAME"))
        .with_attributes([
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", traces.gateway.clone()),
            KeyValue::new("gateway_id", traces.gateway.clone()),
        ])
        .build();
    Ok(SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource)
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(
            1.0 / f64::from(traces.one_in),
        ))))
        .build())
}

/// Continues the trace that a request brings along (W3C `traceparent`), and names the request's
/// span.
pub(crate) fn continue_trace(span: &Span, method: &Method, route: &str, headers: &HeaderMap) {
    if !SENDS.load(Ordering::Relaxed) {
        return;
    }
    span.record("otel.name", format!("{method} {route}"))
        .record("otel.kind", "server");
    let parent = TraceContextPropagator::new().extract(&Headers(headers));
    if parent.span().span_context().is_valid() {
        // Fails only if no subscriber has the span.
        let _ = span.set_parent(parent);
    }
}

struct Headers<'a>(&'a HeaderMap);

impl Extractor for Headers<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}
