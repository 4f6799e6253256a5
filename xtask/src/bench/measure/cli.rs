//! Whole commands, from before the spawn to after the exit, and the minimum cost of any program.

use super::super::adapter::Case;
use super::super::book::{Book, Measure};
use super::super::clock::{Nanoseconds, milliseconds};
use super::super::options::Plan;
use super::super::scratch::Scratch;
use super::super::session::outside;
use super::{Programs, ROTATE};
use crate::step::output;
use anyhow::{Context as _, Result, ensure};
use std::process::{Command, Stdio};

/// The base of the ratios: an empty `main` in C, static.
pub(crate) const MINIMAL: &str = "minimal program";

const MEASURES: [Measure; 4] =
    [Measure::StatusOne, Measure::StatusMany, Measure::ListOne, Measure::ListMany];

/// A program that only exits: the minimum cost. With libc, because programs normally use it; the
/// other shows the share of libc.
pub(crate) fn least(
    scratch: &Scratch,
    programs: &Programs,
    plan: &Plan,
    book: &mut Book,
) -> Result<()> {
    let folder = scratch.fresh("nothing")?;
    let case = Case { folder, services: 0, command: Vec::new(), rotate: ROTATE };
    for (who, program) in
        [("bare, without libc", &programs.nothing), (MINIMAL, &programs.nothing_with_libc)]
    {
        let time = median(programs, plan, Command::new(program), &case)?;
        for measure in MEASURES {
            book.add(measure, who, milliseconds(time));
        }
    }
    Ok(())
}

pub(crate) fn median(
    programs: &Programs,
    plan: &Plan,
    command: Command,
    case: &Case,
) -> Result<Nanoseconds> {
    let times = times(programs, plan, command, case)?;
    Ok(times[times.len() / 2])
}

/// Returns sorted times, at least one. Runs in the environment of the case, with output discarded.
pub(crate) fn times(
    programs: &Programs,
    plan: &Plan,
    command: Command,
    case: &Case,
) -> Result<Vec<Nanoseconds>> {
    let mut timer = Command::new(&programs.timer);
    timer.arg(plan.commands.to_string()).arg(plan.patience.as_secs().to_string());
    timer.arg(command.get_program()).args(command.get_args());
    let own = command.get_envs().filter_map(|(key, value)| Some((key, value?)));
    timer.envs(own);
    let mut timer = outside(timer, &case.folder);
    timer.stdout(Stdio::piped()).stderr(Stdio::piped());
    let printed = output(timer)?;
    let times: Result<Vec<Nanoseconds>, _> = printed.lines().map(str::parse).collect();
    let mut times = times.context("the timer prints numbers")?;
    ensure!(!times.is_empty(), "no command was timed");
    times.sort_unstable();
    Ok(times)
}
