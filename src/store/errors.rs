//! Why a store call failed. Callers decide on the variant, never on its text.

/// Why a store call failed. After [`StoreError::Timeout`] and [`StoreError::Lost`] the call may
/// have been carried out; the other errors mean that nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// No answer before the deadline. The call may still be carried out, at any later time.
    #[error("the store did not answer in time")]
    Timeout,
    /// The connection broke with the call under way.
    #[error("the connection to the store was lost: {0}")]
    Lost(String),
    /// Too many calls are waiting already.
    #[error("too many calls wait for the store")]
    Backpressure,
    /// The store refused: read-only, out of memory, no permission, loading.
    #[error("the store refused: {0}")]
    Refused(String),
    /// An answer without the agreed shape: another program uses the key, or there is a bug.
    #[error("the store answered nonsense: {0}")]
    Nonsense(String),
}

impl StoreError {
    /// Whether the call surely changed nothing.
    pub fn did_nothing(&self) -> bool {
        !matches!(self, Self::Timeout | Self::Lost(_))
    }

    /// Whether the same call may succeed later. Data that another program garbled stays garbled.
    pub fn is_worth_a_retry(&self) -> bool {
        !matches!(self, Self::Nonsense(_))
    }

    /// Whether the store refused because it takes no writes now. It answers, and reads may work.
    pub fn refuses_writes(&self) -> bool {
        let Self::Refused(said) = self else {
            return false;
        };
        // The first word of an error is part of the store's protocol.
        ["OOM", "MISCONF", "NOREPLICAS", "READONLY"]
            .contains(&said.split(' ').next().unwrap_or_default())
    }

    /// The text for clients. The store's own words may name hosts and keys, and are for operators.
    pub fn for_clients(&self) -> &'static str {
        match self {
            Self::Timeout | Self::Lost(_) => "the store does not answer now",
            Self::Backpressure => "too many calls wait for the store now",
            Self::Refused(_) if self.refuses_writes() => "the store refuses writes now",
            Self::Refused(_) => "the store refuses this now",
            Self::Nonsense(_) => "the store's answer cannot be read",
        }
    }

    /// The label under which metrics count this error.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Lost(_) => "lost",
            Self::Backpressure => "backpressure",
            Self::Refused(_) => "refused",
            Self::Nonsense(_) => "nonsense",
        }
    }
}

/// The result of a store call.
pub type StoreResult<T> = Result<T, StoreError>;

/// Like [`Result::and`], except that an error that is worth a retry comes before one that is not:
/// one garbled key must not prevent retries for the others.
pub fn both<T, U>(first: StoreResult<T>, second: StoreResult<U>) -> StoreResult<U> {
    match first {
        Err(why) if why.is_worth_a_retry() || second.is_ok() => Err(why),
        _ => second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_told_what_the_store_does_and_nothing_that_it_said() {
        let refused = |said: &str| StoreError::Refused(said.to_owned()).for_clients();
        for said in [
            "OOM command not allowed",
            "MISCONF Redis is configured",
            "NOREPLICAS Not enough",
            "READONLY You",
        ] {
            assert_eq!(refused(said), "the store refuses writes now", "{said}");
        }
        assert_eq!(
            refused("NOPERM User rollcall has no permissions"),
            "the store refuses this now"
        );
        assert_eq!(
            StoreError::Lost("10.0.0.1:6379 is down".to_owned()).for_clients(),
            "the store does not answer now"
        );
    }

    #[test]
    fn of_two_errors_the_one_that_is_worth_a_retry_counts() {
        let garbled = || Err::<(), _>(StoreError::Nonsense(String::new()));
        let (away, full) = (
            || Err::<(), _>(StoreError::Timeout),
            || Err::<(), _>(StoreError::Backpressure),
        );
        assert_eq!(both(Ok(1), Ok(2)), Ok(2));
        assert_eq!(both(garbled(), Ok(())), garbled());
        assert_eq!(both(Ok(()), garbled()), garbled());
        assert_eq!(both(garbled(), away()), away());
        assert_eq!(both(away(), garbled()), away());
        assert_eq!(both(away(), full()), away());
    }
}
