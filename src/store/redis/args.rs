//! The arguments of commands and scripts, all of which go to Redis as text.

macro_rules! args {
    ($($arg:expr),* $(,)?) => {
        vec![$(fred::types::Value::from($arg.to_string())),*]
    };
}
pub(crate) use args;
