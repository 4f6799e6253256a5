//! Start, stop, crash, memory and idle CPU of idle services.
//!
//! One session with all services covers all of it: start, rest, memory, idle CPU, commands,
//! crashes, stop.

use super::super::adapter::{Adapter, Case};
use super::super::book::{Book, Measure, percentile};
use super::super::clock::{Nanoseconds, milliseconds, now, seconds};
use super::super::interrupt;
use super::super::options::{Options, Part};
use super::super::process;
use super::super::scratch::Scratch;
use super::super::session::{SOCKET, Session};
use super::{Programs, ROTATE, cli};
use crate::step::output;
use anyhow::{Context as _, Result};
use std::process::Command;
use std::time::Instant;

pub(crate) struct Life<'a> {
    pub(crate) scratch: &'a Scratch,
    pub(crate) programs: &'a Programs,
    pub(crate) options: &'a Options,
}

impl Life<'_> {
    /// Takes every requested measure once.
    pub(crate) fn measure(&self, who: &str, adapter: &dyn Adapter, book: &mut Book) -> Result<()> {
        let wants = |part| self.options.wants(part) && adapter.takes(part);
        if wants(Part::Memory) && adapter.runs_empty() {
            self.with_none(who, adapter, book).context("with no service")?;
        }
        if wants(Part::Crash) || wants(Part::Cli) {
            self.with_one(who, adapter, book).context("with 1 service")?;
        }
        if [Part::Start, Part::Crash, Part::Memory, Part::Idle, Part::Cli].into_iter().any(wants) {
            let many = self.options.plan.services;
            self.with_many(who, adapter, book).with_context(|| format!("with {many} services"))?;
        }
        Ok(())
    }

    fn launch<'b>(
        &self,
        who: &str,
        adapter: &'b dyn Adapter,
        services: usize,
    ) -> Result<Session<'b>> {
        let folder = self.scratch.fresh(who)?;
        let socket = folder.join(SOCKET).display().to_string();
        let command = self.programs.idle(&socket);
        Session::launch(adapter, Case { folder, services, command, rotate: ROTATE })
    }

    fn with_none(&self, who: &str, adapter: &dyn Adapter, book: &mut Book) -> Result<()> {
        let mut session = self.launch(who, adapter, 0)?;
        session.settle(self.options.plan.settle)?;
        let (main, all) = memory(&session)?;
        book.add(Measure::MainNone, who, main);
        book.add(Measure::MemoryNone, who, all);
        Ok(())
    }

    fn with_one(&self, who: &str, adapter: &dyn Adapter, book: &mut Book) -> Result<()> {
        let mut session = self.launch(who, adapter, 1)?;
        session.all_begun()?;
        session.settle(self.options.plan.settle)?;
        if self.options.wants(Part::Cli) {
            let measures = [Measure::StatusOne, Measure::ListOne];
            self.commands(who, adapter, &session.case, measures, book)?;
        }
        if self.options.wants(Part::Crash) {
            let measures = [Measure::CrashOne, Measure::CrashOneWorst];
            self.crashes(who, &mut session, measures, book)?;
        }
        Ok(())
    }

    fn with_many(&self, who: &str, adapter: &dyn Adapter, book: &mut Book) -> Result<()> {
        let plan = &self.options.plan;
        let mut session = self.launch(who, adapter, plan.services)?;
        let started = session.all_begun()?;
        session.settle(plan.settle)?;
        if self.options.wants(Part::Memory) {
            let (main, all) = memory(&session)?;
            book.add(Measure::MainMany, who, main);
            book.add(Measure::MemoryMany, who, all);
            if let Some(none) = book.median(Measure::MemoryNone, who) {
                book.add(Measure::MemoryEach, who, (all - none) / plan.services as f64);
            }
        }
        if self.options.wants(Part::Idle) {
            book.add(Measure::Idle, who, self.idle_cpu(&session)?);
        }
        if self.options.wants(Part::Cli) {
            let measures = [Measure::StatusMany, Measure::ListMany];
            self.commands(who, adapter, &session.case, measures, book)?;
            if self.options.wants(Part::Memory) {
                book.add(Measure::MemoryAwake, who, memory(&session)?.1);
            }
        }
        if self.options.wants(Part::Crash) {
            let measures = [Measure::CrashMany, Measure::CrashManyWorst];
            self.crashes(who, &mut session, measures, book)?;
        }
        if self.options.wants(Part::Start) {
            book.add(Measure::Start, who, milliseconds(started));
            session.settle(plan.settle)?;
            book.add(Measure::Stop, who, milliseconds(session.stop()?));
        }
        Ok(())
    }

    /// Share of one core in percent used by everything but the services.
    fn idle_cpu(&self, session: &Session<'_>) -> Result<f64> {
        let pids: Vec<String> = session.supervisors()?.iter().map(u32::to_string).collect();
        let used = || -> Result<Nanoseconds> {
            let mut cpu = Command::new(&self.programs.cpu);
            cpu.args(&pids);
            output(cpu)?.trim().parse().context("the sum of CPU times is a number")
        };
        let (begin, before) = (now(), used()?);
        interrupt::pause(self.options.plan.idle)?;
        let (after, end) = (used()?, now());
        Ok(seconds(after.saturating_sub(before)) / seconds(end - begin) * 100.0)
    }

    /// Runs the same commands for both numbers of services: status, then list.
    fn commands(
        &self,
        who: &str,
        adapter: &dyn Adapter,
        case: &Case,
        [status, list]: [Measure; 2],
        book: &mut Book,
    ) -> Result<()> {
        let middle = case.services / 2;
        for (measure, command) in
            [(status, adapter.status(case, middle)), (list, adapter.list(case))]
        {
            if let Some(command) = command {
                let time = cli::median(self.programs, &self.options.plan, command, case)?;
                book.add(measure, who, milliseconds(time));
            }
        }
        Ok(())
    }

    /// Kills a random service repeatedly; returns the median, then the 99th percentile.
    fn crashes(
        &self,
        who: &str,
        session: &mut Session<'_>,
        [median, worst]: [Measure; 2],
        book: &mut Book,
    ) -> Result<()> {
        let begin = Instant::now();
        let mut random = Random(now() | 1);
        let mut times = Vec::new();
        while times.len() < self.options.plan.kills && begin.elapsed() < self.options.plan.patience
        {
            let service = random.below(session.services.len());
            times.push(milliseconds(session.crash(service)?));
        }
        times.sort_by(f64::total_cmp);
        book.add(median, who, percentile(&times, 50));
        book.add(worst, who, percentile(&times, 99));
        Ok(())
    }
}

/// Memory of the main process, and of all processes that are not services.
fn memory(session: &Session<'_>) -> Result<(f64, f64)> {
    let all: u64 = session.supervisors()?.into_iter().map(process::pss).sum();
    Ok((process::pss(session.main()?) as f64, all as f64))
}

/// Good enough to choose victims: xorshift.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("less than a limit that fits")
    }
}
