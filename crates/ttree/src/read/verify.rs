//! Verification: reads every branch.

use std::sync::Arc;

use femtobarn_rntuple::RNTupleError;
use femtobarn_rntuple::read::{
    Damage, Part, ReadOptions, ReadSchema, Reader, Tick, VerifyReport, read,
};
use femtobarn_rntuple::spec::PageAddress;

use super::tree::TreeStorage;
use crate::model::Place;

/// Reads every branch. If one fails, its baskets are read one by one. Unsupported branches are reported as not
/// checked.
pub(crate) fn verify(
    tree: &TreeStorage,
    reader: &Arc<Reader>,
    threads: usize,
    tick: Option<Tick<'_>>,
) -> Result<VerifyReport, RNTupleError> {
    let filling = tree.filling();
    let mut report = VerifyReport {
        clusters: filling.clusters.len().saturating_sub(1) as u64,
        ..VerifyReport::new(reader)
    };
    let options = ReadOptions {
        threads,
        tick,
        ..ReadOptions::default()
    };
    let mut n_checked = 0;
    for id in 0..tree.model().branches.len() {
        let Some(data) = tree.data(id) else { continue };
        let baskets = filling.contents(id).baskets;
        let name = reader.descriptor().field_name(data.field).to_owned();
        for basket in &baskets {
            if let Place::File { n_bytes, .. } = basket.place {
                report.pages += 1;
                report.pages_without_checksum += 1;
                report.bytes = report.bytes.saturating_add(n_bytes);
            }
        }
        let one = |start: u64, stop: u64| -> Result<(), RNTupleError> {
            let (schema, mut bindings) = ReadSchema::new(
                std::slice::from_ref(reader),
                Some(std::slice::from_ref(&name)),
            )?;
            let Some(binding) = bindings.pop() else {
                return Ok(());
            };
            let part = Part {
                reader: reader.clone(),
                binding,
                start,
                stop,
            };
            read(&schema, &[part], &options).map(|_| ())
        };
        match one(0, filling.n_entries) {
            Ok(()) => {
                n_checked += 1;
                continue;
            }
            Err(RNTupleError::Interrupted) => return Err(RNTupleError::Interrupted),
            Err(_) => {}
        }
        let (mut is_understood, mut is_checked) = (true, false);
        for basket in &baskets {
            let stop = basket.end().min(filling.n_entries);
            let Err(error) = one(basket.first_entry.min(stop), stop) else {
                is_checked = true;
                continue;
            };
            // what is not supported is not damaged
            if let RNTupleError::Unsupported { reason, .. } = error {
                if std::mem::take(&mut is_understood) {
                    report.not_checked.push((name.clone(), reason));
                }
                continue;
            }
            is_checked = true;
            let (offset, n_bytes) = match basket.place {
                Place::File { offset, n_bytes } => (offset, n_bytes),
                Place::Tree { .. } => (0, 0),
            };
            report.damages.push(Damage {
                field: name.clone(),
                column: 0,
                cluster: filling
                    .clusters
                    .partition_point(|&first| first <= basket.first_entry)
                    .saturating_sub(1) as u64,
                entries: (basket.first_entry, stop),
                address: PageAddress::File(offset),
                n_bytes,
                problem: error.with_causes(),
            });
        }
        n_checked += u64::from(is_checked);
    }
    report.note_checked(reader, n_checked);
    Ok(report)
}
