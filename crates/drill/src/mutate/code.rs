//! Assertions.

use super::{Changes, Field};
use crate::code::{Code, CompareOp, Formula, FormulaKind, Name, STATES, Statement};
use crate::script::{Action, Event};

pub(super) fn code(changes: &mut Changes<'_>, code: &Code) {
    for (statement, at) in code.statements.iter().enumerate() {
        let Statement::Assert { condition, .. } = &at.value else { continue };
        let mut places = Vec::new();
        let mut index = 0;
        condition.walk(&mut |part| {
            places.extend(
                instead(part).into_iter().map(|(field, text, now)| (index, part.pos, field, text, now)),
            );
            index += 1;
        });
        for (place, pos, field, text, now) in places {
            changes.add(pos, field, text, |event| {
                with_condition(event, statement, |condition| {
                    let mut index = 0;
                    condition.walk_mut(&mut |part| {
                        if index == place {
                            part.kind = now.clone();
                        }
                        index += 1;
                    });
                });
            });
        }
    }
}

fn with_condition(event: &mut Event, statement: usize, edit: impl FnOnce(&mut Formula)) {
    let Action::Code(code) = &mut event.action else { return };
    if let Some(Statement::Assert { condition, .. }) =
        code.statements.get_mut(statement).map(|statement| &mut statement.value)
    {
        edit(condition);
    }
}

/// A comparison becomes its opposite; a state, and a number that something is equal to, become others.
fn instead(formula: &Formula) -> Vec<(Field, String, FormulaKind)> {
    match &formula.kind {
        FormulaKind::Name(name) => another_state(*name)
            .map(|now| (Field::State, format!("{} → {}", name.text(), now.text()), FormulaKind::Name(now)))
            .into_iter()
            .collect(),
        FormulaKind::Compare(first, rest) => {
            let mut list: Vec<(Field, String, FormulaKind)> = (0..rest.len())
                .filter_map(|index| {
                    let mut rest = rest.clone();
                    let (operator, _) = rest.get_mut(index)?;
                    let (was, now) = (*operator, opposite(*operator));
                    *operator = now;
                    let kind = FormulaKind::Compare(first.clone(), rest);
                    Some((Field::Comparison, format!("{was} → {now}"), kind))
                })
                .collect();
            if let [(CompareOp::Equal, Formula { pos, kind: FormulaKind::Integer(number) })] = rest.as_slice()
            {
                let now = number.wrapping_add(1) & i64::MAX;
                let right = Formula { pos: *pos, kind: FormulaKind::Integer(now) };
                let kind = FormulaKind::Compare(first.clone(), vec![(CompareOp::Equal, right)]);
                list.push((Field::Comparison, format!("{number} → {now}"), kind));
            }
            list
        }
        _ => Vec::new(),
    }
}

const fn opposite(operator: CompareOp) -> CompareOp {
    match operator {
        CompareOp::Equal => CompareOp::NotEqual,
        CompareOp::NotEqual => CompareOp::Equal,
        CompareOp::Less => CompareOp::GreaterOrEqual,
        CompareOp::LessOrEqual => CompareOp::Greater,
        CompareOp::Greater => CompareOp::LessOrEqual,
        CompareOp::GreaterOrEqual => CompareOp::Less,
    }
}

/// The next state, under a name of the same system.
fn another_state(name: Name) -> Option<Name> {
    let Name::State(text) = name else { return None };
    let at = STATES.iter().position(|(_, names)| names.contains(&text))?;
    let (_, names) = STATES.get(at)?;
    let system = names.iter().position(|known| *known == text)?;
    let (_, names) = STATES.iter().cycle().nth(at + 1)?;
    names.get(system).map(|text| Name::State(text))
}
