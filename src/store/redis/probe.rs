//! One probe of a server: the question that its watchdog asks each second, and the meaning of the
//! answer. A probe changes nothing by itself.

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
pub(crate) enum Probed {
    /// It takes writes.
    Leads {
        /// The value of its canary; `None` if it has no room for one.
        canary: Option<String>,
        /// Its clock.
        at: UnixMillis,
    },
    /// It answers; the probe did not ask whether it takes writes.
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

/// Probes a server with this canary. Without a canary any answer will do.
pub(crate) async fn ask(client: &Client, canary: Option<&str>) -> Probed {
    let asking = async {
        let client = client.with_options(&options());
        let Some(canary) = canary else {
            return client.ping::<String>(None).await.map(|_| Probed::Answers);
        };
        if let Some(leads) = look(&client, canary).await? {
            return Ok(leads);
        }
        let nonce = format!("{:016x}", rand::random::<u64>());
        let script = &scripts::PROBE_MASTER;
        let by_name = args![script.sha1(), 1, canary, nonce];
        let mut said: Result<Value, Error> = client.custom(custom("EVALSHA"), by_name).await;
        if let Err(error) = &said
            && ServerError::of(error) == Some(ServerError::UnknownScript)
        {
            let by_text = args![script.text(), 1, canary, nonce];
            said = client.custom(custom("EVAL"), by_text).await;
        }
        Ok(read(said?).unwrap_or(Probed::Answers))
    };
    match timeout(COMMAND_TIMEOUT, Box::pin(asking)).await {
        Ok(Ok(probed)) => probed,
        Ok(Err(error)) => judge(&error),
        Err(_) => Probed::Silent,
    }
}

/// Asks the same as the script, in commands that cost Redis a small part of it. `None` if there is
/// no canary: the script makes one.
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
    next_or_null(&mut answers)?;
    let canary = next_or_null(&mut answers)?;
    let time = next_or_null(&mut answers)?;
    let Some(canary) = canary.into_string() else {
        return Ok(None);
    };
    let Ok(at) = read_time(time) else {
        return Ok(None);
    };
    Ok(Some(Probed::Leads {
        canary: Some(canary),
        at,
    }))
}

/// The next answer; a pipeline that failed as a whole has fewer.
fn next_or_null(answers: &mut impl Iterator<Item = Result<Value, Error>>) -> Result<Value, Error> {
    answers.next().unwrap_or(Ok(Value::Null))
}

/// Reads the answer to TIME: seconds and microseconds.
fn read_time(answer: Value) -> StoreResult<UnixMillis> {
    let mut reply = Reply::of(answer)?;
    let seconds = reply.number()?;
    let micros = reply.number()?;
    Ok(seconds * 1_000 + micros / 1_000)
}

fn read(answer: Value) -> StoreResult<Probed> {
    let mut reply = Reply::of(answer)?;
    let canary = reply.text()?;
    let at = reply.number()?;
    Ok(Probed::Leads {
        canary: if canary.is_empty() {
            None
        } else {
            Some(canary)
        },
        at,
    })
}

fn judge(error: &Error) -> Probed {
    match ServerError::of(error) {
        // A replica that has lost its master answers with the second error, unless it is set to
        // serve stale data.
        Some(ServerError::ReadOnly | ServerError::MasterDown) => Probed::Follows,
        // The library hangs up on a server that answers with the second error.
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
