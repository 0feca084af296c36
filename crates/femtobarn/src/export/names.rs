//! Names of columns.

use std::collections::{BTreeMap, HashSet};

use super::survey::Name;

/// A name for the column of each product: the label, with `_` for characters that names of fields cannot have. If a label
/// has several types, the type follows; if a name is taken, a number does.
pub(super) fn column_names<'a>(
    products: impl IntoIterator<Item = &'a Name>,
    taken: &[String],
) -> BTreeMap<Name, String> {
    let mut products: Vec<&Name> = products.into_iter().collect();
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for (label, _) in &products {
        *numbers.entry(label).or_default() += 1;
    }
    let is_several = |label: &str| numbers.get(label).is_some_and(|n| *n > 1);
    // labels that can stay as they are come first, so that no other takes their names
    products.sort_by_key(|product| {
        (
            plain(&product.0) != product.0 || is_several(&product.0),
            *product,
        )
    });
    let mut used: HashSet<String> = taken.iter().cloned().collect();
    let mut names = BTreeMap::new();
    for product in products {
        let (label, type_name) = product;
        let mut name = plain(label);
        if is_several(label) {
            name = format!("{name}_{}", word(type_name));
        }
        let mut own = name.clone();
        let mut n = 1;
        while !used.insert(own.clone()) {
            n += 1;
            own = format!("{name}_{n}");
        }
        names.insert(product.clone(), own);
    }
    names
}

/// A label without characters that separate names, or have another meaning in them.
fn plain(label: &str) -> String {
    let is_bad = |c: char| matches!(c, '.' | '/' | '\\' | ' ' | '\0'..='\x1f' | '\x7f');
    let name: String = label
        .chars()
        .map(|c| if is_bad(c) { '_' } else { c })
        .collect();
    let number = name.strip_prefix(':').unwrap_or(&name).strip_prefix('_');
    let is_of_structure = number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    });
    match name.is_empty() || is_of_structure {
        true => format!("product{name}"),
        false => name,
    }
}

/// The letters and numbers in the name of a type.
fn word(type_name: &str) -> String {
    let plain = type_name.replace("std::", "");
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let parts = plain.split(|c| !is_part(c)).filter(|part| !part.is_empty());
    parts
        .collect::<Vec<_>>()
        .join("_")
        .trim_matches('_')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(products: &[(&str, &str)], taken: &[&str]) -> Vec<String> {
        let products = products
            .iter()
            .map(|(label, kind)| ((*label).to_owned(), (*kind).to_owned()));
        let products: Vec<Name> = products.collect();
        let taken: Vec<String> = taken.iter().map(|name| (*name).to_owned()).collect();
        let names = column_names(&products, &taken);
        products
            .iter()
            .filter_map(|product| names.get(product).cloned())
            .collect()
    }

    #[test]
    fn labels_become_names_and_types_follow_where_there_are_several() {
        let products = [
            ("rec.slc", "float"),
            ("x", "double"),
            ("x", "std::vector<float>"),
        ];
        assert_eq!(
            named(&products, &[]),
            ["rec_slc", "x_double", "x_vector_float"]
        );
        let odd = [
            ("", "a"),
            ("_0", "a"),
            ("a/b", "a"),
            ("run", "a"),
            ("über", "a"),
        ];
        assert_eq!(
            named(&odd, &["run"]),
            ["product", "product_0", "a_b", "run_2", "über"]
        );
    }

    #[test]
    fn no_two_columns_have_one_name() {
        let products = [
            ("x", "a"),
            ("x", "b"),
            ("x_a", "c"),
            ("x.a", "c"),
            ("x/a", "c"),
            ("x_a_2", "c"),
        ];
        let mut names = named(&products, &["x_b"]);
        assert_eq!((names[2].as_str(), names[5].as_str()), ("x_a", "x_a_2"));
        names.push("x_b".to_owned());
        let different: HashSet<&String> = names.iter().collect();
        assert_eq!(different.len(), products.len() + 1);
    }
}
