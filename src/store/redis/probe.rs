//! One probe of a server: the question that its watchdog asks each second, and what the answer
//! means. A probe changes nothing by itself.

use fred::clients::{Client, WithOptions};
use fred::error::Error;
use fred::interfaces::ClientLike;
use fred::types::Value;
use tokio::time::timeout;

use super::args;
use super::client::{COMMAND_TIMEOUT, custom, options};
use super::errors::{ServerError, readable};
use super::reply::Reply;
use super::scripts;
use crate::base::clock::UnixMillis;
use crate::store::StoreResult;

/// The outcome of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Probed {
    /// It takes writes.
    Leads {
        /// What its canary holds; `None` if it has no room for one.
        canary: Option<String>,
        /// Its clock.
        at: UnixMillis,
    },
    /// It answers; whether it takes writes was not asked.
    Answers,
    /// It answers and refuses: no room, no permission, not enough replicas, another master's slot.
    /// The text is the server's own sentence, for the log.
    Refuses(ServerError, String),
    /// It is a replica.
    Follows,
    /// It serves nothing now: it reads its data from disk, or its cluster is down.
    Unready,
    /// No answer in time, or none that helps.
    Silent,
}

/// Probes a server with this canary; without one, any answer will do.
pub(super) async fn ask(client: &Client, canary: Option<&str>) -> Probed {
    let asking = async {
        let client = client.with_options(&options());
        let Some(canary) = canary else {
            return client.ping::<String>(None).await.map(|_| Probed::Answers);
        };
        if let Some(leads) = look(&client, canary).await? {
            return Ok(leads);
        }
        let nonce = format!("{:016x}", rand::random::<u64>());
        let args = |script: &str| args![script, 1, canary, nonce];
        let script = &scripts::PROBE;
        let mut said: Result<Value, Error> =
            client.custom(custom("EVALSHA"), args(script.sha1())).await;
        if said
            .as_ref()
            .is_err_and(|error| ServerError::of(error) == Some(ServerError::UnknownScript))
        {
            said = client.custom(custom("EVAL"), args(script.text())).await;
        }
        said.map(|answer| read(answer).unwrap_or(Probed::Answers))
    };
    match timeout(COMMAND_TIMEOUT, Box::pin(asking)).await {
        Ok(Ok(probed)) => probed,
        Ok(Err(error)) => judge(&error),
        Err(_) => Probed::Silent,
    }
}

/// Asks what the script asks, in commands that cost Redis a small part of it. `None` if there is no
/// canary: the script makes one.
async fn look(client: &WithOptions<Client>, canary: &str) -> Result<Option<Probed>, Error> {
    let pipeline = client.pipeline();
    let pipeline = pipeline.with_options(&options());
    for (command, args) in [
        ("PERSIST", args![canary]),
        ("GET", args![canary]),
        ("TIME", Vec::new()),
    ] {
        let _: Value = pipeline.custom(custom(command), args).await?;
    }
    let mut answers = pipeline.try_all::<Value>().await.into_iter();
    let mut next = || answers.next().unwrap_or(Ok(Value::Null));
    let (_, canary, at) = (next()?, next()?, next()?);
    let at = Reply::of(at).and_then(|mut at| Ok(at.number()? * 1_000 + at.number()? / 1_000));
    Ok(canary
        .into_string()
        .zip(at.ok())
        .map(|(canary, at)| Probed::Leads {
            canary: Some(canary),
            at,
        }))
}

fn read(answer: Value) -> StoreResult<Probed> {
    let mut reply = Reply::of(answer)?;
    let (canary, at) = (reply.text()?, reply.number()?);
    Ok(Probed::Leads {
        canary: Some(canary).filter(|canary| !canary.is_empty()),
        at,
    })
}

fn judge(error: &Error) -> Probed {
    match ServerError::of(error) {
        // A replica that has lost its master says the second, unless it was told to answer all the
        // same.
        Some(ServerError::ReadOnly | ServerError::MasterDown) => Probed::Follows,
        // The library hangs up on a server that says the second.
        Some(ServerError::Loading | ServerError::ClusterDown) => Probed::Unready,
        // A server that is stuck in a script, or that refused the login, is of no use.
        Some(ServerError::Stuck | ServerError::NotLetIn) | None => Probed::Silent,
        Some(why) => Probed::Refuses(why, readable(error.details()).to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use fred::error::ErrorKind;

    use super::*;

    #[test]
    fn errors_distinguish_a_replica_from_a_server_that_refuses_or_hangs() {
        let judged = |details: &'static str| judge(&Error::new(ErrorKind::Unknown, details));
        assert_eq!(
            judged("READONLY You can't write against a read only replica. script: 1"),
            Probed::Follows
        );
        assert_eq!(
            judged("MASTERDOWN Link with MASTER is down"),
            Probed::Follows
        );
        assert_eq!(
            judged("LOADING Redis is loading the dataset in memory"),
            Probed::Unready
        );
        assert_eq!(judged("CLUSTERDOWN The cluster is down"), Probed::Unready);
        assert_eq!(judged("NOAUTH Authentication required."), Probed::Silent);
        assert_eq!(judged("Connection closed unexpectedly."), Probed::Silent);
        assert_eq!(
            judged("MISCONF Redis is configured to save RDB snapshots"),
            Probed::Refuses(
                ServerError::Refused,
                "MISCONF Redis is configured to save RDB snapshots".to_owned()
            )
        );
        let moved = "MOVED 1 10.0.0.1:1";
        assert_eq!(
            judged(moved),
            Probed::Refuses(ServerError::Moved, moved.to_owned())
        );
    }
}
