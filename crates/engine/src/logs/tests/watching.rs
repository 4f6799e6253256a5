//! Notifications of log growth.

use super::super::Watch;
use super::super::cursor::Cursor;
use super::*;
use Do::*;
use std::time::Duration;

/// More than any machine needs; only a failing test waits for it.
const DEADLINE: Duration = Duration::from_secs(20);

/// Long enough to see an unwanted wake-up: the watch polls within this time.
const QUIET: Duration = Duration::from_millis(700);

fn from_now_on(writer: &Writer, services: &[ServiceName]) -> Watch {
    Watch::after(&writer.logs(), services, &Cursor::default().encode()).unwrap()
}

async fn wakes(watch: &mut Watch) -> bool {
    tokio::time::timeout(DEADLINE, watch.changed()).await.is_ok()
}

async fn stays_quiet(watch: &mut Watch) -> bool {
    tokio::time::timeout(QUIET, watch.changed()).await.is_err()
}

#[tokio::test]
async fn every_kind_of_growth_wakes_once() {
    let mut writer = Writer::after(&[Write(OUT, 1, 1, "a\n")]);
    let services = ["web", "later"].map(name);
    let mut watch = from_now_on(&writer, &services);
    assert!(stays_quiet(&mut watch).await);
    let steps = [
        Write(OUT, 2, 1, "b\n"),
        Bare(OUT, "c\n"),
        Exit(OUT, 3, 1),
        Rotate(OUT),
        Write(OUT, 4, 2, "d\n"),
        Write(ERR, 5, 2, "e\n"),
        Service("later"),
        Write(OUT, 6, 1, "x\n"),
        Write(OUT, 7, 1, "y\n"),
    ];
    for step in steps {
        writer.perform(step);
        if !matches!(step, Rotate(_) | Service(_)) {
            assert!(wakes(&mut watch).await, "{step:?}");
        }
    }
    writer.perform(Service("stranger"));
    writer.perform(Write(OUT, 6, 1, "x\n"));
    assert!(stays_quiet(&mut watch).await);
}

#[tokio::test]
async fn growth_while_it_waits_wakes() {
    let mut writer = Writer::after(&[Write(OUT, 1, 1, "a\n")]);
    let mut watch = from_now_on(&writer, &[name("web")]);
    let mut waiting = std::pin::pin!(watch.changed());
    // Polled once: it waits now.
    assert!(tokio::time::timeout(Duration::ZERO, &mut waiting).await.is_err());
    writer.perform(Write(OUT, 2, 1, "b\n"));
    assert!(tokio::time::timeout(DEADLINE, waiting).await.is_ok());
}

#[tokio::test]
async fn a_folder_of_logs_that_comes_later_is_noticed() {
    let mut writer = Writer::new();
    let mut watch = from_now_on(&writer, &[name("web")]);
    writer.perform(Write(OUT, 1, 1, "a\n"));
    assert!(wakes(&mut watch).await);
    writer.perform(Write(OUT, 2, 1, "b\n"));
    assert!(wakes(&mut watch).await);
}

#[tokio::test]
async fn what_came_between_a_page_and_the_watch_is_not_missed() {
    let mut writer = Writer::after(&[Write(OUT, 1, 1, "a\n"), Write(ERR, 1, 1, "held")]);
    let page = writer.read(&from(&writer.read(&everything()).cursor));
    let watch = |cursor: &str| Watch::after(&writer.logs(), &[name("web")], cursor).unwrap();
    // Text that is held back was seen, and does not wake the reader again and again.
    assert!(stays_quiet(&mut watch(&page.cursor)).await);
    let steps = [Write(ERR, 2, 1, " on"), Write(OUT, 3, 1, "b\n"), Exit(OUT, 4, 1)];
    let mut cursor = page.cursor;
    for step in steps {
        let mut early = Watch::after(&writer.logs(), &[name("web")], &cursor).unwrap();
        writer.perform(step);
        let mut late = Watch::after(&writer.logs(), &[name("web")], &cursor).unwrap();
        assert!(wakes(&mut early).await && wakes(&mut late).await, "{step:?}");
        cursor = writer.read(&from(&cursor)).cursor;
    }
    assert!(Watch::after(&writer.logs(), &[name("web")], "garbage").is_err());
}

#[tokio::test]
async fn a_purged_log_can_be_followed_further() {
    let mut writer = Writer::after(&[Write(OUT, 1, 1, "a\n")]);
    let mut watch = from_now_on(&writer, &[name("web")]);
    super::super::delete(&writer.logs(), &name("web")).unwrap();
    assert!(wakes(&mut watch).await);
    writer.perform(Write(OUT, 2, 1, "b\n"));
    assert!(wakes(&mut watch).await);
    writer.perform(Write(OUT, 3, 1, "c\n"));
    assert!(wakes(&mut watch).await);
}
