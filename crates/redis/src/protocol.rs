//! The Redis protocol (RESP 2): encodes commands and decodes replies, without I/O.
//!
//! A reply is parsed when all of its bytes have arrived ([`Scan`] detects that). Its values are slices of the
//! receive buffer, so only the caller copies them.

use std::ops::Range;

/// The maximum size of a value: the default of Redis' `proto-max-bulk-len`.
pub const LONGEST_VALUE: usize = 512 << 20;
/// The maximum number of elements of an expected reply.
const MOST_ELEMENTS: i64 = 1 << 24;
/// The maximum length of a line of a reply (an error, a number).
const LONGEST_LINE: usize = 64 << 10;

/// Encoded commands, each with the slot of its key. They are numbered from 0.
#[derive(Debug, Default)]
pub struct Commands {
    bytes: Vec<u8>,
    list: Vec<Command>,
}

/// An encoded command.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    /// The slot of its key.
    pub slot: u16,
    /// The range of its bytes.
    pub range: Range<usize>,
    /// Approximate number of bytes in flight until it is answered.
    pub weight: usize,
}

impl Commands {
    /// Creates an empty list with capacity for so many bytes.
    pub fn with_capacity(n_bytes: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(n_bytes),
            list: Vec::new(),
        }
    }

    /// Begins a command of so many arguments, including its name. [`Commands::arg`] adds them.
    #[inline]
    pub fn begin(&mut self, slot: u16, n_args: usize) -> &mut Self {
        let start = self.bytes.len();
        self.list.push(Command {
            slot,
            range: start..start,
            weight: 0,
        });
        self.length(b'*', n_args);
        self
    }

    /// Adds an argument to the last command.
    #[inline]
    pub fn arg(&mut self, arg: &[u8]) -> &mut Self {
        self.length(b'$', arg.len());
        self.bytes.extend_from_slice(arg);
        self.bytes.extend_from_slice(b"\r\n");
        if let Some(command) = self.list.last_mut() {
            command.range.end = self.bytes.len();
            command.weight = command.range.len();
        }
        self
    }

    /// Sets the approximate size of the answer to the last command.
    pub fn brings(&mut self, n_bytes: usize) {
        if let Some(command) = self.list.last_mut() {
            command.weight = command.range.len().max(n_bytes);
        }
    }

    /// Adds a complete command.
    pub fn command(&mut self, slot: u16, args: &[&[u8]]) {
        self.begin(slot, args.len());
        for arg in args {
            self.arg(arg);
        }
    }

    pub(crate) fn get(&self, at: usize) -> Option<&Command> {
        self.list.get(at)
    }

    /// The encoded bytes of a command.
    pub(crate) fn packed(&self, command: &Command) -> &[u8] {
        self.bytes.get(command.range.clone()).unwrap_or_default()
    }

    /// Number of commands.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are no commands.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    #[inline]
    fn length(&mut self, sign: u8, mut n: usize) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        for digit in digits.iter_mut().rev() {
            let [last, ..] = (n % 10).to_le_bytes();
            *digit = b'0' + last;
            at -= 1;
            n /= 10;
            if n == 0 {
                break;
            }
        }
        self.bytes.push(sign);
        self.bytes
            .extend_from_slice(digits.get(at..).unwrap_or_default());
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Encodes one command.
pub(crate) fn packed(args: &[&[u8]]) -> Vec<u8> {
    let mut commands = Commands::default();
    commands.command(0, args);
    commands.bytes
}

/// A reply with invalid bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoReply(pub String);

/// Progress of scanning a reply; continues at its position when more bytes arrive.
#[derive(Debug)]
pub(crate) struct Scan {
    at: usize,
    /// Number of values still expected.
    pending: i64,
}

impl Default for Scan {
    fn default() -> Self {
        Self { at: 0, pending: 1 }
    }
}

impl Scan {
    /// The size of the reply at the beginning of `bytes`; none if it is incomplete.
    pub fn whole(&mut self, bytes: &[u8]) -> Result<Option<usize>, NoReply> {
        while self.pending > 0 {
            let Some((sign, line, next)) = line(bytes, self.at)? else {
                return Ok(None);
            };
            match sign {
                b'$' => {
                    let length = length(line, LONGEST_VALUE)?;
                    let end = length.map_or(next, |length| next + length + 2);
                    if end > bytes.len() {
                        return Ok(None);
                    }
                    self.at = end;
                    self.pending -= 1;
                }
                b'*' => {
                    let n = number(line)?.max(0);
                    let pending = self.pending - 1 + n;
                    if n > MOST_ELEMENTS || pending > MOST_ELEMENTS {
                        return Err(NoReply(format!("invalid array length {n}")));
                    }
                    self.at = next;
                    self.pending = pending;
                }
                _ => {
                    self.at = next;
                    self.pending -= 1;
                }
            }
        }
        Ok(Some(self.at))
    }
}

/// The type byte and the rest of the line that begins at `at`, and the start of the next line; none if the line
/// is incomplete.
#[expect(clippy::type_complexity, reason = "three parts of a line")]
fn line(bytes: &[u8], at: usize) -> Result<Option<(u8, &[u8], usize)>, NoReply> {
    let rest = bytes.get(at..).unwrap_or_default();
    let Some((&sign, rest)) = rest.split_first() else {
        return Ok(None);
    };
    if !matches!(sign, b'+' | b'-' | b':' | b'$' | b'*') {
        let found = shown(bytes.get(at..).unwrap_or_default());
        return Err(NoReply(format!("received {found}")));
    }
    let Some(length) = rest.iter().position(|&byte| byte == b'\r') else {
        return match rest.len() > LONGEST_LINE {
            true => Err(NoReply(format!("a line longer than {} bytes", rest.len()))),
            false => Ok(None),
        };
    };
    let next = at + 1 + length + 2;
    if next > bytes.len() {
        return Ok(None);
    }
    let line = rest.get(..length).unwrap_or_default();
    Ok(Some((sign, line, next)))
}

/// The first bytes of some, for messages.
fn shown(bytes: &[u8]) -> String {
    let some = bytes.get(..40).unwrap_or(bytes);
    format!("{:?}", String::from_utf8_lossy(some))
}

fn number(line: &[u8]) -> Result<i64, NoReply> {
    let (is_negative, digits) = match line {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    let mut n = 0_i64;
    for &digit in digits {
        let value = digit.wrapping_sub(b'0');
        let next = n.checked_mul(10).map(|n| n.checked_add(i64::from(value)));
        match next.flatten() {
            Some(next) if value < 10 => n = next,
            _ => return Err(NoReply(format!("invalid number {}", shown(line)))),
        }
    }
    match digits {
        [] => Err(NoReply("empty number".into())),
        _ if is_negative => Ok(-n),
        _ => Ok(n),
    }
}

/// The length of a value; none if the value is null.
fn length(line: &[u8], most: usize) -> Result<Option<usize>, NoReply> {
    let n = number(line)?;
    match usize::try_from(n) {
        Ok(length) if length <= most => Ok(Some(length)),
        Ok(_) => Err(NoReply(format!("invalid value length {n}"))),
        Err(_) => Ok(None),
    }
}

/// A reply of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply<'a> {
    /// A simple string, such as OK.
    Word(&'a [u8]),
    /// An error.
    Error(&'a [u8]),
    /// A number.
    Number(i64),
    /// A value, or null.
    Value(Option<&'a [u8]>),
    /// Several replies.
    Array(Elements<'a>),
}

/// The elements of an array, as an iterator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements<'a> {
    bytes: &'a [u8],
    n: i64,
}

impl<'a> Reply<'a> {
    /// Parses bytes that [`Scan`] has found complete.
    pub(crate) fn of(bytes: &'a [u8]) -> Option<Self> {
        Some(Self::first(bytes)?.0)
    }

    /// The first reply, and the bytes after it.
    fn first(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (sign, line, next) = line(bytes, 0).ok()??;
        let rest = bytes.get(next..)?;
        Some(match sign {
            b'+' => (Self::Word(line), rest),
            b'-' => (Self::Error(line), rest),
            b':' => (Self::Number(number(line).ok()?), rest),
            b'$' => match length(line, LONGEST_VALUE).ok()? {
                Some(length) => {
                    let (value, rest) = rest.split_at_checked(length)?;
                    (Self::Value(Some(value)), rest.get(2..)?)
                }
                None => (Self::Value(None), rest),
            },
            _ => {
                let n = number(line).ok()?;
                let elements = Elements { bytes: rest, n };
                // the end of a nested array is found by walking it; the outermost array does not need it
                (Self::Array(elements), rest)
            }
        })
    }

    /// The bytes of a value or simple string.
    #[inline]
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Value(value) => value,
            Self::Word(word) => Some(word),
            _ => None,
        }
    }

    /// The elements of an array.
    #[inline]
    pub fn elements(self) -> Option<Elements<'a>> {
        match self {
            Self::Array(elements) => Some(elements),
            _ => None,
        }
    }

    /// A value, word or error as a string, for messages.
    pub fn text(self) -> String {
        match self {
            Self::Word(bytes) | Self::Error(bytes) | Self::Value(Some(bytes)) => {
                String::from_utf8_lossy(bytes).into_owned()
            }
            Self::Number(n) => n.to_string(),
            Self::Value(None) => "nothing".into(),
            Self::Array(elements) => format!("{} values", elements.n),
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Reply<'a>;

    fn next(&mut self) -> Option<Reply<'a>> {
        if self.n <= 0 {
            return None;
        }
        self.n -= 1;
        let (reply, rest) = Reply::first(self.bytes)?;
        self.bytes = rest;
        if let Reply::Array(_) = reply {
            let start = self.bytes;
            // move after its content: `rest` begins after the line of the array
            let n = match reply {
                Reply::Array(elements) => elements.n.max(0),
                _ => 0,
            };
            let mut scan = Scan { at: 0, pending: n };
            let end = scan.whole(start).ok().flatten()?;
            self.bytes = start.get(end..)?;
        }
        Some(reply)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = usize::try_from(self.n).unwrap_or_default();
        (0, Some(n))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn commands_are_packed_as_redis_reads_them() {
        let mut commands = Commands::default();
        commands.command(7, &[b"GET", b"a\r\nb"]);
        commands.command(8, &[b"PING"]);
        let [first, second] = [0, 1].map(|at| commands.get(at).unwrap());
        assert_eq!((first.slot, second.slot), (7, 8));
        assert_eq!(
            commands.packed(first),
            b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n"
        );
        assert_eq!(commands.packed(second), b"*1\r\n$4\r\nPING\r\n");
        assert_eq!(packed(&[&[0; 1234]]).len(), 4 + 7 + 1234 + 2);
    }

    #[test]
    fn replies_are_whole_when_their_last_byte_is_there() {
        let bytes = b"*4\r\n*2\r\n:-1\r\n+OK\r\n$3\r\na\r\n\r\n$-1\r\n-ERR no\r\nrest";
        let end = bytes.len() - 4;
        let mut scan = Scan::default();
        for n in 0..end {
            assert_eq!(scan.whole(&bytes[..n]), Ok(None), "{n}");
        }
        assert_eq!(scan.whole(bytes), Ok(Some(end)));
        assert_eq!(Scan::default().whole(bytes), Ok(Some(end)));
        let all: Vec<_> = Reply::of(bytes).unwrap().elements().unwrap().collect();
        let inner: Vec<_> = all[0].elements().unwrap().collect();
        assert_eq!(inner, [Reply::Number(-1), Reply::Word(b"OK")]);
        let rest = [
            Reply::Value(Some(b"a\r\n".as_slice())),
            Reply::Value(None),
            Reply::Error(b"ERR no"),
        ];
        assert_eq!(
            all[1..],
            rest[..2]
                .iter()
                .copied()
                .chain([rest[2]])
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn what_no_redis_says_is_no_reply() {
        let bad: [&[u8]; 6] = [
            b"HTTP/1.1 400 Bad Request\r\n",
            b"$999999999999\r\n",
            b"$x\r\n",
            b"*99999999\r\n",
            b":99999999999999999999\r\n",
            b":\r\n",
        ];
        for bytes in bad {
            let scanned = Scan::default().whole(bytes);
            let is_bad = scanned.is_err() || Reply::of(bytes).is_none();
            assert!(is_bad, "{}", shown(bytes));
        }
        let long = [b"+".as_slice(), &vec![b'x'; LONGEST_LINE + 2]].concat();
        assert!(Scan::default().whole(&long).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), text in "[-+:$*0-9\r\n]{0,60}") {
            for bytes in [bytes.as_slice(), text.as_bytes()] {
                if let Ok(Some(end)) = Scan::default().whole(bytes) {
                    assert!(end <= bytes.len());
                    let mut waiting: Vec<_> = Reply::of(&bytes[..end]).into_iter().collect();
                    while let Some(reply) = waiting.pop() {
                        waiting.extend(reply.elements().into_iter().flatten());
                    }
                }
            }
        }
    }
}
