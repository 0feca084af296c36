//! Before anything is brought: whether all inputs can be opened, and fit together. A merge of thousands of files shall not
//! fail at the last.

use femtobarn_rntuple::RNTupleError;

use super::others::check_other;
use super::{Job, OnPulse, Opened, wanted};
use crate::convert::Input;
use crate::open::RNTUPLE_CLASS;

use super::histograms::is_summed;

impl Job<'_> {
    /// Opens all inputs, one after another, and insists that their ntuples fit together, by their headers. Page lists and
    /// histograms are not looked at.
    pub(super) fn check_all(
        &mut self,
        inputs: &[Input],
        pulse: OnPulse<'_>,
    ) -> Result<(), RNTupleError> {
        if inputs.len() < 2 {
            return Ok(());
        }
        for input in inputs {
            self.check(input)?;
            if !pulse(self.pulse) {
                return Err(RNTupleError::Interrupted);
            }
        }
        Ok(())
    }

    fn check(&mut self, input: &Input) -> Result<(), RNTupleError> {
        let options = self.options;
        let opened = Opened::new(input)?;
        for (path, key) in wanted(&opened.file, input.path.as_deref())? {
            if key.class_name == RNTUPLE_CLASS {
                let reader = self.reader(&opened, &path, &key)?;
                let at = self.begun(&reader, &path)?;
                if let Some((_, ntuple)) = self.ntuples.get_mut(at) {
                    ntuple.check(&reader, &|name| self.fields.takes(name))?;
                }
            } else if !key.is_directory() && !is_summed(&key) {
                check_other(&opened, &path, &key, options.others)?;
            }
        }
        Ok(())
    }
}
