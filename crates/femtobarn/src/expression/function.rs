//! The functions, with their names in C++ and Python.

use femtobarn_io::did_you_mean;

use super::excerpt::shortened;

/// The name of the function that opens a golden JSON file.
pub(super) const LUMI_MASK: &str = "lumi_mask";

/// The kind of a function.
#[derive(Debug, Clone, Copy)]
pub(super) enum Function {
    /// One number to a float.
    Real(fn(f64) -> f64),
    /// Two numbers to a float.
    Real2(fn(f64, f64) -> f64),
    /// Rounding; integers stay unchanged.
    Round(fn(f64) -> f64),
    /// A test of a float.
    Test(fn(f64) -> bool),
    Abs,
    Pi,
    Has,
    IsMissing,
    /// Of several arguments, or of one list.
    Min,
    Max,
    Reduce(Reduction),
}

/// A reduction of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reduction {
    Len,
    Sum,
    Mean,
    Any,
    All,
    Count,
}

const FUNCTIONS: [(&str, Function); 46] = [
    ("abs", Function::Abs),
    ("fabs", Function::Abs),
    ("sqrt", Function::Real(f64::sqrt)),
    ("exp", Function::Real(f64::exp)),
    ("log", Function::Real(f64::ln)),
    ("log2", Function::Real(f64::log2)),
    ("log10", Function::Real(f64::log10)),
    ("sin", Function::Real(f64::sin)),
    ("cos", Function::Real(f64::cos)),
    ("tan", Function::Real(f64::tan)),
    ("asin", Function::Real(f64::asin)),
    ("acos", Function::Real(f64::acos)),
    ("atan", Function::Real(f64::atan)),
    ("sinh", Function::Real(f64::sinh)),
    ("cosh", Function::Real(f64::cosh)),
    ("tanh", Function::Real(f64::tanh)),
    ("asinh", Function::Real(f64::asinh)),
    ("acosh", Function::Real(f64::acosh)),
    ("atanh", Function::Real(f64::atanh)),
    ("floor", Function::Round(f64::floor)),
    ("ceil", Function::Round(f64::ceil)),
    ("round", Function::Round(f64::round)),
    ("atan2", Function::Real2(f64::atan2)),
    ("hypot", Function::Real2(f64::hypot)),
    ("pow", Function::Real2(f64::powf)),
    ("power", Function::Real2(f64::powf)),
    ("deltaphi", Function::Real2(delta_phi)),
    ("isnan", Function::Test(f64::is_nan)),
    ("isinf", Function::Test(f64::is_infinite)),
    ("isfinite", Function::Test(f64::is_finite)),
    ("pi", Function::Pi),
    ("has", Function::Has),
    ("is_missing", Function::IsMissing),
    ("min", Function::Min),
    ("minimum", Function::Min),
    ("max", Function::Max),
    ("maximum", Function::Max),
    ("len", Function::Reduce(Reduction::Len)),
    ("length", Function::Reduce(Reduction::Len)),
    ("size", Function::Reduce(Reduction::Len)),
    ("sum", Function::Reduce(Reduction::Sum)),
    ("mean", Function::Reduce(Reduction::Mean)),
    ("any", Function::Reduce(Reduction::Any)),
    ("all", Function::Reduce(Reduction::All)),
    ("count", Function::Reduce(Reduction::Count)),
    ("count_nonzero", Function::Reduce(Reduction::Count)),
];

/// What to use in place of functions of Awkward Array and ROOT.
const INSTEAD: [(&str, &str); 4] = [
    ("num", "len(x) for the number of elements of each list"),
    ("firsts", "x[0] for the first element of each list"),
    ("take", "x[0] for one element of each list"),
    ("where", "`a && b || !a && c` for conditions"),
];

/// Prefixes that are allowed before a function's name.
const NAMESPACES: [&str; 9] = [
    "std::",
    "ROOT::VecOps::",
    "VecOps::",
    "TMath::",
    "np.",
    "numpy.",
    "ak.",
    "math.",
    "ROOT.VecOps.",
];

impl Function {
    /// The function with a name; case is ignored. The error is the message for an unknown name.
    pub fn named(name: &str) -> Result<Self, String> {
        let plain = NAMESPACES
            .into_iter()
            .find_map(|namespace| name.strip_prefix(namespace))
            .unwrap_or(name);
        let plain = plain.strip_suffix('$').unwrap_or(plain).to_lowercase();
        let found = FUNCTIONS.iter().find(|(known, _)| *known == plain);
        found.map(|(_, function)| *function).ok_or_else(|| {
            let names = FUNCTIONS.iter().map(|(known, _)| *known);
            let names = names.chain([LUMI_MASK]);
            let hint = match INSTEAD.iter().find(|(other, _)| *other == plain) {
                Some((_, instead)) => format!(": use {instead}"),
                None => did_you_mean(&plain, names),
            };
            format!("unknown function {}{hint}", shortened(name))
        })
    }

    /// Checks the number of arguments.
    pub fn takes(self, n: usize) -> Result<(), String> {
        let (least, most, wanted) = match self {
            Self::Pi => (0, 0, "no argument"),
            Self::Real2(_) => (2, 2, "two arguments"),
            Self::Min | Self::Max => (1, usize::MAX, "a list or several values"),
            _ => (1, 1, "one argument"),
        };
        if (least..=most).contains(&n) {
            return Ok(());
        }
        Err(format!("expected {wanted}, found {n}"))
    }

    /// Whether it reduces a list, and so may follow a dot: `x.size()`.
    pub fn reduces(self) -> bool {
        matches!(self, Self::Reduce(_) | Self::Min | Self::Max)
    }
}

/// `b - a`, normalized to -π to π as in ROOT.
fn delta_phi(a: f64, b: f64) -> f64 {
    use std::f64::consts::{PI, TAU};
    let difference = (b - a) % TAU;
    if difference < -PI {
        difference + TAU
    } else if difference > PI {
        difference - TAU
    } else {
        difference
    }
}
