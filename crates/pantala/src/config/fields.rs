//! Reads a TOML table key by key; whatever is wrong goes to the report and the key counts as absent.
//!
//! Deriving this from the types would stop at the first mistake; a person wants to see all of them.

use core::ops::{Range, RangeInclusive};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{At, Report, Wrong};
use diagnostic::did_you_mean;

/// One table of the configuration, all of whose keys are known.
pub(crate) struct Fields<'t> {
    table: &'t DeTable<'t>,
    /// Where the table stands in the file.
    pub(crate) span: Range<usize>,
}

impl<'t> Fields<'t> {
    /// The table `name` (shown in problems), which may have the keys `known`.
    pub(crate) fn new(
        table: &'t DeTable<'t>,
        span: Range<usize>,
        name: &str,
        known: &[&str],
        report: &mut Report<'_>,
    ) -> Self {
        for key in table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())) {
            let word = key.get_ref();
            report.add(&key.span(), format!("unknown key `{word}` {name}"), did_you_mean(word, known));
        }
        Self { table, span }
    }

    /// The place of a key's name.
    pub(crate) fn key(&self, key: &str) -> Option<Range<usize>> {
        self.table.get_key_value(key).map(|(name, _)| name.span())
    }

    /// The place of a key whose value is `[]`.
    pub(crate) fn empty_list(&self, key: &str) -> Option<Range<usize>> {
        let (name, value) = self.table.get_key_value(key)?;
        value.get_ref().as_array().is_some_and(|array| array.is_empty()).then(|| name.span())
    }

    /// The section of this name; `None` also if the value is something else.
    pub(crate) fn section(&self, key: &str) -> Option<At<&'t DeTable<'t>>> {
        let value = self.table.get(key)?;
        value.get_ref().as_table().map(|table| At::new(table, value.span()))
    }

    /// The value of a key, whatever it is.
    pub(crate) fn value(&self, key: &str) -> Option<&'t Spanned<DeValue<'t>>> {
        self.table.get(key)
    }

    pub(crate) fn text(&self, key: &str, report: &mut Report<'_>) -> Option<At<String>> {
        let value = self.table.get(key)?;
        let text = value.get_ref().as_str().map(str::to_owned);
        expected(value, text, key, "a string in quotes", report)
    }

    pub(crate) fn truth(&self, key: &str, report: &mut Report<'_>) -> Option<At<bool>> {
        let value = self.table.get(key)?;
        expected(value, value.get_ref().as_bool(), key, "true or false", report)
    }

    /// Reads true or false by `of`, or a string by `parse`.
    pub(crate) fn truth_or<T>(
        &self,
        key: &str,
        of: impl Fn(bool) -> T,
        parse: impl Fn(&str) -> Result<T, Wrong>,
        report: &mut Report<'_>,
    ) -> Option<At<T>> {
        let value = self.table.get(key)?;
        match value.get_ref().as_bool() {
            Some(truth) => Some(At::new(of(truth), value.span())),
            None => self.parsed(key, parse, report),
        }
    }

    /// A whole number in `range`.
    pub(crate) fn number(
        &self,
        key: &str,
        range: RangeInclusive<u32>,
        report: &mut Report<'_>,
    ) -> Option<At<u32>> {
        let value = self.table.get(key)?;
        let number = expected(value, whole(value.get_ref()), key, "a whole number", report)?;
        let fits = u32::try_from(number.value).ok().filter(|n| range.contains(n));
        if fits.is_none() {
            let size = if number.value < i64::from(*range.start()) { "small" } else { "large" };
            let help = format!("use {} to {}", range.start(), range.end());
            report.add(&number.span, format!("{key} {} is too {size}", number.value), help);
        }
        fits.map(|n| At::new(n, number.span))
    }

    /// A string that `parse` understands.
    pub(crate) fn parsed<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, Wrong>,
        report: &mut Report<'_>,
    ) -> Option<At<T>> {
        let text = self.text(key, report)?;
        understood(text, parse, report)
    }

    /// A list of strings that `parse` understands; one string alone counts as a list of one.
    pub(crate) fn parsed_list<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, Wrong>,
        report: &mut Report<'_>,
    ) -> Vec<At<T>> {
        let strings = self.list(key, "a string in quotes or a list of them", report, |value| {
            value.as_str().map(str::to_owned)
        });
        strings.into_iter().filter_map(|text| understood(text, &parse, report)).collect()
    }

    /// A list of whole numbers, not negative.
    pub(crate) fn numbers(&self, key: &str, report: &mut Report<'_>) -> Vec<At<usize>> {
        self.list(key, "a list of whole numbers, as in [0, 1]", report, |value| {
            whole(value).and_then(|n| usize::try_from(n).ok())
        })
    }

    /// The tables written `[[key]]`.
    pub(crate) fn tables(&self, key: &str, report: &mut Report<'_>) -> Vec<At<&'t DeTable<'t>>> {
        let Some(value) = self.table.get(key) else { return Vec::new() };
        let Some(array) = value.get_ref().as_array() else {
            let message = format!("`{key}` must be written with two brackets, [[{key}]]");
            report.add(&value.span(), message, "each one has a section of its own");
            return Vec::new();
        };
        let wanted = format!("a section [[{key}]]");
        array
            .iter()
            .filter_map(|item| expected(item, item.get_ref().as_table(), key, &wanted, report))
            .collect()
    }

    fn list<T>(
        &self,
        key: &str,
        wanted: &str,
        report: &mut Report<'_>,
        item: impl Fn(&DeValue<'t>) -> Option<T>,
    ) -> Vec<At<T>> {
        let Some(value) = self.table.get(key) else { return Vec::new() };
        let items: Vec<&Spanned<DeValue<'t>>> =
            value.get_ref().as_array().map_or_else(|| vec![value], |array| array.iter().collect());
        items.into_iter().filter_map(|one| expected(one, item(one.get_ref()), key, wanted, report)).collect()
    }
}

fn expected<T>(
    value: &Spanned<DeValue<'_>>,
    read: Option<T>,
    key: &str,
    wanted: &str,
    report: &mut Report<'_>,
) -> Option<At<T>> {
    if read.is_none() {
        let found = kind(value.get_ref());
        report.add(&value.span(), format!("`{key}` cannot be {found}"), format!("write {wanted}"));
    }
    read.map(|read| At::new(read, value.span()))
}

fn understood<T>(
    text: At<String>,
    parse: impl Fn(&str) -> Result<T, Wrong>,
    report: &mut Report<'_>,
) -> Option<At<T>> {
    match parse(&text.value) {
        Ok(value) => Some(At::new(value, text.span)),
        Err(wrong) => {
            report.wrong(&text.span, wrong);
            None
        }
    }
}

fn whole(value: &DeValue<'_>) -> Option<i64> {
    let integer = value.as_integer()?;
    i64::from_str_radix(integer.as_str(), integer.radix()).ok()
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "this number",
        DeValue::Float(_) => "a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
