//! Excerpts of long expressions, for messages.

use std::borrow::Cow;
use std::ops::Range;

/// Maximum length of an expression in a message, in characters, without the ellipses.
const MOST_AROUND: usize = 200;
/// Number of characters before the position of the error.
const BEFORE: usize = 60;
/// Maximum length of a named part in a message, in characters.
const MOST_OF_PART: usize = 80;

/// The string, or an excerpt of a long one around a position.
pub(super) fn around<'a>(text: &'a str, span: &Range<usize>) -> Cow<'a, str> {
    let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    if ends.len() <= MOST_AROUND {
        return Cow::Borrowed(text);
    }
    let at = ends.partition_point(|&end| end < span.start);
    let first = at.saturating_sub(BEFORE).min(ends.len() - MOST_AROUND);
    let byte = |at: usize| ends.get(at).copied().unwrap_or(text.len());
    let piece = text.get(byte(first)..byte(first + MOST_AROUND));
    let mark = |is_cut: bool| if is_cut { "…" } else { "" };
    Cow::Owned(format!(
        "{}{}{}",
        mark(first > 0),
        piece.unwrap_or_default(),
        mark(first + MOST_AROUND < ends.len())
    ))
}

/// A part; if it is long, only its beginning and its end.
pub(super) fn shortened(part: &str) -> Cow<'_, str> {
    // more of the beginning is kept
    let (begin, end) = (MOST_OF_PART * 2 / 3, MOST_OF_PART / 3);
    let head = part.char_indices().nth(begin);
    let tail = part.char_indices().nth_back(end.saturating_sub(1));
    match (head, tail) {
        (Some((head, _)), Some((tail, _))) if head < tail => {
            let [head, tail] = [part.get(..head), part.get(tail..)].map(Option::unwrap_or_default);
            Cow::Owned(format!("{head}…{tail}"))
        }
        _ => Cow::Borrowed(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_around_the_place() {
        let text: String = ('a'..='z').cycle().take(1000).collect();
        assert_eq!(around("µ == 1", &(0..2)), "µ == 1");
        assert_eq!(around(&text, &(0..3)), format!("{}…", &text[..200]));
        assert_eq!(around(&text, &(500..900)), format!("…{}…", &text[440..640]));
        assert_eq!(around(&text, &(1000..1000)), format!("…{}", &text[800..]));
        let wide = "µ".repeat(1000);
        assert_eq!(
            around(&wide, &(1000..1002)),
            format!("…{}…", "µ".repeat(200))
        );
    }

    #[test]
    fn long_parts_keep_their_ends() {
        let text: String = ('a'..='z').cycle().take(1000).collect();
        assert_eq!(
            shortened(&text),
            format!("{}…{}", &text[..53], &text[974..])
        );
        for n in 0..200 {
            let part = "µ".repeat(n);
            let found = shortened(&part);
            assert!(
                found == part && n <= 80 || found.chars().count() == 80,
                "{n}"
            );
        }
    }
}
