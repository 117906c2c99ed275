//! Columns.

/// Rows of cells; each column is as wide as its widest cell.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    right: &'static [usize],
}

impl Table {
    /// A table whose first row is `head`; the columns numbered in `right` are set flush right.
    pub(crate) fn new(head: &[&str], right: &'static [usize]) -> Self {
        Self { rows: vec![head.iter().map(|&cell| cell.to_owned()).collect()], right }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The lines, without blanks at their ends.
    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let widths: Vec<usize> = (0..columns).map(|n| self.width(n)).collect();
        self.rows.iter().map(|row| self.line(row, &widths)).collect()
    }

    fn width(&self, column: usize) -> usize {
        self.rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    }

    fn line(&self, row: &[String], widths: &[usize]) -> String {
        let cells = row.iter().zip(widths).enumerate().map(|(n, (cell, &width))| {
            if self.right.contains(&n) { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        let line = cells.collect::<Vec<_>>().join("  ");
        format!("{}\n", line.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(&["Name", "Mtu"], &[1]);
        table.row(["lan".into(), "65535".into()]);
        assert_eq!(table.text(), "Name    Mtu\nlan   65535\n");
    }
}
