//! Why a gateway could not start.

use std::net::SocketAddr;

use crate::auth::tokens::OpenError as KeysError;
use crate::edge::listener::tls::CertificateError;
use crate::features::wired::SetupError;
use crate::store::redis::ConnectError;

/// Why a gateway could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address cannot be bound.
    #[error("cannot listen on {0}: {1}")]
    Address(SocketAddr, std::io::Error),
    /// The store cannot be opened.
    #[error("{0}")]
    Store(#[from] ConnectError),
    /// A feature is set up wrongly, the store was used with other settings before, or several files
    /// cannot be used.
    #[error("{0}")]
    Settings(String),
    /// The keys that verify tokens and back ends cannot be read or fetched.
    #[error("{0}")]
    Keys(#[from] KeysError),
    /// The certificate of the public address cannot be used.
    #[error("{0}")]
    Certificate(#[from] CertificateError),
}

impl From<SetupError> for StartError {
    fn from(why: SetupError) -> Self {
        match why {
            SetupError::Wrong(why) => Self::Settings(why),
            SetupError::Address(address, why) => Self::Address(address, why),
        }
    }
}

impl StartError {
    /// Whether only other settings or other files can help; otherwise a second try may succeed.
    pub fn is_mistake(&self) -> bool {
        match self {
            Self::Keys(KeysError::File(_)) | Self::Certificate(_) | Self::Settings(_) => true,
            Self::Store(why) => why.is_mistake(),
            Self::Keys(KeysError::Url(_)) | Self::Address(..) => false,
        }
    }
}
