//! Converts command-line options to the library's types.

use std::collections::BTreeMap;

use femtobarn::Error;
use femtobarn::codec::parse_settings;
use femtobarn::expression::Expression;
use femtobarn::io::{SECRET_SETTINGS, set_for_all};
use femtobarn::merge::Entries;
use femtobarn::write::{ObjectSize, StoredAs, WriteOptions};

use crate::args::{Sizes, Threads};
use crate::failure::{Failure, code};
use crate::units;

/// Advice for commands that take fields without an option.
pub const BEHIND_THE_FILE: &str = "name the fields after the file, without --fields: FILE 'Muon_*'";

/// Applies settings of the form `NAME=VALUE` to all files of the process. Secrets are given as `NAME=@FILE`, as all
/// users of a machine can see the arguments of a process.
pub fn set_all(texts: &[String]) -> Result<(), Failure> {
    let mut given = BTreeMap::new();
    for text in texts {
        let pair = text.split_once('=');
        let (name, value) = pair.ok_or_else(|| {
            usage(&format!(
                "invalid setting {text:?}: expected NAME=VALUE, e.g. request_timeout=20"
            ))
        })?;
        let (name, value) = (name.trim(), value.trim());
        let value = match SECRET_SETTINGS.contains(&name) {
            true => secret(name, value)?,
            false => value.to_owned(),
        };
        given.insert(name.to_owned(), value);
    }
    Ok(set_for_all(given).map_err(Error::from)?)
}

/// The contents of the file in `@FILE`.
fn secret(name: &str, value: &str) -> Result<String, Failure> {
    let path = value.strip_prefix('@').ok_or_else(|| {
        usage(&format!(
            "{name} on the command line is visible to all users of this machine: put it into a file and give \
             --set {name}=@FILE, or set the variable FEMTOBARN_{}",
            name.to_uppercase()
        ))
    })?;
    contents(name, path)
}

/// The text of a file without space around it; `what` it is, for errors.
fn contents(what: &str, path: &str) -> Result<String, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| usage(&format!("cannot read {what} from {path}: {error}")))?;
    Ok(text.trim().to_owned())
}

/// The condition of `--where`: as it is given, or from the file in `@FILE`, as arguments have a greatest length.
pub fn condition(text: &str) -> Result<Expression, Failure> {
    match text.strip_prefix('@') {
        Some(path) => Ok(Expression::parse(&contents("the condition", path)?)?),
        None => Ok(Expression::parse(text)?),
    }
}

/// The settings for a codec's name and a level.
pub fn compression(text: &str) -> Result<u32, Failure> {
    parse_settings(text).map_err(|_| {
        usage(&format!("invalid compression {text:?}: use zstd, lz4, zlib or lzma with a level from 1 to 9, none, or a ROOT setting, e.g. 505"))
    })
}

/// A number of bytes, more than 0.
pub fn size(text: &str) -> Result<u64, Failure> {
    let bytes = units::parse_bytes(text).filter(|&n| n > 0);
    bytes.ok_or_else(|| {
        usage(&format!(
            "invalid size {text:?}: expected a number of bytes, e.g. 128MiB"
        ))
    })
}

/// Options for writing new pages and clusters.
pub fn writing(
    threads: &Threads,
    sizes: &Sizes,
    compression: Option<u32>,
) -> Result<WriteOptions, Failure> {
    let mut write = WriteOptions {
        threads: threads.number()?,
        ..WriteOptions::default()
    };
    write.compression = compression.unwrap_or(write.compression);
    if let Some(text) = &sizes.cluster_size {
        write.cluster_bytes = size(text)?;
    }
    if let Some(text) = &sizes.page_size {
        write.page_bytes = usize::try_from(size(text)?).unwrap_or(usize::MAX);
    }
    write.object_size = object_size(sizes.object_size.as_deref())?;
    Ok(write)
}

/// The size of objects, if it is given.
pub fn object_size(text: Option<&str>) -> Result<Option<ObjectSize>, Failure> {
    let parsed = text.map(ObjectSize::parse).transpose();
    parsed.map_err(|what| usage(&what))
}

/// All patterns of several lists.
pub fn patterns(texts: &[String]) -> Vec<String> {
    let each = texts.iter().flat_map(|text| text.split(','));
    each.map(str::to_owned).collect()
}

/// Patterns of each ntuple; `*` and an empty list stand for all fields.
pub fn patterns_of_each(texts: &[String]) -> Vec<Vec<String>> {
    let one = |text: &String| match text.as_str() {
        "*" => Vec::new(),
        _ => patterns(std::slice::from_ref(text)),
    };
    texts.iter().map(one).collect()
}

/// The entries of `FIRST:END`.
pub fn entries(text: &str) -> Result<Entries, Failure> {
    let number = |text: &str| match text.trim() {
        "" => Some(None),
        text => text.parse().ok().map(Some),
    };
    let both = text.split_once(':');
    let both = both.and_then(|(start, stop)| Some((number(start)?, number(stop)?)));
    let (start, stop) = both.ok_or_else(|| {
        usage(&format!(
            "invalid entries {text:?}: expected FIRST:END, e.g. 1000:2000, :1000 or -1000:"
        ))
    })?;
    Ok(Entries::Slice { start, stop })
}

/// The field of `NAME=BITS[:MIN:MAX]`, and the encoding of its floats.
pub fn precision(text: &str) -> Result<(String, StoredAs), Failure> {
    let wrong = || {
        usage(&format!(
            "invalid precision {text:?}: expected NAME=BITS[:MIN:MAX], e.g. Muon_pt=12 or Muon_phi=16:-3.15:3.15"
        ))
    };
    let (name, stored) = text.rsplit_once('=').ok_or_else(wrong)?;
    let mut parts = stored.split(':');
    let bits = parts.next().and_then(|bits| bits.trim().parse().ok());
    let bits: u16 = bits.ok_or_else(wrong)?;
    let range: Option<Vec<f64>> = parts.map(|part| part.trim().parse().ok()).collect();
    let stored = match range.as_deref() {
        Some([]) => StoredAs::Truncated(bits),
        Some(&[min, max]) => StoredAs::Quantized { bits, min, max },
        _ => return Err(wrong()),
    };
    match name.trim() {
        "" => Err(wrong()),
        name => Ok((name.to_owned(), stored)),
    }
}

pub fn usage(message: &str) -> Failure {
    Failure::new(code::USAGE, "usage", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_read_from_files() {
        for name in SECRET_SETTINGS {
            let refused = set_all(&[format!("{name}=hidden")]).unwrap_err().message;
            assert!(refused.contains(&format!("{name}=@FILE")), "{refused}");
            assert!(!refused.contains("hidden"), "{refused}");
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), " hidden\n").unwrap();
        let path = file.path().display();
        assert_eq!(
            secret("bearer_token", &format!("@{path}")).unwrap(),
            "hidden"
        );
        let missing = secret("bearer_token", "@/no/such").unwrap_err().message;
        assert!(missing.contains("/no/such"), "{missing}");
    }

    #[test]
    fn entries_are_two_numbers_of_which_each_may_be_left_out() {
        let slice = |text| match entries(text).unwrap() {
            Entries::Slice { start, stop } => (start, stop),
            other => panic!("{other:?}"),
        };
        assert_eq!(slice("10:20"), (Some(10), Some(20)));
        assert_eq!(slice(":-5"), (None, Some(-5)));
        assert_eq!(slice("-5:"), (Some(-5), None));
        assert_eq!(slice(":"), (None, None));
        for text in ["", "7", "1:2:3", "a:b", "1.5:2", "1-2"] {
            assert!(entries(text).is_err(), "{text}");
        }
    }

    #[test]
    fn precision_is_bits_or_bits_of_a_range() {
        let (name, stored) = precision("Jet.pt=12").unwrap();
        assert_eq!((name.as_str(), stored), ("Jet.pt", StoredAs::Truncated(12)));
        let (name, stored) = precision("phi=16:-3.15:3.15").unwrap();
        let (bits, min, max) = (16, -3.15, 3.15);
        assert_eq!(
            (name.as_str(), stored),
            ("phi", StoredAs::Quantized { bits, min, max })
        );
        for text in [
            "",
            "pt",
            "pt=",
            "=12",
            "pt=x",
            "pt=-1",
            "pt=12:1",
            "pt=12:1:2:3",
            "pt=12:a:b",
        ] {
            assert!(precision(text).is_err(), "{text}");
        }
    }
}
