//! Times as people and logs read them.
//!
//! Architecture invariant: pure; the clock is a parameter.

use std::fmt;
use std::time::{Duration, SystemTime};

/// A time that has passed: `3s`, `1m3s`, `2h0m5s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Uptime(pub Duration);

/// A moment in UTC, to the second, as RFC 3339 has it: `2025-03-12T10:00:00Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamp(pub SystemTime);

const DAY: u64 = 24 * 60 * 60;

impl fmt::Display for Uptime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        match (hours, minutes) {
            (0, 0) => write!(f, "{seconds}s"),
            (0, _) => write!(f, "{minutes}m{seconds}s"),
            _ => write!(f, "{hours}h{minutes}m{seconds}s"),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A clock that was never set may show a time before 1970.
        let since = self.0.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since.unwrap_or_default().as_secs();
        let (year, month, day) = date(seconds / DAY);
        let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"
        )
    }
}

/// The date of a day counted from 1 January 1970: Howard Hinnant's `civil_from_days`.
fn date(days: u64) -> (u64, u64, u64) {
    // Years that begin in March have their leap day at their end, where it moves no other day.
    const FROM_MARCH_OF_YEAR_0: u64 = 719_468;
    const FOUR_CENTURIES: u64 = 146_097;
    let days = days + FROM_MARCH_OF_YEAR_0;
    let (era, day) = (days / FOUR_CENTURIES, days % FOUR_CENTURIES);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uptimes_are_short() {
        let shown = |seconds| Uptime(Duration::from_secs(seconds)).to_string();
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(59), "59s");
        assert_eq!(shown(63), "1m3s");
        assert_eq!(shown(3600), "1h0m0s");
        assert_eq!(shown(7205), "2h0m5s");
        assert_eq!(shown(360_000), "100h0m0s");
        assert_eq!(Uptime(Duration::from_millis(3999)).to_string(), "3s");
    }

    #[test]
    fn timestamps_are_rfc_3339() {
        let shown =
            |seconds| Timestamp(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)).to_string();
        assert_eq!(shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(shown(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(shown(1_709_251_199), "2024-02-29T23:59:59Z");
        assert_eq!(shown(1_741_773_600), "2025-03-12T10:00:00Z");
        assert_eq!(shown(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(shown(253_402_300_799), "9999-12-31T23:59:59Z");
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(Timestamp(before).to_string(), shown(0));
    }

    #[test]
    fn every_day_of_five_centuries_follows_the_day_before() {
        let leap = |year| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..500 * 365 {
            assert_eq!(date(days), (year, month, day));
            let last = match month {
                2 => 28 + u64::from(leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > last {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
    }
}
