//! Stored output of a service: every byte, in bounded space, and found again by time.

use crate::support::{LIMIT, lines, marks, service, services, shell, up, wait_state, web};
use proctor_testkit::{Home, wait_until};
use serde_json::Value;
use std::path::Path;

/// Returns all output of a service.
#[track_caller]
fn raw(home: &Home, name: &str) -> Vec<u8> {
    let output = home.run(["logs", name, "--raw", "--since", "1h"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// Checks that both are equal; otherwise reports the first difference instead of megabytes.
#[track_caller]
pub(crate) fn check_same(found: &[u8], expected: &[u8]) {
    let differs = found.iter().zip(expected).position(|(a, b)| a != b);
    assert_eq!((differs, found.len()), (None, expected.len()));
}

/// Returns the number of segments of a stream, and their total size.
fn stored(home: &Home, name: &str, stream: &str) -> (usize, u64) {
    let files = std::fs::read_dir(home.path().join("logs").join(name)).unwrap().flatten();
    let sizes = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        (name.starts_with(stream) && name.ends_with(".log"))
            .then(|| file.metadata().map_or(0, |metadata| metadata.len()))
    });
    sizes.fold((0, 0), |(count, sum), size| (count + 1, sum + size))
}

/// Returns lines of every length and every byte: text, invalid UTF-8, NUL, escapes, carriage returns.
pub(crate) fn wild_lines(count: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut random = 88_172_645_463_325_252_u64;
    for number in 0..count {
        bytes.extend_from_slice(format!("{number} ").as_bytes());
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let length = (random >> 60) as usize;
        let noise = random.to_le_bytes();
        bytes.extend(
            noise.iter().cycle().take(length).map(|byte| if *byte == b'\n' { 0 } else { *byte }),
        );
        match number % 5 {
            0 => bytes.extend_from_slice(b"\x1b[31m\xff\x00\xc3"),
            1 => bytes.extend_from_slice(b"\r"),
            2 => bytes.extend_from_slice("grün ✓".as_bytes()),
            3 => bytes.extend_from_slice(b"\n\n\r\n"),
            _ => {}
        }
        if number % 20_000 == 10_000 {
            // Longer than a part of a line in a response.
            bytes.extend(std::iter::repeat_n(0x80 | number as u8, 300 << 10));
        }
        bytes.push(b'\n');
    }
    bytes
}

fn cat(home: &Home, file: &Path) {
    let script = format!("cat '{}'", file.display());
    home.write("proctor.yaml", &services(&[shell("web", &script, "restart_policy: one_shot")]));
    home.ok(["up", "-d"]);
    wait_state(home, "web", "stopped");
}

#[test]
fn wild_lines_come_back_byte_for_byte() {
    let home = Home::new();
    let expected = wild_lines(50_000);
    let file = home.path().join("wild");
    std::fs::write(&file, &expected).unwrap();
    cat(&home, &file);
    check_same(&raw(&home, "web"), &expected);
    check_same(
        &std::fs::read(home.path().join("logs/web/stdout.00000001.log")).unwrap(),
        &expected,
    );
}

#[test]
fn wild_lines_survive_rotation_byte_for_byte() {
    let home = Home::new();
    let expected = wild_lines(50_000);
    let file = home.path().join("wild");
    std::fs::write(&file, &expected).unwrap();
    let keys =
        "restart_policy: one_shot\nlogs: { max_size: 4096, max_files: 10000, max_total: 1G }";
    let script = format!("cat '{}'", file.display());
    home.write("proctor.yaml", &services(&[shell("web", &script, keys)]));
    home.ok(["up", "-d"]);
    wait_state(&home, "web", "stopped");
    let (segments, bytes) = stored(&home, "web", "stdout");
    // A file may grow by the capacity of a pipe before it is closed.
    assert!(segments >= 2, "{segments} segments");
    assert_eq!(bytes, expected.len() as u64);
    check_same(&raw(&home, "web"), &expected);
}

#[test]
fn a_line_of_twenty_megabytes_is_one_line_and_the_next_is_another() {
    let length = 20 << 20;
    let home = up(&web(
        &["--long-line", &length.to_string(), "--lines", "1"],
        "logs: { max_size: 64MiB, max_total: 128MiB }",
    ));
    let whole = length + 1 + "line 1\n".len() as u64;
    wait_until("all of it", LIMIT, || stored(&home, "web", "stdout").1 == whole);
    let found = raw(&home, "web");
    assert_eq!(found.len() as u64, whole);
    assert!(found[..length as usize].iter().all(|byte| *byte == b'x'), "one line of x");
    assert_eq!(&found[length as usize..], b"\nline 1\n");
    // The last line is found without the long one before it.
    assert_eq!(home.ok(["logs", "web", "-n", "1"]), "line 1\n");
}

#[test]
fn what_ends_without_a_line_end_is_shown_and_the_next_run_begins_a_line() {
    let home = Home::new();
    home.write(
        "proctor.yaml",
        &services(&[shell("web", "printf 'no end'", "restart_policy: one_shot")]),
    );
    home.ok(["up", "-d"]);
    wait_state(&home, "web", "stopped");
    home.ok(["start", "web"]);
    wait_until("both", LIMIT, || lines(&home, "web", &[]) == ["no end", "no end"]);
}

#[test]
fn one_that_closes_its_output_runs_on_and_one_that_floods_a_stream_keeps_the_other() {
    let home = up(&services(&[
        shell("closed", "echo last; exec >&- 2>&-; exec sleep 1000", ""),
        shell("deaf", "exec 1>&-; echo only stderr >&2; exec sleep 1000", ""),
    ]));
    wait_until("its last words", LIMIT, || lines(&home, "closed", &[]) == ["last"]);
    wait_until("its words", LIMIT, || lines(&home, "deaf", &[]) == ["only stderr"]);
    for name in ["closed", "deaf"] {
        let now = wait_state(&home, name, "running");
        assert_eq!(now["restarts"], 0, "{now:#}");
        home.ok(["stop", name]);
    }
}

#[test]
fn files_are_closed_when_they_are_old_enough() {
    let home = up(&web(&["--lines", "100000000", "--every", "20"], "logs: { max_age: 1s }"));
    wait_until("a third file", LIMIT, || stored(&home, "web", "stdout").0 >= 3);
    for (line, number) in lines(&home, "web", &[]).iter().zip(1..) {
        assert_eq!(line, &format!("line {number}"));
    }
}

#[test]
fn the_bytes_kept_of_a_service_are_bounded_over_both_streams() {
    let home = Home::new();
    let keys =
        "restart_policy: one_shot\nlogs: { max_size: 8192, max_files: 1000, max_total: 32768 }";
    home.write(
        "proctor.yaml",
        &services(&[service("web", &["--lines", "300000", "--stderr", "--exit", "0"], keys)]),
    );
    home.ok(["up", "-d"]);
    wait_state(&home, "web", "stopped");
    let (out, err) = (stored(&home, "web", "stdout"), stored(&home, "web", "stderr"));
    // The open file of each stream may grow by the capacity of a pipe before the oldest closed one is deleted.
    let most = 32_768 + 2 * (8192 + (1 << 20));
    assert!(out.1 + err.1 <= most, "{out:?} {err:?}");
    assert!(out.1 > 0 && err.1 > 0, "neither stream starves the other: {out:?} {err:?}");
    assert_eq!(lines(&home, "web", &["--stream", "stdout"]).last().unwrap(), "line 300000");
}

#[test]
fn a_finished_job_has_a_log_with_its_beginning_and_its_end() {
    let home = Home::new();
    let keys = "restart_policy: one_shot";
    home.write(
        "proctor.yaml",
        &services(&[service("job", &["--lines", "2", "--exit", "0"], keys)]),
    );
    home.ok(["up", "-d"]);
    wait_state(&home, "job", "stopped");
    let kinds: Vec<String> = marks(&home, "job").into_iter().map(|mark| mark.0).collect();
    assert_eq!(kinds, ["started", "exited"]);
    let text = home.ok(["logs", "job"]);
    let shown: Vec<&str> = text.lines().collect();
    assert!(shown[0].contains("job started"), "{text}");
    assert_eq!(&shown[1..3], ["line 1", "line 2"]);
    assert!(shown[3].contains("exited with code 0"), "{text}");
}

#[test]
fn times_select_from_several_services_at_once() {
    let home = up(&services(&[
        service("a", &["--lines", "2", "--line-prefix", "early "], ""),
        service("b", &["--lines", "2", "--line-prefix", "early "], ""),
    ]));
    let all = |more: &[&str]| -> Vec<String> {
        let mut words = vec!["logs", "a", "b"];
        words.extend(more);
        let answer = home.json(words);
        let items = answer["items"].as_array().unwrap().clone();
        let texts = items.into_iter().filter(|item| item["kind"] == "line");
        texts
            .map(|item| {
                format!("{} {}", item["service"].as_str().unwrap(), item["text"].as_str().unwrap())
            })
            .collect()
    };
    wait_until("early lines", LIMIT, || all(&[]).len() == 4);
    // A time between the two, from the clock of the machine that stored the lines. Without its end a time sorts as a
    // text, however
    // many digits it has.
    let times = |wanted: &str| -> Vec<String> {
        let answer = home.json(["logs", "a", "b"]);
        let items = answer["items"].as_array().unwrap().iter();
        let fits = |item: &&Value| {
            item["text"].as_str().is_some_and(|text| text.starts_with(wanted)) || wanted.is_empty()
        };
        let at = |item: &Value| item["at"].as_str().unwrap().trim_end_matches('Z').to_owned();
        items.filter(fits).map(at).collect()
    };
    let last = times("").into_iter().max().unwrap();
    home.ok(["restart", "a", "b", "--args", "--lines 2 --line-prefix 'late '"]);
    wait_until("late lines", LIMIT, || all(&[]).len() == 8);
    let first_late = times("late").into_iter().min().unwrap();
    assert!(last < first_late, "{last} {first_late}");
    let mut late = all(&["--since", &format!("{first_late}Z")]);
    late.sort();
    assert_eq!(late, ["a late line 1", "a late line 2", "b late line 1", "b late line 2"]);
    let last = format!("{last}Z");
    let mut early = all(&["--until", &last]);
    early.sort();
    assert_eq!(early, ["a early line 1", "a early line 2", "b early line 1", "b early line 2"]);
    assert!(all(&["--since", &last, "--until", &last]).len() <= 4);
    assert_eq!(all(&["-n", "1"]).len(), 2, "the last line of each");
    for words in [["--since", "soon"], ["--until", "25:61"]] {
        let mut all = vec!["logs", "a"];
        all.extend(words);
        assert_eq!(home.fail(all).0, 2, "{words:?}");
    }
}
