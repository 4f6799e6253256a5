//! All bytes are read back exactly once, however they were written and split.

use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone)]
pub(super) enum Event {
    Bytes(bool, Vec<u8>),
    Rotate(bool),
    /// The run ends and another begins.
    NewRun,
    /// Reads a page of this size.
    Read(usize),
    /// The clock jumps.
    Clock(i64),
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let bytes = prop::collection::vec(prop_oneof![3 => Just(b'\n'), 7 => any::<u8>()], 0..40);
    prop_oneof![
        6 => (any::<bool>(), bytes).prop_map(|(stream, bytes)| Event::Bytes(stream, bytes)),
        2 => any::<bool>().prop_map(Event::Rotate),
        1 => Just(Event::NewRun),
        3 => (0..60usize).prop_map(Event::Read),
        1 => (-50..50i64).prop_map(Event::Clock),
    ]
}

/// The writer, and the expected lines of each stream.
pub(super) struct Model {
    pub(super) writer: Writer,
    wall: i64,
    run: u64,
    lines: [Vec<Vec<u8>>; 2],
    open: [Vec<u8>; 2],
}

impl Model {
    pub(super) fn new() -> Model {
        let mut writer = Writer::new();
        writer.perform(Do::Start(OUT, 1000, 1));
        Model { writer, wall: 1000, run: 1, lines: Default::default(), open: Default::default() }
    }

    pub(super) fn perform(&mut self, event: &Event) {
        self.wall += 1;
        match event {
            Event::Bytes(stderr, bytes) => {
                let stream = Stream::BOTH[usize::from(*stderr)];
                self.writer.write(stream, self.wall, self.run, bytes);
                for byte in bytes {
                    if *byte == b'\n' {
                        let line = std::mem::take(&mut self.open[stream as usize]);
                        self.lines[stream as usize].push(line);
                    } else {
                        self.open[stream as usize].push(*byte);
                    }
                }
            }
            Event::Rotate(stderr) => {
                let stream = Stream::BOTH[usize::from(*stderr)];
                self.writer.append(stream, b"");
                self.writer.perform(Do::Rotate(stream));
            }
            Event::NewRun => self.end_run(),
            Event::Clock(by) => self.wall += by,
            Event::Read(_) => {}
        }
    }

    pub(super) fn end_run(&mut self) {
        for (open, lines) in self.open.iter_mut().zip(&mut self.lines) {
            if !open.is_empty() {
                lines.push(std::mem::take(open));
            }
        }
        self.writer.perform(Do::Exit(OUT, self.wall, self.run));
        self.run += 1;
        self.writer.perform(Do::Start(OUT, self.wall + 1, self.run));
    }
}

fn marks(items: &[LogItem]) -> Vec<(u64, bool)> {
    let mark = |item: &LogItem| match &item.what {
        LogWhat::Started => Some((item.run.0, true)),
        LogWhat::Exited(_) => Some((item.run.0, false)),
        LogWhat::Line(_) | LogWhat::Dropped(_) => None,
    };
    items.iter().filter_map(mark).collect()
}

/// A quarter of the usual number (unless `PROPTEST_CASES` is set): each case writes and reads dozens of files.
pub(super) fn few_cases() -> ProptestConfig {
    let usual = ProptestConfig::default();
    ProptestConfig { cases: usual.cases / 4, failure_persistence: None, ..usual }
}

proptest! {
    #![proptest_config(few_cases())]

    #[test]
    fn every_line_is_delivered_once(events in prop::collection::vec(event(), 0..40), last in 0..60usize) {
        let mut model = Model::new();
        let mut followed = Vec::new();
        let mut query = LogQuery { max_bytes: 10, ..everything() };
        for event in &events {
            model.perform(event);
            if let Event::Read(size) = event {
                let page = model.writer.read(&LogQuery { max_bytes: *size, ..query.clone() });
                followed.extend(page.items);
                query.cursor = Some(page.cursor);
            }
        }
        model.end_run();
        let (rest, _) = model.writer.read_all(&LogQuery { max_bytes: last, ..query });
        followed.extend(rest);
        let (at_once, _) = model.writer.read_all(&everything());
        let expected: Vec<(u64, bool)> =
            (1..model.run).flat_map(|run| [(run, true), (run, false)]).chain([(model.run, true)]).collect();
        for items in [&followed, &at_once] {
            prop_assert_eq!(&marks(items), &expected);
            for stream in Stream::BOTH {
                prop_assert_eq!(&lines_of(items, stream), &model.lines[stream as usize]);
            }
        }
    }

    #[test]
    fn tails_and_times_agree_with_reading_everything(
        events in prop::collection::vec(event(), 0..30),
        tail in 0..20usize,
        (since, length) in (0..40i64, 0..40i64),
        stream in prop::option::of(any::<bool>()),
        grep in any::<bool>(),
    ) {
        let mut model = Model::new();
        // The clock never jumps back: otherwise times are not bisected exactly.
        events.iter().filter(|event| !matches!(event, Event::Clock(..0))).for_each(|event| model.perform(event));
        let query = LogQuery {
            stream: stream.map(|stderr| Stream::BOTH[usize::from(stderr)]),
            grep: grep.then(|| "[a-m]".into()),
            ..everything()
        };
        let all = model.writer.read(&query).items;
        let (from, to) = (Wall(1000 + since), Wall(1000 + since + length));
        let timed = LogQuery { since: Some(from), until: Some(to), ..query.clone() };
        let within = |item: &&LogItem| (from..=to).contains(&item.wall);
        let expected: Vec<LogItem> = all.iter().filter(within).cloned().collect();
        prop_assert_eq!(show(&model.writer.read(&timed).items), show(&expected));
        let last = model.writer.read(&LogQuery { tail: Some(tail), ..query }).items;
        prop_assert_eq!(show(&last), show(last_lines(&all, tail)));
        let last = model.writer.read(&LogQuery { tail: Some(tail), ..timed }).items;
        prop_assert_eq!(show(&last), show(last_lines(&expected, tail)));
    }
}

/// The items from the `wanted`-th last line on; all, if there are fewer.
fn last_lines(items: &[LogItem], wanted: usize) -> &[LogItem] {
    let is_line = |item: &LogItem| matches!(item.what, LogWhat::Line(_));
    let lines: Vec<usize> = (0..items.len()).filter(|at| is_line(&items[*at])).collect();
    match lines.len().checked_sub(wanted) {
        Some(skip) => &items[lines.get(skip).copied().unwrap_or(items.len())..],
        None => items,
    }
}
