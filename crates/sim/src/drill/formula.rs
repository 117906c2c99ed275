//! Evaluation of assertions, as in Python.

use drill::code::{BinaryOp, CompareOp, Formula, FormulaKind, Function, Name, UnaryOp};

/// A value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value {
    /// A whole number; truth is 1.
    Whole(i128),
    /// Another number.
    Real(f64),
}

impl Value {
    /// Whether it counts as true.
    pub(super) fn is_true(self) -> bool {
        match self {
            Self::Whole(number) => number != 0,
            Self::Real(number) => number != 0.0,
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "as in Python, where a whole number meets another")]
    const fn real(self) -> f64 {
        match self {
            Self::Whole(number) => number as f64,
            Self::Real(number) => number,
        }
    }

    const fn truth(is_so: bool) -> Self {
        Self::Whole(is_so as i128)
    }

    /// The whole number that is next towards zero; what is out of all reach is the farthest.
    #[expect(clippy::cast_possible_truncation, reason = "the point is to drop what is behind the point")]
    const fn whole(self) -> i128 {
        match self {
            Self::Whole(number) => number,
            Self::Real(number) => number as i128,
        }
    }
}

/// Evaluates a formula; `name` knows the variables.
///
/// # Errors
///
/// What is wrong with it: a name that is not known, a division by zero.
pub(super) fn evaluate(
    formula: &Formula,
    name: &mut dyn FnMut(Name) -> Result<i128, String>,
) -> Result<Value, String> {
    Ok(match &formula.kind {
        FormulaKind::Integer(number) => Value::Whole((*number).into()),
        FormulaKind::Decimal(digits, behind) => {
            Value::Real(Value::Whole((*digits).into()).real() / 10f64.powi((*behind).into()))
        }
        FormulaKind::Name(of) => Value::Whole(name(*of)?),
        FormulaKind::Bool(is_so) => Value::truth(*is_so),
        FormulaKind::Unary(op, operand) => unary(*op, evaluate(operand, name)?),
        FormulaKind::Binary(op, left, right) => binary(*op, evaluate(left, name)?, evaluate(right, name)?)?,
        FormulaKind::Compare(first, rest) => {
            let mut left = evaluate(first, name)?;
            for (op, next) in rest {
                let right = evaluate(next, name)?;
                if !compare(*op, left, right) {
                    return Ok(Value::truth(false));
                }
                left = right;
            }
            Value::truth(true)
        }
        FormulaKind::And(parts) => until(parts, false, name)?,
        FormulaKind::Or(parts) => until(parts, true, name)?,
        FormulaKind::Call(function, parts) => {
            let parts = parts.iter().map(|part| evaluate(part, name)).collect::<Result<Vec<_>, _>>()?;
            call(*function, &parts)?
        }
    })
}

/// The first part whose truth is `wanted`, else the last.
fn until(
    parts: &[Formula],
    wanted: bool,
    name: &mut dyn FnMut(Name) -> Result<i128, String>,
) -> Result<Value, String> {
    let mut value = Value::truth(!wanted);
    for part in parts {
        value = evaluate(part, name)?;
        if value.is_true() == wanted {
            break;
        }
    }
    Ok(value)
}

fn unary(op: UnaryOp, operand: Value) -> Value {
    match (op, operand) {
        (UnaryOp::Not, operand) => Value::truth(!operand.is_true()),
        (UnaryOp::Minus, Value::Whole(number)) => Value::Whole(number.wrapping_neg()),
        (UnaryOp::Minus, Value::Real(number)) => Value::Real(-number),
        (UnaryOp::Invert, operand) => Value::Whole(!operand.whole()),
    }
}

fn binary(op: BinaryOp, left: Value, right: Value) -> Result<Value, String> {
    let zero = || "a division by zero".to_owned();
    if let (Value::Whole(left), Value::Whole(right)) = (left, right) {
        let shift = u32::try_from(right).unwrap_or(u32::MAX);
        let (quotient, rest) = (left.checked_div_euclid(right), left.checked_rem_euclid(right));
        // Python rounds down, and a rest has the sign of the divisor
        let is_off = right < 0 && rest.is_some_and(|rest| rest != 0);
        return Ok(Value::Whole(match op {
            BinaryOp::BitOr => left | right,
            BinaryOp::BitXor => left ^ right,
            BinaryOp::BitAnd => left & right,
            BinaryOp::ShiftLeft => left.checked_shl(shift).unwrap_or(0),
            BinaryOp::ShiftRight => left.checked_shr(shift).unwrap_or(0),
            BinaryOp::Add => left.wrapping_add(right),
            BinaryOp::Subtract => left.wrapping_sub(right),
            BinaryOp::Multiply => left.wrapping_mul(right),
            BinaryOp::FloorDivide => quotient.ok_or_else(zero)? - i128::from(is_off),
            BinaryOp::Modulo => rest.ok_or_else(zero)? + if is_off { right } else { 0 },
            BinaryOp::Divide if right == 0 => return Err(zero()),
            BinaryOp::Divide => {
                return Ok(Value::Real(Value::Whole(left).real() / Value::Whole(right).real()));
            }
        }));
    }
    let (left, right) = (left.real(), right.real());
    Ok(Value::Real(match op {
        BinaryOp::Add => left + right,
        BinaryOp::Subtract => left - right,
        BinaryOp::Multiply => left * right,
        BinaryOp::Divide | BinaryOp::FloorDivide | BinaryOp::Modulo if right == 0.0 => return Err(zero()),
        BinaryOp::Divide => left / right,
        BinaryOp::FloorDivide => (left / right).floor(),
        BinaryOp::Modulo => left - right * (left / right).floor(),
        _ => return Err("bits of a number with a point".to_owned()),
    }))
}

fn compare(op: CompareOp, left: Value, right: Value) -> bool {
    let order = match (left, right) {
        (Value::Whole(left), Value::Whole(right)) => Some(left.cmp(&right)),
        _ => left.real().partial_cmp(&right.real()),
    };
    match op {
        CompareOp::Equal => order.is_some_and(core::cmp::Ordering::is_eq),
        CompareOp::NotEqual => !order.is_some_and(core::cmp::Ordering::is_eq),
        CompareOp::Less => order.is_some_and(core::cmp::Ordering::is_lt),
        CompareOp::LessOrEqual => order.is_some_and(core::cmp::Ordering::is_le),
        CompareOp::Greater => order.is_some_and(core::cmp::Ordering::is_gt),
        CompareOp::GreaterOrEqual => order.is_some_and(core::cmp::Ordering::is_ge),
    }
}

fn call(function: Function, parts: &[Value]) -> Result<Value, String> {
    let first = *parts.first().ok_or("a function needs a value")?;
    let best =
        |op| parts.iter().fold(first, |best, part| if compare(op, *part, best) { *part } else { best });
    Ok(match (function, first) {
        (Function::Abs, Value::Whole(number)) => Value::Whole(number.wrapping_abs()),
        (Function::Abs, Value::Real(number)) => Value::Real(number.abs()),
        (Function::Min, _) => best(CompareOp::Less),
        (Function::Max, _) => best(CompareOp::Greater),
        (Function::Int, value) => Value::Whole(value.whole()),
        (Function::Round, Value::Real(number)) => Value::Whole(Value::Real(number.round_ties_even()).whole()),
        (Function::Round, whole) => whole,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use drill::code::Statement;
    use drill::script::Action;

    /// Whether a condition holds, with `tcpi_rtt` = 7.
    fn holds(condition: &str) -> Result<bool, String> {
        let script = drill::parse("formula", &format!("0 %{{ assert {condition} }}%\n"), &[]).unwrap();
        let Action::Code(code) = &script.events[0].action else { panic!("code") };
        let Statement::Assert { condition, .. } = &code.statements[0].value else { panic!("an assertion") };
        evaluate(condition, &mut |name| match name.text() {
            "tcpi_rtt" => Ok(7),
            other => Err(other.to_owned()),
        })
        .map(Value::is_true)
    }

    #[test]
    fn formulas_are_evaluated_as_in_python() {
        for condition in [
            "tcpi_rtt == 7 and not tcpi_rtt < 7",
            "0 < tcpi_rtt <= 7 != 8",
            "7 // 2 == 3 and -7 // 2 == -4 and 7 // -2 == -4",
            "-7 % 3 == 2 and 7 % -3 == -2 and -7 % -3 == -1",
            "7 / 2 == 3.5 and 7.0 // 2 == 3",
            "1 << 4 | 1 == 17 and ~0 == -1 and 6 ^ 3 == 5 and 6 & 3 == 2",
            "abs(-2.5) == 2.5 and min(3, 1, 2) == 1 and max(1, 3) == 3",
            "int(-2.7) == -2 and round(2.5) == 2 and round(3.5) == 4",
            "True or tcpi_rto == 1",
        ] {
            assert_eq!(holds(condition), Ok(true), "{condition}");
        }
        for condition in ["tcpi_rtt != 7", "0 < tcpi_rtt < 7", "False or 0"] {
            assert_eq!(holds(condition), Ok(false), "{condition}");
        }
        assert_eq!(holds("tcpi_rto == 1"), Err("tcpi_rto".to_owned()));
        assert!(holds("1 // 0 == 1").is_err() && holds("1 / 0 == 1").is_err());
    }
}
