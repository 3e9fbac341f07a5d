//! Connections of a node for questions about many users. The client library makes a record of every command and several
//! objects of every argument and value, which takes longer than Redis takes to answer. Here the commands of a call are
//! written as one piece, and its answers are read by the task that asked. A connection has one call at a time, and is
//! closed if that fails, or if its caller gives up: what comes after it could not be told apart.
//!
//! Only what may be done twice is asked here. Everything that the gateway itself needs goes over the node's other
//! connection, which has a watchdog.

use std::fmt;

use fred::error::{Error, ErrorKind};
use fred::rustls::pki_types::ServerName;
use fred::types::Value;
use fred::types::config::TlsConnector;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio::try_join;

use super::client::{COMMAND_TIMEOUT, Connector};
use super::errors::ServerError;
use super::resp::{Answers, Command, write_command};
use crate::base::redis_address::Host;

/// Calls under way at a time, each on a connection of its own; the others wait. Redis answers one after another anyhow.
const CONNECTIONS: usize = 4;
/// Room for answers, made again before each read.
const READ: usize = 32 * 1_024;

trait Stream: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin> Stream for T {}

/// A connection on which no call is under way.
#[derive(Debug)]
struct Connection {
    stream: Box<dyn Stream>,
    /// How often the node's other connection had been made again when this one was made.
    era: u64,
}

/// A node's connections for questions about many users; made when they are needed, and kept.
#[derive(Debug)]
pub(super) struct Lookups {
    connector: Connector,
    host: Host,
    idle: Mutex<Vec<Connection>>,
    places: Semaphore,
}

impl Lookups {
    pub(super) fn new(connector: Connector, host: Host) -> Self {
        Self { connector, host, idle: Mutex::default(), places: Semaphore::new(CONNECTIONS) }
    }

    /// Sends commands one after another and reads the answer to each. A connection from an earlier era may lead to a
    /// server that is no longer the node.
    pub(super) async fn ask(&self, era: u64, commands: &[&Command]) -> Result<Vec<Result<Value, Error>>, Error> {
        let late = || Error::new(ErrorKind::Timeout, "no answer in time");
        timeout(COMMAND_TIMEOUT, self.ask_slowly(era, commands)).await.unwrap_or_else(|_| Err(late()))
    }

    async fn ask_slowly(&self, era: u64, commands: &[&Command]) -> Result<Vec<Result<Value, Error>>, Error> {
        let _place = self.places.acquire().await.map_err(|_| closed())?;
        let mut call = Vec::with_capacity(READ);
        commands.iter().for_each(|(name, args)| write_command(&mut call, name, args));
        if let Some(mut connection) = self.take_idle(era) {
            if let Ok(answers) = connection.ask(&call, commands.len()).await {
                self.idle.lock().push(connection);
                return Ok(answers);
            }
            // The server may have closed it long ago, and the others, too.
            self.idle.lock().clear();
        }
        let mut connection = self.connect(era).await?;
        let answers = connection.ask(&call, commands.len()).await?;
        self.idle.lock().push(connection);
        Ok(answers)
    }

    fn take_idle(&self, era: u64) -> Option<Connection> {
        let mut idle = self.idle.lock();
        idle.retain(|connection| connection.era == era);
        idle.pop()
    }

    async fn connect(&self, era: u64) -> Result<Connection, Error> {
        let socket = TcpStream::connect((self.host.name.as_str(), self.host.port)).await?;
        socket.set_nodelay(true)?;
        let stream: Box<dyn Stream> = match self.connector.tls() {
            Some(TlsConnector::Rustls(tls)) => {
                let name = ServerName::try_from(self.host.name.clone());
                let name = name.map_err(|why| Error::new(ErrorKind::Tls, why.to_string()))?;
                Box::new(tls.connect(name, socket).await?)
            }
            None => Box::new(socket),
        };
        let mut connection = Connection { stream, era };
        connection.greet(&self.connector).await?;
        Ok(connection)
    }
}

impl Connection {
    /// Logs in, and finds out whether the server is a master.
    async fn greet(&mut self, connector: &Connector) -> Result<(), Error> {
        let address = connector.address();
        let mut call = Vec::new();
        if let Some(password) = &address.password {
            let user = address.user.as_deref().unwrap_or("default");
            write_command(&mut call, "AUTH", &[user.into(), password.reveal().into()]);
        }
        let login = usize::from(address.password.is_some());
        write_command(&mut call, "HELLO", &["2".into()]);
        if let Some(database) = address.database {
            write_command(&mut call, "SELECT", &[database.to_string().into()]);
        }
        let number = login + 1 + usize::from(address.database.is_some());
        let mut answers = self.ask(&call, number).await?.into_iter();
        if let Some(Err(refused)) = answers.by_ref().take(login).next()
            // Otherwise the server has no password.
            && ServerError::of(&refused) == Some(ServerError::NotLetIn)
        {
            return Err(refused);
        }
        let said = answers.next().unwrap_or_else(|| Err(closed()))?.into_array();
        answers.try_for_each(|selected| selected.map(drop))?;
        let role = said.chunks_exact(2).find(|pair| pair[0].as_bytes() == Some(b"role")).map(|pair| &pair[1]);
        match role.and_then(Value::as_bytes) {
            Some(b"master") => Ok(()),
            _ => Err(Error::new(ErrorKind::Unknown, "READONLY the server is no master")),
        }
    }

    async fn ask(&mut self, call: &[u8], number: usize) -> Result<Vec<Result<Value, Error>>, Error> {
        let mut answers = Answers::default();
        let (mut from, mut to) = tokio::io::split(&mut self.stream);
        let sending = async {
            to.write_all(call).await?;
            Ok(to.flush().await?)
        };
        let receiving = async {
            while answers.whole() < number {
                answers.received.reserve(READ);
                if from.read_buf(&mut answers.received).await? == 0 {
                    return Err(closed());
                }
                answers.read()?;
            }
            Ok(())
        };
        try_join!(sending, receiving)?;
        answers.take(number)
    }
}

fn closed() -> Error {
    Error::new(ErrorKind::Canceled, "Connection closed unexpectedly.")
}
