//! The body of the fuzz target, a function so that tests can replay its corpus.

use crate::protocol::Scan;
use crate::refusal::{is_out_of_memory, is_too_large, passing};
use crate::topology::Topology;
use crate::{Address, Reply};

/// How deep arrays are walked: servers nest them three deep.
const DEEPEST: usize = 4;

/// Parses bytes as replies, both when they arrive in pieces and at once. The first byte is the size of the pieces.
pub fn replies(data: &[u8]) {
    let Some((&size, data)) = data.split_first() else {
        return;
    };
    let asked = Address {
        host: "h".into(),
        port: 1,
    };
    let mut rest = data;
    loop {
        let whole = Scan::default().whole(rest);
        let mut scan = Scan::default();
        let mut in_pieces = scan.whole(&[]);
        for end in (0..rest.len())
            .step_by(usize::from(size).max(1))
            .chain([rest.len()])
        {
            if !matches!(in_pieces, Ok(None)) {
                break;
            }
            in_pieces = scan.whole(rest.get(..end).unwrap_or_default());
        }
        // The result does not depend on how bytes arrive, except for the position where an endless line is rejected.
        if let (Ok(whole), Ok(in_pieces)) = (&whole, &in_pieces) {
            assert_eq!(whole, in_pieces);
        }
        let Ok(Some(end)) = whole else { return };
        let Some((bytes, next)) = rest.split_at_checked(end) else {
            unreachable!("a reply ends where there is nothing");
        };
        assert!(end > 0, "a reply of nothing");
        if let Some(reply) = Reply::of(bytes) {
            walk(reply, bytes.len());
            let _ = Topology::of_slots(reply, &asked);
        }
        rest = next;
    }
}

/// Walks through a reply. Nothing in it may be larger than itself.
fn walk(reply: Reply<'_>, n_bytes: usize) {
    let mut waiting = vec![(reply, 0)];
    while let Some((reply, depth)) = waiting.pop() {
        let text = reply.text();
        if let Reply::Error(said) = reply {
            let said = String::from_utf8_lossy(said);
            let asked = Address {
                host: "h".into(),
                port: 1,
            };
            let _ = (
                passing(&said, &asked),
                is_too_large(&said),
                is_out_of_memory(&said),
            );
        }
        assert!(reply.bytes().is_none_or(|bytes| bytes.len() <= n_bytes));
        drop(text);
        if depth < DEEPEST {
            let elements = reply.elements().into_iter().flatten();
            waiting.extend(elements.map(|element| (element, depth + 1)));
        }
        assert!(waiting.len() <= n_bytes, "more elements than bytes");
    }
}

#[cfg(test)]
mod tests {
    use femtobarn_testkit::{corpus_has, read_corpus};

    use super::*;

    /// Answers of servers, each kind intact, truncated and damaged.
    fn inputs() -> Vec<(String, Vec<u8>)> {
        let replies: [(&str, &[u8]); 12] = [
            ("word", b"+OK\r\n"),
            ("error", b"-ERR no\r\n"),
            ("moved", b"-MOVED 3999 10.0.0.1:6381\r\n"),
            ("ask", b"-ASK 1 :6381\r\n"),
            ("number", b":-12\r\n"),
            ("value", b"$5\r\na\r\nbc\r\n"),
            ("empty", b"$0\r\n\r\n"),
            ("none", b"$-1\r\n"),
            ("array", b"*3\r\n$1\r\na\r\n$-1\r\n:7\r\n"),
            ("no_array", b"*-1\r\n"),
            (
                "slots",
                b"*1\r\n*4\r\n:0\r\n:100\r\n*3\r\n$1\r\nb\r\n:7001\r\n$2\r\nid\r\n*3\r\n$0\r\n\r\n:7004\r\n$2\r\nid\r\n",
            ),
            ("several", b"+OK\r\n*2\r\n*0\r\n*1\r\n:1\r\n$1\r\nx\r\n"),
        ];
        let mut all = vec![("nothing".to_owned(), Vec::new())];
        for (name, reply) in replies {
            let message = [&[3], reply].concat();
            let mut damaged = message.clone();
            damaged[message.len() / 2] ^= 0x40;
            let cut = message[..message.len() - 1].to_vec();
            all.push((format!("{name}_cut"), cut));
            all.push((format!("{name}_damaged"), damaged));
            all.push((name.to_owned(), message));
        }
        all
    }

    /// The seeds of the corpus. `FEMTOBARN_MAKE_CORPUS=1` writes them.
    #[test]
    fn the_corpus_has_them() {
        corpus_has("redis", &inputs());
    }

    /// The seeds, and inputs that fuzzing found.
    #[test]
    fn the_corpus_is_read() {
        let count = read_corpus("redis", replies);
        assert!(count >= inputs().len(), "{count}");
    }
}
