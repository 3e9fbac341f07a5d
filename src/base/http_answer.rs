//! What the clients of other HTTP services have in common: the bounded body of an answer, and errors that do not name
//! the URL, which may hold a password.

use std::error::Error;

use reqwest::Response;

/// What went wrong. The error itself only says what was tried; the innermost one says why that failed.
pub fn reason(why: reqwest::Error) -> String {
    let why = why.without_url();
    let mut innermost: &dyn Error = &why;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// The body, read up to so many bytes; `None` if there are more.
pub async fn body(mut answer: Response, longest: usize) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        if body.len() + chunk.len() > longest {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}
