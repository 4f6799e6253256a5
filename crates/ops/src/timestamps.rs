//! Times and durations as people write and read them.
//!
//! Internally, time is [`Wall`]; on the wire, RFC 3339 in UTC; for a person, local time.

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

/// A time in a response, as RFC 3339. It becomes text only when needed: most tables do not show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallTime(pub Wall);

impl Display for WallTime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        timestamp(self.0).fmt(f)
    }
}

impl Serialize for WallTime {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for WallTime {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<WallTime, D::Error> {
        let text = Cow::<str>::deserialize(from)?;
        from_rfc3339(&text).map(WallTime).ok_or_else(|| D::Error::custom("not a time in RFC 3339"))
    }
}

impl JsonSchema for WallTime {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Timestamp".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// Formats as `2026-03-01T14:05:03.123456Z`.
pub fn rfc3339(wall: Wall) -> String {
    timestamp(wall).to_string()
}

pub(crate) fn from_rfc3339(text: &str) -> Option<Wall> {
    text.parse::<Timestamp>().ok().map(|t| Wall(t.as_microsecond()))
}

/// Returns the reader's time zone: from `TZ`, or that of the machine.
pub fn zone() -> TimeZone {
    std::env::var("TZ").map_or_else(|_| machines_zone(), |name| named(&name))
}

/// Identity of a file: device, inode and modification time.
type Rounding = (u64, u64, i64, i64);

/// Returns the machine's time zone. `TZ` is ignored because the daemon has that of the process that started it.
pub fn machines_zone() -> TimeZone {
    /// Cached zone with its file: every page with a time needs it, and it rarely changes.
    static READ: Mutex<Option<(Rounding, TimeZone)>> = Mutex::new(None);
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

/// Reads one zone file. A zone database would first read the names of several hundred zones.
fn named(name: &str) -> TimeZone {
    let name = name.strip_prefix(':').unwrap_or(name);
    let folder = std::env::var_os("TZDIR").unwrap_or_else(|| "/usr/share/zoneinfo".into());
    // An absolute path stays as it is.
    let file = Some(name).filter(|name| !name.is_empty()).map(|name| Path::new(&folder).join(name));
    file.and_then(|file| in_file(&file))
        .or_else(|| TimeZone::posix(name).ok())
        .unwrap_or(TimeZone::UTC)
}

fn in_file(path: &Path) -> Option<TimeZone> {
    TimeZone::tzif("local", &std::fs::read(path).ok()?).ok()
}

/// Formats as `2026-03-01 14:05:03` in the reader's zone.
pub fn local(rfc3339: &str, zone: &TimeZone) -> Option<String> {
    let zoned = rfc3339.parse::<Timestamp>().ok()?.to_zoned(zone.clone());
    Some(zoned.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// Formats as `14:05:03` in the reader's zone.
pub fn local_time(rfc3339: &str, zone: &TimeZone) -> Option<String> {
    let zoned = rfc3339.parse::<Timestamp>().ok()?.to_zoned(zone.clone());
    Some(zoned.strftime("%H:%M:%S").to_string())
}

/// Parses a past time: `10m` (ago), `14:05` (today, or yesterday if that is in the future), `2026-03-01`,
/// `2026-03-01 14:05`, or RFC 3339.
pub fn parse(text: &str, now: Wall, zone: &TimeZone) -> Result<Wall, String> {
    let text = text.trim();
    if let Some(wall) = from_rfc3339(text) {
        return Ok(wall);
    }
    if let Some(ago) = duration(text) {
        return Ok(Wall(now.0.saturating_sub(ago)));
    }
    // The time parser would also accept "10" and whole dates, which mean something else here.
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
        "'{text}' is not a valid time; write 10m, 14:05, 2026-03-01 14:05 or 2026-03-01T14:05:00Z"
    )
}

fn time_of_day(time: Time, now: Wall, zone: &TimeZone) -> Option<Wall> {
    let here = timestamp(now).to_zoned(zone.clone());
    let today = here.date().to_datetime(time).to_zoned(zone.clone()).ok()?;
    let moment = if today > here { today.yesterday().ok()? } else { today };
    Some(Wall(moment.timestamp().as_microsecond()))
}

/// Parses `90s`, `10m`, `2h30m`, `1d` to microseconds.
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

/// Formats a duration with at most two units: `0.4 s`, `8 s`, `3m 12s`, `2h 5m`, `4d 3h`.
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

/// Formats as `812 KiB`, `34.5 MiB`.
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

/// Clamps a wall clock to the years that can be formatted.
fn timestamp(wall: Wall) -> Timestamp {
    Timestamp::from_microsecond(wall.0).unwrap_or(if wall.0 < 0 {
        Timestamp::MIN
    } else {
        Timestamp::MAX
    })
}

/// Returns the seconds from `earlier` to `later`; zero if the clock jumped back.
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
        // Some machines lack the zone files.
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
