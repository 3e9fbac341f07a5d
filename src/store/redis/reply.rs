//! Reads answers: each piece must be there and have the agreed type, or the answer is nonsense. Nothing that Redis says
//! can make the gateway panic.

use fred::types::Value;

use crate::base::clock::UnixMillis;
use crate::base::ids::GatewayId;
use crate::store::{StoreError, StoreResult};

/// An answer made of several pieces, taken from the front.
pub(super) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    pub(super) fn of(value: Value) -> StoreResult<Self> {
        match value {
            Value::Array(pieces) => Ok(Self(pieces.into_iter())),
            Value::Null => Ok(Self(Vec::new().into_iter())),
            other => Err(nonsense(format!("a list was expected, not a {}", other.kind()))),
        }
    }

    /// The answer of a script: a list, or a single piece.
    pub(super) fn of_script(value: Value) -> Self {
        match value {
            Value::Array(pieces) => Self(pieces.into_iter()),
            Value::Null => Self(Vec::new().into_iter()),
            piece => Self(vec![piece].into_iter()),
        }
    }

    /// The next piece, if there is one.
    pub(super) fn piece(&mut self) -> Option<Value> {
        self.0.next()
    }

    pub(super) fn text(&mut self) -> StoreResult<String> {
        let piece = self.piece().ok_or_else(|| nonsense("an answer that is too short"))?;
        text(piece)
    }

    pub(super) fn number(&mut self) -> StoreResult<u64> {
        let piece = self.piece().ok_or_else(|| nonsense("an answer that is too short"))?;
        number(&piece)
    }

    /// True for 1.
    pub(super) fn flag(&mut self) -> StoreResult<bool> {
        Ok(self.number()? == 1)
    }

    /// The next piece, as an answer of several pieces.
    pub(super) fn list(&mut self) -> StoreResult<Self> {
        Self::of(self.piece().ok_or_else(|| nonsense("an answer that is too short"))?)
    }

    /// What is left, as gateways.
    pub(super) fn gateways(mut self) -> StoreResult<Vec<GatewayId>> {
        let mut gateways = Vec::new();
        while let Some(name) = self.piece() {
            gateways.push(gateway(name)?);
        }
        Ok(gateways)
    }

    /// What is left, as gateways, each with a number.
    pub(super) fn counted_gateways(mut self) -> StoreResult<Vec<(GatewayId, u64)>> {
        let mut counted = Vec::new();
        while let Some(name) = self.piece() {
            counted.push((gateway(name)?, self.number()?));
        }
        Ok(counted)
    }

    /// What is left, as texts; pieces that are none (another program's bytes) are passed over.
    pub(super) fn texts(self) -> impl Iterator<Item = String> {
        self.0.filter_map(|piece| text(piece).ok())
    }

    /// What is left, as pairs of a member and its score.
    pub(super) fn scored(mut self) -> StoreResult<Vec<(String, UnixMillis)>> {
        let mut pairs = Vec::new();
        while let Some(member) = self.piece() {
            let score: f64 = self.text()?.parse().map_err(|_| nonsense("a score that is no number"))?;
            // Not UTF-8: no id of ours. It keeps its place in the page but names nobody.
            let member = text(member).unwrap_or_default();
            pairs.push((member, score.max(0.0) as UnixMillis));
        }
        Ok(pairs)
    }
}

pub(super) fn text(piece: Value) -> StoreResult<String> {
    piece.into_string().ok_or_else(|| nonsense("a text was expected"))
}

pub(super) fn number(piece: &Value) -> StoreResult<u64> {
    let read = match piece {
        Value::Integer(n) => u64::try_from(*n).ok(),
        other => other.as_str().and_then(|text| text.parse().ok()),
    };
    read.ok_or_else(|| nonsense("a number was expected"))
}

pub(super) fn gateway(piece: Value) -> StoreResult<GatewayId> {
    GatewayId::parse(&text(piece)?).map_err(|_| nonsense("a gateway's name"))
}

/// True for 1.
pub(super) fn flag(piece: &Value) -> StoreResult<bool> {
    Ok(number(piece)? == 1)
}

pub(super) fn nonsense(what: impl Into<String>) -> StoreError {
    StoreError::Nonsense(what.into())
}
