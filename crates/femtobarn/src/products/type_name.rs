//! Names of C++ types in the keys of products. The C++ headers compute the same names in `fb::type_name`.

use femtobarn_io::nearest;
use femtobarn_rntuple::write::SYNONYMS;

use crate::Error;

/// A name that products may have, but not RNTuples.
const PTRDIFF: &str = "ptrdiff_t";

const MAPS: &[&str] = &["map", "multimap", "unordered_map", "unordered_multimap"];
const SETS: &[&str] = &["set", "multiset", "unordered_set", "unordered_multiset"];
const LISTS: &[&str] = &["vector", "list", "deque", "forward_list"];
const OTHERS: &[&str] = &[
    "pair",
    "tuple",
    "optional",
    "variant",
    "array",
    "bitset",
    "atomic",
    "unique_ptr",
    "shared_ptr",
];

/// Maximum nesting of templates.
const DEEPEST: usize = 100;

/// The name of a C++ type in the keys of products: ROOT's short form. Names in this form stay as they are, also those of
/// types that only C++ knows.
///
/// ```
/// use femtobarn::products::type_name;
/// let name = type_name("const map<string, vector<unsigned int> > ").unwrap();
/// assert_eq!(name, "std::map<std::string,std::vector<std::uint32_t>>");
/// ```
///
/// # Errors
/// If it is not the name of a type, or the name of a pointer or a reference.
pub fn type_name(name: &str) -> Result<String, Error> {
    let words: Vec<&str> = name.split_whitespace().collect();
    let text = characters(&words.join(" "));
    let why = if text.is_empty() {
        "it is empty"
    } else if text.ends_with(['*', '&']) {
        "use the type that the pointer or reference refers to"
    } else if !has_matching_brackets(&text) {
        "its brackets do not match"
    } else {
        let normal = normal(&text, 0)?;
        return Ok(normal
            .strip_prefix("const ")
            .map_or(normal.clone(), str::to_owned));
    };
    Err(invalid(name, why))
}

fn invalid(name: &str, why: &str) -> Error {
    Error::Usage {
        what: format!("invalid product type {name:?}: {why}"),
    }
}

/// Characters as arguments of templates, as `','`, as compilers write them. Quoted words, as in `'lambda'`, stay.
fn characters(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\'') {
        let (before, quoted) = rest.split_at(at);
        out.push_str(before);
        let mut chars = quoted.chars().skip(1);
        let (one, end) = (chars.next(), chars.next());
        match one.filter(|c| (' '..='~').contains(c) && !matches!(c, '\'' | '\\')) {
            Some(c) if end == Some('\'') => {
                out.push_str(&format!("(char){}", u32::from(c)));
                rest = quoted.get(3..).unwrap_or_default();
            }
            _ => {
                out.push('\'');
                rest = quoted.get(1..).unwrap_or_default();
            }
        }
    }
    out + rest
}

fn has_matching_brackets(text: &str) -> bool {
    let mut depth = 0usize;
    for c in text.chars() {
        match c {
            '<' => depth += 1,
            '>' if depth == 0 => return false,
            '>' => depth -= 1,
            _ => {}
        }
    }
    depth == 0
}

fn normal(text: &str, depth: usize) -> Result<String, Error> {
    if depth > DEEPEST {
        return Err(invalid(text, "it is nested too deeply"));
    }
    let text = text.trim();
    let bare = text.strip_suffix(" const");
    if let Some(bare) = bare.or_else(|| text.strip_prefix("const ")) {
        let normal = normal(bare, depth + 1)?;
        return Ok(match normal.starts_with("const ") {
            true => normal,
            false => format!("const {normal}"),
        });
    }
    if let Some((item, size)) = array(text) {
        return Ok(format!("std::array<{},{size}>", normal(&item, depth + 1)?));
    }
    let mut rest = text;
    while let Some(next) = ["class ", "struct ", "enum ", "::"]
        .iter()
        .find_map(|start| rest.strip_prefix(start))
    {
        rest = next;
    }
    let mut name = String::new();
    while let Some(at) = rest.find('<') {
        let (before, behind) = rest.split_at(at);
        name.push_str(&template(before));
        let (inner, after) = bracket(behind);
        rest = after;
        let arguments = split(inner).into_iter();
        let arguments: Vec<String> = arguments
            .map(|argument| normal(argument, depth + 1))
            .collect::<Result<_, _>>()?;
        if name == "std::basic_string" && arguments.first().is_some_and(|first| first == "char") {
            "std::string".clone_into(&mut name);
            continue;
        }
        let needed = arguments.get(..n_needed(&name, &arguments));
        let needed = needed.unwrap_or(&arguments).join(",");
        name.push_str(&format!("<{needed}>"));
    }
    let last = without_inline(rest);
    match name.is_empty() {
        true => number(&last),
        false => Ok(name + &last),
    }
}

/// The type of the items and the first size of an array of C, as `int[2][3]`.
fn array(text: &str) -> Option<(String, u64)> {
    let open = text.strip_suffix(']')?;
    let mut at = open.rfind('[')?;
    // the sizes from the left: the first is the outermost
    while let Some(before) = text.get(..at)?.trim_end().strip_suffix(']') {
        at = before.rfind('[')?;
    }
    let (item, sizes) = text.split_at_checked(at)?;
    let (first, further) = sizes.strip_prefix('[')?.split_once(']')?;
    let size = first.trim().parse().ok()?;
    let item = item.trim_end();
    (!item.is_empty()).then(|| (format!("{item}{}", further.trim_start()), size))
}

/// A part of a name in front of a bracket.
fn template(text: &str) -> String {
    let part = without_inline(text);
    match part.as_str() {
        "RVec" | "ROOT::RVec" => "ROOT::VecOps::RVec".to_owned(),
        name if [MAPS, SETS, LISTS, OTHERS].concat().contains(&name) => format!("std::{name}"),
        _ => part,
    }
}

/// A name without the inline namespaces of standard libraries.
fn without_inline(text: &str) -> String {
    ["__cxx11", "__1", "__debug"]
        .iter()
        .fold(text.trim().to_owned(), |text, inline| {
            text.replace(&format!("std::{inline}::"), "std::")
        })
}

/// The content of the bracket at the beginning of a string, and the rest.
fn bracket(text: &str) -> (&str, &str) {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            let inner = text.get(1..at).unwrap_or_default();
            return (inner, text.get(at + c.len_utf8()..).unwrap_or_default());
        }
    }
    (text.get(1..).unwrap_or_default(), "")
}

/// Splits a string at the commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(text.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text.trim().is_empty() || !parts.is_empty() {
        parts.push(text.get(start..).unwrap_or_default());
    }
    parts
}

/// How many arguments of a template of the standard library must be written, as they differ from their defaults.
fn n_needed(name: &str, arguments: &[String]) -> usize {
    let n = arguments.len();
    let Some((template, key)) = Option::zip(name.strip_prefix("std::"), arguments.first()) else {
        return n;
    };
    let is_map = MAPS.contains(&template);
    let own = if is_map { 2 } else { 1 };
    let item = match arguments.get(1) {
        Some(value) if is_map => format!("std::pair<const {key},{value}>"),
        _ => key.clone(),
    };
    let mut usual: Vec<String> = arguments.iter().take(own).cloned().collect();
    if template.starts_with("unordered_") {
        usual.extend([format!("std::hash<{key}>"), format!("std::equal_to<{key}>")]);
    } else if is_map || SETS.contains(&template) {
        usual.push(format!("std::less<{key}>"));
    } else if template == "unique_ptr" {
        usual.push(format!("std::default_delete<{key}>"));
    } else if !LISTS.contains(&template) {
        return n;
    }
    usual.push(format!("std::allocator<{item}>"));
    let is_usual = |at: &usize| arguments.get(*at) == usual.get(*at);
    let n_usual = match n > usual.len() {
        true => 0,
        false => (own..n).rev().take_while(is_usual).count(),
    };
    n - n_usual
}

/// ROOT's name of a number type; other names stay as they are.
fn number(text: &str) -> Result<String, Error> {
    if text.is_empty() {
        return Err(invalid(text, "it is empty"));
    }
    let plain = text.strip_prefix("std::").unwrap_or(text);
    if let Some((_, known)) = SYNONYMS.iter().find(|(name, _)| *name == plain) {
        return Ok((*known).to_owned());
    }
    if plain == PTRDIFF {
        return Ok("std::int64_t".to_owned());
    }
    // an argument as 3UL
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    let unsigned = digits.strip_prefix('-').unwrap_or(digits);
    if !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(digits.to_owned());
    }
    let mut words: Vec<&str> = text.split(' ').collect();
    let is_number = |word: &&str| {
        matches!(
            *word,
            "signed" | "unsigned" | "short" | "long" | "int" | "char"
        )
    };
    let is_word = |word: &&str| word.chars().all(char::is_alphabetic) && !word.is_empty();
    if words.len() == 2 && words.contains(&"long") && words.contains(&"double") {
        return Ok("long double".to_owned());
    }
    if text == "char" || !words.iter().any(is_number) || !words.iter().all(is_word) {
        return check_spelling(text).map(|()| text.to_owned());
    }
    let count = |word: &str| words.iter().filter(|other| **other == word).count();
    let (signs, ints) = (count("signed") + count("unsigned"), count("int"));
    let u = if count("unsigned") > 0 { "u" } else { "" };
    words.retain(|word| !matches!(*word, "signed" | "unsigned" | "int"));
    let bits = match words.as_slice() {
        ["char"] if ints == 0 => 8,
        ["short"] => 16,
        [] => 32,
        ["long"] | ["long", "long"] => 64,
        _ => 0,
    };
    if bits == 0 || signs > 1 || ints > 1 {
        return Err(invalid(text, "C++ has no such number type"));
    }
    Ok(format!("std::{u}int{bits}_t"))
}

/// Refuses a name that looks like a number type or a type of the standard library, but does not exist.
fn check_spelling(text: &str) -> Result<(), Error> {
    let plain = text.strip_prefix("std::").unwrap_or(text);
    let unsigned = plain.strip_prefix(['u', 'U']).unwrap_or(plain);
    // not without "_t": float4 and int2 are classes of CUDA
    let looks_known = ["int", "Char", "Short", "Int", "Long"].iter().any(|start| {
        let digits = unsigned.strip_prefix(start);
        let digits = digits.and_then(|rest| rest.strip_suffix("_t"));
        digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    });
    if !looks_known {
        return Ok(());
    }
    let known = SYNONYMS.iter().map(|(name, _)| *name).chain([PTRDIFF]);
    let hint = match nearest(text, known).first() {
        Some(near) => format!("; did you mean {near}?"),
        None => String::new(),
    };
    Err(invalid(text, &format!("C++ has no such number type{hint}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_cpp_computes() {
        for (written, name) in [
            ("const int", "std::int32_t"),
            ("int const", "std::int32_t"),
            ("long unsigned int", "std::uint64_t"),
            ("double long", "long double"),
            ("std::size_t", "std::uint64_t"),
            (
                "vector<vector<Int_t> >",
                "std::vector<std::vector<std::int32_t>>",
            ),
            ("int[2] [3]", "std::array<std::array<std::int32_t,3>,2>"),
            ("Pair<',', '<'>", "Pair<(char)44,(char)60>"),
            ("main::'lambda'()", "main::'lambda'()"),
            ("class ::nova::Of<3ul>", "nova::Of<3>"),
            ("std::__cxx11::basic_string<char, X>", "std::string"),
            (
                "std::map<int, float, std::less<int>, std::allocator<std::pair<int const, float> > >",
                "std::map<std::int32_t,float>",
            ),
            ("std::set<int, Mine>", "std::set<std::int32_t,Mine>"),
            (
                "(anonymous namespace)::Track",
                "(anonymous namespace)::Track",
            ),
            (
                "std::function<unsigned int (long)>",
                "std::function<unsigned int (long)>",
            ),
        ] {
            assert_eq!(type_name(written).unwrap(), name, "{written}");
            assert_eq!(type_name(name).unwrap(), name);
        }
        for (written, why) in [
            ("const Track &", "pointer or reference"),
            ("vector<int", "brackets"),
            (" ", "empty"),
            ("vector<long char>", "\"long char\": C++ has no such"),
            ("Int32_t", "did you mean int32_t?"),
            ("int char", "C++ has no such"),
            ("vector<int int>", "C++ has no such"),
            ("unsigned signed", "C++ has no such"),
            ("::", "empty"),
        ] {
            let error = type_name(written).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let deep = format!("{}int{}", "vector<".repeat(9999), ">".repeat(9999));
        assert!(type_name(&deep).is_err());
    }
}
