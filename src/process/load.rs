//! How busy a tree is, from what it has had of processors until now.
//!
//! Architecture invariant: pure; the clock is a parameter.

use std::time::{Duration, Instant};

/// What a tree takes now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Load {
    /// Of one processor, since the look before.
    pub percent: f64,
    /// Bytes in memory.
    pub memory: u64,
}

/// Looks that are closer together would tell of the clock's ticks and not of the tree.
const SHORTEST: Duration = Duration::from_millis(200);

/// What was seen at the last look.
#[derive(Debug)]
pub(super) struct Meter {
    at: Instant,
    processor: Duration,
    /// What was told then; nothing before the first look.
    percent: Option<f64>,
}

impl Meter {
    /// Of a tree that begins now.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            at: now,
            processor: Duration::ZERO,
            percent: None,
        }
    }

    /// The share of one processor since the last look, or since the start. Where that was only a
    /// moment ago, what was told then.
    pub(super) fn read(&mut self, processor: Duration, now: Instant) -> f64 {
        let time = now.saturating_duration_since(self.at);
        if let Some(percent) = self.percent
            && time < SHORTEST
        {
            return percent;
        }
        // Children that nobody waits for take their time with them.
        let spent = processor.saturating_sub(self.processor);
        let percent = if time.is_zero() {
            0.0
        } else {
            spent.as_secs_f64() / time.as_secs_f64() * 100.0
        };
        let percent = (percent * 10.0).round() / 10.0;
        *self = Self {
            at: now,
            processor,
            percent: Some(percent),
        };
        percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_that_of_the_time_between_two_looks() {
        let start = Instant::now();
        let mut meter = Meter::new(start);
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let had = Duration::from_millis;
        assert_eq!(meter.read(had(500), at(1000)).to_string(), "50");
        assert_eq!(meter.read(had(2500), at(2000)).to_string(), "200");
        // Too soon to say anything new.
        assert_eq!(meter.read(had(2500), at(2100)).to_string(), "200");
        assert_eq!(meter.read(had(2501), at(3000)).to_string(), "0.1");
        // Less than before: somebody has left, and taken it along.
        assert_eq!(meter.read(had(1000), at(4000)).to_string(), "0");
        assert_eq!(meter.read(had(1100), at(5000)).to_string(), "10");
    }

    #[test]
    fn the_first_look_may_come_at_once() {
        let start = Instant::now();
        assert_eq!(
            Meter::new(start).read(Duration::ZERO, start).to_string(),
            "0"
        );
    }
}
