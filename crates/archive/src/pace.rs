//! The pace of writing files, if a job limits it.

use std::time::Duration;

/// Returns the time since the beginning at which `bytes` bytes are due, at `rate` bytes per second;
/// zero if `rate` is 0.
pub fn due(rate: u64, bytes: u64) -> Duration {
    const NANOS: u128 = 1_000_000_000;
    let nanos = (u128::from(bytes) * NANOS).checked_div(u128::from(rate)).unwrap_or(0);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_due_at_their_rate_and_without_one_at_once() {
        assert_eq!(due(1000, 0), Duration::ZERO);
        assert_eq!(due(1000, 2500), Duration::from_millis(2500));
        assert_eq!(due(1 << 40, 1 << 40), Duration::from_secs(1));
        assert_eq!(due(0, u64::MAX), Duration::ZERO);
        assert_eq!(due(1, u64::MAX), Duration::from_nanos(u64::MAX), "no overflow");
    }
}
