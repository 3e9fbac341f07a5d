//! Owns the look into Redis that another service would take: commands over a connection of their
//! own, past the program.

#![allow(
    dead_code,
    unreachable_pub,
    reason = "several test binaries share this file, none uses all of it"
)]

use std::io::{BufRead, BufReader, Error, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

/// Sends commands one after the other on one new connection, and answers what the server says to
/// the last. An error of the connection, or of the server to any of them, is `Err`. Each read or
/// write waits as long as `patience` at most. The call blocks its thread.
pub fn ask(addr: SocketAddr, commands: &[&[&str]], patience: Duration) -> Result<Value, String> {
    let talk = || {
        let mut connection = TcpStream::connect_timeout(&addr, patience)?;
        connection.set_read_timeout(Some(patience))?;
        connection.set_write_timeout(Some(patience))?;
        connection.write_all(
            &commands
                .iter()
                .flat_map(|words| command(words))
                .collect::<Vec<u8>>(),
        )?;
        let mut answers = BufReader::new(connection);
        let mut last = Ok(Value::Null);
        for _ in commands {
            last = reply(&mut answers)?;
            if last.is_err() {
                break;
            }
        }
        Ok(last)
    };
    talk().unwrap_or_else(|error: Error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Err(format!("no answer in {patience:?}")),
        _ => Err(error.to_string()),
    })
}

/// An answer as redis-cli prints it to a file: one line per element, however deep; nothing for a
/// missing value.
pub fn lines(answer: &Value) -> String {
    match answer {
        Value::Array(items) => items.iter().map(lines).collect::<Vec<_>>().join("\n"),
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}

/// Reads one reply: integers become numbers, strings strings (escaped, if they are not UTF-8), a
/// missing value null, lists lists.
fn reply(from: &mut impl BufRead) -> std::io::Result<Result<Value, String>> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    // A server that is killed may leave the beginning of a line.
    if line.len() < 3 || !line.ends_with("\r\n") {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let (kind, rest) = line.trim_end().split_at(1);
    let length = || rest.parse::<i64>().map_err(Error::other);
    Ok(match kind {
        "+" => Ok(rest.into()),
        "-" => Err(rest.to_owned()),
        ":" => Ok(length()?.into()),
        "$" | "*" if length()? < 0 => Ok(Value::Null),
        "$" => {
            let mut bytes = vec![0; length()? as usize + 2];
            from.read_exact(&mut bytes)?;
            bytes.truncate(bytes.len() - 2);
            Ok(String::from_utf8(bytes)
                .unwrap_or_else(|e| e.as_bytes().escape_ascii().to_string())
                .into())
        }
        "*" => {
            let mut items = Vec::new();
            let mut failure = None;
            for _ in 0..length()? {
                match reply(from)? {
                    Ok(item) => items.push(item),
                    Err(error) => failure = Some(error),
                }
            }
            failure.map_or_else(|| Ok(items.into()), Err)
        }
        other => Err(format!("a reply of type {other:?}")),
    })
}
