//! One row of a trace: an operation on a file, as XRootD's recorder writes it.

use std::fmt::{self, Write as _};
use std::ops::Range;
use std::time::Duration;

/// Status of an operation that succeeded.
const SUCCESS: &str = "[SUCCESS]";

/// How many ranges a read or a write has, and whether the server sends checksums of its pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// One range.
    Single,
    /// Any number of ranges in one request.
    Vector,
    /// One range, with a checksum for each page.
    Page,
}

/// An operation on a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Opening, with XRootD's flags and mode.
    Open {
        /// The URL or path.
        url: String,
        /// Flags of `kXR_open`.
        flags: u32,
        /// Permissions of a new file.
        mode: u32,
    },
    /// Closing.
    Close,
    /// Asking for size and times.
    Stat {
        /// Whether the server is asked even if the answer is known.
        force: bool,
    },
    /// Reading.
    Read(Access, Vec<Range<u64>>),
    /// Writing.
    Write(Access, Vec<Range<u64>>),
    /// Making what was written durable.
    Sync,
    /// Changing the size.
    Truncate {
        /// The new size in bytes.
        size: u64,
    },
    /// A command of the server.
    Fcntl {
        /// Length of the command.
        size: u64,
    },
}

/// Flags of an `Open` that writes: `kXR_delete`, `kXR_new`, `kXR_open_updt`, `kXR_open_apnd` and `kXR_open_wrto`.
const WRITES: u32 = 0x2 | 0x8 | 0x20 | 0x200 | 0x8000;

impl Operation {
    /// The name in traces.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Open { .. } => "Open",
            Self::Close => "Close",
            Self::Stat { .. } => "Stat",
            Self::Read(Access::Single, _) => "Read",
            Self::Read(Access::Vector, _) => "VectorRead",
            Self::Read(Access::Page, _) => "PgRead",
            Self::Write(Access::Single, _) => "Write",
            Self::Write(Access::Vector, _) => "VectorWrite",
            Self::Write(Access::Page, _) => "PgWrite",
            Self::Sync => "Sync",
            Self::Truncate { .. } => "Truncate",
            Self::Fcntl { .. } => "Fcntl",
        }
    }

    /// Whether it opens a file for writing, or changes it.
    #[must_use]
    pub fn writes(&self) -> bool {
        match self {
            Self::Open { flags, .. } => flags & WRITES != 0,
            Self::Write(..) | Self::Truncate { .. } => true,
            _ => false,
        }
    }

    /// The ranges that it reads or writes.
    #[must_use]
    pub fn ranges(&self) -> &[Range<u64>] {
        match self {
            Self::Read(_, ranges) | Self::Write(_, ranges) => ranges,
            _ => &[],
        }
    }

    /// Number of bytes that it reads or writes.
    #[must_use]
    pub fn n_bytes(&self) -> u64 {
        let lengths = self.ranges().iter().map(|range| range.end - range.start);
        lengths.fold(0, u64::saturating_add)
    }

    /// The arguments without the timeout.
    fn arguments(&self) -> String {
        match self {
            Self::Open { url, flags, mode } => format!("{};{flags};{mode}", quoted(url)),
            Self::Close | Self::Sync => String::new(),
            Self::Stat { force } => force.to_string(),
            Self::Read(_, ranges) | Self::Write(_, ranges) => numbers(ranges),
            Self::Truncate { size } | Self::Fcntl { size } => size.to_string(),
        }
    }

    /// The operation of this name with these arguments; the last one is the timeout.
    fn parse(name: &str, arguments: &str) -> Option<Self> {
        let (arguments, timeout) = arguments.rsplit_once(';').unwrap_or(("", arguments));
        timeout.parse::<u64>().ok()?;
        let ranges = || ranges(arguments);
        let one = || ranges().filter(|ranges| ranges.len() == 1);
        Some(match name {
            "Open" => {
                // a semicolon may be a part of the URL
                let mut parts = arguments.rsplitn(3, ';');
                let (mode, flags) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                let url = parts.next()?.to_owned();
                Self::Open { url, flags, mode }
            }
            "Close" => Self::Close,
            "Sync" => Self::Sync,
            "Stat" => Self::Stat {
                force: arguments == "true",
            },
            "Read" => Self::Read(Access::Single, one()?),
            "PgRead" => Self::Read(Access::Page, one()?),
            "VectorRead" => Self::Read(Access::Vector, ranges()?),
            "Write" => Self::Write(Access::Single, one()?),
            "PgWrite" => Self::Write(Access::Page, one()?),
            "VectorWrite" => Self::Write(Access::Vector, ranges()?),
            "Truncate" => Self::Truncate {
                size: arguments.parse().ok()?,
            },
            "Fcntl" => Self::Fcntl {
                size: arguments.parse().ok()?,
            },
            _ => return None,
        })
    }
}

/// Offsets and lengths, separated by semicolons.
fn numbers(ranges: &[Range<u64>]) -> String {
    let mut out = String::new();
    for (i, range) in ranges.iter().enumerate() {
        let length = range.end.saturating_sub(range.start);
        let separator = if i == 0 { "" } else { ";" };
        let _ = write!(out, "{separator}{};{length}", range.start);
    }
    out
}

fn ranges(arguments: &str) -> Option<Vec<Range<u64>>> {
    if arguments.is_empty() {
        return Some(Vec::new());
    }
    let mut numbers = arguments.split(';').map(str::parse::<u64>);
    let mut out = Vec::new();
    while let Some(start) = numbers.next() {
        let (start, length) = (start.ok()?, numbers.next()?.ok()?);
        out.push(start..start.checked_add(length)?);
    }
    Some(out)
}

/// A string in which nothing ends a field or a row.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' => out.push_str("%22"),
            c if c.is_control() => {
                let _ = write!(out, "%{:02X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// An operation that was made: when, on which open file, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Action {
    /// The open file.
    pub file: u64,
    /// What was done.
    pub operation: Operation,
    /// When it began, since 1970.
    pub start: Duration,
    /// When it ended, since 1970.
    pub stop: Duration,
    /// Its status: the kind of error, if it failed.
    pub error: Option<String>,
    /// What the server answered.
    pub response: String,
}

impl Action {
    /// The ranges that it read or wrote, without what is beyond the end of the file.
    #[must_use]
    pub fn ranges(&self) -> Vec<Range<u64>> {
        let ranges = self.operation.ranges().to_vec();
        let answered = self.response.split(';').next();
        let answered = answered.and_then(|n| n.parse::<u64>().ok());
        match (answered, ranges.as_slice()) {
            (Some(n), [Range { start, end }]) => {
                let range = *start..(*end).min(start.saturating_add(n));
                Some(range)
                    .filter(|range| !range.is_empty())
                    .into_iter()
                    .collect()
            }
            _ => ranges,
        }
    }

    /// Number of bytes that it read or wrote.
    #[must_use]
    pub fn n_bytes(&self) -> u64 {
        let lengths = self.ranges().into_iter();
        let lengths = lengths.map(|range| range.end - range.start);
        lengths.fold(0, u64::saturating_add)
    }

    /// The action of a row; none if it is not one.
    #[must_use]
    pub fn parse(row: &str) -> Option<Self> {
        let fields: Vec<&str> = row.strip_prefix('"')?.split("\",\"").collect();
        let (&[file, name, start, arguments, stop, status], response) = match fields.split_last()? {
            // earlier recorders leave out an empty answer
            (last, [file, name, start, arguments, stop]) => (
                &[
                    *file,
                    *name,
                    *start,
                    *arguments,
                    *stop,
                    last.strip_suffix('"')?,
                ],
                "",
            ),
            (last, [file, name, start, arguments, stop, status]) => (
                &[*file, *name, *start, *arguments, *stop, *status],
                last.strip_suffix('"')?,
            ),
            _ => return None,
        };
        let (start, stop) = (seconds(start)?, seconds(stop)?);
        Some(Self {
            file: file.parse().ok()?,
            operation: Operation::parse(name, arguments)?,
            start,
            stop: stop.max(start),
            error: (status != SUCCESS).then(|| status.to_owned()),
            response: response.to_owned(),
        })
    }

    /// How long it took.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.stop.saturating_sub(self.start)
    }
}

/// Seconds with a fraction, without rounding.
fn seconds(text: &str) -> Option<Duration> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = fraction.get(..fraction.len().min(9))?;
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let nanoseconds = format!("{digits:0<9}").parse().ok()?;
    Some(Duration::new(whole.parse().ok()?, nanoseconds))
}

impl fmt::Display for Action {
    /// A row, without its end of line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = |time: Duration| format!("{}.{:09}", time.as_secs(), time.subsec_nanos());
        let mut arguments = self.operation.arguments();
        if !arguments.is_empty() {
            arguments.push(';');
        }
        let status = self.error.as_deref().map(quoted);
        write!(
            f,
            "\"{}\",\"{}\",\"{}\",\"{arguments}0\",\"{}\",\"{}\",\"{}\"",
            self.file,
            self.operation.name(),
            time(self.start),
            time(self.stop),
            status.as_deref().unwrap_or(SUCCESS),
            quoted(&self.response),
        )
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn rows_of_the_recorder_come_back_equal() {
        for row in [
            r#""1","Open","1795843471.950331688","root://h:1//f?a=b;c;16;420;0","1795843472.012998581","[SUCCESS]","""#,
            r#""1","Stat","1795843472.202875137","false;0","1795843472.202876091","[SUCCESS]","255567;48;1;1;1;rw-r--r--;x;x;""#,
            r#""1","VectorRead","1.000000000","0;10;100;20;0","1.000000001","[SUCCESS]","30;0;10;100;20""#,
            r#""1","PgRead","1.000000000","0;255567;0","1.000000001","[SUCCESS]","255567;0""#,
            r#""1","Truncate","1.000000000","3;0","1.000000001","[ERROR] Error response: no, nothing","""#,
            r#""1","Close","1.000000000","0","1.000000001","[SUCCESS]","""#,
        ] {
            let action = Action::parse(row).unwrap();
            assert_eq!(action.to_string(), row);
        }
    }

    #[test]
    fn what_is_not_a_row_is_none() {
        for row in [
            "",
            "\"",
            r#""1","Read","1","0;10;0","2","[SUCCESS]""#.split_at(20).0,
            r#""1","Read","1","0;18446744073709551615;9","2","[SUCCESS]","x"#,
            r#""1","Read","1","7;18446744073709551615;9","2","[SUCCESS]","""#,
            r#""1","Read","1","0;1;2;3;0","2","[SUCCESS]","""#,
            r#""1","Read","-1","0;1;0","2","[SUCCESS]","""#,
            r#""x","Close","1","0","2","[SUCCESS]","""#,
            r#""1","Dance","1","0","2","[SUCCESS]","""#,
            r#""1","Open","1","f;16;0","2","[SUCCESS]","""#,
        ] {
            assert_eq!(Action::parse(row), None, "{row}");
        }
    }

    #[test]
    fn flags_say_which_files_are_written() {
        for (flags, writes) in [
            (0, false),
            (16, false),
            (34, true),
            (40, true),
            (0x8000, true),
        ] {
            let open = Operation::Open {
                url: String::new(),
                flags,
                mode: 0,
            };
            assert_eq!(open.writes(), writes, "{flags}");
        }
    }

    proptest! {
        #[test]
        fn any_action_comes_back_equal(
            file: u64,
            ranges in prop::collection::vec((0..1u64 << 60, 0..1u64 << 32), 0..20),
            url in "[a-z:/;,?%]{1,20}",
            start in 0..1u64 << 40,
            nanoseconds in 0..999_999_999u32,
        ) {
            let ranges: Vec<_> = ranges.iter().map(|(start, n)| *start..start + n).collect();
            let start = Duration::new(start, nanoseconds);
            let open = Operation::Open { url, flags: 16, mode: 0 };
            for operation in [Operation::Read(Access::Vector, ranges), open] {
                let stop = start + Duration::from_nanos(1);
                let (error, response) = (None, "x;y".to_owned());
                let action = Action { file, operation, start, stop, error, response };
                prop_assert_eq!(Action::parse(&action.to_string()), Some(action));
            }
        }

        #[test]
        fn no_text_is_a_panic(row in "[\"0-9;,.A-Za-z\\[\\]]{0,80}") {
            let _ = Action::parse(&row);
        }
    }
}
