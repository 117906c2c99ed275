use super::fuzz_bodies::compiled_equals_plain;
use crate::base::secret::Secret;

#[test]
fn what_is_compiled_finds_what_the_rules_say_one_by_one() {
    let mut secret = Secret::new(0x5eed);
    let mut asked = 0;
    for _ in 0..2600 {
        let words = core::iter::repeat_with(|| secret.draw().to_le_bytes()).take(1200);
        asked += compiled_equals_plain(&words.flatten().collect::<Vec<_>>());
    }
    assert!(asked > 200_000, "{asked} packets were asked about");
}
