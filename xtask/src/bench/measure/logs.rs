//! Log capture: services that write as fast as they can, and the stored output.

use super::super::adapter::{Adapter, Case};
use super::super::book::{Book, Measure, WRITERS};
use super::super::clock::{Nanoseconds, now, seconds};
use super::super::interrupt;
use super::super::options::Plan;
use super::super::reports::Kind;
use super::super::scratch::Scratch;
use super::super::session::{SOCKET, Session};
use super::{LINE, Programs, ROTATE};
use crate::step::output;
use anyhow::{Context as _, Result, ensure};
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// If nothing more is stored for this long, missing output counts as lost.
const STALLED: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(1);
/// Bytes at the end of a file to search for the last line.
const END: u64 = 4096;

pub(crate) struct Capture<'a> {
    pub(crate) scratch: &'a Scratch,
    pub(crate) programs: &'a Programs,
    pub(crate) plan: &'a Plan,
}

impl Capture<'_> {
    pub(crate) fn measure(&self, who: &str, adapter: &dyn Adapter, book: &mut Book) -> Result<()> {
        let mut wrong = 0;
        for &writers in WRITERS {
            wrong += self
                .with(writers, who, adapter, book)
                .with_context(|| format!("with {writers} services that write"))?;
        }
        book.add(Measure::Wrong, who, wrong as f64);
        Ok(())
    }

    /// Returns the number of wrong lines.
    fn with(
        &self,
        writers: usize,
        who: &str,
        adapter: &dyn Adapter,
        book: &mut Book,
    ) -> Result<u64> {
        let lines = self.plan.log_bytes / LINE / writers as u64;
        let folder = self.scratch.fresh(who)?;
        let command = self.programs.spam(&folder.join(SOCKET).display().to_string(), lines * LINE);
        let case = Case { folder, services: writers, command, rotate: ROTATE };
        // Earlier writes must not be in flight to the disk now.
        rustix::fs::sync();
        let mut session = Session::launch(adapter, case)?;
        session.all_begun()?;
        session.settle(self.plan.settle)?;
        self.have_memory_ready()?;
        let (begin, slowness) = write(&mut session)?;
        let end = stored(adapter, &session.case, lines)?;
        let bytes = lines * LINE * writers as u64;
        if let Some(end) = end {
            book.add(Measure::Logs(writers), who, bytes as f64 / 1e6 / seconds(end - begin));
        } else {
            book.note(format!("{who}, {writers} services that write: not all was stored"));
        }
        if WRITERS.last() == Some(&writers) {
            book.add(Measure::Fairness, who, slowness);
        }
        self.verify(who, adapter, &session.case, lines, book)
    }

    /// Touches the memory that the logs will need. A virtual machine may return free memory to its
    /// host, and getting it back takes several times longer than the whole measurement.
    fn have_memory_ready(&self) -> Result<()> {
        /// Extra memory for pipes, indexes and supervisors.
        const MORE: u64 = 200 << 20;
        const PIECE: u64 = 1 << 20;
        let path = self.scratch.folder.join("memory");
        let mut file = File::create(&path).context("cannot write to the scratch folder")?;
        let piece = vec![0; PIECE as usize];
        for _ in 0..(self.plan.log_bytes + MORE) / PIECE {
            file.write_all(&piece).context("cannot write to the scratch folder")?;
        }
        drop(file);
        std::fs::remove_file(&path).context("cannot tidy the scratch folder")
    }

    /// Checks every line of every service: once and in order. Errors are checked twice, because
    /// files may just be renamed.
    fn verify(
        &self,
        who: &str,
        adapter: &dyn Adapter,
        case: &Case,
        lines: u64,
        book: &mut Book,
    ) -> Result<u64> {
        let mut wrong = self.wrong(adapter, case, lines)?;
        if wrong != [0; 3] {
            interrupt::pause(self.plan.settle)?;
            wrong = self.wrong(adapter, case, lines)?;
        }
        if wrong != [0; 3] {
            let [lost, doubled, torn] = wrong;
            let all = lines * case.services as u64;
            book.note(format!(
                "{who}, {} services that write: of {all} lines {lost} lost, {doubled} doubled, {torn} torn",
                case.services
            ));
        }
        Ok(wrong.iter().sum())
    }

    /// Lines lost, doubled and torn, of all services.
    fn wrong(&self, adapter: &dyn Adapter, case: &Case, lines: u64) -> Result<[u64; 3]> {
        let mut wrong = [0; 3];
        for service in 0..case.services {
            let mut verify = Command::new(&self.programs.verify);
            verify.arg(LINE.to_string()).arg(lines.to_string()).args(adapter.logs(case, service)?);
            let printed = output(verify)?;
            let counts: Result<Vec<u64>, _> = printed.split_whitespace().map(str::parse).collect();
            let counts = counts.context("the verifier prints numbers")?;
            ensure!(counts.len() == 4, "the verifier printed {printed}");
            wrong.iter_mut().zip(&counts[1..]).for_each(|(sum, count)| *sum += count);
        }
        Ok(wrong)
    }
}

/// Lets the services write; returns the moment of the first byte, and the ratio of the slowest to
/// the fastest, both from that moment.
fn write(session: &mut Session<'_>) -> Result<(Nanoseconds, f64)> {
    session.reports.open_gate()?;
    let (mut begins, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..session.case.services {
        let report = session.report(Kind::Written).context("a service did not write everything")?;
        begins.push(report.begin);
        ends.push(report.end);
    }
    let first = begins.into_iter().min().context("nobody wrote")?;
    ends.sort_unstable();
    let time = |end: Option<&Nanoseconds>| end.map_or(1, |end| (end - first).max(1)) as f64;
    Ok((first, time(ends.last()) / time(ends.first())))
}

/// The moment at which everything is stored; `None` if that does not happen.
fn stored(adapter: &dyn Adapter, case: &Case, lines: u64) -> Result<Option<Nanoseconds>> {
    let mut open: Vec<usize> = (0..case.services).collect();
    let mut before = 0;
    let mut progress = Instant::now();
    loop {
        let mut size = 0;
        let mut failure = None;
        open.retain(|&service| match is_complete(adapter, case, service, lines) {
            Ok((complete, bytes)) => {
                size += bytes;
                !complete
            }
            Err(why) => {
                failure = Some(why);
                true
            }
        });
        if let Some(why) = failure {
            return Err(why);
        }
        if open.is_empty() {
            return Ok(Some(now()));
        }
        if size != before {
            (before, progress) = (size, Instant::now());
        }
        if progress.elapsed() > STALLED {
            return Ok(None);
        }
        interrupt::pause(LOOK)?;
    }
}

/// Checks by size if the log has only the service's bytes, otherwise by its last line.
fn is_complete(
    adapter: &dyn Adapter,
    case: &Case,
    service: usize,
    lines: u64,
) -> Result<(bool, u64)> {
    let files = adapter.logs(case, service)?;
    // A file that is being renamed is counted the next time.
    let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |file| file.len());
    let bytes: u64 = files.iter().map(size).sum();
    let complete = bytes >= lines * LINE
        && (!adapter.adds_to_lines()
            || files.last().is_some_and(|file| ends_with(file, lines - 1).unwrap_or(false)));
    Ok((complete, bytes))
}

fn ends_with(file: &Path, number: u64) -> Result<bool> {
    let mut file = std::fs::File::open(file)?;
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(END)))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let text = String::from_utf8_lossy(&end);
    Ok(text.ends_with('\n') && text.contains(&format!("#{number:012} ")))
}
