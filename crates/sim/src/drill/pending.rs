//! A call that was made, and may have to wait.

use core::time::Duration;

use drill::syscall::{Call, Syscall};

use super::calls::{self, Asked, Value};
use super::clock::When;
use super::conn::Conns;
use super::ends::Endpoints;
use super::errno::Errno;
use super::expr;
use super::lab::Lab;
use super::program::{Outcome, Program};

/// A call.
#[derive(Debug)]
pub(super) struct Pending<'a> {
    /// The call in the script.
    pub(super) call: &'a Syscall,
    /// When it must return, if it may wait.
    pub(super) when: Option<When>,
    /// When it was made.
    began: Duration,
    /// Bytes that it has moved so far.
    moved: usize,
    /// It was asked for before.
    is_again: bool,
    /// Where in its stream the first byte is that it sends.
    position: u32,
}

impl<'a> Pending<'a> {
    /// A call that is made now.
    pub(super) const fn new(call: &'a Syscall, now: Duration, when: Option<When>) -> Self {
        Self { call, when, began: now, moved: 0, is_again: false, position: 0 }
    }

    fn fd(&self) -> Option<i64> {
        expr::number(self.call.args.first()?).ok()
    }

    /// Asks for it, once more; answers whether it is done, as the script says.
    pub(super) fn poll(
        &mut self,
        program: &mut Program,
        lab: &mut Lab,
        ends: &Endpoints,
        conns: &mut Conns,
    ) -> Result<bool, String> {
        let waited = lab.now().saturating_sub(self.began);
        let before = self.moved;
        let is_again = core::mem::replace(&mut self.is_again, true);
        if !is_again {
            self.position = self.fd().map_or(0, |fd| conns.written(fd));
        }
        let asked = Asked { waited, moved: &mut self.moved, is_again, position: self.position };
        let outcome = calls::ask(self.call, asked, program, lab, ends);
        if self.moved > before {
            let bytes = calls::outgoing(self.call, self.position)?;
            let fd = self.fd().ok_or("it names no socket")?;
            conns.wrote(fd, bytes.get(before..self.moved).unwrap_or_default());
        }
        let result = match outcome.map_err(|wrong| format!("expected `{}`; {wrong}", self.call))? {
            Outcome::Waits => return Ok(false),
            Outcome::Done(result) => result,
        };
        if ends.is_linux && result.is_ok() {
            self.forgets_descriptor(program);
        }
        self.returned(result, program, conns)
            .map_err(|came| format!("expected `{}`; came {came}", self.call))?;
        match self.when.and_then(|when| when.wrong(lab.now())) {
            Some(wrong) => Err(format!("expected `{}`; it returned {wrong}", self.call)),
            None => Ok(true),
        }
    }

    /// Scripts for Linux use the number of a descriptor again without closing what has it, which stays open.
    fn forgets_descriptor(&self, program: &mut Program) {
        let names_new = matches!(self.call.call.value, Call::Accept | Call::Accept4);
        let fd = expr::number(&self.call.result).ok().filter(|_| names_new);
        if let Some(old) = fd.and_then(|fd| program.sockets.remove(&fd)) {
            program.forgotten.push(old);
        }
    }

    /// Holds what it returned to what the script says; the error is what came.
    fn returned(
        &self,
        result: Result<Value, Errno>,
        program: &mut Program,
        conns: &mut Conns,
    ) -> Result<(), String> {
        let expected = &self.call.result;
        let number = if expr::is_open(expected) { None } else { Some(expr::number(expected)?) };
        let errno = self.call.errno.as_ref().map(|errno| errno.symbol.name());
        let value = match result {
            Err(came)
                if number.is_none_or(|number| number == -1) && errno.is_none_or(|name| came.is(name)) =>
            {
                return Ok(());
            }
            Err(came) => return Err(format!("-1 {}", came.0)),
            Ok(value) => value,
        };
        let number = number.filter(|_| errno.is_none());
        match value {
            Value::Number(came) if errno.is_some() || number.is_some_and(|number| number != came) => {
                Err(came.to_string())
            }
            Value::Number(_) => Ok(()),
            Value::Bytes(bytes, how) => {
                let count = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
                if errno.is_some() || number.is_some_and(|number| number != count) {
                    return Err(count.to_string());
                }
                let is_so = self.fd().is_some_and(|fd| conns.read(fd, &bytes, how));
                if is_so { Ok(()) } else { Err(format!("{count} other bytes than were sent")) }
            }
            Value::Socket(socket, remote) => {
                // Which number a descriptor has, the script says.
                let fd =
                    number.unwrap_or_else(|| (3..).find(|fd| !program.sockets.contains_key(fd)).unwrap_or(3));
                if errno.is_some() || fd < 0 || program.sockets.contains_key(&fd) {
                    return Err("a new descriptor".to_owned());
                }
                program.sockets.insert(fd, *socket);
                match remote {
                    Some(remote) => conns.accepted(fd, remote.port()),
                    None => conns.make(fd),
                }
                Ok(())
            }
        }
    }
}
