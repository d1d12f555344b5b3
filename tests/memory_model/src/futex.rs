//! Futexes of the model. The kernel orders a sleeper's earlier accesses before its look at the word
//! and holds a lock between that look and the sleep; a wake-up takes the lock.

use std::time::Duration;

use loom::sync::{Condvar, Mutex};

use crate::atomic::AtomicU32;

loom::lazy_static! {
    static ref BUCKET: (Mutex<()>, Condvar) = (Mutex::new(()), Condvar::new());
}

/// Sleeps until a wake-up if `word` holds `seen`.
pub fn sleep_while(word: &AtomicU32, seen: u32, _limit: Duration) {
    let bucket = BUCKET.0.lock().unwrap();
    if word.exact().load(loom::sync::atomic::Ordering::Relaxed) == seen {
        drop(BUCKET.1.wait(bucket).unwrap());
    }
}

/// Wakes every sleeper.
pub fn wake_all(_word: &AtomicU32) {
    let bucket = BUCKET.0.lock().unwrap();
    BUCKET.1.notify_all();
    drop(bucket);
}
