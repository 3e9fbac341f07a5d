//! The fuzzer's entrance to the Redis store: it runs every reader of answers on any answer.

use fred::types::Value;

use super::reply::Reply;
use super::{leases, lives, slices, slots};
use crate::base::ids::LiveId;
use crate::base::redis_address::Host;

/// Maximum depth of nested lists in made-up answers.
const DEEPEST: u8 = 4;

pub(crate) fn reply(bytes: &[u8]) {
    let answer = value(&mut bytes.iter().copied(), DEEPEST);
    let live = LiveId::parse("42").expect("an id");
    let host = Host::new("127.0.0.1", 6379);
    let _ = lives::record(&live, reply_of(&answer));
    let _ = slices::apply_reply(reply_of(&answer));
    let _ = slices::read_passed(reply_of(&answer));
    let _ = slices::read_claims_page(answer.clone(), answer.clone());
    let _ = slices::read_fence(answer.clone());
    let _ = reply_of(&answer).counted_gateways();
    let _ = leases::living_gateways(reply_of(&answer));
    let _ = reply_of(&answer).scored();
    let _ = reply_of(&answer).flag();
    let _ = reply_of(&answer).texts().count();
    let _ = slots::read_ranges(answer.clone(), &host);
    let _ = slots::read_epoch(&answer);
}

fn reply_of(answer: &Value) -> Reply {
    Reply::of_script(answer.clone())
}

/// The answer that the bytes describe. Each value begins with a byte for its kind.
fn value(bytes: &mut impl Iterator<Item = u8>, depth: u8) -> Value {
    let Some(kind) = bytes.next() else {
        return Value::Null;
    };
    match kind % 6 {
        0 => Value::Null,
        1 => Value::Integer(i64::from_le_bytes(std::array::from_fn(|_| {
            bytes.next().unwrap_or(0)
        }))),
        2 => Value::Double(f64::from_le_bytes(std::array::from_fn(|_| {
            bytes.next().unwrap_or(0)
        }))),
        3 | 4 => {
            let length = usize::from(bytes.next().unwrap_or(0));
            let text: Vec<u8> = bytes.by_ref().take(length).collect();
            match String::from_utf8(text) {
                Ok(text) => Value::String(text.into()),
                Err(bytes) => Value::Bytes(bytes.into_bytes().into()),
            }
        }
        _ if depth == 0 => Value::Array(Vec::new()),
        _ => {
            let length = bytes.next().unwrap_or(0) % 16;
            Value::Array((0..length).map(|_| value(bytes, depth - 1)).collect())
        }
    }
}
