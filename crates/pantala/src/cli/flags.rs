//! BSD's flags: one letter each, several behind one dash, values in the same word or the next.

use super::Failure;

/// Flags and operands of a command, in their order.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    set: Vec<(char, String)>,
    /// The operands.
    pub(crate) operands: Vec<String>,
}

impl Flags {
    /// Reads `words`. The letters in `plain` stand alone, those in `valued` have a value; operands may stand
    /// anywhere, and `--` ends the flags.
    pub(crate) fn read(command: &str, words: &[String], plain: &str, valued: &str) -> Result<Self, Failure> {
        let mut flags = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.strip_prefix('-') {
                Some("-") => flags.operands.extend(words.by_ref().cloned()),
                Some(letters) if !letters.is_empty() => {
                    flags.word(command, letters, (plain, valued), &mut words)?;
                }
                _ => flags.operands.push(word.clone()),
            }
        }
        Ok(flags)
    }

    fn word<'w>(
        &mut self,
        command: &str,
        letters: &str,
        (plain, valued): (&str, &str),
        next: &mut impl Iterator<Item = &'w String>,
    ) -> Result<(), Failure> {
        for (place, letter) in letters.char_indices() {
            if valued.contains(letter) {
                let rest = letters.get(place + letter.len_utf8()..).unwrap_or_default();
                let value = if rest.is_empty() { next.next().cloned() } else { Some(rest.to_owned()) };
                let missing = || Failure::usage(format!("{command}: -{letter} needs a value"));
                self.set.push((letter, value.ok_or_else(missing)?));
                return Ok(());
            }
            if !plain.contains(letter) {
                return Err(unknown(command, letter, plain, valued));
            }
            self.set.push((letter, String::new()));
        }
        Ok(())
    }

    pub(crate) fn has(&self, letter: char) -> bool {
        self.set.iter().any(|&(known, _)| known == letter)
    }

    /// Returns the number of times that a flag was given.
    pub(crate) fn count(&self, letter: char) -> usize {
        self.set.iter().filter(|&&(known, _)| known == letter).count()
    }

    /// The last value of a flag.
    pub(crate) fn value(&self, letter: char) -> Option<&str> {
        self.set.iter().rev().find(|(known, _)| *known == letter).map(|(_, value)| value.as_str())
    }

    /// The last value of a flag, as `T`.
    pub(crate) fn number<T: core::str::FromStr>(
        &self,
        command: &str,
        letter: char,
    ) -> Result<Option<T>, Failure> {
        let wrong =
            |text: &str| Failure::usage(format!("{command}: -{letter} cannot be `{text}`; give a number"));
        self.value(letter).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
    }

    /// The only operand.
    pub(crate) fn one_operand(&self, command: &str, what: &str) -> Result<&str, Failure> {
        match self.operands.as_slice() {
            [one] => Ok(one),
            [] => Err(Failure::usage(format!("{command}: {what} is missing"))),
            [_, extra, ..] => Err(extra_word(command, extra)),
        }
    }

    pub(crate) fn no_operands(&self, command: &str) -> Result<(), Failure> {
        self.operands.first().map_or(Ok(()), |extra| Err(extra_word(command, extra)))
    }
}

pub(crate) fn extra_word(command: &str, word: &str) -> Failure {
    Failure::usage(format!("{command}: `{word}` is one word too many; see pantala {command} --help"))
}

fn unknown(command: &str, letter: char, plain: &str, valued: &str) -> Failure {
    let known: Vec<String> = plain.chars().chain(valued.chars()).map(|known| format!("-{known}")).collect();
    Failure::usage(format!(
        "{command}: there is no flag -{letter}; known are {} (see pantala {command} --help)",
        known.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Flags, Failure> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Flags::read("netstat", &words, "rni", "w")
    }

    #[test]
    fn letters_may_be_combined_and_values_attached() {
        for line in ["-rn -w 1 lan", "-r -n -w1 lan", "-rnw1 lan", "lan -rnw 1"] {
            let flags = read(line).unwrap();
            assert!(flags.has('r') && flags.has('n') && !flags.has('i'), "{line}");
            assert_eq!(
                (flags.value('w'), flags.operands.as_slice()),
                (Some("1"), &["lan".to_owned()][..]),
                "{line}"
            );
        }
    }

    #[test]
    fn what_follows_two_dashes_is_no_flag() {
        assert_eq!(read("-r -- -n").unwrap().operands, ["-n"]);
    }

    #[test]
    fn unknown_letters_and_missing_values_are_usage_errors() {
        for (line, says) in [("-rx", "no flag -x; known are -r -n -i -w"), ("-w", "-w needs a value")] {
            let Err(Failure::Usage(text)) = read(line) else { panic!("{line}") };
            assert!(text.contains(says), "{text}");
        }
    }
}
