//! Tables of text.

use std::borrow::Cow;
use std::io::{self, Write};

pub use femtobarn::io::printable;

/// A cut cell keeps at least this many characters.
const NARROWEST: usize = 16;

/// A header and rows, in aligned columns.
pub struct Table {
    header: Vec<&'static str>,
    /// Columns of numbers.
    right: &'static [usize],
    /// The columns that are cut if the table is too wide, in this order.
    flexible: &'static [usize],
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(
        header: &[&'static str],
        right: &'static [usize],
        flexible: &'static [usize],
    ) -> Self {
        Self {
            header: header.to_vec(),
            right,
            flexible,
            rows: Vec::new(),
        }
    }

    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(
            row.iter()
                .map(|cell| printable(cell).into_owned())
                .collect(),
        );
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes header, rule and rows, without empty columns. Lines have at most `width` characters: first the flexible
    /// columns are cut, then the ends of lines that are still too long.
    pub fn write(&self, width: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
        let header: Vec<String> = self.header.iter().map(|&title| title.to_owned()).collect();
        let mut widths: Vec<usize> = (0..header.len()).map(|i| self.width_of(i)).collect();
        let total: usize = widths.iter().filter(|&&w| w > 0).map(|w| w + 2).sum();
        let mut excess = width.map_or(0, |width| total.saturating_sub(2).saturating_sub(width));
        for &column in self.flexible {
            if let Some(column) = widths.get_mut(column) {
                let cut = excess.min(column.saturating_sub(NARROWEST));
                *column -= cut;
                excess -= cut;
            }
        }
        let rules: Vec<String> = widths.iter().map(|&w| "─".repeat(w)).collect();
        for row in [&header, &rules].into_iter().chain(&self.rows) {
            let line = line(row, &widths, self.right);
            writeln!(out, "{}", cut(&line, width.unwrap_or(usize::MAX)))?;
        }
        Ok(())
    }

    /// Width of a column; 0 if it is empty in all rows.
    fn width_of(&self, column: usize) -> usize {
        let title = self
            .header
            .get(column)
            .map_or(0, |title| title.chars().count());
        if self.rows.is_empty() {
            return title;
        }
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        match cells.map(|cell| cell.chars().count()).max().unwrap_or(0) {
            0 => 0,
            widest => widest.max(title),
        }
    }
}

/// One line of cells; columns without width are left out.
pub fn line(cells: &[String], widths: &[usize], right: &[usize]) -> String {
    let mut out = String::new();
    let shown = cells.iter().zip(widths).enumerate();
    for (i, (cell, &width)) in shown.filter(|(_, (_, width))| **width > 0) {
        if !out.is_empty() {
            out.push_str("  ");
        }
        let cell = cut(cell, width);
        let gap = " ".repeat(width.saturating_sub(cell.chars().count()));
        let parts = if right.contains(&i) {
            [&gap, &*cell]
        } else {
            [&*cell, &gap]
        };
        out.extend(parts);
    }
    out.truncate(out.trim_end().len());
    out
}

/// The text, cut to the width with an ellipsis.
pub fn cut(text: &str, width: usize) -> Cow<'_, str> {
    if text.chars().count() <= width {
        return text.into();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    (kept + "…").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(width: Option<usize>) -> String {
        let mut table = Table::new(&["name", "empty", "size"], &[2], &[0]);
        table.push(vec!["a".repeat(30), String::new(), "1 B".into()]);
        table.push(vec!["evil\u{1b}[2J".into(), String::new(), "10 B".into()]);
        let mut out = Vec::new();
        table.write(width, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        let text = table(None);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("name{}size", " ".repeat(28)));
        assert_eq!(lines[2], format!("{}   1 B", "a".repeat(30)));
        assert_eq!(lines[3], format!("{:30}  10 B", "evil\\u{1b}[2J"));
    }

    #[test]
    fn a_table_without_rows_is_its_header() {
        let mut out = Vec::new();
        let table = Table::new(&["name", "size"], &[1], &[0]);
        assert!(table.is_empty());
        table.write(None, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "name  size\n────  ────\n");
    }

    #[test]
    fn a_wide_table_is_cut_in_its_flexible_columns() {
        let text = table(Some(26));
        assert!(
            text.lines().all(|line| line.chars().count() <= 26),
            "{text}"
        );
        assert!(
            text.contains(&format!("{}…   1 B", "a".repeat(19))),
            "{text}"
        );
    }

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(printable("µ\u{7}\n\u{202e}"), "µ\\u{7}\\n\\u{202e}");
        assert!(matches!(printable("ντ"), Cow::Borrowed("ντ")));
    }
}
