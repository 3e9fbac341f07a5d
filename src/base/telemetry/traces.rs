//! Which spans are sent where: what the settings say, for `otlp.rs`, or for `untraced.rs` in a
//! build without that feature.

/// Which spans are sent where.
#[derive(Debug)]
pub struct Traces {
    /// The collector; the path `/v1/traces` is added.
    pub endpoint: String,
    /// One trace in so many is kept. A trace that another program began is kept if that program
    /// says so.
    pub one_in: u32,
    /// The gateway that sends them.
    pub gateway: String,
}
