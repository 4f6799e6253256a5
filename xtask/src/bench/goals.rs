//! Goals for Proctor's figures, as ratios to the bare kernel in the same run or as limits.

use super::OURS;
use super::book::{Book, Measure, Port, Search};
use super::code::RG;
use super::mcp::ours::OVER_HTTP;
use super::measure::cli::MINIMAL;
use super::measure::rest;
use super::options::is_peer;

pub(crate) struct Goal {
    pub(crate) says: &'static str,
    figure: Figure,
    limit: Limit,
}

#[derive(Clone, Copy)]
enum Figure {
    /// Ratio of our figure to one of the bare kernel.
    Ratio(Measure, &'static str),
    Value(Measure),
    /// The worst of all repetitions: a single failure is too many.
    Worst(Measure),
    /// Ratio of Proctor's figure to that of the best peer.
    ToBestPeer(Measure),
    /// Ratio of another figure of ours to that of the best peer.
    OursToBestPeer(Measure, &'static str),
    /// Factor by which Proctor beats the best peer.
    Ahead(Measure),
    /// Ratio of one of our figures to another.
    Within(Measure, Measure),
    /// Difference between none and many services, divided by their number.
    KeeperEach,
}

#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
    LessThan(f64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Verdict {
    Ok(f64),
    NotYet(f64),
    NotMeasured,
}

const fn goal(says: &'static str, figure: Figure, limit: Limit) -> Goal {
    Goal { says, figure, limit }
}

const fn to_bare(measure: Measure) -> Figure {
    Figure::Ratio(measure, "bare")
}

const fn to_quiet(measure: Measure) -> Figure {
    Figure::Within(measure, Measure::CrowdNone)
}

const fn to_minimal(measure: Measure) -> Figure {
    Figure::Ratio(measure, MINIMAL)
}

const fn to_splice(measure: Measure) -> Figure {
    Figure::Ratio(measure, "bare splice")
}

pub(crate) const GOALS: &[Goal] = &[
    goal("start of all services, ≤ 1.6 × bare", to_bare(Measure::Start), Limit::AtMost(1.6)),
    goal(
        "start of all services, ahead of every peer (< 1 × the fastest)",
        Figure::ToBestPeer(Measure::Start),
        Limit::LessThan(1.0),
    ),
    goal("stop of all services, ≤ 2 × bare", to_bare(Measure::Stop), Limit::AtMost(2.0)),
    goal(
        "crash to running again with 1 service, median, ≤ 1.5 × bare",
        to_bare(Measure::CrashOne),
        Limit::AtMost(1.5),
    ),
    goal(
        "crash to running again with all services, median, ≤ 1.5 × bare",
        to_bare(Measure::CrashMany),
        Limit::AtMost(1.5),
    ),
    goal(
        "keeper with no service, ≤ 1536 KiB",
        Figure::Value(Measure::MainNone),
        Limit::AtMost(1536.0),
    ),
    goal("keeper, for each service, ≤ 1.5 KiB", Figure::KeeperEach, Limit::AtMost(1.5)),
    goal(
        "all processes with no service, ≤ 10240 KiB",
        Figure::Value(Measure::MemoryNone),
        Limit::AtMost(10240.0),
    ),
    goal(
        "all processes with all services, ≤ 16384 KiB",
        Figure::Value(Measure::MemoryMany),
        Limit::AtMost(16384.0),
    ),
    goal(
        "idle CPU with all services, < 0.01 % of a core",
        Figure::Value(Measure::Idle),
        Limit::LessThan(0.01),
    ),
    goal(
        "log capture of 1 service, ≥ 0.9 × bare splice",
        to_splice(Measure::Logs(1)),
        Limit::AtLeast(0.9),
    ),
    goal(
        "log capture of 10 services, ≥ 0.9 × bare splice",
        to_splice(Measure::Logs(10)),
        Limit::AtLeast(0.9),
    ),
    goal(
        "log capture of 1 service, ahead of every peer (> 1 × the fastest)",
        Figure::ToBestPeer(Measure::Logs(1)),
        Limit::AtLeast(1.0),
    ),
    goal(
        "log capture of 10 services, ahead of every peer (> 1 × the fastest)",
        Figure::ToBestPeer(Measure::Logs(10)),
        Limit::AtLeast(1.0),
    ),
    goal("log capture, no line lost", Figure::Worst(Measure::Wrong), Limit::AtMost(0.0)),
    goal(
        "log capture of 50 services, fair: slowest ≤ 2 × fastest",
        Figure::Value(Measure::Fairness),
        Limit::AtMost(2.0),
    ),
    goal(
        "`status NAME` with 1 service, ≤ 2 × a minimal static program",
        to_minimal(Measure::StatusOne),
        Limit::AtMost(2.0),
    ),
    goal(
        "`status NAME` with all services, ≤ 2 × a minimal static program",
        to_minimal(Measure::StatusMany),
        Limit::AtMost(2.0),
    ),
    goal(
        "`list` with all services, ≤ 5 × a minimal static program",
        to_minimal(Measure::ListMany),
        Limit::AtMost(5.0),
    ),
    goal(
        "`status` with a crowd of idle clients on the TCP port, 99th percentile, ≤ 3 × without",
        to_quiet(Measure::CrowdIdle(Port::Tcp)),
        Limit::AtMost(3.0),
    ),
    goal(
        "`status` with a crowd of slow clients on the TCP port, 99th percentile, ≤ 3 × without",
        to_quiet(Measure::CrowdSlow(Port::Tcp)),
        Limit::AtMost(3.0),
    ),
    goal(
        "`status` with a crowd of idle clients on the HTTP port, 99th percentile, ≤ 3 × without",
        to_quiet(Measure::CrowdIdle(Port::Http)),
        Limit::AtMost(3.0),
    ),
    goal(
        "`status` with a crowd of slow clients on the HTTP port, 99th percentile, ≤ 3 × without",
        to_quiet(Measure::CrowdSlow(Port::Http)),
        Limit::AtMost(3.0),
    ),
    goal(
        "status over HTTP, requests a second, ≥ 0.5 × a bare axum server with a fixed body",
        Figure::Ratio(Measure::Requests, rest::BARE),
        Limit::AtLeast(0.5),
    ),
    goal(
        "MCP server to its handshake, ≥ 20 × faster than every peer",
        Figure::Ahead(Measure::McpStart),
        Limit::AtLeast(20.0),
    ),
    goal(
        "MCP server to the first answer of a tool, ≥ 20 × faster than every peer",
        Figure::Ahead(Measure::McpFirst),
        Limit::AtLeast(20.0),
    ),
    goal(
        "MCP memory with daemon and keeper, ≥ 5 × less than every peer",
        Figure::Ahead(Measure::McpMemory),
        Limit::AtLeast(5.0),
    ),
    goal(
        "MCP list of tools, never slower (≤ 1 × the fastest peer)",
        Figure::ToBestPeer(Measure::McpTools),
        Limit::AtMost(1.0),
    ),
    goal(
        "MCP status, never slower (≤ 1 × the fastest peer)",
        Figure::ToBestPeer(Measure::McpStatus),
        Limit::AtMost(1.0),
    ),
    goal(
        "MCP log read, never slower (≤ 1 × the fastest peer)",
        Figure::ToBestPeer(Measure::McpLogs),
        Limit::AtMost(1.0),
    ),
    goal(
        "MCP status over HTTP, never slower (≤ 1 × the fastest peer over stdio)",
        Figure::OursToBestPeer(Measure::McpStatus, OVER_HTTP),
        Limit::AtMost(1.0),
    ),
    goal(
        "MCP log read over HTTP, never slower (≤ 1 × the fastest peer over stdio)",
        Figure::OursToBestPeer(Measure::McpLogs, OVER_HTTP),
        Limit::AtMost(1.0),
    ),
    goal(
        "everyday questions of an assistant, fewer calls than every peer (< 1 × the fewest)",
        Figure::ToBestPeer(Measure::ReplyCalls),
        Limit::LessThan(1.0),
    ),
    goal(
        "everyday questions of an assistant, fewer bytes than every peer (< 1 × the fewest)",
        Figure::ToBestPeer(Measure::ReplyBytes),
        Limit::LessThan(1.0),
    ),
    goal(
        "search of the tree for a text, ≤ 1.2 × rg",
        Figure::Ratio(Measure::CodeSearch(Search::Text), RG),
        Limit::AtMost(1.2),
    ),
    goal(
        "search of the tree for a regular expression, ≤ 1.2 × rg",
        Figure::Ratio(Measure::CodeSearch(Search::Pattern), RG),
        Limit::AtMost(1.2),
    ),
    goal(
        "search of the tree for two words in any case, ≤ 1.2 × rg",
        Figure::Ratio(Measure::CodeSearch(Search::AnyCase), RG),
        Limit::AtMost(1.2),
    ),
    goal(
        "search of the tree for a regular expression without a text in it, ≤ 1.2 × rg",
        Figure::Ratio(Measure::CodeSearch(Search::Nothing), RG),
        Limit::AtMost(1.2),
    ),
    goal(
        "read over MCP, ahead of every peer (< 1 × the fastest)",
        Figure::ToBestPeer(Measure::CodeRead),
        Limit::LessThan(1.0),
    ),
    goal(
        "list of a folder over MCP, ahead of every peer (< 1 × the fastest)",
        Figure::ToBestPeer(Measure::CodeList),
        Limit::LessThan(1.0),
    ),
    goal(
        "find of a file over MCP, ahead of every peer (< 1 × the fastest)",
        Figure::ToBestPeer(Measure::CodeFind),
        Limit::LessThan(1.0),
    ),
    goal(
        "edit over MCP, ahead of every peer (< 1 × the fastest)",
        Figure::ToBestPeer(Measure::CodeEdit),
        Limit::LessThan(1.0),
    ),
    goal(
        "git status over MCP, ahead of every peer (< 1 × the fastest)",
        Figure::ToBestPeer(Measure::CodeStatus),
        Limit::LessThan(1.0),
    ),
];

impl Goal {
    pub(crate) fn verdict(&self, book: &Book, services: usize) -> Verdict {
        let Some(value) = self.figure.value(book, services) else { return Verdict::NotMeasured };
        let reached = match self.limit {
            Limit::AtMost(limit) => value <= limit,
            Limit::AtLeast(limit) => value >= limit,
            Limit::LessThan(limit) => value < limit,
        };
        if reached { Verdict::Ok(value) } else { Verdict::NotYet(value) }
    }
}

impl Figure {
    fn value(self, book: &Book, services: usize) -> Option<f64> {
        let own = |measure| book.median(measure, OURS);
        match self {
            Figure::Ratio(measure, base) => Some(own(measure)? / book.median(measure, base)?),
            Figure::Value(measure) => own(measure),
            Figure::Within(measure, base) => Some(own(measure)? / own(base)?),
            Figure::Worst(measure) => book.most(measure, OURS),
            Figure::ToBestPeer(measure) => Some(own(measure)? / best_peer(book, measure)?),
            Figure::OursToBestPeer(measure, who) => {
                Some(book.median(measure, who)? / best_peer(book, measure)?)
            }
            Figure::Ahead(measure) => Some(best_peer(book, measure)? / own(measure)?),
            Figure::KeeperEach => {
                Some((own(Measure::MainMany)? - own(Measure::MainNone)?) / services as f64)
            }
        }
    }
}

/// The best peer by its median, like all comparisons.
fn best_peer(book: &Book, measure: Measure) -> Option<f64> {
    let peers = book.of(measure).into_iter().filter(|(name, _)| is_peer(name));
    let medians = peers.map(|(_, samples)| samples.median());
    if measure.more_is_better() {
        medians.max_by(f64::total_cmp)
    } else {
        medians.min_by(f64::total_cmp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(figure: Figure, limit: Limit, entries: &[(Measure, &str, f64)], expected: Verdict) {
        let mut book = Book::default();
        entries.iter().for_each(|&(measure, who, value)| book.add(measure, who, value));
        assert_eq!(goal("", figure, limit).verdict(&book, 100), expected, "{entries:?}");
    }

    #[test]
    fn a_goal_is_reached_or_not_yet() {
        let start = |own, bare| [(Measure::Start, "proctor", own), (Measure::Start, "bare", bare)];
        let limit = Limit::AtMost(1.6);
        check(to_bare(Measure::Start), limit, &start(16.0, 10.0), Verdict::Ok(1.6));
        check(to_bare(Measure::Start), limit, &start(20.0, 10.0), Verdict::NotYet(2.0));
        check(to_bare(Measure::Stop), limit, &start(20.0, 10.0), Verdict::NotMeasured);
        check(to_bare(Measure::Start), limit, &start(2.0, 1.0)[..1], Verdict::NotMeasured);
    }

    #[test]
    fn a_line_lost_once_is_lost() {
        let entries = [0.0, 0.0, 1.0].map(|lost| (Measure::Wrong, "proctor", lost));
        check(Figure::Worst(Measure::Wrong), Limit::AtMost(0.0), &entries, Verdict::NotYet(1.0));
        let none = &entries[..2];
        check(Figure::Worst(Measure::Wrong), Limit::AtMost(0.0), none, Verdict::Ok(0.0));
    }

    #[test]
    fn the_best_peer_is_the_fastest() {
        let with =
            |measure| [(measure, "proctor", 6.0), (measure, "s6", 3.0), (measure, "runit", 12.0)];
        let best = Figure::ToBestPeer;
        let (start, logs) = (Measure::Start, Measure::Logs(1));
        check(best(start), Limit::LessThan(1.0), &with(start), Verdict::NotYet(2.0));
        check(best(logs), Limit::AtLeast(1.0), &with(logs), Verdict::NotYet(0.5));
        check(best(start), Limit::LessThan(1.0), &with(start)[..1], Verdict::NotMeasured);
        check(Figure::Ahead(start), Limit::AtLeast(2.0), &with(start), Verdict::NotYet(0.5));
        let other = Figure::OursToBestPeer(start, "runit");
        check(other, Limit::AtMost(1.0), &with(start), Verdict::NotYet(4.0));
    }

    #[test]
    fn the_keeper_grows_by_services() {
        let entries =
            [(Measure::MainNone, "proctor", 1000.0), (Measure::MainMany, "proctor", 1200.0)];
        check(Figure::KeeperEach, Limit::AtMost(1.5), &entries, Verdict::NotYet(2.0));
    }
}
