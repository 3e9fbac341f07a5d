//! Reads the value of a flag: settings and options may be given once each.

use std::ffi::OsString;

use clap::ArgMatches;

/// The value of a flag that may be given once.
pub(super) fn value(matches: &ArgMatches, flag: &str) -> Option<Result<String, String>> {
    let values: Vec<_> = matches.get_many::<OsString>(flag)?.collect();
    Some(match values.as_slice() {
        [value] => value
            .to_str()
            .map(str::to_owned)
            .ok_or_else(|| "is not valid UTF-8".to_owned()),
        more => Err(format!(
            "is given {} times, but may be given only once",
            more.len()
        )),
    })
}
