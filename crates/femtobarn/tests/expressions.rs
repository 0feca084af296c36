//! Random expressions on random columns give the same results as an evaluation entry by entry.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "tests"
)]

mod common;
#[path = "../../../fuzz/bodies/expression.rs"]
mod fuzz;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{ArrayRef, Float64Array, Int64Array, LargeListArray, RecordBatch, UInt64Array};
use femtobarn::ReadOptions;
use femtobarn::expression::Expression;
use proptest::prelude::*;

/// A number, or a missing value.
type Value = Option<Number>;

#[derive(Debug, Clone, Copy)]
enum Number {
    Int(i128),
    Float(f64),
}

/// An integer exceeds its range.
struct TooLarge;

#[derive(Debug, Clone)]
struct Entry {
    i: i64,
    u: u64,
    f: f64,
    o: Option<i64>,
    l: Vec<(Option<f64>, i64)>,
}

/// One number per entry.
#[derive(Debug, Clone)]
enum One {
    Column(&'static str),
    Int(i64),
    Float(f64),
    Negative(Box<One>),
    Abs(Box<One>),
    Binary(&'static str, Box<[One; 2]>),
    Least(Box<[One; 2]>),
    At(Box<Many>, i64),
    Reduced(&'static str, Box<Many>),
    Filtered(&'static str, Box<(Many, Truths)>),
    Count(Box<Truths>),
}

/// A list per entry.
#[derive(Debug, Clone)]
enum Many {
    Column(&'static str),
    Binary(&'static str, Box<[Many; 2]>),
    With(&'static str, Box<(Many, One)>),
}

/// A condition per element.
#[derive(Debug, Clone)]
enum Truths {
    Compare(&'static str, Box<[Many; 2]>),
    With(&'static str, Box<(One, Many)>),
    And(Box<[Truths; 2]>),
    Not(Box<Truths>),
}

/// A condition on each entry.
#[derive(Debug, Clone)]
enum Truth {
    Chain(Box<[One; 3]>, [&'static str; 2]),
    Within(Box<One>, Vec<i64>, bool),
    Has(Box<One>),
    Any(Box<Truths>),
    All(Box<Truths>),
    And(Box<[Truth; 2]>),
    Or(Box<[Truth; 2]>),
    Not(Box<Truth>),
}

// notation

impl fmt::Display for One {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => write!(f, "{name}"),
            Self::Int(it) => write!(f, "({it})"),
            Self::Float(it) => write!(f, "({it:?})"),
            Self::Negative(it) => write!(f, "(-{it})"),
            Self::Abs(it) => write!(f, "abs({it})"),
            Self::Binary(operator, it) => write!(f, "({} {operator} {})", it[0], it[1]),
            Self::Least(it) => write!(f, "min({}, {})", it[0], it[1]),
            Self::At(it, at) => write!(f, "{it}[{at}]"),
            Self::Reduced(name, it) => write!(f, "{name}({it})"),
            Self::Filtered(name, it) => write!(f, "{name}({}[{}])", it.0, it.1),
            Self::Count(it) => write!(f, "count({it})"),
        }
    }
}

impl fmt::Display for Many {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Column(name) => write!(f, "{name}"),
            Self::Binary(operator, it) => write!(f, "({} {operator} {})", it[0], it[1]),
            Self::With(operator, it) => write!(f, "({} {operator} {})", it.0, it.1),
        }
    }
}

impl fmt::Display for Truths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compare(operator, it) => write!(f, "({} {operator} {})", it[0], it[1]),
            Self::With(operator, it) => write!(f, "({} {operator} {})", it.0, it.1),
            Self::And(it) => write!(f, "({} & {})", it[0], it[1]),
            Self::Not(it) => write!(f, "(!{it})"),
        }
    }
}

impl fmt::Display for Truth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(it, [one, two]) => {
                write!(f, "({} {one} {} {two} {})", it[0], it[1], it[2])
            }
            Self::Within(it, list, true) => write!(f, "({it} not in {list:?})"),
            Self::Within(it, list, false) => write!(f, "({it} in {list:?})"),
            Self::Has(it) => write!(f, "has({it})"),
            Self::Any(it) => write!(f, "any({it})"),
            Self::All(it) => write!(f, "all({it})"),
            Self::And(it) => write!(f, "({} && {})", it[0], it[1]),
            Self::Or(it) => write!(f, "({} or {})", it[0], it[1]),
            Self::Not(it) => write!(f, "(not {it})"),
        }
    }
}

// meaning

use Number::{Float, Int};

fn float(number: Number) -> f64 {
    match number {
        Int(it) => it as f64,
        Float(it) => it,
    }
}

fn binary(operator: &str, a: Value, b: Value) -> Result<Value, TooLarge> {
    let (Some(a), Some(b)) = (a, b) else {
        return Ok(None);
    };
    let exact = match (a, b) {
        (Int(a), Int(b)) if operator != "/" => Some((a, b)),
        _ => None,
    };
    if let Some((_, 0)) = exact.filter(|_| matches!(operator, "//" | "%")) {
        return Ok(None);
    }
    if let Some((a, b)) = exact {
        let found = match operator {
            "+" => a.checked_add(b),
            "-" => a.checked_sub(b),
            "*" => a.checked_mul(b),
            // the remainder has the sign of the divisor
            "//" => Some((a - (a % b + b) % b) / b),
            _ => Some((a % b + b) % b),
        };
        return found.map(|it| Some(Int(it))).ok_or(TooLarge);
    }
    let (a, b) = (float(a), float(b));
    Ok(Some(Float(match operator {
        "+" => a + b,
        "-" => a - b,
        "*" => a * b,
        "/" => a / b,
        "//" => (a / b).floor(),
        _ if a % b != 0.0 && (a % b < 0.0) != (b < 0.0) => a % b + b,
        _ => a % b,
    })))
}

fn order(a: Number, b: Number) -> Option<Ordering> {
    match (a, b) {
        (Int(a), Int(b)) => Some(a.cmp(&b)),
        (Float(a), Float(b)) => a.partial_cmp(&b),
        (Float(_), Int(_)) => order(b, a).map(Ordering::reverse),
        (Int(_), Float(b)) if b.is_nan() => None,
        (Int(_), Float(b)) if b >= 2f64.powi(127) => Some(Ordering::Less),
        (Int(_), Float(b)) if b < -2f64.powi(127) => Some(Ordering::Greater),
        (Int(a), Float(b)) if a == b.floor() as i128 && b != b.floor() => Some(Ordering::Less),
        (Int(a), Float(b)) => Some(a.cmp(&(b.floor() as i128))),
    }
}

fn compare(operator: &str, a: Value, b: Value) -> bool {
    let (Some(a), Some(b)) = (a, b) else {
        return false;
    };
    let order = order(a, b);
    match operator {
        "<" => order == Some(Ordering::Less),
        "<=" => order.is_some_and(|it| it != Ordering::Greater),
        ">" => order == Some(Ordering::Greater),
        ">=" => order.is_some_and(|it| it != Ordering::Less),
        "==" => order == Some(Ordering::Equal),
        _ => order != Some(Ordering::Equal),
    }
}

fn least(greater: bool, a: Number, b: Number) -> Number {
    match (a, b) {
        (Int(a), Int(b)) => Int(if greater { a.max(b) } else { a.min(b) }),
        (a, b) => {
            let (a, b) = (float(a), float(b));
            let (less, more) = match a.total_cmp(&b) {
                Ordering::Greater => (b, a),
                _ => (a, b),
            };
            Float(match (a.is_nan() || b.is_nan(), greater) {
                (true, _) => f64::NAN,
                (false, true) => more,
                (false, false) => less,
            })
        }
    }
}

fn reduce(name: &str, is_float: bool, list: &[Value]) -> Result<Value, TooLarge> {
    if name == "len" {
        return Ok(Some(Int(list.len() as i128)));
    }
    let there: Vec<Number> = list.iter().flatten().copied().collect();
    if name == "max" || name == "min" {
        return Ok(there.into_iter().reduce(|a, b| least(name == "max", a, b)));
    }
    if name == "mean" {
        let n = there.len();
        let sum = there.into_iter().map(float).fold(0.0, |a, b| a + b);
        return Ok((n > 0).then(|| Float(sum / n as f64)));
    }
    let none = if is_float { Float(0.0) } else { Int(0) };
    let add = |sum: Value, number| binary("+", sum, Some(number));
    there.into_iter().try_fold(Some(none), add)
}

impl One {
    fn is_float(&self) -> bool {
        match self {
            Self::Column(name) => *name == "f",
            Self::Int(_) | Self::Count(_) => false,
            Self::Float(_) => true,
            Self::Negative(it) | Self::Abs(it) => it.is_float(),
            Self::Binary(by, it) => *by == "/" || it.iter().any(One::is_float),
            Self::Least(it) => it.iter().any(One::is_float),
            Self::At(it, _) => it.is_float(),
            Self::Reduced(by, it) => by != &"len" && (by == &"mean" || it.is_float()),
            Self::Filtered(by, it) => by != &"len" && (by == &"mean" || it.0.is_float()),
        }
    }
}

impl Many {
    fn is_float(&self) -> bool {
        match self {
            Self::Column(name) => *name == "l",
            Self::Binary(by, it) => *by == "/" || it.iter().any(Many::is_float),
            Self::With(by, it) => *by == "/" || it.0.is_float() || it.1.is_float(),
        }
    }
}

impl Entry {
    fn one(&self, one: &One) -> Result<Value, TooLarge> {
        Ok(match one {
            One::Column("i") => Some(Int(self.i.into())),
            One::Column("u") => Some(Int(self.u.into())),
            One::Column("f") => Some(Float(self.f)),
            One::Column(_) => self.o.map(|it| Int(it.into())),
            One::Int(it) => Some(Int((*it).into())),
            One::Float(it) => Some(Float(*it)),
            One::Negative(it) => match self.one(it)? {
                Some(Float(it)) => Some(Float(-it)),
                Some(Int(it)) => Some(Int(it.checked_neg().ok_or(TooLarge)?)),
                None => None,
            },
            One::Abs(it) => match self.one(it)? {
                Some(Float(it)) => Some(Float(it.abs())),
                Some(Int(it)) => Some(Int(it.checked_abs().ok_or(TooLarge)?)),
                None => None,
            },
            One::Binary(operator, it) => binary(operator, self.one(&it[0])?, self.one(&it[1])?)?,
            One::Least(it) => match (self.one(&it[0])?, self.one(&it[1])?) {
                (Some(a), Some(b)) => Some(least(false, a, b)),
                _ => None,
            },
            One::At(it, at) => {
                let list = self.many(it)?;
                let at = if *at < 0 {
                    *at + list.len() as i64
                } else {
                    *at
                };
                usize::try_from(at).ok().and_then(|at| *list.get(at)?)
            }
            One::Reduced(name, it) => reduce(name, it.is_float(), &self.many(it)?)?,
            One::Filtered(name, it) => {
                let (list, keep) = (self.many(&it.0)?, self.truths(&it.1)?);
                let kept = list.into_iter().zip(keep).filter(|(_, keep)| *keep);
                let kept: Vec<Value> = kept.map(|(it, _)| it).collect();
                reduce(name, it.0.is_float(), &kept)?
            }
            One::Count(it) => {
                let n = self.truths(it)?.into_iter().filter(|it| *it).count();
                Some(Int(n as i128))
            }
        })
    }

    fn many(&self, many: &Many) -> Result<Vec<Value>, TooLarge> {
        match many {
            Many::Column("l") => Ok(self.l.iter().map(|it| it.0.map(Float)).collect()),
            Many::Column(_) => Ok(self.l.iter().map(|it| Some(Int(it.1.into()))).collect()),
            Many::Binary(operator, it) => {
                let (a, b) = (self.many(&it[0])?, self.many(&it[1])?);
                let pairs = a.into_iter().zip(b);
                pairs.map(|(a, b)| binary(operator, a, b)).collect()
            }
            Many::With(operator, it) => {
                let (list, one) = (self.many(&it.0)?, self.one(&it.1)?);
                list.into_iter()
                    .map(|it| binary(operator, it, one))
                    .collect()
            }
        }
    }

    fn truths(&self, truths: &Truths) -> Result<Vec<bool>, TooLarge> {
        Ok(match truths {
            Truths::Compare(operator, it) => {
                let pairs = self.many(&it[0])?.into_iter().zip(self.many(&it[1])?);
                pairs.map(|(a, b)| compare(operator, a, b)).collect()
            }
            Truths::With(operator, it) => {
                let (one, list) = (self.one(&it.0)?, self.many(&it.1)?);
                list.into_iter()
                    .map(|it| compare(operator, one, it))
                    .collect()
            }
            Truths::And(it) => {
                let pairs = self.truths(&it[0])?.into_iter().zip(self.truths(&it[1])?);
                pairs.map(|(a, b)| a && b).collect()
            }
            Truths::Not(it) => self.truths(it)?.into_iter().map(|it| !it).collect(),
        })
    }

    fn truth(&self, truth: &Truth) -> Result<bool, TooLarge> {
        Ok(match truth {
            Truth::Chain(it, [one, two]) => {
                let [a, b, c] = [self.one(&it[0])?, self.one(&it[1])?, self.one(&it[2])?];
                compare(one, a, b) && compare(two, b, c)
            }
            Truth::Within(it, list, negated) => self.one(it)?.is_some_and(|it| {
                let is = |&of: &i64| order(it, Int(of.into())) == Some(Ordering::Equal);
                list.iter().any(is) != *negated
            }),
            Truth::Has(it) => self.one(it)?.is_some(),
            Truth::Any(it) => self.truths(it)?.contains(&true),
            Truth::All(it) => !self.truths(it)?.contains(&false),
            // both sides are evaluated, as columns are
            Truth::And(it) => self.truth(&it[0])? & self.truth(&it[1])?,
            Truth::Or(it) => self.truth(&it[0])? | self.truth(&it[1])?,
            Truth::Not(it) => !self.truth(it)?,
        })
    }
}

// random expressions

fn integer() -> impl Strategy<Value = i64> {
    prop_oneof![4 => -5i64..6, 1 => Just(i64::MAX), 1 => Just(i64::MIN), 1 => Just((1 << 53) + 1)]
}

fn real() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-8i32..9).prop_map(|it| f64::from(it) / 2.0),
        1 => Just(f64::NAN),
        1 => Just(f64::INFINITY),
        1 => Just(2f64.powi(53)),
        1 => Just(2f64.powi(63)),
        1 => Just(-2f64.powi(63)),
        1 => Just(2f64.powi(64)),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    let u = prop_oneof![3 => 0u64..6, 1 => Just(u64::MAX), 1 => Just(1 << 63)];
    let item = (proptest::option::weighted(0.8, real()), integer());
    let l = proptest::collection::vec(item, 0..4);
    let o = proptest::option::of(integer());
    (integer(), u, real(), o, l).prop_map(|(i, u, f, o, l)| Entry { i, u, f, o, l })
}

const ARITHMETIC: [&str; 6] = ["+", "-", "*", "/", "//", "%"];

fn arithmetic() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(&ARITHMETIC[..])
}

fn comparison() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec!["<", "<=", ">", ">=", "==", "!="])
}

fn many(one: BoxedStrategy<One>) -> BoxedStrategy<Many> {
    let column = proptest::sample::select(vec!["l", "m"]).prop_map(Many::Column);
    column
        .prop_recursive(2, 4, 2, move |many| {
            prop_oneof![
                (arithmetic(), many.clone(), many.clone())
                    .prop_map(|(by, a, b)| Many::Binary(by, Box::new([a, b]))),
                (arithmetic(), many, one.clone())
                    .prop_map(|(by, a, b)| Many::With(by, Box::new((a, b)))),
            ]
        })
        .boxed()
}

fn truths(one: BoxedStrategy<One>) -> BoxedStrategy<Truths> {
    let lists = many(one.clone());
    prop_oneof![
        (comparison(), lists.clone(), lists.clone())
            .prop_map(|(by, a, b)| Truths::Compare(by, Box::new([a, b]))),
        (comparison(), one, lists).prop_map(|(by, a, b)| Truths::With(by, Box::new((a, b)))),
    ]
    .prop_recursive(2, 4, 2, |it| {
        prop_oneof![
            (it.clone(), it.clone()).prop_map(|(a, b)| Truths::And(Box::new([a, b]))),
            it.prop_map(|it| Truths::Not(Box::new(it))),
        ]
    })
    .boxed()
}

fn one() -> BoxedStrategy<One> {
    let plain = prop_oneof![
        3 => proptest::sample::select(vec!["i", "u", "f", "o"]).prop_map(One::Column),
        1 => integer().prop_filter("is no literal", |it| *it != i64::MIN).prop_map(One::Int),
        1 => real().prop_filter("is no literal", |it| it.is_finite()).prop_map(One::Float),
    ];
    let reduction = || proptest::sample::select(vec!["sum", "max", "min", "mean", "len"]);
    plain
        .prop_recursive(3, 12, 2, move |one| {
            let one = one.boxed();
            let pair = (one.clone(), one.clone());
            let (lists, conditions) = (many(one.clone()), truths(one.clone()));
            prop_oneof![
                one.clone().prop_map(|it| One::Negative(Box::new(it))),
                one.prop_map(|it| One::Abs(Box::new(it))),
                (arithmetic(), pair.clone())
                    .prop_map(|(by, (a, b))| One::Binary(by, Box::new([a, b]))),
                pair.prop_map(|(a, b)| One::Least(Box::new([a, b]))),
                (lists.clone(), -3i64..4).prop_map(|(it, at)| One::At(Box::new(it), at)),
                (reduction(), lists.clone()).prop_map(|(by, it)| One::Reduced(by, Box::new(it))),
                (reduction(), lists, conditions.clone())
                    .prop_map(|(by, a, b)| One::Filtered(by, Box::new((a, b)))),
                conditions.prop_map(|it| One::Count(Box::new(it))),
            ]
        })
        .boxed()
}

fn truth() -> BoxedStrategy<Truth> {
    let order = || proptest::sample::select(vec!["<", "<=", ">", ">="]);
    let equality = || proptest::sample::select(vec!["==", "!="]);
    let operators = prop_oneof![(order(), order()), (equality(), equality())];
    let list = proptest::collection::vec(integer(), 0..20);
    let list = list.prop_map(|it| it.into_iter().filter(|it| *it != i64::MIN).collect());
    prop_oneof![
        ([one(), one(), one()], operators)
            .prop_map(|(it, (a, b))| Truth::Chain(Box::new(it), [a, b])),
        (one(), list, any::<bool>())
            .prop_map(|(it, list, not)| { Truth::Within(Box::new(it), list, not) }),
        one().prop_map(|it| Truth::Has(Box::new(it))),
        truths(one()).prop_map(|it| Truth::Any(Box::new(it))),
        truths(one()).prop_map(|it| Truth::All(Box::new(it))),
    ]
    .prop_recursive(3, 8, 2, |it| {
        prop_oneof![
            (it.clone(), it.clone()).prop_map(|(a, b)| Truth::And(Box::new([a, b]))),
            (it.clone(), it.clone()).prop_map(|(a, b)| Truth::Or(Box::new([a, b]))),
            it.prop_map(|it| Truth::Not(Box::new(it))),
        ]
    })
    .boxed()
}

fn batch(entries: &[Entry]) -> RecordBatch {
    let l = entries.iter().map(|it| Some(it.l.iter().map(|it| it.0)));
    let m = entries
        .iter()
        .map(|it| Some(it.l.iter().map(|it| Some(it.1))));
    let columns: [(&str, ArrayRef); 6] = [
        (
            "i",
            Arc::new(Int64Array::from_iter_values(entries.iter().map(|it| it.i))),
        ),
        (
            "u",
            Arc::new(UInt64Array::from_iter_values(entries.iter().map(|it| it.u))),
        ),
        (
            "f",
            Arc::new(Float64Array::from_iter_values(
                entries.iter().map(|it| it.f),
            )),
        ),
        (
            "o",
            Arc::new(entries.iter().map(|it| it.o).collect::<Int64Array>()),
        ),
        (
            "l",
            Arc::new(LargeListArray::from_iter_primitive::<Float64Type, _, _>(l)),
        ),
        (
            "m",
            Arc::new(LargeListArray::from_iter_primitive::<Int64Type, _, _>(m)),
        ),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

/// The numbers are those of `RDataFrame("Events", "testdata/dimuon.root").Filter(text).Count()` in ROOT 6.40.
#[test]
fn events_are_those_that_root_selects() {
    let file = common::root().join("testdata/dimuon.root");
    let (_, ntuple) = common::ntuples_in(&file).pop().unwrap();
    let cases = [
        ("nMuon >= 2", 10543),
        ("Sum(Muon_pt > 20) >= 2", 1349),
        ("Any(Muon_pt[abs(Muon_eta) < 1.0] > 15.f)", 1816),
        ("nMuon == 2 && Muon_charge[0] * Muon_charge[1] < 0", 9412),
        ("Muon_pt.size() > 0 && Max(Muon_pt) > 30", 1534),
        ("Sum(Muon_pt) / nMuon > 25.5", 1435),
        (
            "nMuon > 1 && abs(ROOT::VecOps::DeltaPhi(Muon_phi[0], Muon_phi[1])) > 3",
            744,
        ),
        (
            "Sum((Muon_pt > 10) && (abs(Muon_eta) > 1.2) || (Muon_pt > 40)) == 1",
            1341,
        ),
        ("nMuon % 2 == 1", 1163),
    ];
    for (text, expected) in cases {
        let expression = Expression::parse(text).unwrap();
        let selection = ntuple.select(Some(expression.columns())).unwrap();
        let options = ReadOptions::default();
        let arrays = ntuple
            .read(&selection, 0..ntuple.n_entries(), &options)
            .unwrap();
        let found = expression.evaluate(&arrays.to_arrow().unwrap(), 0).unwrap();
        assert_eq!(found.true_count(), expected, "{text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn columns_give_what_entries_give(
        truth in truth(),
        entries in proptest::collection::vec(entry(), 1..6),
    ) {
        let text = truth.to_string();
        let expected: Result<Vec<bool>, TooLarge> =
            entries.iter().map(|entry| entry.truth(&truth)).collect();
        let found = Expression::parse(&text).unwrap().evaluate(&batch(&entries), 0);
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                let found: Vec<bool> = found.iter().map(Option::unwrap).collect();
                prop_assert_eq!(found, expected, "{}", text);
            }
            (Err(error), Err(TooLarge)) => {
                prop_assert!(error.to_string().contains("more than 128 bits"), "{}", error);
            }
            (Err(error), Ok(_)) => prop_assert!(false, "{}", error),
            // a column may be too wide for numbers that a mask removes later
            (Ok(_), Err(TooLarge)) => prop_assert!(false, "{} has too large numbers", text),
        }
    }

    #[test]
    fn any_text_is_an_expression_or_an_error(text in r#"([a-z0-9 .()\[\]<>=!&|+*/%~'"$,-]|not |in |and |sum\(){0,40}"#) {
        fuzz::expression(text.as_bytes());
    }
}
