//! Assertions, with the parentheses that are needed and no others.

use core::fmt::{self, Display, Formatter};

use super::List;
use crate::code::{BinaryOp, Code, CompareOp, Formula, FormulaKind, Function, Statement, UnaryOp};

impl Display for Code {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let statements: Vec<&Statement> = self.statements.iter().map(|statement| &statement.value).collect();
        write!(f, "%{{ {} }}%", List(&statements, "; "))
    }
}

impl Display for Statement {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Assert { condition, message: None } => write!(f, "assert {condition}"),
            Self::Assert { condition, message: Some(message) } => write!(f, "assert {condition}, {message}"),
            Self::Print(text) if text.is_empty() => f.write_str("print"),
            Self::Print(text) => write!(f, "print {text}"),
        }
    }
}

const OR: u8 = 1;
const AND: u8 = 2;
const NOT: u8 = 3;
const COMPARE: u8 = 4;
/// Operators that yield numbers are this and more.
const BINARY: u8 = 4;
const UNARY: u8 = 11;
const ATOM: u8 = 12;

/// Returns the precedence of a formula's operator.
fn level(formula: &Formula) -> u8 {
    match &formula.kind {
        FormulaKind::Or(_) => OR,
        FormulaKind::And(_) => AND,
        FormulaKind::Unary(UnaryOp::Not, _) => NOT,
        FormulaKind::Compare(..) => COMPARE,
        FormulaKind::Binary(operator, ..) => BINARY + tightness(*operator),
        FormulaKind::Unary(UnaryOp::Minus | UnaryOp::Invert, _) => UNARY,
        _ => ATOM,
    }
}

fn tightness(operator: BinaryOp) -> u8 {
    BinaryOp::NAMES.iter().find(|(_, known, _)| *known == operator).map_or(0, |(.., tight)| *tight)
}

/// A formula where only those that bind this tightly can stand without parentheses.
struct Inside<'a>(&'a Formula, u8);

impl Display for Inside<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match level(self.0) < self.1 {
            true => write!(f, "({})", self.0),
            false => self.0.fmt(f),
        }
    }
}

impl Display for Formula {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FormulaKind::Integer(number) => write!(f, "{number}"),
            FormulaKind::Decimal(digits, scale) => decimal(f, *digits, (*scale).into()),
            FormulaKind::Name(name) => f.write_str(name.text()),
            FormulaKind::Bool(is) => f.write_str(if *is { "True" } else { "False" }),
            FormulaKind::Unary(UnaryOp::Not, operand) => write!(f, "not {}", Inside(operand, NOT)),
            FormulaKind::Unary(UnaryOp::Minus, operand) => write!(f, "-{}", Inside(operand, UNARY)),
            FormulaKind::Unary(UnaryOp::Invert, operand) => write!(f, "~{}", Inside(operand, UNARY)),
            FormulaKind::Binary(operator, left, right) => {
                let level = level(self);
                write!(f, "{} {operator} {}", Inside(left, level), Inside(right, level + 1))
            }
            FormulaKind::Compare(first, rest) => {
                Inside(first, BINARY + 1).fmt(f)?;
                rest.iter()
                    .try_for_each(|(operator, next)| write!(f, " {operator} {}", Inside(next, BINARY + 1)))
            }
            FormulaKind::And(parts) => {
                List(&parts.iter().map(|part| Inside(part, NOT)).collect::<Vec<_>>(), " and ").fmt(f)
            }
            FormulaKind::Or(parts) => {
                List(&parts.iter().map(|part| Inside(part, AND)).collect::<Vec<_>>(), " or ").fmt(f)
            }
            FormulaKind::Call(function, args) => write!(f, "{function}({})", List(args, ", ")),
        }
    }
}

fn decimal(f: &mut Formatter<'_>, digits: i64, scale: usize) -> fmt::Result {
    let digits = format!("{digits:0width$}", width = scale + 1);
    let (whole, part) = digits.split_at(digits.len() - scale.min(digits.len()));
    write!(f, "{whole}.{part}")
}

impl Display for BinaryOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, known, _)| known == self);
        f.write_str(name.map_or("", |(name, ..)| name))
    }
}

impl Display for CompareOp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, known)| known == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}

impl Display for Function {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES.iter().find(|(_, known)| known == self);
        f.write_str(name.map_or("", |(name, _)| name))
    }
}
