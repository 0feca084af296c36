//! JSON documents that `fb --json` prints and the Python package reads.

use femtobarn_rntuple::read::{Damage, Plan, VerifyReport};
use serde_json::{Value, json};

/// The numbers of a plan.
pub fn plan(plan: &Plan) -> Value {
    let columns = plan.columns.iter().map(|column| {
        json!({
            "field": column.field,
            "typename": column.type_name,
            "column_types": column.column_types,
            "pages": column.pages,
            "bytes_on_disk": column.bytes_on_disk,
            "bytes_decoded": column.bytes_decoded,
        })
    });
    json!({
        "num_entries": plan.n_entries,
        "clusters": plan.clusters,
        "pages": plan.pages,
        "ranges": plan.ranges,
        "vectors": plan.vectors,
        "requests": plan.requests,
        "bytes_needed": plan.bytes_needed,
        "bytes_read": plan.bytes_read,
        "bytes_decoded": plan.bytes_decoded,
        "rounds": plan.rounds,
        "exact": plan.exact && !plan.selects,
        "fetched_by": plan.cutting(),
        "per_column": columns.collect::<Vec<_>>(),
        "notes": plan.notes(),
    })
}

/// What a verification found.
pub fn verified(report: &VerifyReport) -> Value {
    let not_checked = report.not_checked.iter();
    let not_checked = not_checked.map(|(field, reason)| json!({"field": field, "reason": reason}));
    json!({
        "clusters": report.clusters,
        "pages": report.pages,
        "pages_without_checksum": report.pages_without_checksum,
        "bytes": report.bytes,
        "damages": report.damages.iter().map(damage).collect::<Vec<_>>(),
        "not_checked": not_checked.collect::<Vec<_>>(),
        "nothing_checked": report.nothing_checked,
    })
}

fn damage(damage: &Damage) -> Value {
    json!({
        "field": damage.field,
        "column": damage.column,
        "cluster": damage.cluster,
        "entry_start": damage.entries.0,
        "entry_stop": damage.entries.1,
        "offset": damage.address.offset(),
        "bytes": damage.n_bytes,
        "problem": damage.problem,
    })
}

/// A document with the members of another one behind its own.
#[must_use]
pub fn extended(mut document: Value, more: Value) -> Value {
    if let (Some(document), Value::Object(more)) = (document.as_object_mut(), more) {
        document.extend(more);
    }
    document
}
