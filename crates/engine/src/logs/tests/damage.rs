//! Logs damaged by crashes, people and other programs.

use super::*;
use Do::*;
use std::os::unix::fs::symlink;
use std::time::{Duration, UNIX_EPOCH};

#[test]
fn without_an_index_the_time_is_that_of_the_file() {
    let mut writer = Writer::after(&[Bare(OUT, "a\nb\n")]);
    let file = fs::File::options().write(true).open(writer.log(OUT, 1)).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_micros(500)).unwrap();
    assert_eq!(show(&writer.read(&everything()).items), ["500 out0 a", "500 out0 b"]);
    assert_eq!(
        show(&writer.read(&LogQuery { tail: Some(1), ..everything() }).items),
        ["500 out0 b"]
    );
    let late = LogQuery { since: Some(Wall(501)), ..everything() };
    assert_eq!(show(&writer.read(&late).items), [""; 0]);
    // Bytes before the first record are not later than it.
    writer.perform(Write(OUT, 400, 3, "c\n"));
    file.set_modified(UNIX_EPOCH + Duration::from_micros(900)).unwrap();
    assert_eq!(show(&writer.read(&everything()).items), ["400 out0 a", "400 out0 b", "400 out3 c"]);
}

#[test]
fn promises_that_were_not_kept_are_skipped() {
    let mut writer = Writer::after(&[Start(OUT, 1, 1), Write(OUT, 2, 1, "kept\nhalf")]);
    // A power failure: bytes up to 300 were announced and did not reach the disk.
    writer.record_at(OUT, 100, 3, 1, IndexMark::Bytes);
    writer.record_at(OUT, 300, 4, 1, IndexMark::Bytes);
    let before = ["1 out1 [started]", "2 out1 kept", "2 out1 half~"];
    let page = writer.read(&everything());
    assert_eq!(show(&page.items), before);
    // After the boot the writer continues at the true end, and beyond the announced bytes.
    writer.perform(Start(OUT, 10, 2));
    writer.write(OUT, 11, 2, &[b"line\n".repeat(100), b"end\n".to_vec()].concat());
    let (items, _) = writer.read_all(&everything());
    let mut expected = vec!["1 out1 [started]", "2 out1 kept", "2 out1 half", "10 out2 [started]"];
    expected.extend(["11 out2 line"; 100]);
    expected.push("11 out2 end");
    assert_eq!(show(&items), expected);
    // The shown piece is closed, then the new run follows.
    assert_eq!(
        show(&writer.read(&from(&page.cursor)).items[..2]),
        ["4 out1 ", "10 out2 [started]"]
    );
}

#[test]
fn unknown_and_torn_records_are_skipped() {
    let mut writer = Writer::after(&[Start(OUT, 1, 1), Write(OUT, 2, 1, "a\n")]);
    let mut unknown =
        IndexEntry { offset: 2, wall: Wall(9), run: RunId(9), mark: IndexMark::Bytes }.encode();
    unknown[24] = 200;
    append(writer.index(OUT, 1), &unknown);
    writer.perform(Write(OUT, 3, 1, "b\n"));
    append(writer.index(OUT, 1), &unknown[..11]);
    let expected = ["1 out1 [started]", "2 out1 a", "3 out1 b"];
    assert_eq!(show(&writer.read(&everything()).items), expected);
    let late = LogQuery { since: Some(Wall(3)), ..everything() };
    assert_eq!(show(&writer.read(&late).items), expected[2..]);
}

#[test]
fn only_regular_files_are_read() {
    let mut writer = Writer::after(&[Write(OUT, 1, 1, "real\n")]);
    let secret = writer.folder.path().join("secret");
    fs::write(&secret, "secret\n").unwrap();
    symlink(&secret, writer.log(OUT, 2)).unwrap();
    fs::create_dir(writer.log(OUT, 3)).unwrap();
    let fifo = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, writer.log(OUT, 4), fifo, 0o600.into(), 0).unwrap();
    fs::write(writer.logs().join("web/stdout.9.log"), "no segment's name\n").unwrap();
    fs::write(writer.logs().join("web/notes.txt"), "notes\n").unwrap();
    assert_eq!(show(&writer.read(&everything()).items), ["1 out1 real"]);
    // An index that is not a regular file is ignored.
    fs::remove_file(writer.index(OUT, 1)).unwrap();
    symlink(&secret, writer.index(OUT, 1)).unwrap();
    assert_eq!(lines_of(&writer.read(&everything()).items, OUT), [b"real"]);
    for _ in 0..4 {
        writer.perform(Rotate(OUT));
    }
    writer.perform(Write(OUT, 2, 1, "more\n"));
    assert_eq!(
        lines_of(&writer.read(&LogQuery { tail: Some(2), ..everything() }).items, OUT),
        [b"real", b"more"]
    );
}

#[test]
fn a_log_that_is_cut_off_is_read_from_where_it_is() {
    let mut writer = Writer::after(&[Start(OUT, 1, 1), Write(OUT, 2, 1, "aaaa\nbbbb\n")]);
    let page = writer.read(&everything());
    let file = fs::File::options().write(true).open(writer.log(OUT, 1)).unwrap();
    file.set_len(0).unwrap();
    assert_eq!(show(&writer.read(&everything()).items), ["1 out1 [started]"]);
    let page = writer.read(&from(&page.cursor));
    assert_eq!(show(&page.items), [""; 0]);
    writer.perform(Write(OUT, 3, 1, "cc\n"));
    assert_eq!(show(&writer.read(&from(&page.cursor)).items), ["3 out1 cc"]);
}

#[test]
fn a_log_that_was_purged_is_read_from_its_new_beginning() {
    let lines = &[Start(OUT, 1, 1), Write(OUT, 2, 1, "a\n"), Write(OUT, 3, 1, "b\n"), Rotate(OUT)];
    for rotations in [0, 1] {
        let mut writer = Writer::after(&lines[..3 + rotations]);
        writer.perform(Write(OUT, 4, 1, "c\n"));
        let page = writer.read(&everything());
        super::super::delete(&writer.logs(), &name("web")).unwrap();
        let page = writer.read(&from(&page.cursor));
        assert_eq!((page.items.len(), page.more), (0, false));
        writer.perform(Service("web"));
        writer.perform(Write(OUT, 9, 2, "n\n"));
        let page = writer.read(&from(&page.cursor));
        assert_eq!(show(&page.items), ["9 out2 n"], "{rotations} rotations");
    }
}

#[test]
fn logs_are_deleted_by_service_and_having_none_is_success() {
    let writer =
        Writer::after(&[Write(OUT, 1, 1, "x\n"), Service("db@2"), Write(ERR, 1, 1, "y\n")]);
    let logs = writer.logs();
    for _ in 0..2 {
        super::super::delete(&logs, &name("web")).unwrap();
        assert_eq!((logs.join("web").exists(), logs.join("db@2").exists()), (false, true));
    }
}

#[test]
fn a_folder_that_may_not_be_read_is_an_error_with_its_name() {
    let writer = Writer::new();
    let logs = writer.logs();
    fs::create_dir_all(&logs).unwrap();
    symlink("web", logs.join("web")).unwrap();
    let answer = super::super::read(&logs, &everything()).unwrap_err();
    assert!(answer.to_string().contains("web"), "{answer}");
}

/// Two runs on one stream, in many records.
fn recorded() -> (Writer, Vec<Vec<u8>>) {
    let mut writer = Writer::after(&[Start(OUT, 1, 1)]);
    let mut lines = Vec::new();
    for number in 0..40 {
        let line = format!("line {number} {}", "x".repeat(number)).into_bytes();
        writer.write(OUT, 2 + number as i64, 1 + number as u64 / 20, &[&line[..], b"\n"].concat());
        lines.push(line);
    }
    (writer, lines)
}

#[test]
fn an_index_that_is_cut_off_at_any_byte_costs_no_line() {
    let (writer, lines) = recorded();
    let index = fs::read(writer.index(OUT, 1)).unwrap();
    for length in (0..index.len()).rev() {
        fs::write(writer.index(OUT, 1), &index[..length]).unwrap();
        let (items, _) = writer.read_all(&everything());
        assert_eq!(lines_of(&items, OUT), lines, "{length} bytes");
        let tail = writer.read(&LogQuery { tail: Some(1), ..everything() });
        assert_eq!(lines_of(&tail.items, OUT), lines[lines.len() - 1..], "{length} bytes");
    }
}

#[test]
fn an_index_of_garbage_costs_no_byte() {
    let (writer, lines) = recorded();
    let index = fs::read(writer.index(OUT, 1)).unwrap();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    for round in 0..500 {
        let mut garbage = index.clone();
        for byte in garbage.iter_mut() {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // First single bytes, in the end all of them.
            if (seed >> 56) <= round / 2 {
                *byte = (seed >> 40) as u8;
            }
        }
        fs::write(writer.index(OUT, 1), &garbage).unwrap();
        let (items, _) = writer.read_all(&everything());
        // A record may end a line where there is none; no byte is missing because of it.
        let bytes: Vec<u8> = lines_of(&items, OUT).concat();
        assert!(bytes == lines.concat(), "round {round}: {} bytes", bytes.len());
    }
}
