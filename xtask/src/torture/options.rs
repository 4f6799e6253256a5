//! The words behind `cargo xtask torture`.

use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
usage: cargo xtask torture [--rounds N] [--seed S] [--points-only | --random-only] [--deep] [--binary FILE]

  --rounds N      random rounds; 200 if not given
  --seed S        repeat the choices of an earlier campaign; printed at its beginning
  --points-only   every failpoint with every action, and no random rounds
  --random-only   the other way round
  --deep          also at the second, third, fifth and eighth pass of each failpoint
  --binary FILE   this build of Proctor, with the victim beside it, instead of one made for the campaign";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) rounds: u64,
    pub(crate) seed: Option<u64>,
    pub(crate) points: bool,
    pub(crate) random: bool,
    pub(crate) deep: bool,
    pub(crate) binary: Option<PathBuf>,
}

impl Options {
    pub(crate) fn parse(words: &[&str]) -> Result<Options> {
        let mut options = Options {
            rounds: 200,
            seed: None,
            points: true,
            random: true,
            deep: false,
            binary: None,
        };
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} what?\n{USAGE}"));
            match word {
                "--rounds" => options.rounds = number(value()?)?,
                "--seed" => options.seed = Some(number(value()?)?),
                "--points-only" => options.random = false,
                "--random-only" => options.points = false,
                "--deep" => options.deep = true,
                "--binary" => options.binary = Some(PathBuf::from(value()?)),
                unknown => bail!("unknown: {unknown}\n{USAGE}"),
            }
        }
        if !options.points && !options.random {
            bail!("--points-only and --random-only leave nothing to do");
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
        check(&["--random-only", "--points-only"], None);
        check(&["--rounds"], None);
        check(&["--rounds", "many"], None);
        check(&["--fast"], None);
    }
}
