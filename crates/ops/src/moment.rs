//! Moments and lengths of time as people write and read them.
//!
//! Inside, time is [`Wall`]; on the wire, RFC 3339 in UTC; to a person, their own clock.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use proctor_core::time::Wall;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// A moment in an answer, as RFC 3339. It becomes text where somebody reads it: most tables do not show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub Wall);

impl Display for Moment {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        timestamp(self.0).fmt(f)
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Moment {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Moment, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        from_rfc3339(&text).map(Moment).ok_or_else(|| D::Error::custom("no moment in RFC 3339"))
    }
}

impl JsonSchema for Moment {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Moment".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// `2026-03-01T14:05:03.123456Z`
pub fn rfc3339(wall: Wall) -> String {
    timestamp(wall).to_string()
}

pub(crate) fn from_rfc3339(text: &str) -> Option<Wall> {
    text.parse::<Timestamp>().ok().map(|t| Wall(t.as_microsecond()))
}

/// Where whoever reads is: what `TZ` says, or the machine's.
pub fn zone() -> TimeZone {
    std::env::var("TZ").map_or_else(|_| machines_zone(), |name| named(&name))
}

/// A file as it is: device, inode, and when it was written.
type Which = (u64, u64, i64, i64);

/// The machine's, whatever `TZ` says: ours is that of whoever started us.
pub fn machines_zone() -> TimeZone {
    /// As it was read, and from which file: every page with a moment asks, and the zone changes hardly ever.
    static READ: Mutex<Option<(Which, TimeZone)>> = Mutex::new(None);
    let path = Path::new("/etc/localtime");
    let Ok(file) = std::fs::metadata(path) else { return TimeZone::UTC };
    let which = (file.dev(), file.ino(), file.mtime(), file.mtime_nsec());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    match &*read {
        Some((known, zone)) if *known == which => zone.clone(),
        _ => {
            let zone = in_file(path).unwrap_or(TimeZone::UTC);
            *read = Some((which, zone.clone()));
            zone
        }
    }
}

/// By its file alone. A database of zones would read the names of all of them, some hundreds, to find one.
fn named(name: &str) -> TimeZone {
    let name = name.strip_prefix(':').unwrap_or(name);
    let folder = std::env::var_os("TZDIR").unwrap_or_else(|| "/usr/share/zoneinfo".into());
    // What is absolute is taken as it is.
    let file = Some(name).filter(|name| !name.is_empty()).map(|name| Path::new(&folder).join(name));
    file.and_then(|file| in_file(&file))
        .or_else(|| TimeZone::posix(name).ok())
        .unwrap_or(TimeZone::UTC)
}

fn in_file(path: &Path) -> Option<TimeZone> {
    TimeZone::tzif("local", &std::fs::read(path).ok()?).ok()
}

/// `2026-03-01 14:05:03` where the reader is.
pub fn local(rfc3339: &str, zone: &TimeZone) -> Option<String> {
    let zoned = rfc3339.parse::<Timestamp>().ok()?.to_zoned(zone.clone());
    Some(zoned.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// `14:05:03` where the reader is.
pub fn local_time(rfc3339: &str, zone: &TimeZone) -> Option<String> {
    let zoned = rfc3339.parse::<Timestamp>().ok()?.to_zoned(zone.clone());
    Some(zoned.strftime("%H:%M:%S").to_string())
}

/// A moment in the past: `10m` (ago), `14:05` (today, or yesterday if that is still to come), `2026-03-01`,
/// `2026-03-01 14:05`, or RFC 3339.
pub fn parse(text: &str, now: Wall, zone: &TimeZone) -> Result<Wall, String> {
    let text = text.trim();
    if let Some(wall) = from_rfc3339(text) {
        return Ok(wall);
    }
    if let Some(ago) = duration(text) {
        return Ok(Wall(now.0.saturating_sub(ago)));
    }
    // The parser of times takes "10" and whole dates, too; people who write those mean something else.
    if text.contains(':') && !text.contains(['-', ' ', 'T']) {
        let moment = text.parse::<Time>().ok().and_then(|time| time_of_day(time, now, zone));
        return moment.ok_or_else(|| unreadable(text));
    }
    let civil = text
        .parse::<DateTime>()
        .or_else(|_| text.parse::<Date>().map(|date| date.to_datetime(Time::midnight())));
    civil
        .ok()
        .and_then(|civil| civil.to_zoned(zone.clone()).ok())
        .map(|zoned| Wall(zoned.timestamp().as_microsecond()))
        .ok_or_else(|| unreadable(text))
}

fn unreadable(text: &str) -> String {
    format!(
        "cannot read '{text}' as a time; write 10m, 14:05, 2026-03-01 14:05 or 2026-03-01T14:05:00Z"
    )
}

fn time_of_day(time: Time, now: Wall, zone: &TimeZone) -> Option<Wall> {
    let here = timestamp(now).to_zoned(zone.clone());
    let today = here.date().to_datetime(time).to_zoned(zone.clone()).ok()?;
    let moment = if today > here { today.yesterday().ok()? } else { today };
    Some(Wall(moment.timestamp().as_microsecond()))
}

/// Microseconds of `90s`, `10m`, `2h30m`, `1d`.
pub(crate) fn duration(text: &str) -> Option<i64> {
    let mut total = 0i64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: i64 = rest.get(..digits)?.parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit: i64 = match &rest[..letters] {
            "ms" => 1_000,
            "s" => 1_000_000,
            "m" | "min" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            "w" => 604_800_000_000,
            _ => return None,
        };
        rest = &rest[letters..];
        total = total.checked_add(number.checked_mul(unit)?)?;
    }
    (!text.is_empty()).then_some(total)
}

/// `0.4 s`, `8 s`, `3m 12s`, `2h 5m`, `4d 3h`: two units at most.
pub fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        _ if seconds < 9.95 && (seconds - seconds.round()).abs() >= 0.05 => {
            format!("{:.1} s", seconds.max(0.0))
        }
        0..60 => format!("{whole} s"),
        60..3600 => format!("{}m {}s", whole / 60, whole % 60),
        3600..86400 => format!("{}h {}m", whole / 3600, whole % 3600 / 60),
        _ => format!("{}d {}h", whole / 86400, whole % 86400 / 3600),
    }
}

/// `812 KiB`, `34.5 MiB`
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ if value >= 99.95 => format!("{value:.0} {}", UNITS[unit]),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// A wall clock beyond the years that can be written is shown as the last or first of them.
fn timestamp(wall: Wall) -> Timestamp {
    Timestamp::from_microsecond(wall.0).unwrap_or(if wall.0 < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

/// Seconds from `earlier` to `later`; zero if the clock jumped back.
pub(crate) fn seconds_between(earlier: Wall, later: Wall) -> f64 {
    SignedDuration::from_micros(later.0.saturating_sub(earlier.0)).as_secs_f64().max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-03-01 12:00:00 UTC.
    const NOON: Wall = Wall(1_772_366_400_000_000);

    fn check(text: &str, expected: &str) {
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        let found = parse(text, NOON, &zone).map(rfc3339);
        assert_eq!(found.as_deref(), Ok(expected), "{text}");
    }

    #[test]
    fn a_zone_is_what_its_name_says() {
        let noon = "2026-07-01T12:00:00Z";
        let at = |name: &str| local_time(noon, &named(name)).unwrap();
        assert_eq!(at("<+03>-3"), "15:00:00", "rules");
        for name in ["", "Nowhere/Nothing", "\0", "../../etc/passwd"] {
            assert_eq!(at(name), "12:00:00", "{name:?}");
        }
        // Not every machine has the files.
        if Path::new("/usr/share/zoneinfo/Asia/Kolkata").exists() {
            assert_eq!(
                (at("Asia/Kolkata"), at(":Asia/Kolkata")),
                ("17:30:00".into(), "17:30:00".into())
            );
        }
    }

    #[test]
    fn a_moment_is_read_the_way_people_write_it() {
        check("10m", "2026-03-01T11:50:00Z");
        check("2h30m", "2026-03-01T09:30:00Z");
        check("1d", "2026-02-28T12:00:00Z");
        check("500ms", "2026-03-01T11:59:59.5Z");
        check("13:05", "2026-03-01T11:05:00Z");
        check("13:05:09", "2026-03-01T11:05:09Z");
        check("23:00", "2026-02-28T21:00:00Z");
        check("2026-02-01", "2026-01-31T22:00:00Z");
        check("2026-02-01 08:00", "2026-02-01T06:00:00Z");
        check("2026-02-01T08:00:00Z", "2026-02-01T08:00:00Z");
        check("2026-02-01T08:00:00+05:00", "2026-02-01T03:00:00Z");
    }

    #[test]
    fn what_is_no_moment_is_refused_with_examples() {
        for bad in ["", "yesterday", "10", "10x", "-5m", "25:00", "2026-13-01", "999999999999999d"]
        {
            let error = parse(bad, NOON, &TimeZone::UTC).unwrap_err();
            assert!(error.contains("10m") && error.contains("14:05"), "{bad}: {error}");
        }
    }

    #[test]
    fn lengths_and_sizes_have_two_figures_that_matter() {
        for (seconds, expected) in [
            (0.0, "0 s"),
            (0.42, "0.4 s"),
            (3.25, "3.2 s"),
            (8.0, "8 s"),
            (59.6, "1m 0s"),
            (192.0, "3m 12s"),
            (7500.0, "2h 5m"),
            (360_000.0, "4d 4h"),
            (-3.0, "0 s"),
        ] {
            assert_eq!(span(seconds), expected);
        }
        for (count, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (36_175_872, "34.5 MiB"),
            (943_718_400, "900 MiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(bytes(count), expected);
        }
    }
}
