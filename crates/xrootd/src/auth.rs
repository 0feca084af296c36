//! Credentials: `unix` (the name of the user), `ztn` (a bearer token, sent under TLS only), `sss` (a shared secret key).

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use cipher::{AsyncStreamCipher, KeyIvInit};

use crate::Options;
use crate::token::Token;

/// Credentials to send, and the name of their authentication protocol.
pub(crate) struct Credentials {
    pub kind: [u8; 4],
    pub bytes: Vec<u8>,
}

/// The user who logs in, and the address of the client.
pub(crate) struct Asker<'a> {
    pub user: &'a str,
    /// The local address of the connection.
    pub address: SocketAddr,
    pub is_tls: bool,
    /// Whether the server may get the token: a server that only a redirect names may not.
    pub gives_token: bool,
    pub options: &'a Options,
}

/// Makes credentials for one of the protocols that a server offers. The error says why that is not possible.
pub(crate) fn credentials(
    kind: &str,
    parameters: &str,
    asker: &Asker<'_>,
) -> Result<Credentials, String> {
    match kind {
        "unix" => Ok(unix(asker.user)),
        "ztn" if !asker.gives_token => Err(
            "the token is not sent, because only a redirect names this server: if you trust the server, open its own URL"
                .to_owned(),
        ),
        "ztn" if !asker.is_tls => {
            Err("tokens are sent under TLS only: use roots:// instead of root://".to_owned())
        }
        "ztn" => match asker.options.token.clone().or_else(Token::discover) {
            Some(token) => ztn(&token),
            None => Err(
                "no token found in BEARER_TOKEN, BEARER_TOKEN_FILE, or bt_u<uid> in $XDG_RUNTIME_DIR or the temporary directory"
                    .to_owned(),
            ),
        },
        "sss" => sss(parameters, asker),
        "gsi" => Err(
            "X.509 proxies need XRootD's own client: in Python, pip install 'femtobarn[xrootd]' and set handler to fsspec (FEMTOBARN_HANDLER=fsspec, or storage_options={\"handler\": \"fsspec\"})"
                .to_owned(),
        ),
        _ => Err("not supported by this client".to_owned()),
    }
}

fn unix(user: &str) -> Credentials {
    let group = rustix::process::getgid().as_raw();
    Credentials {
        kind: *b"unix",
        bytes: format!("unix\0{user} {group}\0").into_bytes(),
    }
}

/// `XrdSecztn`: protocol, version, an operation (T for token), two flags, the token's length, the token.
fn ztn(token: &Token) -> Result<Credentials, String> {
    let secret = token.secret().as_bytes();
    let length = u16::try_from(secret.len() + 1).map_err(|_| "the token is too long")?;
    let mut bytes = b"ztn\0".to_vec();
    bytes.extend_from_slice(&[0, b'T', 0, 0]);
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(secret);
    bytes.push(0);
    Ok(Credentials {
        kind: *b"ztn\0",
        bytes,
    })
}

/// An entry of a key table.
#[derive(Clone, PartialEq, Eq)]
struct Key {
    id: u64,
    name: String,
    value: Vec<u8>,
    expires: u64,
}

/// `XrdSecsss`: a header, then data encrypted by Blowfish (64-bit cipher feedback, no initialization vector): 32 random
/// bytes, the time, the identity of the user, and a CRC32.
fn sss(parameters: &str, asker: &Asker<'_>) -> Result<Credentials, String> {
    // Example: "0.+13:/etc/xrootd/sss.keytab": encryption, a plus sign if the server has version 2, lifetime, key table
    // of the server
    let (lifetime, offered) = parameters.split_once(':').unwrap_or((parameters, ""));
    let Some(rest) = lifetime.strip_prefix("0.") else {
        return Err(format!(
            "the server requires an unsupported encryption ({lifetime})"
        ));
    };
    let sends_name = rest.starts_with('+');
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let key = key(asker.options.sss_keytab.as_deref(), offered, now)?;
    let mut header = b"sss\0\0\0\0\x30".to_vec();
    header.extend_from_slice(&key.id.to_be_bytes());
    if sends_name {
        let length = (key.name.len() + 8) & !7;
        if let Some(place) = header.get_mut(6) {
            *place = u8::try_from(length).map_err(|_| "the key's name is too long")?;
        }
        header.extend_from_slice(key.name.as_bytes());
        header.resize(16 + length, 0);
    }
    let mut data = random(32)?;
    // the protocol counts seconds from this time
    const CLOCK: u64 = 1_222_183_880;
    let time = u32::try_from(now.saturating_sub(CLOCK)).unwrap_or(u32::MAX);
    data.extend_from_slice(&time.to_be_bytes());
    data.extend_from_slice(&[0; 4]);
    let mut item = |kind: u8, text: &[u8]| {
        let length = u16::try_from(text.len() + 1).unwrap_or(0);
        data.push(kind);
        data.extend_from_slice(&length.to_be_bytes());
        data.extend_from_slice(text);
        data.push(0);
    };
    item(0x20, bracketed(asker.address).as_bytes());
    item(0x01, asker.user.as_bytes());
    // servers require at least 128 bytes
    let mut filling = random(128)?;
    filling.iter_mut().for_each(|byte| *byte |= 1);
    item(0x07, &filling);
    let sum = crc32(&data);
    data.extend_from_slice(&sum.to_be_bytes());
    encrypt(&key.value, &mut data)?;
    header.extend_from_slice(&data);
    Ok(Credentials {
        kind: *b"sss\0",
        bytes: header,
    })
}

/// An address in the notation that servers compare with: IPv4 addresses as IPv4-compatible IPv6 addresses.
fn bracketed(address: SocketAddr) -> String {
    let port = address.port();
    match address.ip().to_canonical() {
        IpAddr::V4(address) => format!("[::{address}]:{port}"),
        IpAddr::V6(address) => format!("[{address}]:{port}"),
    }
}

fn random(n: usize) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0; n];
    let failed = |_| "the system provides no random numbers".to_owned();
    getrandom::fill(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

fn encrypt(key: &[u8], data: &mut [u8]) -> Result<(), String> {
    type Cfb = cfb_mode::Encryptor<blowfish::Blowfish>;
    let cipher = Cfb::new_from_slices(key, &[0; 8]);
    cipher
        .map_err(|_| "the key has an invalid length")?
        .encrypt(data);
    Ok(())
}

/// CRC32 as in zlib.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & 0_u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}

/// Selects a key from the configured key table, the user's key table, or the one that the server names.
fn key(given: Option<&Path>, offered: &str, now: u64) -> Result<Key, String> {
    let places = tables(given, offered);
    for place in &places {
        let Ok(text) = std::fs::read_to_string(place) else {
            continue;
        };
        let keys = text.lines().filter_map(parse_key);
        let usable = keys.filter(|key| key.expires == 0 || key.expires > now);
        // the newest key has the largest number
        return usable
            .max_by_key(|key| key.id)
            .ok_or_else(|| format!("the key table {} has no valid key", place.display()));
    }
    let places: Vec<String> = places
        .iter()
        .map(|place| place.display().to_string())
        .collect();
    Err(format!(
        "no readable key table found ({}): set XrdSecSSSKT to the path of a key table",
        places.join(", ")
    ))
}

/// Paths of key tables, in the order in which they are tried.
fn tables(given: Option<&Path>, offered: &str) -> Vec<PathBuf> {
    if let Some(given) = given {
        return vec![given.to_owned()];
    }
    let own = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".xrd/sss.keytab"));
    // some servers name no key table
    let offered = Some(offered).filter(|offered| !offered.is_empty());
    own.into_iter().chain(offered.map(PathBuf::from)).collect()
}

/// Parses a line of a key table: version 0, then tags with values.
fn parse_key(line: &str) -> Option<Key> {
    let mut parts = line.split_ascii_whitespace();
    parts
        .next()
        .filter(|&version| version == "0" || version == "1")?;
    let mut key = Key {
        id: 0,
        name: "nowhere".to_owned(),
        value: Vec::new(),
        expires: 0,
    };
    for part in parts {
        let (tag, value) = part.split_once(':')?;
        match tag {
            "N" => key.id = value.parse().ok()?,
            "n" => key.name = value.trim_end_matches('+').to_owned(),
            "e" => key.expires = value.parse().ok()?,
            "k" => key.value = hexadecimal(value)?,
            _ => {}
        }
    }
    (!key.value.is_empty()).then_some(key)
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| {
            digit
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        })
        .collect();
    let (pairs, []) = digits.as_deref()?.as_chunks::<2>() else {
        return None;
    };
    Some(pairs.iter().map(|[high, low]| high << 4 | low).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_zlib() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn the_newest_key_that_is_valid_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("keytab");
        std::fs::write(
            &table,
            "0 u:a g:b n:old N:5 c:1 e:0 k:00ff\n0 u:a g:b n:gone N:9 c:1 e:100 k:01\n\n0 u:a g:b n:new+ N:7 c:1 e:200 k:0a0b\n",
        )
        .unwrap();
        let found = key(Some(&table), "", 150).ok().unwrap();
        assert_eq!(
            (found.id, found.name.as_str(), found.value.as_slice()),
            (7, "new", &[10, 11][..])
        );
        assert_eq!(key(Some(&table), "", 50).ok().unwrap().id, 9);
        let message = key(Some(&folder.path().join("none")), "", 0).err().unwrap();
        assert!(message.contains("no readable key table found"), "{message}");
        // a server that names no table adds no path
        assert!(tables(None, "").iter().all(|place| *place != Path::new("")));
        assert!(tables(None, "/k").contains(&PathBuf::from("/k")));
        assert!(parse_key("0 N:1 k:0").is_none());
        assert!(parse_key("0 N:1").is_none());
    }

    #[test]
    fn tokens_stay_at_home_without_tls_and_behind_redirects() {
        let options = Options {
            token: Token::of("secret"),
            ..Options::default()
        };
        let asker = |is_tls, gives_token| Asker {
            gives_token,
            user: "me",
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
            is_tls,
            options: &options,
        };
        let given = credentials("ztn", "", &asker(true, true)).ok().unwrap();
        assert!(given.bytes.ends_with(b"secret\0"));
        let message = credentials("ztn", "", &asker(true, false)).err().unwrap();
        assert!(message.contains("a redirect names"), "{message}");
        let asker = asker(false, true);
        let message = credentials("ztn", "", &asker).err().unwrap();
        assert!(message.contains("roots://"), "{message}");
        assert!(
            credentials("gsi", "", &asker)
                .err()
                .unwrap()
                .contains("fsspec")
        );
        assert_eq!(credentials("unix", "", &asker).ok().unwrap().kind, *b"unix");
    }
}
