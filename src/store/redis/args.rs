//! The arguments of commands and scripts, all of which go to Redis as text.

use fred::types::Value;

use crate::base::ids::{Epoch, GatewayId, LiveId, UserId};

/// Something that can be an argument.
pub(super) trait Arg {
    fn into_arg(self) -> Value;
}

macro_rules! args {
    ($($arg:expr),* $(,)?) => {
        vec![$($crate::store::redis::args::Arg::into_arg($arg)),*]
    };
}
pub(super) use args;

macro_rules! by_text {
    ($($type:ty),*) => {
        $(impl Arg for $type {
            fn into_arg(self) -> Value {
                Value::from(self.to_string())
            }
        })*
    };
}
by_text!(u32, u64, usize, Epoch, &UserId, &GatewayId, &LiveId);

impl Arg for String {
    fn into_arg(self) -> Value {
        Value::from(self)
    }
}

impl Arg for &str {
    fn into_arg(self) -> Value {
        Value::from(self)
    }
}

impl Arg for Value {
    fn into_arg(self) -> Value {
        self
    }
}
