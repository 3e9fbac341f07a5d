//! Redis's protocol, as much of it as [`super::lookups`] needs: writes commands, and reads answers as they come in.

use bytes::{Bytes, BytesMut};
use fred::error::{Error, ErrorKind};
use fred::types::Value;

/// A command's name and its arguments, its key first.
pub(super) type Command = (&'static str, Vec<Value>);

/// All answers to a call, in bytes. Those to 250 users take some 20 KiB.
const MOST: usize = 16 * 1_024 * 1_024;
/// Pieces of one answer.
const MOST_PIECES: usize = 100_000;

/// Writes a command whose arguments are texts.
pub(super) fn write_command(to: &mut Vec<u8>, name: &str, args: &[Value]) {
    write_head(to, b'*', 1 + args.len());
    write_text(to, name.as_bytes());
    args.iter().for_each(|arg| write_text(to, arg.as_bytes().unwrap_or_default()));
}

fn write_text(to: &mut Vec<u8>, text: &[u8]) {
    write_head(to, b'$', text.len());
    to.extend_from_slice(text);
    to.extend_from_slice(b"\r\n");
}

fn write_head(to: &mut Vec<u8>, kind: u8, number: usize) {
    let (mut digits, mut first, mut rest) = ([0; 20], 20, number);
    while first == 20 || rest > 0 {
        first -= 1;
        digits[first] = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    to.push(kind);
    to.extend_from_slice(&digits[first..]);
    to.extend_from_slice(b"\r\n");
}

/// A piece of an answer. A text is where it is in the bytes received.
#[derive(Debug, Clone, Copy)]
enum Piece {
    List,
    Number(i64),
    Text(usize, usize),
    Error(usize, usize),
    Nil,
}

struct Next {
    piece: Piece,
    /// Pieces that follow and are in this one.
    inside: usize,
    /// Where the next piece is.
    end: usize,
}

/// The answers to a call, while they come in.
#[derive(Debug, Default)]
pub(super) struct Answers {
    pub(super) received: BytesMut,
    /// So many bytes were read.
    at: usize,
    pieces: Vec<Piece>,
    /// Where the pieces of each whole answer end.
    ends: Vec<usize>,
    /// Pieces that the last answer lacks.
    open: usize,
}

impl Answers {
    /// How many answers are there as a whole.
    pub(super) fn whole(&self) -> usize {
        self.ends.len()
    }

    /// Reads what has come in since.
    pub(super) fn read(&mut self) -> Result<(), Error> {
        while let Some(Next { piece, inside, end }) = next(&self.received, self.at)? {
            self.at = end;
            self.pieces.push(piece);
            self.open = (self.open.max(1) - 1).saturating_add(inside);
            if self.open > MOST_PIECES {
                return Err(nonsense());
            }
            if self.open == 0 {
                self.ends.push(self.pieces.len());
            }
        }
        if self.received.len() > MOST { Err(nonsense()) } else { Ok(()) }
    }

    /// The answers, which are so many. A list in a list becomes part of it.
    pub(super) fn take(self, number: usize) -> Result<Vec<Result<Value, Error>>, Error> {
        if self.at != self.received.len() || self.open > 0 || self.ends.len() != number {
            return Err(nonsense());
        }
        let (bytes, mut first) = (self.received.freeze(), 0);
        let answer = |end: usize| {
            let pieces = &self.pieces[std::mem::replace(&mut first, end)..end];
            match pieces {
                [Piece::List, pieces @ ..] => {
                    let values = pieces.iter().filter(|piece| !matches!(piece, Piece::List));
                    values.map(|piece| value(&bytes, *piece)).collect::<Result<_, _>>().map(Value::Array)
                }
                [piece, ..] => value(&bytes, *piece),
                [] => Err(nonsense()),
            }
        };
        Ok(self.ends.iter().copied().map(answer).collect())
    }
}

fn value(bytes: &Bytes, piece: Piece) -> Result<Value, Error> {
    match piece {
        Piece::Number(number) => Ok(Value::Integer(number)),
        Piece::Text(from, to) => Ok(Value::Bytes(bytes.slice(from..to))),
        Piece::Error(from, to) => {
            Err(Error::new(ErrorKind::Unknown, String::from_utf8_lossy(&bytes[from..to]).into_owned()))
        }
        Piece::Nil | Piece::List => Ok(Value::Null),
    }
}

/// The piece at a place; `None` if it is not there as a whole.
fn next(bytes: &[u8], at: usize) -> Result<Option<Next>, Error> {
    let Some(length) = bytes[at..].iter().position(|byte| *byte == b'\r') else { return Ok(None) };
    let (first, last) = (at + 1, at + length);
    if length == 0 || bytes.get(last + 1).is_some_and(|byte| *byte != b'\n') {
        return Err(nonsense());
    }
    let end = last + 2;
    let number = || std::str::from_utf8(&bytes[first..last]).ok().and_then(|text| text.parse::<i64>().ok());
    let size = || number().and_then(|size| usize::try_from(size).ok()).filter(|size| *size <= MOST);
    let (piece, inside, end) = match bytes[at] {
        b':' => (Piece::Number(number().ok_or_else(nonsense)?), 0, end),
        b'+' => (Piece::Text(first, last), 0, end),
        b'-' => (Piece::Error(first, last), 0, end),
        b'$' | b'*' if number() == Some(-1) => (Piece::Nil, 0, end),
        b'$' => {
            let size = size().ok_or_else(nonsense)?;
            (Piece::Text(end, end + size), 0, end + size + 2)
        }
        b'*' => (Piece::List, size().ok_or_else(nonsense)?, end),
        _ => return Err(nonsense()),
    };
    Ok((end <= bytes.len()).then_some(Next { piece, inside, end }))
}

fn nonsense() -> Error {
    Error::new(ErrorKind::Parse, "an answer that is no answer of Redis")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads answers of which ever more bytes come in.
    fn read(bytes: &[u8], number: usize) -> Result<Vec<Result<Value, Error>>, Error> {
        let mut answers = Answers::default();
        for byte in bytes {
            answers.received.extend_from_slice(&[*byte]);
            answers.read()?;
        }
        answers.take(number)
    }

    #[test]
    fn a_command_is_written_as_lengths_and_texts() {
        let mut call = Vec::new();
        write_command(&mut call, "PING", &[]);
        write_command(&mut call, "SMISMEMBER", &["k".into(), Value::Bytes(Bytes::from_static(b"\r\n\0")), "".into()]);
        let text = "*1\r\n$4\r\nPING\r\n*4\r\n$10\r\nSMISMEMBER\r\n$1\r\nk\r\n$3\r\n\r\n\0\r\n$0\r\n\r\n";
        assert_eq!(call, text.as_bytes());
    }

    #[test]
    fn answers_are_read_however_they_are_cut() {
        let answers =
            read(b"*3\r\n:1\r\n$-1\r\n$4\r\na\r\nb\r\n+OK\r\n-MOVED 1 a:2\r\n*0\r\n*-1\r\n:-7\r\n", 6).unwrap();
        let text = Value::Bytes(Bytes::from_static(b"a\r\nb"));
        assert_eq!(answers[0].as_ref().unwrap(), &Value::Array(vec![Value::Integer(1), Value::Null, text]));
        assert_eq!(answers[1].as_ref().unwrap().as_bytes(), Some(&b"OK"[..]));
        assert_eq!(answers[2].as_ref().unwrap_err().details(), "MOVED 1 a:2");
        assert_eq!(answers[3].as_ref().unwrap(), &Value::Array(Vec::new()));
        assert_eq!(answers[4].as_ref().unwrap(), &Value::Null);
        assert_eq!(answers[5].as_ref().unwrap(), &Value::Integer(-7));
    }

    #[test]
    fn lists_in_a_list_are_part_of_it() {
        let answers = read(b"*3\r\n:1\r\n*2\r\n:2\r\n*0\r\n:3\r\n:4\r\n", 2).unwrap();
        let numbers = [1, 2, 3].map(Value::Integer).to_vec();
        assert_eq!(answers[0].as_ref().unwrap(), &Value::Array(numbers));
        assert_eq!(answers[1].as_ref().unwrap(), &Value::Integer(4));
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        let wrong: [&[u8]; 9] = [
            b"1\r\n",
            b"\r\n",
            b":1\rx",
            b":x\r\n",
            b"$-2\r\n",
            b"$99999999999999999999\r\n",
            b"$17000000\r\n",
            b"*100001\r\n",
            b":1\r\n:2\r\n",
        ];
        for bytes in wrong {
            assert!(read(bytes, 1).is_err(), "{}", String::from_utf8_lossy(bytes));
        }
        assert!(read(b"*2\r\n:1\r\n", 1).is_err(), "too short");
    }
}
