//! Answers of a server.

use bytes::Bytes;

use super::cursor::{Cursor, shown, text};
use super::{Element, FileHandle, HEADER_LENGTH, Malformed, PAGE};

/// The ID of a session, by which parallel streams join it.
pub type SessionId = [u8; 16];

/// The kind of an answer (`XResponseType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The complete answer, or its last part.
    Ok,
    /// A part of the answer; more follows.
    OkSoFar,
    /// An unsolicited message, or a postponed answer.
    Attention,
    /// The authentication continues.
    AuthMore,
    /// An error.
    Error,
    /// Ask another server.
    Redirect,
    /// Repeat the request later.
    Wait,
    /// The answer will arrive later.
    WaitForResponse,
    /// An answer with a checksum, followed by data.
    Status,
}

/// The header of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The stream of the request.
    pub stream: [u8; 2],
    /// The kind of the answer.
    pub status: Status,
    /// Number of bytes that follow.
    pub length: usize,
}

impl Header {
    /// Parses a header.
    ///
    /// # Errors
    /// If the status is unknown, or the length negative.
    pub fn parse(bytes: &[u8; HEADER_LENGTH]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new("header", bytes);
        let stream = cursor.array()?;
        let status = match cursor.u16()? {
            0 => Status::Ok,
            4000 => Status::OkSoFar,
            4001 => Status::Attention,
            4002 => Status::AuthMore,
            4003 => Status::Error,
            4004 => Status::Redirect,
            4005 => Status::Wait,
            4006 => Status::WaitForResponse,
            4007 => Status::Status,
            other => return Err(Malformed::new("status", "0 or 4000 to 4007", other)),
        };
        Ok(Self {
            stream,
            status,
            length: cursor.length()?,
        })
    }
}

/// The role of a server, with its capabilities and requirements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u32);

#[expect(missing_docs, reason = "named as in the protocol")]
impl Flags {
    pub fn is_manager(self) -> bool {
        self.0 & 0x2 != 0
    }

    pub fn has_tls(self) -> bool {
        self.0 & 0x8000_0000 != 0
    }

    pub fn go_to_tls(self) -> bool {
        self.0 & 0x4000_0000 != 0
    }

    /// Whether login, or all later requests, require TLS.
    pub fn demands_tls(self) -> bool {
        self.0 & (0x0400_0000 | 0x0800_0000) != 0
    }

    /// Whether it is a proxy: it serves files of another server, perhaps from a cache.
    pub fn is_proxy(self) -> bool {
        self.0 & (0x80 | 0x200) != 0
    }
}

/// The answer to `protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protocol {
    /// The protocol version, for example 0x520.
    pub version: i32,
    /// The role of the server.
    pub flags: Flags,
    /// The security level, which says which requests must be signed; 0 for none (`kXR_secNone`).
    pub security_level: u8,
}

/// Parses the answer to `protocol`.
///
/// # Errors
/// If it is too short.
pub fn protocol(body: &[u8]) -> Result<Protocol, Malformed> {
    let mut cursor = Cursor::new("answer to protocol", body);
    let (version, flags) = (cursor.i32()?, cursor.u32()?);
    // tagged items follow: 'B' for interfaces, 'S' for security
    let mut security_level = 0;
    while let [tag, ..] = *cursor.rest() {
        match tag {
            b'B' => {
                cursor.bytes(2)?;
                let length = cursor.u16()?;
                cursor.bytes(usize::from(length))?;
            }
            b'S' => {
                let [_, _, _, _, level, _] = cursor.array()?;
                security_level = level;
                break;
            }
            _ => break,
        }
    }
    Ok(Protocol {
        version,
        flags: Flags(flags),
        security_level,
    })
}

/// The answer to `login`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Login {
    /// The session.
    pub session: SessionId,
    /// The authentication protocols that the server offers, with their parameters, in the server's order; empty if it
    /// requires none.
    pub authentication: Vec<(String, String)>,
}

/// Parses the answer to `login`.
///
/// # Errors
/// If it is too short.
pub fn login(body: &[u8]) -> Result<Login, Malformed> {
    let mut cursor = Cursor::new("answer to login", body);
    let session = cursor.array()?;
    let all = cursor.text();
    let kinds = all.split('&').filter_map(|part| part.strip_prefix("P="));
    let kinds = kinds.map(|part| part.split_once(',').unwrap_or((part, "")));
    let authentication = kinds
        .map(|(kind, parameters)| (kind.trim().to_owned(), parameters.to_owned()))
        .collect();
    Ok(Login {
        session,
        authentication,
    })
}

/// The status of a file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stat {
    /// The server's ID of the file.
    pub id: String,
    /// Size in bytes.
    pub size: u64,
    /// `XStatRespFlags`.
    pub flags: u32,
    /// Time of the last modification, in seconds since 1970.
    pub modified: i64,
}

impl Stat {
    /// Whether it is a directory.
    pub fn is_folder(&self) -> bool {
        self.flags & 2 != 0
    }

    /// Whether it is neither a file nor a directory.
    pub fn is_other(&self) -> bool {
        self.flags & 4 != 0
    }
}

/// Parses the answer to `stat`: numbers separated by spaces.
///
/// # Errors
/// If there are too few, or one is not a number.
pub fn stat(body: &[u8]) -> Result<Stat, Malformed> {
    stat_of(&text(body))
}

fn stat_of(line: &str) -> Result<Stat, Malformed> {
    let wrong = || Malformed::new("answer to stat", "id, size, flags and time", line);
    let mut parts = line.split_ascii_whitespace();
    let mut next = || parts.next().ok_or_else(wrong);
    let id = next()?.to_owned();
    Ok(Stat {
        id,
        size: next()?.parse().map_err(|_| wrong())?,
        flags: next()?.parse().map_err(|_| wrong())?,
        modified: next()?.parse().map_err(|_| wrong())?,
    })
}

/// The answer to `open`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opened {
    /// The handle of the file.
    pub handle: FileHandle,
    /// The status of the file, if it was requested.
    pub stat: Option<Stat>,
}

/// Parses the answer to `open`.
///
/// # Errors
/// If it is too short.
pub fn opened(body: &[u8]) -> Result<Opened, Malformed> {
    let mut cursor = Cursor::new("answer to open", body);
    let handle = cursor.array()?;
    if cursor.rest().is_empty() {
        return Ok(Opened { handle, stat: None });
    }
    // size and type of a compression, which is not used
    cursor.bytes(8)?;
    let info = cursor.text();
    let stat = (!info.is_empty()).then(|| stat_of(&info)).transpose()?;
    Ok(Opened { handle, stat })
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: String,
    /// The status, if it was requested and the server supports that.
    pub stat: Option<Stat>,
}

/// Parses the answer to `dirlist`: names or, if the server supports it, alternating names and status lines, after an
/// entry for the directory itself.
///
/// # Errors
/// If the status line of an entry is invalid.
pub fn dir_entries(body: &[u8]) -> Result<Vec<DirEntry>, Malformed> {
    let all = text(body);
    let mut lines = all.lines();
    let Some(rest) = all.strip_prefix(".\n0 0 0 0\n").or_else(|| {
        // an empty directory
        (all.trim_end() == ".\n0 0 0 0").then_some("")
    }) else {
        let names = lines.by_ref().filter(|name| !name.is_empty());
        let entry = |name: &str| DirEntry {
            name: name.to_owned(),
            stat: None,
        };
        return Ok(names.map(entry).collect());
    };
    let mut lines = rest.lines().filter(|line| !line.is_empty());
    let mut out = Vec::new();
    while let Some(name) = lines.next() {
        let found = lines.next();
        let line =
            found.ok_or_else(|| Malformed::new("answer to dirlist", "a line of numbers", name))?;
        out.push(DirEntry {
            name: name.to_owned(),
            stat: Some(stat_of(line)?),
        });
    }
    Ok(out)
}

/// Parses the answer to `locate`: addresses, servers before managers.
pub fn locations(body: &[u8]) -> Vec<String> {
    let all = text(body);
    let mut found: Vec<(bool, String)> = all
        .split_ascii_whitespace()
        .filter_map(|part| {
            // a kind (S and s: servers, M and m: managers), an access (r, w), and the address
            let (kind, rest) = part.split_at_checked(1)?;
            let (_, address) = rest.split_at_checked(1)?;
            Some((!kind.eq_ignore_ascii_case("s"), address.to_owned()))
        })
        .collect();
    found.sort_by_key(|(is_manager, _)| *is_manager);
    found.into_iter().map(|(_, address)| address).collect()
}

/// Splits the answer to a vector read, in which headers and bytes of the elements alternate.
///
/// # Errors
/// If the elements differ from the requested ones in number, order or length.
pub fn readv(body: &Bytes, elements: &[Element]) -> Result<Vec<Bytes>, Malformed> {
    let mut at = 0;
    let mut out = Vec::with_capacity(elements.len());
    for element in elements {
        let rest = body.get(at..).unwrap_or_default();
        let mut cursor = Cursor::new("answer to readv", rest);
        let handle: FileHandle = cursor.array()?;
        let (length, offset) = (cursor.length()?, cursor.u64()?);
        if (handle, length as u64, offset)
            != (element.handle, u64::from(element.length), element.offset)
        {
            return Err(Malformed::new(
                "element of a vector read",
                format!("{} bytes at {}", element.length, element.offset),
                format!("{length} bytes at {offset}"),
            ));
        }
        cursor.bytes(length)?;
        at += 16;
        out.push(body.slice(at..at + length));
        at += length;
    }
    match body.len() - at {
        0 => Ok(out),
        more => Err(Malformed::new("bytes after a vector read", 0, more)),
    }
}

/// Parses an error: its code (`XErrorCode`) and message.
///
/// # Errors
/// If it is too short.
pub fn error(body: &[u8]) -> Result<(i32, String), Malformed> {
    let mut cursor = Cursor::new("error", body);
    Ok((cursor.i32()?, shown(cursor.rest())))
}

/// The target of a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// A host or, if `port` is negative, a complete URL.
    pub host: String,
    /// The port; 0 for the default.
    pub port: i32,
    /// Opaque data to add to the path of the request.
    pub opaque: String,
    /// Token to send at login.
    pub token: String,
}

/// Parses a redirect.
///
/// # Errors
/// If it has no host.
pub fn redirect(body: &[u8]) -> Result<Redirect, Malformed> {
    let mut cursor = Cursor::new("redirect", body);
    let port = cursor.i32()?;
    let all = cursor.text();
    if port < 0 {
        return match all.is_empty() {
            true => Err(Malformed::new("redirect", "a URL", "nothing")),
            false => Ok(Redirect {
                host: all,
                port,
                opaque: String::new(),
                token: String::new(),
            }),
        };
    }
    let mut parts = all.splitn(3, '?');
    let mut next = || parts.next().unwrap_or_default().to_owned();
    let (host, opaque, token) = (next(), next(), next());
    if host.is_empty() {
        return Err(Malformed::new("redirect", "a host", "nothing"));
    }
    Ok(Redirect {
        host,
        port,
        opaque,
        token,
    })
}

/// How long to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    /// Seconds.
    pub seconds: u32,
    /// The reason that the server gives.
    pub message: String,
}

/// Parses a wait: for a request that must be repeated, or for an answer.
///
/// # Errors
/// If it is too short.
pub fn wait(body: &[u8]) -> Result<Wait, Malformed> {
    let mut cursor = Cursor::new("wait", body);
    Ok(Wait {
        seconds: u32::try_from(cursor.i32()?).unwrap_or(0),
        message: shown(cursor.rest()),
    })
}

/// Parses an unsolicited message: none if it can be ignored, or a postponed answer.
///
/// # Errors
/// If the message, or the answer in it, is too short.
pub fn attention(body: &Bytes) -> Result<Option<(Header, Bytes)>, Malformed> {
    const RESPONSE: i32 = 5008;
    let mut cursor = Cursor::new("attention", body);
    if cursor.i32()? != RESPONSE {
        return Ok(None);
    }
    cursor.bytes(4)?;
    let header = Header::parse(&cursor.array()?)?;
    let data = cursor.bytes(header.length)?;
    Ok(Some((header, body.slice_ref(data))))
}

/// The body of an answer with a checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusBody {
    /// The stream of the request.
    pub stream: [u8; 2],
    /// The request code, counted from the first (3000).
    pub request: u8,
    /// Whether more follows.
    pub is_partial: bool,
    /// Number of data bytes that follow.
    pub n_data: usize,
    /// Offset of the data in the file.
    pub offset: u64,
}

/// Parses the body of an answer with a checksum, and verifies it.
///
/// # Errors
/// If it is too short, or the checksum does not match.
pub fn status_body(body: &[u8]) -> Result<StatusBody, Malformed> {
    let mut cursor = Cursor::new("status", body);
    let expected = cursor.u32()?;
    let found = crc32c::crc32c(cursor.rest());
    if found != expected {
        let hex = |sum| format!("{sum:#010x}");
        return Err(Malformed::new(
            "checksum of a status",
            hex(expected),
            hex(found),
        ));
    }
    let stream = cursor.array()?;
    let [request, kind] = cursor.array()?;
    cursor.bytes(4)?;
    let n_data = cursor.length()?;
    Ok(StatusBody {
        stream,
        request,
        is_partial: kind == 1,
        n_data,
        offset: cursor.u64()?,
    })
}

/// Received pages, and which of them are damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageRead {
    /// The bytes, without the checksums.
    pub bytes: Vec<u8>,
    /// Offsets in the file and lengths of pages whose checksums do not match.
    pub damaged: Vec<(u64, usize)>,
}

/// Separates the data of `pgread` from their checksums (CRC32C). There is one before each page; the first and the last
/// page may be incomplete.
///
/// # Errors
/// If the data end within a checksum.
pub fn page_read(offset: u64, data: &[u8]) -> Result<PageRead, Malformed> {
    let mut cursor = Cursor::new("pages", data);
    let mut out = PageRead {
        bytes: Vec::with_capacity(data.len()),
        damaged: Vec::new(),
    };
    let mut at = offset;
    while !cursor.rest().is_empty() {
        let expected = cursor.u32()?;
        let n = page_length(at, cursor.rest().len());
        let page = cursor.bytes(n)?;
        if crc32c::crc32c(page) != expected {
            out.damaged.push((at, n));
        }
        out.bytes.extend_from_slice(page);
        at += n as u64;
    }
    Ok(out)
}

/// Adds checksums (CRC32C) to the data of `pgwrite`, in the layout that [`page_read`] reads.
#[must_use]
pub fn page_write(offset: u64, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() + data.len() / 1000 + 8);
    let mut rest = data;
    let mut at = offset;
    while !rest.is_empty() {
        let (page, behind) = rest.split_at(page_length(at, rest.len()));
        out.extend_from_slice(&crc32c::crc32c(page).to_be_bytes());
        out.extend_from_slice(page);
        at += page.len() as u64;
        rest = behind;
    }
    out
}

/// Number of bytes from an offset to the end of its page, or to the end of the data.
#[must_use]
pub fn page_length(offset: u64, left: usize) -> usize {
    usize::try_from(PAGE - offset % PAGE).unwrap_or(0).min(left)
}

/// Parses the answer to `pgwrite`: offsets of the pages that arrived damaged.
///
/// # Errors
/// If the answer is malformed, or its own checksum does not match.
pub fn page_written(data: &[u8]) -> Result<Vec<u64>, Malformed> {
    if data.is_empty() {
        return Ok(Vec::new());
    }
    let mut cursor = Cursor::new("list of damaged pages", data);
    let expected = cursor.u32()?;
    let found = crc32c::crc32c(cursor.rest());
    if found != expected {
        let what = "checksum of the list of damaged pages";
        return Err(Malformed::new(what, expected, found));
    }
    // lengths of the first and the last page, which follow from their offsets
    cursor.bytes(4)?;
    let mut out = Vec::with_capacity(cursor.rest().len() / 8);
    while !cursor.rest().is_empty() {
        out.push(cursor.u64()?);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_wrong_ones_refused() {
        let header = Header::parse(&[1, 2, 0x0f, 0xa0, 0, 0, 1, 0]).unwrap();
        assert_eq!(
            (header.stream, header.status, header.length),
            ([1, 2], Status::OkSoFar, 256)
        );
        assert!(Header::parse(&[1, 2, 0, 9, 0, 0, 0, 0]).is_err());
        assert!(Header::parse(&[1, 2, 0, 0, 0xff, 0, 0, 0]).is_err());
    }

    #[test]
    fn a_protocol_answer_says_what_the_server_demands() {
        let mut body = vec![0, 0, 5, 0x20, 0xc4, 0, 0, 1];
        let found = protocol(&body).unwrap();
        assert!(!found.flags.is_manager() && found.flags.has_tls() && found.flags.go_to_tls());
        assert!(found.flags.demands_tls() && !found.flags.is_manager());
        body.extend_from_slice(&[b'B', 0, 0, 4, b'e', b'0', 0, 0]);
        body.extend_from_slice(&[b'S', 0, 0, 0, 3, 0]);
        assert_eq!(protocol(&body).unwrap().security_level, 3);
        assert!(protocol(&body[..7]).is_err());
    }

    #[test]
    fn a_login_names_the_kinds_of_authentication_in_their_order() {
        let mut body = vec![7; 16];
        body.extend_from_slice(b"&P=ztn,0:4096:&P=sss,0.13:/etc/k&P=unix\0");
        let found = login(&body).unwrap();
        let kinds: Vec<_> = found
            .authentication
            .iter()
            .map(|(a, b)| (a.as_str(), b.as_str()))
            .collect();
        assert_eq!(
            kinds,
            [("ztn", "0:4096:"), ("sss", "0.13:/etc/k"), ("unix", "")]
        );
        assert_eq!(login(&[7; 16]).unwrap().authentication, []);
        assert!(login(&[7; 15]).is_err());
    }

    #[test]
    fn what_servers_say_to_people_controls_no_terminal() {
        let body = [&3010_i32.to_be_bytes()[..], b"\x1b[31mno\nway\n\0"].concat();
        assert_eq!(error(&body).unwrap(), (3010, "[31mno way".to_owned()));
        assert_eq!(wait(&body).unwrap().message, "[31mno way");
    }

    #[test]
    fn stats_are_numbers_in_words() {
        let found = stat(b"140730 1024 51 1700000000 1 2 0644 u g\0").unwrap();
        assert_eq!((found.size, found.modified), (1024, 1_700_000_000));
        assert!(found.is_folder() && !found.is_other());
        for wrong in ["", "1 2", "1 x 3 4", "1 -5 0 0"] {
            assert!(stat(wrong.as_bytes()).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn folders_are_listed_with_and_without_stat() {
        let names = dir_entries(b"a\nb c\n\0").unwrap();
        assert_eq!(
            names.iter().map(|e| e.name.as_str()).collect::<Vec<_>>(),
            ["a", "b c"]
        );
        let found = dir_entries(b".\n0 0 0 0\na\n1 5 16 9\nd\n2 0 19 9\0").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].stat.as_ref().unwrap().size, 5);
        assert!(found[1].stat.as_ref().unwrap().is_folder());
        assert_eq!(dir_entries(b".\n0 0 0 0\0").unwrap(), []);
        assert_eq!(dir_entries(b"").unwrap(), []);
        assert!(dir_entries(b".\n0 0 0 0\na\n").is_err());
    }

    #[test]
    fn servers_come_before_managers() {
        let found = locations(b"Mr[::1]:1094 Sw[::ffff:10.0.0.1]:1095 sr10.0.0.2:1094\0");
        assert_eq!(
            found,
            ["[::ffff:10.0.0.1]:1095", "10.0.0.2:1094", "[::1]:1094"]
        );
    }

    #[test]
    fn a_vector_read_has_just_the_elements_that_were_asked_for() {
        let element = |offset, length| Element {
            handle: [0, 0, 0, 1],
            offset,
            length,
        };
        let wanted = [element(10, 3), element(0, 0), element(1 << 40, 2)];
        let mut body = Vec::new();
        for (element, data) in wanted.iter().zip(["abc", "", "de"]) {
            body.extend_from_slice(&element.handle);
            body.extend_from_slice(&element.length.to_be_bytes());
            body.extend_from_slice(&element.offset.to_be_bytes());
            body.extend_from_slice(data.as_bytes());
        }
        let body = Bytes::from(body);
        assert_eq!(readv(&body, &wanted).unwrap(), ["abc", "", "de"]);
        assert!(readv(&body, &wanted[..2]).is_err());
        assert!(readv(&body.slice(..body.len() - 1), &wanted).is_err());
        assert!(readv(&body, &[element(10, 4), element(0, 0), element(1 << 40, 2)]).is_err());
    }

    #[test]
    fn redirects_name_a_host_or_a_url() {
        let body = |port: i32, text: &str| [&port.to_be_bytes()[..], text.as_bytes()].concat();
        let found = redirect(&body(1095, "ds1?&a=b?token")).unwrap();
        assert_eq!((found.host.as_str(), found.port), ("ds1", 1095));
        assert_eq!(
            (found.opaque.as_str(), found.token.as_str()),
            ("&a=b", "token")
        );
        let found = redirect(&body(-1, "root://h:1//f?x=1")).unwrap();
        assert_eq!(found.host, "root://h:1//f?x=1");
        assert!(redirect(&body(1095, "")).is_err());
        assert!(redirect(&[0, 0]).is_err());
    }

    #[test]
    fn an_answer_that_comes_later_is_in_an_attention() {
        let mut body = 5008_i32.to_be_bytes().to_vec();
        body.extend_from_slice(&[0; 4]);
        body.extend_from_slice(&[3, 4, 0, 0, 0, 0, 0, 2, b'h', b'i']);
        let (header, data) = attention(&Bytes::from(body.clone())).unwrap().unwrap();
        assert_eq!((header.stream, &data[..]), ([3, 4], &b"hi"[..]));
        body.pop();
        assert!(attention(&Bytes::from(body)).is_err());
        let other = Bytes::from(5002_i32.to_be_bytes().to_vec());
        assert_eq!(attention(&other).unwrap(), None);
    }

    #[test]
    fn pages_that_are_written_have_the_checksums_that_reading_wants() {
        for (offset, length) in [
            (0, 0),
            (0, 1),
            (0, 4096),
            (100, 9000),
            (4095, 2),
            (8192, 12288),
        ] {
            let data: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let pages = page_read(offset, &page_write(offset, &data)).unwrap();
            assert_eq!((pages.bytes, pages.damaged), (data, vec![]));
        }
    }

    #[test]
    fn pages_that_came_damaged_are_named() {
        let mut rest = vec![0, 0, 0, 0];
        rest.extend_from_slice(&8192u64.to_be_bytes());
        let mut told = crc32c::crc32c(&rest).to_be_bytes().to_vec();
        told.extend_from_slice(&rest);
        assert_eq!(page_written(&told).unwrap(), [8192]);
        assert_eq!(page_written(&[]).unwrap(), [0u64; 0]);
        told[9] ^= 1;
        assert!(page_written(&told).is_err());
    }

    #[test]
    fn pages_are_compared_with_their_checksums() {
        let (offset, bytes) = (4000_u64, vec![5_u8; 5000]);
        let mut data = Vec::new();
        let mut at = 0;
        for n in [96, 4096, 808] {
            let page = &bytes[at..at + n];
            data.extend_from_slice(&crc32c::crc32c(page).to_be_bytes());
            data.extend_from_slice(page);
            at += n;
        }
        let found = page_read(offset, &data).unwrap();
        assert_eq!((found.bytes, found.damaged), (bytes.clone(), vec![]));
        data[4 + 96 + 4 + 7] ^= 1;
        let found = page_read(offset, &data).unwrap();
        assert_eq!(found.damaged, [(4096, 4096)]);
        assert!(page_read(offset, &data[..102]).is_err());
        let mut status = [0, 0, 0, 0, 1, 2, 30, 1, 0, 0, 0, 0, 0, 0, 0x10, 0].to_vec();
        status.extend_from_slice(&4000_u64.to_be_bytes());
        let sum = crc32c::crc32c(&status[4..]).to_be_bytes();
        status[..4].copy_from_slice(&sum);
        let found = status_body(&status).unwrap();
        assert_eq!(
            (found.n_data, found.offset, found.is_partial),
            (4096, 4000, true)
        );
        status[10] ^= 1;
        assert!(status_body(&status).is_err());
    }
}
