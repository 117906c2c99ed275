//! Assertions: the part of Python that is understood.

use super::lex::{Token, TokenKind, tokens};
use crate::code::{BinaryOp, Code, CompareOp, Formula, FormulaKind, Function, Name, Statement, UnaryOp};
use crate::cursor::Cursor;
use crate::error::{Fault, nearest};
use crate::limit::{DEPTH_MAX, LIST_MAX};
use crate::place::Places;
use crate::script::At;

pub(super) const EXPECTED: &str = "assert CONDITION, with comparisons, and, or, not, arithmetic, abs, min, max, int, \
                                   round and the fields of TCP_INFO";

pub(super) fn code(cursor: &mut Cursor<'_>) -> Result<Code, Fault> {
    let pos = cursor.pos();
    let start = cursor.at();
    cursor.expect("%{")?;
    let at = cursor.rest_start();
    let len = cursor.rest().find("}%").unwrap_or_else(|| cursor.rest().len());
    let text = cursor.rest().get(..len).unwrap_or_default();
    // first, so that what is wrong inside does not make the rest wrong
    cursor.advance(len);
    cursor.expect("}%")?;
    let tokens = tokens(text, at)?;
    let mut parser = Parser { code: text, at, tokens: &tokens, next: 0, depth: 0, places: cursor.places() };
    let mut statements = Vec::new();
    while parser.skip_ends() {
        if statements.len() == LIST_MAX {
            return Err(parser.here(format!("a block has at most {LIST_MAX} statements")));
        }
        statements.push(parser.statement()?);
    }
    match statements.is_empty() {
        true => Err(Fault::new(start..start + 2, "there is no statement in this block").expected(EXPECTED)),
        false => Ok(Code { pos, statements }),
    }
}

struct Parser<'a> {
    code: &'a str,
    /// Where the code stands in the script.
    at: usize,
    tokens: &'a [Token<'a>],
    next: usize,
    depth: usize,
    places: &'a Places<'a>,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a Token<'a>> {
        self.tokens.get(self.next).filter(|token| token.kind != TokenKind::End)
    }

    /// Goes over the ends of statements; returns whether there is another one.
    fn skip_ends(&mut self) -> bool {
        while self.tokens.get(self.next).is_some_and(|token| token.kind == TokenKind::End) {
            self.next += 1;
        }
        self.next < self.tokens.len()
    }

    fn accept(&mut self, text: &str) -> bool {
        let is = self.peek().is_some_and(|token| token.kind != TokenKind::Text && token.text == text);
        self.next += usize::from(is);
        is
    }

    /// Where the next token stands, or the end of the last one.
    fn span(&self) -> core::ops::Range<usize> {
        let end = self.tokens.get(self.next.wrapping_sub(1)).map_or(self.at, |token| token.span.end);
        self.peek().map_or(end..end, |token| token.span.clone())
    }

    fn here(&self, message: impl Into<String>) -> Fault {
        Fault::new(self.span(), message)
    }

    fn unexpected(&self, expected: &str) -> Fault {
        let message = match self.peek() {
            Some(token) => format!("`{}` is not understood in code", token.text.escape_debug()),
            None => "the statement ends too early".to_owned(),
        };
        self.here(message).expected(expected)
    }

    fn statement(&mut self) -> Result<At<Statement>, Fault> {
        let pos = self.places.pos(self.span().start);
        if self.accept("assert") {
            let condition = self.formula()?;
            let message = match self.accept(",") {
                true => Some(self.raw("what is said if it fails")?),
                false => None,
            };
            return match self.peek() {
                None => Ok(At::new(pos, Statement::Assert { condition, message })),
                Some(_) => Err(self.unexpected("an operator, `, message`, or the end of the statement")),
            };
        }
        if self.accept("print") {
            let text = if self.peek().is_some() { self.raw("what is printed")? } else { String::new() };
            return Ok(At::new(pos, Statement::Print(text)));
        }
        Err(self.unexpected(EXPECTED))
    }

    /// The rest of the statement, as it stands there but for the ends of lines within it.
    fn raw(&mut self, what: &str) -> Result<String, Fault> {
        let from = self.next;
        while self.peek().is_some() {
            self.next += 1;
        }
        let tokens = self.tokens.get(from..self.next).unwrap_or_default();
        let mut text = String::new();
        let mut end = tokens.first().map(|token| token.span.start).ok_or_else(|| self.unexpected(what))?;
        for token in tokens {
            let gap = self.code.get(end - self.at..token.span.start - self.at).unwrap_or_default();
            text.push_str(if gap.is_empty() { "" } else { " " });
            text.push_str(token.text);
            end = token.span.end;
        }
        Ok(text)
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Fault>) -> Result<T, Fault> {
        if self.depth == DEPTH_MAX {
            return Err(self.here(format!("at most {DEPTH_MAX} brackets lie within each other")));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    fn make(&self, from: usize, kind: FormulaKind) -> Formula {
        let at = self.tokens.get(from).map_or(self.at, |token| token.span.start);
        Formula { pos: self.places.pos(at), kind }
    }

    fn formula(&mut self) -> Result<Formula, Fault> {
        self.deeper(Self::or)
    }

    fn or(&mut self) -> Result<Formula, Fault> {
        self.chain("or", Self::and, FormulaKind::Or)
    }

    fn and(&mut self) -> Result<Formula, Fault> {
        self.chain("and", Self::not, FormulaKind::And)
    }

    fn chain(
        &mut self,
        word: &str,
        mut part: impl FnMut(&mut Self) -> Result<Formula, Fault>,
        kind: impl FnOnce(Vec<Formula>) -> FormulaKind,
    ) -> Result<Formula, Fault> {
        let from = self.next;
        let mut parts = vec![part(self)?];
        while self.accept(word) {
            parts.push(part(self)?);
            self.check_length(parts.len())?;
        }
        Ok(match <[Formula; 1]>::try_from(parts) {
            Ok([one]) => one,
            Err(parts) => self.make(from, kind(parts)),
        })
    }

    fn check_length(&self, len: usize) -> Result<(), Fault> {
        match len <= LIST_MAX {
            true => Ok(()),
            false => Err(self.here(format!("a formula has at most {LIST_MAX} terms"))),
        }
    }

    fn not(&mut self) -> Result<Formula, Fault> {
        let from = self.next;
        if self.accept("not") {
            let operand = self.deeper(Self::not)?;
            return Ok(self.make(from, FormulaKind::Unary(UnaryOp::Not, Box::new(operand))));
        }
        let first = self.binary(1)?;
        let mut rest = Vec::new();
        while let Some(&(_, operator)) = self.operator(&CompareOp::NAMES, |entry| entry.0) {
            rest.push((operator, self.binary(1)?));
            self.check_length(rest.len())?;
        }
        Ok(match rest.is_empty() {
            true => first,
            false => self.make(from, FormulaKind::Compare(Box::new(first), rest)),
        })
    }

    /// Takes the next operator if it is one of these.
    fn operator<'t, T>(&mut self, known: &'t [T], name: impl Fn(&T) -> &str) -> Option<&'t T> {
        let token = self.peek().filter(|token| token.kind == TokenKind::Operator)?;
        let found = known.iter().find(|entry| name(entry) == token.text)?;
        self.next += 1;
        Some(found)
    }

    /// Operators that bind at least as tightly as `least`.
    fn binary(&mut self, least: u8) -> Result<Formula, Fault> {
        let from = self.next;
        let mut left = self.unary()?;
        let mut terms = 1;
        loop {
            let before = self.next;
            let Some(&(_, operator, tight)) = self.operator(&BinaryOp::NAMES, |entry| entry.0) else { break };
            if tight < least {
                self.next = before;
                break;
            }
            let right = self.binary(tight + 1)?;
            terms += 1;
            self.check_length(terms)?;
            // a chain of operators is a tree as deep as it is long, and it is walked recursively
            if terms > DEPTH_MAX {
                return Err(self.here(format!("at most {DEPTH_MAX} operators stand side by side")));
            }
            left = self.make(from, FormulaKind::Binary(operator, Box::new(left), Box::new(right)));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Formula, Fault> {
        let from = self.next;
        for (text, operator) in [("-", UnaryOp::Minus), ("~", UnaryOp::Invert)] {
            if self.accept(text) {
                let operand = self.deeper(Self::unary)?;
                return Ok(self.make(from, FormulaKind::Unary(operator, Box::new(operand))));
            }
        }
        self.primary()
    }

    fn primary(&mut self) -> Result<Formula, Fault> {
        const EXPECTED: &str = "a number, a field of TCP_INFO, a constant, a function or `(`";
        let from = self.next;
        if self.accept("(") {
            let inner = self.formula()?;
            return self.close().map(|()| inner);
        }
        let token = self.peek().ok_or_else(|| self.unexpected(EXPECTED))?;
        let kind = match token.kind {
            TokenKind::Number => number(token)?,
            TokenKind::Word => {
                if let Some((_, function)) = Function::NAMES.iter().find(|(name, _)| *name == token.text) {
                    self.next += 1;
                    let args = self.args()?;
                    return Ok(self.make(from, FormulaKind::Call(*function, args)));
                }
                match token.text {
                    "True" => FormulaKind::Bool(true),
                    "False" => FormulaKind::Bool(false),
                    "assert" | "and" | "or" | "not" | "print" => return Err(self.unexpected(EXPECTED)),
                    text => FormulaKind::Name(Name::find(text).ok_or_else(|| unknown(token))?),
                }
            }
            TokenKind::Text | TokenKind::Operator | TokenKind::End => return Err(self.unexpected(EXPECTED)),
        };
        self.next += 1;
        Ok(self.make(from, kind))
    }

    fn close(&mut self) -> Result<(), Fault> {
        match self.accept(")") {
            true => Ok(()),
            false => Err(self.unexpected("an operator or `)`")),
        }
    }

    fn args(&mut self) -> Result<Vec<Formula>, Fault> {
        if !self.accept("(") {
            return Err(self.unexpected("`(`"));
        }
        let mut args = vec![self.formula()?];
        while self.accept(",") {
            args.push(self.formula()?);
            self.check_length(args.len())?;
        }
        self.close().map(|()| args)
    }
}

fn unknown(token: &Token<'_>) -> Fault {
    let known = Name::all().map(Name::text).chain(Function::NAMES.iter().map(|(name, _)| *name));
    let fault = Fault::new(token.span.clone(), format!("`{}` is no name that code knows", token.text));
    match nearest(token.text, known) {
        Some(near) => fault.help(format!("did you mean `{near}`?")),
        None => fault.expected(EXPECTED),
    }
}

fn number(token: &Token<'_>) -> Result<FormulaKind, Fault> {
    let fault = |message: &str| Fault::new(token.span.clone(), message);
    let (digits, radix) = match token.text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (token.text, 10),
    };
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |text: &str| text.chars().all(|c| c.is_digit(radix));
    if digits.len() == usize::from(digits.contains('.')) || !is_digits(whole) || !is_digits(part) {
        return Err(fault("this is no number").expected("a number such as 10, 0x1f or 1.5"));
    }
    let value = i64::from_str_radix(&format!("{whole}{part}"), radix).ok();
    let value = value.filter(|_| part.len() <= 18).ok_or_else(|| fault("the number has too many digits"))?;
    match digits.contains('.') {
        false => Ok(FormulaKind::Integer(value)),
        true if radix == 16 => Err(fault("a hexadecimal number has no point")),
        true => Ok(FormulaKind::Decimal(value, u8::try_from(part.len()).unwrap_or(0))),
    }
}
