//! The settings of tracing, for `otlp.rs`, or for `untraced.rs` in a build without that feature.

/// Which spans go to which collector.
#[derive(Debug)]
pub struct Traces {
    /// The collector; the path `/v1/traces` is added.
    pub endpoint: String,
    /// The gateway keeps one trace in so many. It keeps a trace that another program began if that
    /// program says so.
    pub one_in: u32,
    /// The gateway that sends them.
    pub gateway: String,
}
