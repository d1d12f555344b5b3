//! Reports on a job: its events, the record that is kept of them, and a page that shows it.
//!
//! Pure: text in, text out. The launcher makes the events; `oshreport` makes the page.
//!
//! ```text
//! words    numbers as people read them
//! seconds  times in JSON
//! job      what a job is from its beginning on
//! event    what happened, and when
//! record   the whole of a job, as the file of --report holds it
//! journal  keeps events for the record in bounded memory
//! story    the record as recoveries: who was lost, and how each came back
//! page     the record as HTML
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
pub mod record;
mod seconds;
mod story;
pub mod words;
