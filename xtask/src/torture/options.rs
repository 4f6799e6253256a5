//! The options of `cargo xtask torture`.

use anyhow::{Context as _, Result, bail};

pub(crate) const USAGE: &str = "\
usage: cargo xtask torture [--rounds N] [--seed S] [--points-only | --random-only] [--short | --deep] [--built]

  --rounds N      random rounds; default: 200, or 80 with --short
  --seed S        repeat the choices of an earlier campaign; printed at its beginning
  --points-only   every failpoint with every action, and no random rounds
  --random-only   only random rounds
  --short         as in CI: failpoints kill and fail, but do not abort, and there are fewer rounds
  --deep          also at the second, third, fifth and eighth pass of each failpoint
  --built         use the binary that tests have built, instead of a new build";

const ROUNDS: u64 = 200;
const SHORT_ROUNDS: u64 = 80;

/// The number of faults for each failpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Short,
    Usual,
    Deep,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) rounds: u64,
    pub(crate) seed: Option<u64>,
    pub(crate) points: bool,
    pub(crate) random: bool,
    pub(crate) depth: Depth,
    pub(crate) built: bool,
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options {
            rounds: ROUNDS,
            seed: None,
            points: true,
            random: true,
            depth: Depth::Usual,
            built: false,
        };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} what?\n{USAGE}"));
            match word {
                "--rounds" => options.rounds = number(value()?)?,
                "--seed" => options.seed = Some(number(value()?)?),
                "--points-only" => options.random = false,
                "--random-only" => options.points = false,
                "--short" => (options.depth, options.rounds) = (Depth::Short, SHORT_ROUNDS),
                "--deep" => options.depth = Depth::Deep,
                "--built" => options.built = true,
                unknown => bail!("unknown: {unknown}\n{USAGE}"),
            }
        }
        if !options.points && !options.random {
            bail!("--points-only and --random-only exclude each other");
        }
        Ok(options)
    }
}

fn number(word: &str) -> Result<u64> {
    word.parse().with_context(|| format!("{word} is not a number\n{USAGE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds, seed, points, random.
    #[track_caller]
    fn check(words: &[&str], expected: Option<(u64, Option<u64>, bool, bool)>) {
        let found = Options::parse(words).ok();
        assert_eq!(found.map(|o| (o.rounds, o.seed, o.points, o.random)), expected, "{words:?}");
    }

    #[test]
    fn words_say_how_much() {
        check(&[], Some((200, None, true, true)));
        check(&["--rounds", "9", "--seed", "7"], Some((9, Some(7), true, true)));
        check(&["--points-only"], Some((200, None, true, false)));
        check(&["--random-only"], Some((200, None, false, true)));
        check(&["--short"], Some((80, None, true, true)));
        check(&["--short", "--rounds", "3"], Some((3, None, true, true)));
        check(&["--random-only", "--points-only"], None);
        check(&["--rounds"], None);
        check(&["--rounds", "many"], None);
        check(&["--fast"], None);
    }
}
