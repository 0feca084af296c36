//! Remarks on several files, each printed once.

use std::collections::BTreeMap;

/// Placeholder for the files in a remark.
pub const FILES: &str = "\0";

/// Remarks, each with the first file that it is about and the number of files.
#[derive(Default)]
pub struct Remarks<'f>(BTreeMap<String, (&'f str, usize)>);

impl<'f> Remarks<'f> {
    /// Adds a remark on a file.
    pub fn add(&mut self, remark: String, file: &'f str) {
        self.0.entry(remark).or_insert((file, 0)).1 += 1;
    }

    /// One line for each remark.
    pub fn lines(&self) -> Vec<String> {
        let each = self.0.iter().map(|(remark, (file, n))| {
            let files = match n {
                1 => (*file).to_owned(),
                2 => format!("{file} and 1 more file"),
                n => format!("{file} and {} more files", n - 1),
            };
            remark.replace(FILES, &files)
        });
        each.collect()
    }
}

/// Remark on a field that some files do not have.
pub fn missing(field: &str) -> String {
    format!("zero or empty: {field} (not in {FILES})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_several_files_is_one_line() {
        let mut remarks = Remarks::default();
        for file in ["a.root", "b.root", "c.root"] {
            remarks.add(missing("x"), file);
        }
        remarks.add(missing("y"), "b.root");
        let lines = remarks.lines();
        assert_eq!(
            lines,
            [
                "zero or empty: x (not in a.root and 2 more files)",
                "zero or empty: y (not in b.root)"
            ]
        );
    }
}
