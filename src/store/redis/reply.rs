//! Reads answers: each piece must be there and have the agreed type, or the answer is nonsense. No
//! answer of Redis can make the gateway panic.

use bytes::Bytes;
use fred::types::Value;

use crate::base::clock::UnixMillis;
use crate::base::ids::{GatewayId, UserId};
use crate::store::{StoreError, StoreResult};

/// An answer made of several pieces, taken from the front.
pub(crate) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    pub(crate) fn of(value: Value) -> StoreResult<Self> {
        match value {
            Value::Array(_) | Value::Null => Ok(Self::of_script(value)),
            other => Err(nonsense(format!(
                "a list was expected, not a {}",
                other.kind()
            ))),
        }
    }

    /// The answer of a script: a list, or a single piece.
    pub(crate) fn of_script(value: Value) -> Self {
        let pieces = match value {
            Value::Array(pieces) => pieces,
            Value::Null => Vec::new(),
            piece => vec![piece],
        };
        Self(pieces.into_iter())
    }

    /// Takes the reason for which Redis refused to publish a script's change, if it did; see
    /// `publish` in `scripts/prelude/basics.lua`.
    pub(crate) fn take_refusal(&mut self) -> StoreResult<Option<String>> {
        let word = self.0.as_slice().first().and_then(Value::as_bytes);
        if word != Some(b"not published") {
            return Ok(None);
        }
        self.next()?;
        self.text().map(Some)
    }

    /// Whether no piece is left.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    /// The next piece, if there is one.
    pub(crate) fn piece(&mut self) -> Option<Value> {
        self.0.next()
    }

    fn next(&mut self) -> StoreResult<Value> {
        match self.piece() {
            Some(piece) => Ok(piece),
            None => Err(nonsense("an answer that is too short")),
        }
    }

    pub(crate) fn text(&mut self) -> StoreResult<String> {
        text(self.next()?)
    }

    pub(crate) fn bytes(&mut self) -> StoreResult<Bytes> {
        match self.next()?.into_bytes() {
            Some(bytes) => Ok(bytes),
            None => Err(nonsense("a text was expected")),
        }
    }

    pub(crate) fn number(&mut self) -> StoreResult<u64> {
        number(&self.next()?)
    }

    /// The next piece as a number, if there is one.
    pub(crate) fn next_number(&mut self) -> StoreResult<Option<u64>> {
        match self.piece() {
            Some(piece) => Ok(Some(number(&piece)?)),
            None => Ok(None),
        }
    }

    /// The next piece, as the cursor of the next page; `None` for zero, which ends a scan.
    pub(crate) fn cursor(&mut self) -> StoreResult<Option<u64>> {
        match self.number()? {
            0 => Ok(None),
            cursor => Ok(Some(cursor)),
        }
    }

    /// True for 1.
    pub(crate) fn flag(&mut self) -> StoreResult<bool> {
        flag(&self.next()?)
    }

    /// The next piece, as an answer of several pieces.
    pub(crate) fn list(&mut self) -> StoreResult<Self> {
        Self::of(self.next()?)
    }

    /// All remaining pieces.
    pub(crate) fn pieces(self) -> Vec<Value> {
        self.0.collect()
    }

    /// The remaining pieces, as gateways, each with a number.
    pub(crate) fn counted_gateways(mut self) -> StoreResult<Vec<(GatewayId, u64)>> {
        let mut counted = Vec::new();
        while let Some(name) = self.piece() {
            counted.push((gateway(name)?, self.number()?));
        }
        Ok(counted)
    }

    /// The remaining pieces, as names of fields, each with its value.
    pub(crate) fn pairs(mut self) -> StoreResult<Vec<(String, String)>> {
        let mut pairs = Vec::new();
        while let Some(name) = self.piece() {
            pairs.push((text(name)?, self.text()?));
        }
        Ok(pairs)
    }

    /// The remaining pieces that are texts. Skips others: they are another program's bytes.
    pub(crate) fn texts(self) -> impl Iterator<Item = String> {
        self.0.filter_map(|piece| text(piece).ok())
    }

    /// The remaining pieces that are ids of users or guests. Skips others, which another program wrote:
    /// nobody can ask for them or take them out by name.
    pub(crate) fn users(self) -> Vec<UserId> {
        let mut users = Vec::new();
        for text in self.texts() {
            if let Ok(user) = UserId::read(&text) {
                users.push(user);
            }
        }
        users
    }

    /// The remaining pieces, as pairs of a member and its score.
    pub(crate) fn scored(mut self) -> StoreResult<Vec<(String, UnixMillis)>> {
        let mut pairs = Vec::new();
        while let Some(member) = self.piece() {
            let score = score(self.next()?)?;
            // A member that is not UTF-8 is no id of ours. It keeps its place in the page but names
            // nobody.
            pairs.push((
                text(member).unwrap_or_default(),
                score.max(0.0) as UnixMillis,
            ));
        }
        Ok(pairs)
    }
}

/// The answer to the next of several commands.
pub(crate) fn next_answer(
    answers: &mut dyn Iterator<Item = StoreResult<Value>>,
) -> StoreResult<Value> {
    match answers.next() {
        Some(answer) => answer,
        None => Err(nonsense("too few answers")),
    }
}

pub(crate) fn text(piece: Value) -> StoreResult<String> {
    piece
        .into_string()
        .ok_or_else(|| nonsense("a text was expected"))
}

pub(crate) fn number(piece: &Value) -> StoreResult<u64> {
    let read = match piece {
        Value::Integer(n) => u64::try_from(*n).ok(),
        other => other.as_str().and_then(|text| text.parse().ok()),
    };
    match read {
        Some(number) => Ok(number),
        None => Err(nonsense("a number was expected")),
    }
}

pub(crate) fn score(piece: Value) -> StoreResult<f64> {
    read_score(&text(piece)?)
}

pub(crate) fn read_score(text: &str) -> StoreResult<f64> {
    text.parse()
        .map_err(|_| nonsense("a score that is no number"))
}

pub(crate) fn gateway(piece: Value) -> StoreResult<GatewayId> {
    GatewayId::parse(&text(piece)?).map_err(|_| nonsense("a gateway's name"))
}

/// True for 1.
pub(crate) fn flag(piece: &Value) -> StoreResult<bool> {
    Ok(number(piece)? == 1)
}

pub(crate) fn nonsense(what: impl Into<String>) -> StoreError {
    StoreError::Nonsense(what.into())
}
