//! The body of the fuzz target, a function so that tests can replay its corpus.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt;

use crate::connection::receive;
use crate::protocol::{self, Element, HEADER_LENGTH, Header};
use crate::streams::Streams;

/// The most bytes that the pending requests accept.
const MOST: usize = 1 << 16;

/// Parses bytes as every kind of answer, and as the data that a server sends to pending requests.
pub fn answers(data: &[u8]) {
    if let Some(header) = data.first_chunk::<HEADER_LENGTH>() {
        let _ = Header::parse(header);
    }
    let body = Bytes::copy_from_slice(data);
    let _ = protocol::protocol(data);
    let _ = protocol::login(data);
    let _ = protocol::stat(data);
    let _ = protocol::opened(data);
    let _ = protocol::dir_entries(data);
    let _ = protocol::locations(data);
    let _ = protocol::error(data);
    let _ = protocol::redirect(data);
    let _ = protocol::wait(data);
    let _ = protocol::attention(&body);
    let _ = protocol::status_body(data);
    let _ = protocol::page_written(data);
    let _ = protocol::page_read(u64::from(data.first().copied().unwrap_or(0)) << 8, data);
    let element = |offset, length| Element {
        handle: [0; 4],
        offset,
        length,
    };
    let _ = protocol::readv(&body, &[element(0, 3), element(8, 0)]);
    let streams = Arc::new(Streams::default());
    let waiting: Vec<_> = (0..4)
        .filter_map(|_| streams.take(MOST, Instant::now()).ok())
        .collect();
    // all bytes are there, so this completes at once
    let ended = receive(data, streams.clone(), crate::Options::default().rate()).now_or_never();
    assert!(ended.is_some() && streams.lost().is_some());
    drop(waiting);
}

#[cfg(test)]
mod tests {
    use femtobarn_testkit::{corpus_has, read_corpus};

    use super::*;

    fn number(number: i32, text: &[u8]) -> Vec<u8> {
        [&number.to_be_bytes()[..], text].concat()
    }

    /// An answer on the first stream.
    fn answer(status: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        [&[0, 0], &status.to_be_bytes()[..], &length, body].concat()
    }

    /// A body with its checksum.
    fn summed(rest: &[u8]) -> Vec<u8> {
        [&crc32c::crc32c(rest).to_be_bytes(), rest].concat()
    }

    /// Messages of servers, one of each kind: bodies, and complete answers.
    fn messages() -> Vec<(&'static str, Vec<u8>)> {
        let element = |offset: u64, data: &[u8]| {
            let length = u32::try_from(data.len()).unwrap().to_be_bytes();
            [&[0; 4], &length[..], &offset.to_be_bytes(), data].concat()
        };
        let later = [&number(5008, &[0; 4]), &answer(0, b"x")[..]].concat();
        let told = |kind: u8, n_data: u8| {
            let head = [0, 0, 30, kind, 0, 0, 0, 0, 0, 0, 0, n_data];
            answer(4007, &summed(&[&head[..], &[0; 8]].concat()))
        };
        let page = summed(b"page");
        let damaged = [&[0; 4][..], &8192_u64.to_be_bytes()].concat();
        vec![
            (
                "protocol",
                [
                    &[0, 0, 5, 0x20, 0xc4, 0, 0, 1][..],
                    &[b'B', 0, 0, 2, 1, 2, b'S', 0, 0, 0, 3, 0],
                ]
                .concat(),
            ),
            (
                "login",
                [&[7; 16][..], b"&P=ztn,0:4096:&P=sss,0.13:/k&P=unix\0"].concat(),
            ),
            ("stat", b"1407 1024 51 1700000000\0".to_vec()),
            ("opened", [&[0; 12][..], b"1 5 48 1700000000\0"].concat()),
            ("names", b"a\nb c\n\0".to_vec()),
            ("folder", b".\n0 0 0 0\na\n1 5 16 9\nd\n2 0 19 9\0".to_vec()),
            ("locations", b"Mr[::1]:1094 Sw10.0.0.1:1095\0".to_vec()),
            ("readv", [element(0, b"abc"), element(8, b"")].concat()),
            ("page", page.clone()),
            ("pages_damaged", summed(&damaged)),
            ("ok", answer(0, b"abc")),
            ("ok_so_far", [answer(4000, b"ab"), answer(0, b"c")].concat()),
            ("attention", answer(4001, &number(5002, &[0; 4]))),
            (
                "later",
                [answer(4006, &number(5, b"")), answer(4001, &later)].concat(),
            ),
            ("authmore", answer(4002, b"sss\0more")),
            ("error", answer(4003, &number(3011, b"no such file\0"))),
            ("redirect", answer(4004, &number(1095, b"ds1?a=b?token"))),
            (
                "redirect_url",
                answer(4004, &number(-1, b"root://h:1//f?x=1")),
            ),
            ("wait", answer(4005, &number(10, b"hold on\0"))),
            (
                "status",
                [told(1, 8), page.clone(), told(0, 8), page].concat(),
            ),
            ("status_empty", told(0, 0)),
            ("wrong_status", answer(9, b"")),
            (
                "wrong_length",
                [0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff].to_vec(),
            ),
            ("wrong_stream", [9, 9, 0, 0, 0, 0, 0, 0].to_vec()),
        ]
    }

    /// The messages, and truncated and damaged copies of each.
    fn inputs() -> Vec<(String, Vec<u8>)> {
        let mut all = vec![("nothing".to_owned(), Vec::new())];
        for (name, message) in messages() {
            let middle = message.len() / 2;
            let mut damaged = message.clone();
            damaged[middle] ^= 0x80;
            all.push((format!("{name}_cut"), message[..message.len() - 1].to_vec()));
            all.push((format!("{name}_damaged"), damaged));
            all.push((name.to_owned(), message));
        }
        all
    }

    #[test]
    fn answers_of_all_kinds_are_read_whole_cut_and_damaged() {
        for (_, data) in inputs() {
            answers(&data);
        }
    }

    /// The seeds of the corpus. `FEMTOBARN_MAKE_CORPUS=1` writes them.
    #[test]
    fn the_corpus_has_them() {
        corpus_has("xrootd", &inputs());
    }

    /// The seeds, and inputs that fuzzing found.
    #[test]
    fn the_corpus_is_read() {
        let count = read_corpus("xrootd", answers);
        assert!(count >= inputs().len(), "{count}");
    }
}
