//! Reads subject, issuer and validity of a certificate, a subset of X.509 (RFC 5280). Pure.

/// The names and the expiry date of a certificate, for messages.
pub fn describe(der: &[u8]) -> Option<String> {
    let (_, certificate, _) = element(der)?;
    let (_, mut rest, _) = element(certificate)?;
    let (tag, _, behind) = element(rest)?;
    // the version, which is optional
    if tag == 0xa0 {
        rest = behind;
    }
    let (_, _, rest) = element(rest)?;
    let (_, _, rest) = element(rest)?;
    let (_, issuer, rest) = element(rest)?;
    let (_, validity, rest) = element(rest)?;
    let (_, subject, _) = element(rest)?;
    let (_, _, until) = element(validity)?;
    let (tag, until, _) = element(until)?;
    Some(format!(
        "of {}, by {}, until {}",
        name(subject)?,
        name(issuer)?,
        time(tag, until)?
    ))
}

/// The first DER element: its tag, its content, and the rest.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], mut rest) = bytes.split_first_chunk()?;
    let mut length = usize::from(first & 0x7f);
    if first & 0x80 != 0 {
        let (digits, behind) = rest.split_at_checked(length.min(5))?;
        length = digits
            .iter()
            .fold(0, |sum, &digit| sum << 8 | usize::from(digit));
        rest = behind;
    }
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// A name, such as `CN=server, O=somebody`.
fn name(mut sets: &[u8]) -> Option<String> {
    let mut parts = Vec::new();
    while !sets.is_empty() {
        let (_, set, rest) = element(sets)?;
        sets = rest;
        let (_, pair, _) = element(set)?;
        let (_, kind, value) = element(pair)?;
        let kind = match kind {
            [0x55, 4, 3] => "CN",
            [0x55, 4, 6] => "C",
            [0x55, 4, 10] => "O",
            [0x55, 4, 11] => "OU",
            [0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 0x19] => "DC",
            _ => continue,
        };
        let (_, value, _) = element(value)?;
        parts.push(format!("{kind}={}", String::from_utf8_lossy(value)));
    }
    Some(parts.join(", "))
}

/// A time such as `261124021044Z` or `20261124021044Z`, with the year first.
fn time(tag: u8, text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let (year, rest) = match tag {
        0x18 => (text.get(..4)?.to_owned(), text.get(4..)?),
        _ => {
            let year = text.get(..2)?;
            // in RFC 5280, two-digit years from 50 on are in the last century
            let century = if year < "50" { "20" } else { "19" };
            (format!("{century}{year}"), text.get(2..)?)
        }
    };
    Some(format!("{year}-{}-{}", rest.get(..2)?, rest.get(2..4)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn der(tag: u8, content: &[&[u8]]) -> Vec<u8> {
        let content = content.concat();
        [&[tag, u8::try_from(content.len()).unwrap()], &content[..]].concat()
    }

    #[test]
    fn names_and_the_end_are_told_and_broken_ones_are_not() {
        let named = |kind: u8, text: &str| {
            let pair = [der(6, &[&[0x55, 4, kind]]), der(0x0c, &[text.as_bytes()])];
            der(0x31, &[&der(0x30, &[&pair.concat()])])
        };
        let issuer = der(0x30, &[&named(10, "Grid"), &named(3, "CA")]);
        let subject = der(0x30, &[&named(3, "localhost"), &named(99, "?")]);
        let times = [
            der(0x17, &[b"251124021044Z"]),
            der(0x18, &[b"20511124021044Z"]),
        ];
        let fields = [
            der(0xa0, &[&[2, 1, 2]]),
            der(2, &[&[7]]),
            der(0x30, &[]),
            issuer,
            der(0x30, &[&times.concat()]),
            subject,
        ];
        let whole = der(0x30, &[&der(0x30, &[&fields.concat()])]);
        assert_eq!(
            describe(&whole).unwrap(),
            "of CN=localhost, by O=Grid, CN=CA, until 2051-11-24"
        );
        for end in 0..whole.len() {
            assert_eq!(describe(&whole[..end]), None);
        }
        assert_eq!(describe(&[0x30, 0xff, 1]), None);
    }
}
