//! Strings parsed and evaluated as expressions.
#![no_main]

#[path = "../bodies/expression.rs"]
mod expression;

libfuzzer_sys::fuzz_target!(|data: &[u8]| expression::expression(data));
