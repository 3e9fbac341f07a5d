//! Reads the value of a flag. The command line may give each setting and each option once.

use std::ffi::OsString;

use clap::ArgMatches;

/// The value of a flag that may be given once.
pub(super) fn value(matches: &ArgMatches, flag: &str) -> Option<Result<String, String>> {
    let values: Vec<_> = matches.get_many::<OsString>(flag)?.collect();
    Some(match values.as_slice() {
        [value] => match value.to_str() {
            Some(text) => Ok(text.to_owned()),
            None => Err("is not valid UTF-8".to_owned()),
        },
        more => Err(format!(
            "is given {} times, but may be given only once",
            more.len()
        )),
    })
}
