//! Reports on a job: its events, the record that is kept of them, and a page that shows it.
//!
//! Pure: text in, text out. The launcher makes the events; `oshreport` makes the page.
//!
//! ```text
//! words     human-readable numbers
//! job       the properties of a job that are fixed at its start
//! event     events, with their times
//! progress  the recovery under way
//! record    the record of a job, as written by --report
//! journal   keeps events for the record in bounded memory
//! story     the record as a list of recoveries: lost PEs, and how each was restored
//! page      the record as HTML
//! ```
//!
//! A module imports only from those above it.
//!
//! Left out: files and sockets.

#![forbid(unsafe_code)]

pub mod event;
pub mod job;
pub mod journal;
pub mod page;
pub mod progress;
pub mod record;
mod story;
pub mod words;
