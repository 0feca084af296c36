use std::sync::Arc;

use arrow_array::builder::{Int32Builder, LargeListBuilder};
use arrow_array::types::{Float32Type, Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, Int64Array,
    LargeListArray, LargeStringArray, RecordBatch, StructArray, UInt32Array, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields};

use super::tree::{Junction, Kind};
use super::{Aliases, Expression, open_mask};

fn floats(lists: &[&[f32]]) -> LargeListArray {
    let lists = lists.iter().map(|it| Some(it.iter().map(|&x| Some(x))));
    LargeListArray::from_iter_primitive::<Float32Type, _, _>(lists)
}

/// `Muon` is a list of records with `pt` and `hits`, and `hits` a list of numbers.
fn muon() -> StructArray {
    let pt: ArrayRef = Arc::new(Float32Array::from(vec![10.0, 30.0, 25.0, 50.0]));
    let mut hits = LargeListBuilder::new(Int32Builder::new());
    for list in [vec![1, 2], vec![], vec![3], vec![4, 5, 6]] {
        hits.append_value(list.into_iter().map(Some));
    }
    let hits: ArrayRef = Arc::new(hits.finish());
    let field = |name: &str, array: &ArrayRef| Field::new(name, array.data_type().clone(), true);
    let fields = Fields::from(vec![field("pt", &pt), field("hits", &hits)]);
    StructArray::new(fields, vec![pt, hits], None)
}

/// Three entries.
fn batch() -> RecordBatch {
    let muon = muon();
    let item = Arc::new(Field::new("item", muon.data_type().clone(), false));
    let offsets = OffsetBuffer::from_lengths([2, 0, 2]);
    let records = LargeListArray::new(item, offsets, Arc::new(muon), None);
    let three = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
        [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
            .map(|it| Some(it.map(Some)))
            .to_vec(),
        3,
    );
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("n", Arc::new(UInt32Array::from(vec![2, 0, 2]))),
        ("pt", Arc::new(floats(&[&[10.0, 30.0], &[], &[25.0, 50.0]]))),
        ("eta", Arc::new(floats(&[&[-1.0, 2.0], &[], &[0.5, -3.0]]))),
        ("jet", Arc::new(floats(&[&[1.0, 2.0], &[3.0], &[]]))),
        ("Muon", Arc::new(records)),
        (
            "flag",
            Arc::new(BooleanArray::from(vec![true, false, true])),
        ),
        (
            "run",
            Arc::new(LargeStringArray::from(vec!["A", "B's", ""])),
        ),
        (
            "event",
            Arc::new(UInt64Array::from(vec![u64::MAX, (1 << 53) + 1, 0])),
        ),
        ("signed", Arc::new(Int64Array::from(vec![-1, i64::MAX, 0]))),
        (
            "opt",
            Arc::new(Int64Array::from(vec![Some(5), None, Some(-5)])),
        ),
        (
            "met",
            Arc::new(Float64Array::from(vec![0.0, f64::NAN, f64::INFINITY])),
        ),
        ("three", Arc::new(three)),
        ("odd name", Arc::new(Int64Array::from(vec![1, 2, 3]))),
        ("a.b", Arc::new(Int64Array::from(vec![1, 2, 3]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn truths(text: &str) -> Result<Vec<bool>, String> {
    let batch = batch();
    let found = Expression::parse(text).map_err(|error| error.to_string())?;
    let truths = found
        .evaluate(&batch, 100)
        .map_err(|error| error.to_string());
    // a slice of a batch gives the same result
    let part = batch.slice(1, 2);
    if let (Ok(truths), Ok(part)) = (&truths, found.evaluate(&part, 101)) {
        assert_eq!(truths.slice(1, 2), part, "{text}");
        found.check(batch.schema()).unwrap();
    }
    truths.map(|it| it.iter().map(Option::unwrap).collect())
}

fn assert_all(cases: &[(&str, [u8; 3])]) {
    for (text, expected) in cases {
        let found = truths(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(found, expected.map(|it| it == 1), "{text}");
    }
}

fn assert_errors(cases: &[(&str, &str)]) {
    for (text, part) in cases {
        match truths(text) {
            Ok(found) => panic!("{text} gives {found:?}"),
            Err(error) => assert!(error.contains(part), "{text}: {error}"),
        }
    }
}

#[test]
fn operators_bind_as_in_cpp_and_python() {
    assert_all(&[
        ("1 + 2 * 3 == 7", [1, 1, 1]),
        ("-2 ** 2 == -4", [1, 1, 1]),
        ("2 ** 3 ** 2 == 512", [1, 1, 1]),
        ("2 ** -1 == 0.5", [1, 1, 1]),
        ("10 - 3 - 2 == 5 and 100 / 10 / 5 == 2", [1, 1, 1]),
        ("7 // 2 == 3 && -7 // 2 == -4 && -7 % 3 == 2", [1, 1, 1]),
        (
            "-7.5 // 2 == -4 && -7.5 % 2 == 0.5 && 7 / 2 == 3.5",
            [1, 1, 1],
        ),
        ("1 << 2 + 1 == 8 and 0xFF >> 4 == 15", [1, 1, 1]),
        ("true || false && false", [1, 1, 1]),
        ("not n == 0 and flag", [1, 0, 1]),
        ("!flag || n > 1", [1, 1, 1]),
        ("(n > 1) & ~flag | (n == 0)", [0, 1, 0]),
        ("(n & 2) != 0 && (n | 1) == 3", [1, 0, 1]),
        ("0 < n < 3", [1, 0, 1]),
    ]);
}

#[test]
fn columns_are_named_in_the_order_of_their_use() {
    let names = |text: &str| Expression::parse(text).unwrap().columns().to_vec();
    assert_eq!(
        names("b + Muon.pt[a] > c && sum(b) > _collection0._0 && `odd name`.x == fb::Base::id"),
        [
            "b",
            "Muon.pt",
            "a",
            "c",
            "_collection0._0",
            "odd name.x",
            "fb::Base::id"
        ]
    );
    assert_eq!(
        names("Muon[Muon.pt > 2].eta.size() > 1"),
        ["Muon.eta", "Muon.pt"]
    );
    assert_eq!(
        names("x.y.size() > std::abs(np.max(z)) && `a b`.len() > 1"),
        ["x.y", "z", "a b"]
    );
    assert_eq!(names("e in {1, 2} && in_1 && size"), ["e", "in_1", "size"]);
}

#[test]
fn lists_are_reduced() {
    assert_all(&[
        ("any(pt > 20)", [1, 0, 1]),
        ("all(pt > 20)", [0, 1, 1]),
        ("Sum(pt > 20) >= 2", [0, 0, 1]),
        ("Sum$(pt > 20) == 1 || Length$(pt) == 0", [1, 1, 0]),
        ("count(pt > 20 && abs(eta) < 2.5) == 1", [1, 0, 1]),
        ("ROOT::VecOps::Max(pt) > 30", [0, 0, 1]),
        ("max(pt) < 100", [1, 0, 1]),
        ("pt.max() - min(pt) == 20", [1, 0, 0]),
        ("mean(pt) == 20", [1, 0, 0]),
        ("sum(pt) == 0", [0, 1, 0]),
        ("len(pt) == n && pt.size() == n && size(pt) == n", [1, 1, 1]),
        ("sum(pt * eta) == 50", [1, 0, 0]),
        ("any(pt > 12 * n)", [1, 0, 1]),
        ("sum(three) == 15 && max(three, 5)[0] == 5", [0, 1, 0]),
    ]);
}

#[test]
fn brackets_take_elements_and_masks() {
    assert_all(&[
        ("pt[0] > 20", [0, 0, 1]),
        ("pt[-1] > 20", [1, 0, 1]),
        ("pt[2] > 0 or pt[-3] < 1e9", [0, 0, 0]),
        ("three[n] == 3 || three[n] == 9", [1, 0, 1]),
        ("sum(pt[pt > 20]) == 75", [0, 0, 1]),
        ("len(pt[abs(eta) < 1.5]) == 1", [1, 0, 1]),
        ("pt[pt > 20][0] == 30", [1, 0, 0]),
        ("max(eta[pt > 20]) > 1", [1, 0, 0]),
    ]);
}

#[test]
fn members_of_records_are_columns() {
    assert_all(&[
        ("len(Muon) == 2 && any(Muon.pt > 40)", [0, 0, 1]),
        ("Muon[Muon.pt > 20].pt.size() == 2", [0, 0, 1]),
        ("Muon[0].pt == 10 || Muon.pt[1] == 50", [1, 0, 1]),
        ("`odd name` == 2 || a.b == 3", [0, 1, 1]),
        // the innermost lists are reduced, the outermost are counted
        (
            "sum(sum(Muon.hits)) == 18 || len(Muon.hits) == 0",
            [0, 1, 1],
        ),
        ("any(any(Muon.hits * Muon.pt > 299))", [0, 0, 1]),
        ("all(all(Muon.hits + n > 3))", [0, 1, 1]),
        ("max(max(Muon.hits)) == 2", [1, 0, 0]),
    ]);
}

#[test]
fn integers_are_exact() {
    assert_all(&[
        ("event == 18446744073709551615", [1, 0, 0]),
        ("event > signed", [1, 0, 0]),
        ("event == 9007199254740992", [0, 0, 0]),
        ("event == 9007199254740993", [0, 1, 0]),
        ("event == 9007199254740992.0", [0, 0, 0]),
        ("event > 9007199254740992.0", [1, 1, 0]),
        ("event == 1.8446744073709552e19", [0, 0, 0]),
        (
            "event in [9007199254740993, 18446744073709551615]",
            [1, 1, 0],
        ),
        ("signed in (-1, 0.0)", [1, 0, 1]),
        ("n - 3 < 0 && n - 3 == -1", [1, 0, 1]),
        ("signed + 1 == 9223372036854775808", [0, 1, 0]),
        ("event * 1000 - event * 999 == event", [1, 1, 1]),
        ("-event == -18446744073709551615 || ~event == -1", [1, 0, 1]),
        ("min(event, signed) == signed", [1, 0, 1]),
    ]);
    assert_errors(&[(
        "event * event > 0",
        "`event * event`: an integer needs more than 128 bits",
    )]);
}

#[test]
fn missing_values_make_comparisons_false() {
    assert_all(&[
        ("opt > 0", [1, 0, 0]),
        ("opt != 5", [0, 0, 1]),
        ("not (opt == 5)", [0, 1, 1]),
        ("opt + 1 < 100", [1, 0, 1]),
        ("opt in [5] || opt not in [5]", [1, 0, 1]),
        ("has(opt)", [1, 0, 1]),
        ("is_missing(opt)", [0, 1, 0]),
        ("has(pt[0]) == has(max(pt))", [1, 1, 1]),
        ("1 // n >= 0", [1, 0, 1]),
        ("5 % (n * 0) == 5 % 0", [0, 0, 0]),
        ("isfinite(1 / n)", [1, 0, 1]),
        ("count(pt > opt) == 2", [1, 0, 1]),
        // a missing value never overflows, whatever it is multiplied by
        ("(opt + signed) * signed * signed == 4", [1, 0, 0]),
        ("max(opt, 1) == 5", [1, 0, 0]),
    ]);
}

#[test]
fn nan_is_equal_to_nothing() {
    assert_all(&[
        ("met == met", [1, 0, 1]),
        ("met != met || isnan(met)", [0, 1, 0]),
        ("met in [0, 1]", [1, 0, 0]),
        ("isnan(max(met, 1)) || isinf(met)", [0, 1, 1]),
        ("-0.0 in [0] && 0 == -0.0", [1, 1, 1]),
        (
            "1 / max(-0.0, 0.0) > 0 && 1 / min(0.0, -0.0) < 0",
            [1, 1, 1],
        ),
    ]);
}

#[test]
fn texts_are_equal_or_not() {
    assert_all(&[
        ("run == 'A'", [1, 0, 0]),
        ("run != \"B's\" and run not in ['', 'C']", [1, 0, 0]),
        (r"run == 'B\'s'", [0, 1, 0]),
    ]);
    assert_errors(&[
        ("run > 'A'", "only be compared with =="),
        ("run == 1", "a string cannot be compared with a number"),
        (
            "n in ['A']",
            "a number can never be in a list with a string",
        ),
        ("run + 'x' == 'Ax'", "`run` is a string"),
    ]);
}

#[test]
fn functions_have_their_names_of_both_languages() {
    assert_all(&[
        ("std::sqrt(n * 2) == 2", [1, 0, 1]),
        ("TMath::Abs(signed) == 1 && abs(opt) == 5", [1, 0, 0]),
        ("np.hypot(3, 4) == 5 && pow(n, 2) == 4", [1, 0, 1]),
        (
            "floor(-1.5) == -2 && ceil(1.2) == 2 && round(2.5) == 3",
            [1, 1, 1],
        ),
        ("floor(event) == event", [1, 1, 1]),
        (
            "abs(deltaphi(3, -3)) < 0.3 && TMath::Pi() > 3.14",
            [1, 1, 1],
        ),
        ("atan2(1, 1) * 4 == pi() && log10(100) == 2", [1, 1, 1]),
        ("max(1, n, 0.5) == 2 && min(n, 1) == 1", [1, 0, 1]),
    ]);
}

#[test]
fn what_is_no_condition_is_told() {
    assert_errors(&[
        (
            "pt > 20",
            "any(pt > 20), all(pt > 20) or count(pt > 20) >= 1",
        ),
        (
            "pt",
            "any((pt) != 0), all((pt) != 0) or count((pt) != 0) >= 1",
        ),
        (
            "n",
            "`n` is a number per entry, but a condition is needed: `n != 0`?",
        ),
        ("count(pt > 20)", "`count(pt > 20) != 0`?"),
        (
            "n && flag",
            "`n` is a number, but a condition is needed: `n != 0`?",
        ),
        ("!n", "`n != 0`?"),
        ("run", "`run` is a string"),
        ("Muon", "a list per entry"),
        (
            "count(pt) > 1",
            "takes conditions; use len(…) for the number of elements",
        ),
        ("any(pt)", "e.g. `… != 0`"),
        ("max(n) > 1", "`max(n)` takes a list"),
        ("n[0] > 1", "`n` is not a list"),
        ("Muon.hits[0] > 1", "list of lists"),
        ("pt[eta] > 1", "neither an integer"),
        ("(flag & n) == 1", "`flag` is a condition, `n` is a number"),
        ("(met & 1) == 1", "`met` is a float"),
        ("Muon == 1", "a record cannot be compared"),
        ("sum(Muon) > 1", "takes numbers, found a record"),
    ]);
}

#[test]
fn lists_of_different_lengths_are_told_with_their_entry() {
    assert_errors(&[
        (
            "any(pt > jet)",
            "character 5: `pt` and `jet` are lists of different lengths in entry 101: 0 and 1",
        ),
        ("len(pt[jet > 1]) > 1", "in entry 101: 0 and 1"),
        (
            "any(pt > three)",
            "`pt` and `three` are lists of different lengths in entry 100: 2 and 3",
        ),
    ]);
}

#[test]
fn names_that_are_not_there_have_a_hint() {
    assert_errors(&[
        ("evnt > 1", "unknown column \"evnt\"; did you mean event"),
        (
            "any(Muon.pr > 1)",
            "unknown member \"pr\"; did you mean pt?",
        ),
        (
            "n.x > 1",
            "\"x\" is a member of something that is not a record",
        ),
        ("sqr(n) > 1", "unknown function sqr; did you mean sqrt"),
        (
            "pt.sizes() > 1",
            "unknown function sizes; did you mean size",
        ),
        ("pt.sqrt() > 1", "use sqrt(…)"),
        (
            "pt.at(0) > 1",
            "unknown method at(): use [0] for the first one",
        ),
        ("any(pt > 1, axis=1)", "functions have no axis argument"),
    ]);
}

#[test]
fn wrong_texts_are_told_where_they_are_wrong() {
    assert_errors(&[
        ("", "character 1: expected a value, found the end"),
        ("µ > ", "character 5: expected a value, found the end"),
        (
            "n > 1)",
            "character 6: expected an operator or the end, found `)`",
        ),
        ("(n > 1", "expected `)`, found the end"),
        ("n = 1", "use =="),
        ("n ^ 2 > 1", "use **"),
        ("n > 1 ? true : false", "`a ? b : c` is not supported"),
        ("Muon_pt[:,0] > 30", "use Muon_pt[0] for one element"),
        ("n > 1 and Muon.pt[:, -1] > 30", "use Muon.pt[-1] for one"),
        ("pt[1:] > 30", "slices are not supported: use pt[0]"),
        ("pt[n > 1 ? 0 : 1]", "`a ? b : c` is not supported"),
        ("ak.num(pt) > 2", "unknown function num: use len(x)"),
        ("Take(pt) > 2", "unknown function Take: use x[0]"),
        ("n > 1 & met < 2", "put parentheses around `n > 1`"),
        ("flag | met < 2", "put parentheses around `met < 2`"),
        ("flag & not flag", "put parentheses around `not …`"),
        ("n < 2 == flag", "put parentheses"),
        ("n < 2 in [1]", "parentheses"),
        ("n in 1", "e.g. `[1, 2, 3]`"),
        ("n in [n]", "expected a number or a string in quotes"),
        ("n not 1", "expected `in` after `not`"),
        ("n > 010", "octal"),
        ("n > 1x", "1x is not a number"),
        ("n > 99999999999999999999", "integers are limited"),
        ("run == 'A", "without closing '"),
        ("`odd > 1", "without closing backtick"),
        ("pt[] > 1", "expected an index"),
        ("sqrt() > 1", "sqrt: expected one argument, found 0"),
        ("hypot(1) > 1", "two arguments"),
        ("Sum$ > 1", "expected `(` after `Sum$`"),
        ("(n + 1).x > 1", "only columns have members"),
        ("n > 1 # no", "unexpected '#'"),
        ("n n", "expected an operator"),
    ]);
}

#[test]
fn deep_texts_are_refused() {
    for text in ["(", "-", "!", "not ", "x[", "sqrt(", "1 ** "] {
        let error = Expression::parse(&text.repeat(100_000)).unwrap_err();
        assert!(error.to_string().contains("more than 100 levels"), "{text}");
    }
    let sum = vec!["x"; 100_000].join(" + ");
    assert!(Expression::parse(&sum).is_err());
    // long conditions of users must not be nested deeply
    let any = vec!["event == 1"; 10_000].join(" || ");
    assert_eq!(truths(&any).unwrap(), [false; 3]);
    let any = Expression::parse(&any).unwrap();
    assert!(matches!(&any.tree.kind, Kind::Junction(Junction::Or, nodes) if nodes.len() == 10_000));
    let list = vec!["1"; 10_000].join(", ");
    assert_eq!(truths(&format!("n in [{list}]")).unwrap(), [false; 3]);
    let nested = format!("{}n == 2{}", "(".repeat(90), ")".repeat(90));
    assert_eq!(truths(&nested).unwrap(), [true, false, true]);
}

/// Regression: the tree was rebuilt for each condition, and each column was searched in the list of all. 200,000
/// conditions took 20 seconds; as many as here would take minutes.
#[test]
fn very_many_conditions_and_columns_are_taken_up_once() {
    let many = vec!["flag"; 300_000].join("||");
    assert_eq!(truths(&many).unwrap(), [true, false, true]);
    let columns: Vec<String> = (0..300_000).map(|number| format!("c{number}")).collect();
    let all = Expression::parse(&columns.join(" and ")).unwrap();
    assert_eq!(all.columns(), columns);
}

#[test]
fn long_texts_are_not_repeated_in_messages() {
    let long = vec!["flag"; 5_000].join(" || ");
    let cases = [
        (
            format!("{long} || nothing || {long}"),
            "unknown column \"nothing\"",
        ),
        (format!("{long} || | {long}"), "expected a value, found `|`"),
        (
            format!("({long}) + run > 2"),
            "cannot be computed: `(flag || flag",
        ),
        (format!("n == 'a{long}"), "without closing '"),
        (
            format!("n '{long}'"),
            "expected an operator or the end, found `'flag",
        ),
        (format!("{long} > n & n"), "put parentheses around `"),
        (format!("pt[{long}] > 1"), "is neither an integer"),
        (
            long.replace(" || ", "."),
            "\"flag\" is a member of something that is not a record",
        ),
        (long.replace(" || ", "_"), "unknown column \"flag_flag"),
        (format!("{}(1)", long.replace(" || ", "_")), "flag_flag"),
    ];
    for (text, part) in cases {
        let error = truths(&text).unwrap_err();
        assert!(error.contains(part), "{error}");
        assert!(error.chars().count() < 600, "{error}");
    }
    let at = long.len() + 5;
    let text = format!("{long} || nothing || {long}");
    let around = &text[at - 61..at + 139];
    let place = format!("\"…{around}…\", character {at}: unknown column \"nothing\"");
    let error = truths(&text).unwrap_err();
    assert!(error.contains(&place), "{error}");
}

/// Arrow allows arbitrary values under nulls.
#[test]
fn missing_lists_and_records_are_empty() {
    let values = Int64Array::from(vec![1, 2, 3, 4]);
    let item = Arc::new(Field::new("item", DataType::Int64, true));
    let nulls = |valid: [bool; 2]| Some(NullBuffer::from(valid.to_vec()));
    let lists = LargeListArray::new(
        item,
        OffsetBuffer::from_lengths([2, 2]),
        Arc::new(values),
        nulls([false, true]),
    );
    let fields = Fields::from(vec![
        Field::new("l", lists.data_type().clone(), true),
        Field::new("x", DataType::Int64, true),
    ]);
    let x: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, 2]));
    let record = StructArray::new(fields, vec![Arc::new(lists), x], nulls([false, true]));
    let inner =
        LargeListArray::from_iter_primitive::<Int64Type, _, _>([Some(vec![Some(1), None]), None]);
    let columns: Vec<(&str, ArrayRef)> = vec![("r", Arc::new(record)), ("o", Arc::new(inner))];
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().map(|(name, array)| (name, array, true)),
    )
    .unwrap();
    let cases = [
        ("len(r.l) == 2 && sum(r.l) == 7", [false, true]),
        ("len(r.l) == 0 && len(o) == 2", [true, false]),
        ("r.x * r.x * r.x >= 8", [false, true]),
        ("has(r.x)", [false, true]),
        (
            "sum(o) == 1 && count(has(o)) == 1 && count(o != 1) == 0",
            [true, false],
        ),
        ("has(o[1]) || has(o[0])", [true, false]),
        ("max(o) == 1 && mean(o) == 1 && all(o == 1)", [false, false]),
    ];
    for (text, expected) in cases {
        let found = Expression::parse(text)
            .unwrap()
            .evaluate(&batch, 0)
            .unwrap();
        assert_eq!(found, BooleanArray::from(expected.to_vec()), "{text}");
    }
}

#[test]
fn batches_without_entries_have_no_truths() {
    let batch = batch().slice(0, 0);
    for text in [
        "true",
        "n > 1",
        "any(pt[pt > 1] > 2)",
        "run == 'A'",
        "max(Muon.hits)[0] > 1",
    ] {
        let found = Expression::parse(text)
            .unwrap()
            .evaluate(&batch, 0)
            .unwrap();
        assert_eq!(found.len(), 0, "{text}");
    }
}

#[test]
fn a_comparison_beside_a_bit_operator_needs_no_parentheses_if_only_one_reading_makes_sense() {
    assert_all(&[
        ("n >= 2 & any(pt > 40)", [0, 0, 1]),
        (
            "n > 0 & has(opt) & any(pt > 40) | n == 0 & !flag",
            [0, 1, 1],
        ),
    ]);
    assert_errors(&[
        ("n > 1 & flag", "put parentheses around `n > 1`"),
        ("any(pt > 1) & n > 1", "put parentheses around `n > 1`"),
        ("n >= n & any(pt > 1)", "put parentheses around `n >= n`"),
    ]);
}

fn aliases(given: &[(&str, &str)]) -> Result<Arc<Aliases>, String> {
    let parsed = Aliases::parse(given.iter().copied(), &open_mask);
    parsed.map(Arc::new).map_err(|error| error.to_string())
}

#[test]
fn aliases_are_evaluated_in_conditions_and_in_each_other() {
    let known = aliases(&[
        ("many", "twice > 2"),
        ("twice", "2 * n"),
        ("same", "odd"),
        ("odd", "`odd name`"),
        ("n2", "n"),
    ]);
    let known = known.unwrap();
    let parse = |text: &str| Expression::parse_with(text, &known, &open_mask).unwrap();
    let found = parse("many && same > 0");
    assert_eq!(found.columns(), ["n", "odd name"]);
    let expected = truths("2 * n > 2 && `odd name` > 0").unwrap();
    let found: Vec<bool> = found
        .evaluate(&batch(), 0)
        .unwrap()
        .values()
        .iter()
        .collect();
    assert_eq!(found, expected);
    assert_eq!(parse("same").column(), Some("odd name"));
    assert_eq!(
        (parse("twice").column(), parse("n").column()),
        (None, Some("n"))
    );
}

#[test]
fn errors_in_aliases_name_the_alias() {
    let cycle = aliases(&[("a", "b + 1"), ("b", "c"), ("c", "a")]).unwrap_err();
    assert!(cycle.contains(r#""a" → "b" → "c" → "a""#), "{cycle}");
    let own = aliases(&[("n", "n * 2")]).unwrap_err();
    assert!(own.contains(r#""n" → "n""#), "{own}");
    let wrong = aliases(&[("x", "1 +")]).unwrap_err();
    assert!(wrong.contains("alias \"x\": expression \"1 +\""), "{wrong}");
    let known = aliases(&[("x", "unknown_column * 2")]).unwrap();
    let found = Expression::parse_with("x > 2", &known, &open_mask).unwrap();
    let error = found.evaluate(&batch(), 0).unwrap_err().to_string();
    assert!(
        error.contains("alias \"x\"") && error.contains("unknown_column"),
        "{error}"
    );
}

#[test]
fn aliases_cannot_be_nested_without_limit() {
    let names: Vec<String> = (0..200).map(|n| format!("a{n}")).collect();
    let texts: Vec<String> = (0..200).map(|n| format!("a{} + 1", n + 1)).collect();
    let chain: Vec<(&str, &str)> = names
        .iter()
        .zip(&texts)
        .map(|(n, t)| (&**n, &**t))
        .collect();
    assert!(
        aliases(&chain)
            .unwrap_err()
            .contains("more than 100 levels")
    );
    assert!(aliases(&chain[140..]).is_err());
    assert!(aliases(&chain[170..]).is_ok());
}

#[test]
fn golden_json_is_a_condition() {
    assert_all(&[
        (r#"lumi_mask('{"1": [[0, 5]]}', 1, n)"#, [1, 1, 1]),
        (
            r#"lumi_mask('{"0": [[1, 1]], "2": [[2, 2]]}', n, n)"#,
            [1, 0, 1],
        ),
        (r#"not lumi_mask('{"7": [[1, 1]]}', n, n)"#, [1, 1, 1]),
    ]);
    assert_errors(&[
        (
            "lumi_mask(n)",
            "expected the path of a golden JSON file in quotes",
        ),
        ("lumi_mask('{\"x\": []}')", "not a golden JSON"),
        ("lumi_mask('/none/golden.json', n, n)", "/none/golden.json"),
        ("lumi_mask('{}', n)", "expected `,`"),
        ("lumi_mask('{}', met, n)", "`met` must be integers"),
        ("lumi_mask('{}')", "luminosityBlock"),
    ]);
    assert!(Expression::parse_alone("lumi_mask('/etc/passwd')").is_err());
}
