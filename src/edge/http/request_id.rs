//! The id of one HTTP request: the client's own (`x-request-id`) if it is well formed, otherwise a
//! new one. The answer, the body of a refusal, and the log lines of the request contain it.

use std::fmt;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that the gateway takes from a client, in bytes. UUIDs and ULIDs are shorter.
const MAX_LEN: usize = 64;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HttpRequestId(HeaderValue);

impl HttpRequestId {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut sent = headers.get_all(REQUEST_ID).iter();
        match (sent.next(), sent.next()) {
            (Some(id), None) if is_well_formed(id) => Self(id.clone()),
            _ => Self::random(),
        }
    }

    fn random() -> Self {
        let id = format!("{:032x}", rand::random::<u128>());
        Self(HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("none")))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    pub(crate) fn header(&self) -> HeaderValue {
        self.0.clone()
    }
}

impl fmt::Display for HttpRequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Whether the id may appear in logs and answers.
fn is_well_formed(id: &HeaderValue) -> bool {
    (1..=MAX_LEN).contains(&id.len())
        && id
            .as_bytes()
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_.:-".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sent: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for id in sent {
            headers.append(REQUEST_ID, HeaderValue::from_str(id).unwrap());
        }
        HttpRequestId::of(&headers).to_string()
    }

    #[test]
    fn a_well_formed_id_of_the_client_is_kept() {
        let longest = "a".repeat(MAX_LEN);
        for id in [
            "7",
            "6f1c3c9e-94a5-4f0e-9ad5-a7b3c2f1e001",
            "web:eu-1.c_7",
            &longest,
        ] {
            assert_eq!(of(&[id]), id);
        }
    }

    #[test]
    fn any_other_is_replaced_by_a_new_one() {
        let too_long = "a".repeat(MAX_LEN + 1);
        let wrong: [&[&str]; 7] = [
            &[],
            &[""],
            &["a b"],
            &["a\"b"],
            &["é"],
            &[&too_long],
            &["a", "a"],
        ];
        let made: std::collections::HashSet<_> = wrong.iter().map(|sent| of(sent)).collect();
        assert_eq!(made.len(), wrong.len(), "{made:?}");
        assert!(
            made.iter()
                .all(|id| id.len() == 32 && id.bytes().all(|b| b.is_ascii_hexdigit())),
            "{made:?}"
        );
    }
}
