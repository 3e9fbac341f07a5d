//! Helpers for the clients of other HTTP services: the bounded body of an answer, and errors that
//! do not name the URL, which may hold a password.

use std::error::Error;
use std::io;

use reqwest::Response;
use tokio_rustls::rustls::{self, CertificateError};

/// Why a request failed. The error itself only names the attempt; the innermost error says why it
/// failed.
pub fn reason(why: reqwest::Error) -> String {
    let why = why.without_url();
    if let Some(problem) = certificate_problem(&why) {
        return problem;
    }
    let mut innermost: &dyn Error = &why;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

/// Why the certificate of the other side is not accepted, as a sentence; `None` if something else
/// went wrong.
pub fn certificate_problem(why: &(dyn Error + 'static)) -> Option<String> {
    let mut next = Some(why);
    while let Some(mut error) = next {
        // The source of an I/O error is the source of the error inside it, so a walk along the
        // sources would skip the error inside.
        while let Some(inside) = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            error = inside;
        }
        if let Some(rustls::Error::InvalidCertificate(problem)) = error.downcast_ref() {
            return Some(in_words(problem));
        }
        next = error.source();
    }
    None
}

fn in_words(problem: &CertificateError) -> String {
    match problem {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; look at the clocks".to_owned()
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name than that of the URL".to_owned()
        }
        CertificateError::Revoked => "its certificate was revoked".to_owned(),
        // Most often the other side has a private authority, or a self-signed certificate.
        _ => "its certificate is not trusted: no authority that is known here issued it".to_owned(),
    }
}

/// The body, up to `longest` bytes; `None` if there are more.
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
