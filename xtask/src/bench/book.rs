//! The measured samples, one for each repetition, and their statistics.

use super::options::Part;
use super::replies::Asking;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Measure {
    Start,
    Stop,
    CrashOne,
    CrashOneWorst,
    CrashMany,
    CrashManyWorst,
    MemoryNone,
    MemoryMany,
    /// Right after commands, before memory was freed.
    MemoryAwake,
    MemoryEach,
    MainNone,
    MainMany,
    Idle,
    /// With this many services.
    Logs(usize),
    /// Lines lost, doubled or torn, for all numbers of writers together.
    Wrong,
    Fairness,
    StatusOne,
    StatusMany,
    ListOne,
    ListMany,
    /// `status` without other clients.
    CrowdNone,
    CrowdIdle(Port),
    CrowdSlow(Port),
    CrowdMemory,
    /// The status of one service over HTTP, as fast as clients request it.
    Requests,
    /// From the spawn of an MCP server to the handshake response.
    McpStart,
    McpFirst,
    McpTools,
    McpStatus,
    McpLogs,
    McpMemory,
    /// All everyday questions together; each is also in its own table.
    ReplyCalls,
    ReplyBytes,
    CodeSearch(Search),
    CodeRead,
    CodeList,
    CodeFind,
    CodeEdit,
    CodeStatus,
}

/// A search in the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Search {
    /// A text that few files contain.
    Text,
    /// A regular expression that starts with a literal.
    Pattern,
    /// Two words, ignoring case.
    AnyCase,
    /// A regular expression without a literal and without a match.
    Nothing,
}

impl Search {
    pub(crate) const ALL: [Search; 4] =
        [Search::Text, Search::Pattern, Search::AnyCase, Search::Nothing];

    fn name(self) -> &'static str {
        match self {
            Search::Text => "a text",
            Search::Pattern => "a regular expression",
            Search::AnyCase => "two words in any case",
            Search::Nothing => "a regular expression without a text in it",
        }
    }
}

/// The target port of a crowd.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    Tcp,
    Http,
}

impl Port {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Port::Tcp => "tcp",
            Port::Http => "http",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    Milliseconds,
    Kibibytes,
    Percent,
    MegabytesPerSecond,
    Lines,
    Times,
    PerSecond,
    Calls,
    Bytes,
}

/// Numbers of services that write at once.
pub(crate) const WRITERS: &[usize] = &[1, 10, 50];

impl Measure {
    /// All measures in the order of the tables, without those that have their own.
    pub(crate) fn all() -> Vec<Measure> {
        use Measure::*;
        let mut all = vec![Start, Stop, CrashOne, CrashOneWorst, CrashMany, CrashManyWorst];
        all.extend([MemoryNone, MemoryMany, MemoryAwake, MemoryEach, MainNone, MainMany, Idle]);
        all.extend(WRITERS.iter().map(|&writers| Logs(writers)));
        all.extend([Wrong, Fairness, StatusOne, StatusMany, ListOne, ListMany, CrowdNone]);
        all.extend([Port::Tcp, Port::Http].into_iter().flat_map(|p| [CrowdIdle(p), CrowdSlow(p)]));
        all.extend([CrowdMemory, Requests]);
        all.extend([McpStart, McpFirst, McpTools, McpStatus, McpLogs, McpMemory]);
        all.extend(Search::ALL.map(CodeSearch));
        all.extend([CodeRead, CodeList, CodeFind, CodeEdit, CodeStatus]);
        all
    }

    pub(crate) fn part(self) -> Part {
        use Measure::*;
        match self {
            Start | Stop => Part::Start,
            CrashOne | CrashOneWorst | CrashMany | CrashManyWorst => Part::Crash,
            MemoryNone | MemoryMany | MemoryAwake | MemoryEach | MainNone | MainMany => {
                Part::Memory
            }
            Idle => Part::Idle,
            Logs(_) | Wrong | Fairness => Part::Logs,
            StatusOne | StatusMany | ListOne | ListMany => Part::Cli,
            CrowdNone | CrowdIdle(_) | CrowdSlow(_) | CrowdMemory => Part::Hostile,
            Requests => Part::Rest,
            McpStart | McpFirst | McpTools | McpStatus | McpLogs | McpMemory => Part::Mcp,
            ReplyCalls | ReplyBytes => Part::Replies,
            CodeSearch(_) | CodeRead | CodeList | CodeFind | CodeEdit | CodeStatus => Part::Code,
        }
    }

    pub(crate) fn unit(self) -> Unit {
        use Measure::*;
        match self {
            Start | Stop | CrashOne | CrashOneWorst | CrashMany | CrashManyWorst => {
                Unit::Milliseconds
            }
            MemoryNone | MemoryMany | MemoryAwake | MemoryEach | MainNone | MainMany
            | CrowdMemory | McpMemory => Unit::Kibibytes,
            Idle => Unit::Percent,
            Logs(_) => Unit::MegabytesPerSecond,
            Wrong => Unit::Lines,
            Fairness => Unit::Times,
            StatusOne | StatusMany | ListOne | ListMany => Unit::Milliseconds,
            CrowdNone | CrowdIdle(_) | CrowdSlow(_) => Unit::Milliseconds,
            Requests => Unit::PerSecond,
            McpStart | McpFirst | McpTools | McpStatus | McpLogs => Unit::Milliseconds,
            CodeSearch(_) | CodeRead | CodeList | CodeFind | CodeEdit | CodeStatus => {
                Unit::Milliseconds
            }
            ReplyCalls => Unit::Calls,
            ReplyBytes => Unit::Bytes,
        }
    }

    /// The title, with `many` as the number of services.
    pub(crate) fn title(self, many: usize) -> String {
        use Measure::*;
        match self {
            Start => format!("Start of {many} services: from launch to the last one's main"),
            Stop => format!("Stop of {many} services: from the command to the last one gone"),
            CrashOne => "Crash to running again, 1 service, median".to_owned(),
            CrashOneWorst => "Crash to running again, 1 service, 99th percentile".to_owned(),
            CrashMany => format!("Crash to running again, {many} services, median"),
            CrashManyWorst => format!("Crash to running again, {many} services, 99th percentile"),
            MemoryNone => "Memory (PSS) of all its processes, no service".to_owned(),
            MemoryMany => format!("Memory (PSS) of all its processes, {many} services, at rest"),
            MemoryAwake => {
                format!("Memory (PSS) of all its processes, {many} services, just after commands")
            }
            MemoryEach => "Memory (PSS), share of one service".to_owned(),
            MainNone => "Memory (PSS) of the parent of services alone, no service".to_owned(),
            MainMany => format!("Memory (PSS) of the parent of services alone, {many} services"),
            Idle => format!("CPU time while {many} services do nothing, of one core"),
            Logs(1) => "Log capture with rotation, 1 service".to_owned(),
            Logs(writers) => format!("Log capture with rotation, {writers} services at once"),
            Wrong => "Log capture: lines lost, doubled or torn".to_owned(),
            Fairness => "Log capture, 50 services: slowest to fastest writer".to_owned(),
            StatusOne => "Status of a service as a whole command, 1 service".to_owned(),
            StatusMany => format!("Status of a service as a whole command, {many} services"),
            ListOne => "List as a whole command, 1 service".to_owned(),
            ListMany => format!("List as a whole command, {many} services"),
            CrowdNone => "Status as a whole command, 99th percentile".to_owned(),
            CrowdIdle(port) => {
                format!("The same while a crowd sits idle on the {} port", port.name())
            }
            CrowdSlow(port) => {
                format!("The same while a crowd dawdles on the {} port", port.name())
            }
            CrowdMemory => "Memory (PSS) of all its processes, with the worst of crowds".to_owned(),
            Requests => "Status of a service over HTTP, as often as clients can ask".to_owned(),
            McpStart => "MCP: from the start of a server to its answer of the handshake".to_owned(),
            McpFirst => "MCP: from the start of a server to the first answer of a tool".to_owned(),
            McpTools => "MCP: list of tools".to_owned(),
            McpStatus => "MCP: a call that says how things are".to_owned(),
            McpLogs => "MCP: a call that reads a page of text".to_owned(),
            McpMemory => "MCP: memory (PSS) of all its processes after such calls".to_owned(),
            ReplyCalls => "Everyday questions of an assistant, calls".to_owned(),
            ReplyBytes => "Everyday questions of an assistant, bytes".to_owned(),
            CodeSearch(search) => {
                format!("Code: search of the tree for {}, as a whole command", search.name())
            }
            CodeRead => "Code over MCP: read a file of 20 KB".to_owned(),
            CodeList => "Code over MCP: list a folder of 500 files with their sizes".to_owned(),
            CodeFind => "Code over MCP: find a file in the tree by its name".to_owned(),
            CodeEdit => "Code over MCP: replace a line of a file of 20 KB".to_owned(),
            CodeStatus => "Code over MCP: git status of the tree".to_owned(),
        }
    }

    /// Higher is better only for throughput.
    pub(crate) fn more_is_better(self) -> bool {
        matches!(self.unit(), Unit::MegabytesPerSecond | Unit::PerSecond)
    }
}

/// All samples of one measure of one supervisor, sorted; at least one.
#[derive(Debug, Clone)]
pub(crate) struct Samples {
    sorted: Vec<f64>,
}

impl Samples {
    pub(crate) fn least(&self) -> f64 {
        self.sorted[0]
    }

    pub(crate) fn most(&self) -> f64 {
        self.sorted[self.sorted.len() - 1]
    }

    pub(crate) fn median(&self) -> f64 {
        percentile(&self.sorted, 50)
    }

    pub(crate) fn best(&self, measure: Measure) -> f64 {
        if measure.more_is_better() { self.most() } else { self.least() }
    }
}

/// Percentile of sorted values; the lower of two equally near ones.
pub(crate) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100]
}

#[derive(Default)]
pub(crate) struct Book {
    entries: Vec<(Measure, String, Samples)>,
    /// Failures and lost lines.
    pub(crate) notes: Vec<String>,
    /// Settings of MCP servers.
    pub(crate) settings: Vec<(String, String)>,
    /// The questions asked and their costs.
    pub(crate) askings: Vec<Asking>,
}

impl Book {
    pub(crate) fn add(&mut self, measure: Measure, who: &str, value: f64) {
        let found = self.entries.iter_mut().find(|(m, name, _)| *m == measure && name == who);
        match found {
            Some((_, _, samples)) => {
                samples.sorted.push(value);
                samples.sorted.sort_by(f64::total_cmp);
            }
            None => {
                self.entries.push((measure, who.to_owned(), Samples { sorted: vec![value] }));
            }
        }
    }

    pub(crate) fn note(&mut self, note: String) {
        println!("  {note}");
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    /// The measured supervisors, in order of measurement.
    pub(crate) fn of(&self, measure: Measure) -> Vec<(&str, &Samples)> {
        let entries = self.entries.iter().filter(|(m, _, _)| *m == measure);
        entries.map(|(_, name, samples)| (name.as_str(), samples)).collect()
    }

    pub(crate) fn median(&self, measure: Measure, who: &str) -> Option<f64> {
        self.samples(measure, who).map(Samples::median)
    }

    pub(crate) fn most(&self, measure: Measure, who: &str) -> Option<f64> {
        self.samples(measure, who).map(Samples::most)
    }

    fn samples(&self, measure: Measure, who: &str) -> Option<&Samples> {
        self.of(measure).into_iter().find(|(name, _)| *name == who).map(|(_, samples)| samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(measure: Measure, values: &[f64], [median, best, least, most]: [f64; 4]) {
        let mut book = Book::default();
        values.iter().for_each(|&value| book.add(measure, "x", value));
        let of = book.of(measure);
        let (_, samples) = of[0];
        let found = [samples.median(), samples.best(measure), samples.least(), samples.most()];
        assert_eq!(found, [median, best, least, most], "{values:?}");
    }

    #[test]
    fn median_best_and_noise_are_kept() {
        check(Measure::Start, &[5.0], [5.0, 5.0, 5.0, 5.0]);
        check(Measure::Start, &[5.0, 3.0, 4.0], [4.0, 3.0, 3.0, 5.0]);
        check(Measure::Logs(1), &[5.0, 3.0, 4.0], [4.0, 5.0, 3.0, 5.0]);
    }

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(percentile(&values, 50), 100.0);
        assert_eq!(percentile(&values, 99), 198.0);
        assert_eq!(percentile(&[7.0], 99), 7.0);
    }
}
