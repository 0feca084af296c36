//! The body of the fuzz target, as a function so that tests can replay its corpus.

use std::sync::Arc;

use arrow_array::types::Float64Type;
use arrow_array::{
    ArrayRef, BooleanArray, Float32Array, Int64Array, LargeListArray, LargeStringArray,
    RecordBatch, UInt64Array,
};

use femtobarn::expression::Expression;

/// Parses an expression, and evaluates it on a batch with columns of several types; their names are single
/// letters.
pub fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let (Ok(expression), Some(batch)) = (Expression::parse_alone(text), batch()) {
        if let Ok(truths) = expression.evaluate(&batch, 0) {
            assert_eq!(truths.iter().len(), batch.num_rows());
        }
        // an expression that can be evaluated passes the check as well
        let _ = expression.check(batch.schema());
    }
}

fn batch() -> Option<RecordBatch> {
    let lists = || {
        let lists = [Some(vec![Some(1.5), None]), Some(vec![]), None];
        LargeListArray::from_iter_primitive::<Float64Type, _, _>(lists)
    };
    let columns: [(&str, ArrayRef); 7] = [
        ("b", Arc::new(BooleanArray::from(vec![true, false, true]))),
        (
            "i",
            Arc::new(Int64Array::from(vec![i64::MIN, -1, i64::MAX])),
        ),
        ("u", Arc::new(UInt64Array::from(vec![0, 7, u64::MAX]))),
        ("f", Arc::new(Float32Array::from(vec![0.5, -0.0, f32::NAN]))),
        (
            "o",
            Arc::new(Int64Array::from(vec![Some(3), None, Some(-4)])),
        ),
        ("s", Arc::new(LargeStringArray::from(vec!["", "a", "µ"]))),
        ("l", Arc::new(lists())),
    ];
    RecordBatch::try_from_iter(columns).ok()
}
