//! Options that several commands have.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ArgMatches;

use crate::base::gateway_url::GatewayUrl;
use crate::config::flag_value::value;

/// How a command writes its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputFormat {
    /// Tables and sentences for people.
    Text,
    /// One JSON document.
    Json,
}

/// Which gateways a command asks, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayArgs {
    pub(crate) urls: Vec<GatewayUrl>,
    /// `None`: without a key.
    pub(crate) api_key_file: Option<PathBuf>,
    /// `None`: the certificate authorities of the system.
    pub(crate) ca: Option<PathBuf>,
}

/// Notes a mistake: in which option, and what would be right.
pub(super) type Refuse<'a> = &'a mut dyn FnMut(&str, &str);

/// How the answer is wanted.
pub(super) fn format(matches: &ArgMatches) -> OutputFormat {
    if matches.get_flag("json") { OutputFormat::Json } else { OutputFormat::Text }
}

/// The gateways that are named, and how to ask them.
pub(super) fn gateways(matches: &ArgMatches, refuse: Refuse<'_>) -> GatewayArgs {
    let urls = matches.get_many::<OsString>("gateway").into_iter().flatten();
    let read = urls.filter_map(|url| {
        let url = GatewayUrl::parse(&url.to_string_lossy());
        url.map_err(|problem| refuse("--gateway (flag)", problem)).ok()
    });
    let urls = read.collect();
    let mut file = |name: &str| {
        value(matches, name)?.map_err(|problem| refuse(&format!("--{name} (flag)"), &problem)).map(PathBuf::from).ok()
    };
    GatewayArgs { urls, api_key_file: file("api-key-file"), ca: file("gateway-ca") }
}

/// How many of something to show.
pub(super) fn number(matches: &ArgMatches, option: &str, default: usize, refuse: Refuse<'_>) -> usize {
    let Some(given) = value(matches, option) else { return default };
    let right = || "must be a number from 0 to 1000".to_owned();
    let read = given.and_then(|text| text.parse().ok().filter(|number| *number <= 1_000).ok_or_else(right));
    read.unwrap_or_else(|problem| {
        refuse(&format!("--{option} (flag)"), &problem);
        default
    })
}
