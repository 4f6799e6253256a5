//! A changed clock: logs are read in the order in which they were written, and times select as well as possible.

use crate::support::{lines, service, services, up, wait_state};
use proctor_testkit::Home;
use std::process::Command;

const HOUR: i64 = 3_600_000_000;

/// An index entry as on disk: offset, time, run, kind. The format is a promise.
fn entry(offset: u64, wall: i64, run: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(offset.to_le_bytes());
    bytes.extend(wall.to_le_bytes());
    bytes.extend(run.to_le_bytes());
    bytes.resize(32, 0);
    bytes
}

/// Writes a log whose clock had these hours at its lines.
fn write_log(home: &Home, hours: &[i64]) {
    let folder = home.path().join("logs/web");
    std::fs::create_dir_all(&folder).unwrap();
    let (mut log, mut index) = (Vec::new(), Vec::new());
    for (number, hour) in hours.iter().enumerate() {
        index.extend(entry(log.len() as u64, hour * HOUR, 7));
        log.extend(format!("line {number}\n").bytes());
    }
    std::fs::write(folder.join("stdout.00000001.log"), log).unwrap();
    std::fs::write(folder.join("stdout.00000001.idx"), index).unwrap();
}

#[test]
fn lines_of_a_clock_that_jumps_come_in_the_order_in_which_they_were_written() {
    // Hours since 1970: forwards by a year, backwards by more, and on.
    let hours = [100_000, 100_001, 108_760, 108_761, 90_000, 90_001, 90_002, 100_002];
    let home = up(&services(&[service("web", &[], "autostart: false")]));
    wait_state(&home, "web", "stopped");
    write_log(&home, &hours);
    let written: Vec<String> = (0..hours.len()).map(|number| format!("line {number}")).collect();
    assert_eq!(lines(&home, "web", &[]), written);
    assert_eq!(home.ok(["logs", "web", "-n", "3"]), "line 5\nline 6\nline 7\n");
    // For every requested time, the result is in order, within the bounds, and an end of the log.
    for hour in [1, 90_000, 95_000, 100_001, 105_000, 108_761, 200_000] {
        let moment = moment(hour);
        for word in ["--since", "--until"] {
            let shown = lines(&home, "web", &[word, &moment]);
            let places: Vec<usize> =
                shown.iter().map(|line| written.iter().position(|w| w == line).unwrap()).collect();
            assert!(places.is_sorted(), "{word} {moment}: {shown:?}");
            let within = |place: &&usize| match word {
                "--since" => hours[**place] >= hour,
                _ => hours[**place] <= hour,
            };
            assert_eq!(places.iter().filter(within).count(), places.len(), "{word} {moment}");
        }
    }
}

/// Formats an hour since 1970 as RFC 3339.
fn moment(hour: i64) -> String {
    let seconds = format!("@{}", hour * 3600);
    let output = Command::new("date").args(["-u", "-d", &seconds, "+%FT%TZ"]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
