//! The section `[sysctl]`: what variables of the stack say from the beginning.

use std::collections::BTreeMap;

use net::sysctl::{VARIABLES, Variable};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fields::Fields;
use super::problem::Report;
use diagnostic::nearest;

/// Values by the names of their variables.
pub type Sysctls = BTreeMap<&'static str, i64>;

/// Names may stand in quotes, or bare: `net.inet.tcp.delacktime = 20`, which is a table in a table to TOML.
pub(super) fn read(top: &Fields<'_>, report: &mut Report<'_>) -> Sysctls {
    let mut values = Sysctls::new();
    if let Some(table) = top.section("sysctl") {
        read_table("", table.value, &mut values, report);
    } else if let Some(span) = top.key("sysctl") {
        report.add(
            &span,
            "`sysctl` must be a section",
            "write [sysctl], and a line for each variable below it",
        );
    }
    values
}

fn read_table(before: &str, table: &DeTable<'_>, values: &mut Sysctls, report: &mut Report<'_>) {
    for (key, value) in table {
        let name = format!("{before}{}", key.get_ref());
        if let Some(table) = value.get_ref().as_table() {
            read_table(&format!("{name}."), table, values, report);
            continue;
        }
        let Some(variable) = Variable::named(&name) else {
            let near = nearest(&name, VARIABLES.iter().map(|variable| variable.name));
            let help = near.map_or_else(
                || "pantala sysctl -a shows all that there are".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            report.add(&key.span(), format!("unknown variable `{name}`"), help);
            continue;
        };
        if let Some(read) = read_value(variable, value, report) {
            values.insert(variable.name, read);
        }
    }
}

fn read_value(variable: &Variable, value: &Spanned<DeValue<'_>>, report: &mut Report<'_>) -> Option<i64> {
    let text = match value.get_ref() {
        DeValue::Boolean(is_on) => i64::from(*is_on).to_string(),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::String(text) => text.to_string(),
        _ => {
            report.add(
                &value.span(),
                format!("`{}` cannot be this", variable.name),
                "write a number or a word",
            );
            return None;
        }
    };
    match variable.parse(&text) {
        Ok(read) => Some(read),
        Err(wrong) => {
            report.add(&value.span(), format!("{} cannot be {text}", variable.name), format!("it {wrong}"));
            None
        }
    }
}
