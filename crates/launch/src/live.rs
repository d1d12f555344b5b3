//! The view at the bottom of a terminal, while a job runs.
//!
//! Whatever else this process writes to the terminal goes through [`above`], which takes the view
//! away meanwhile; so lines of programs stay whole, and stay above it.
//!
//! The caller of these may have to wait for a terminal that was told to wait: it is never the loop
//! that answers heartbeats.
//!
//! The cursor stands behind the last line, and every line is some columns shorter than the
//! terminal: what the terminal itself writes when a key stops the job, `^C`, stays in that line. So
//! the view has as many lines as it seems, and can be taken away. (The drawing of known crates
//! fills each line, so that such a key leaves a part of it.)
//!
//! Left out: what the view says, which the launcher knows; and lines of programs that were not
//! carried by this process, which the launcher sees to.

#![forbid(unsafe_code)]

use std::io::{Write, stderr};
use std::sync::Mutex;

use rustix::termios::tcgetwinsize;

use raidshmem_sys::lock;

/// What the view shows.
#[derive(Debug, Default)]
pub struct Frame {
    /// Its lines.
    pub lines: Vec<String>,
    /// Below them.
    pub bar: Option<Bar>,
}

/// How far something is.
#[derive(Debug)]
pub struct Bar {
    /// So much is done.
    pub done: u64,
    /// How much there is in all.
    pub of: u64,
    /// What stands beside the bar.
    pub words: String,
}

/// The lines that are shown, if there is a view.
static VIEW: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// The size of a terminal.
#[derive(Clone, Copy)]
struct Size {
    columns: usize,
    rows: usize,
}

/// That of one that does not say how large it is.
const SIZE: Size = Size { columns: 80, rows: 24 };
/// Columns that stay free at the end of a line.
const FREE: usize = 3;
/// Columns of the shortest bar, with what stands around it.
const SHORTEST: usize = 12;

/// Shows that in place of what was shown before.
pub fn show(frame: &Frame) {
    let size = tcgetwinsize(stderr()).ok();
    let size = size.map(|size| Size { columns: size.ws_col.into(), rows: size.ws_row.into() });
    let size = size.filter(|size| size.columns > 0 && size.rows > 0).unwrap_or(SIZE);
    let lines = lines(frame, size);
    let mut view = lock(&VIEW);
    let before = view.as_deref().map(erasing).unwrap_or_default();
    write(&(before + &lines.join("\n")));
    *view = Some(lines);
}

/// Takes the view away.
pub fn end() {
    if let Some(lines) = lock(&VIEW).take() {
        write(&erasing(&lines));
    }
}

/// True if there is a view.
pub fn is_shown() -> bool {
    lock(&VIEW).is_some()
}

/// Lets `print` print whole lines above the view, if there is one.
pub fn above<T>(print: impl FnOnce() -> T) -> T {
    let view = lock(&VIEW);
    let Some(lines) = &*view else {
        drop(view); // who prints may have to wait
        return print();
    };
    write(&erasing(lines));
    let result = print();
    write(&lines.join("\n"));
    result
}

/// Writes `text` in one piece; there may be no reader any more.
fn write(text: &str) {
    let _ = stderr().lock().write_all(text.as_bytes());
}

/// What takes these lines away: to the first of them, and erase from there.
fn erasing(lines: &[String]) -> String {
    match lines.len().saturating_sub(1) {
        0 => "\r\x1b[J".to_owned(),
        up => format!("\r\x1b[{up}A\x1b[J"),
    }
}

/// A frame as lines that fit into a terminal; if it is low, the last of them.
fn lines(frame: &Frame, Size { columns, rows }: Size) -> Vec<String> {
    let columns = columns.saturating_sub(FREE);
    let mut lines: Vec<String> = frame.lines.iter().map(|line| cut(line, columns)).collect();
    lines.extend(frame.bar.iter().map(|bar| draw(bar, columns)));
    lines.split_off(lines.len().saturating_sub(rows.saturating_sub(1)))
}

fn draw(Bar { done, of, words }: &Bar, columns: usize) -> String {
    let words = cut(words, columns.saturating_sub(SHORTEST));
    let width = columns.saturating_sub(words.chars().count() + "[] ".len());
    let full = (u128::from(*done) * width as u128).checked_div(u128::from(*of));
    let full = full.map_or(width, |full| width.min(full as usize));
    let head = if full < width { ">" } else { "" };
    let bar = "=".repeat(full) + head;
    format!("[{bar:width$}] {words}")
}

/// A line that has at most so many columns.
fn cut(line: &str, columns: usize) -> String {
    match line.char_indices().nth(columns) {
        None => line.to_owned(),
        Some(_) => {
            let short: String = line.chars().take(columns.saturating_sub(3)).collect();
            short + "..."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(done: u64, of: u64) -> Option<Bar> {
        Some(Bar { done, of, words: "words".to_owned() })
    }

    #[test]
    fn lines_fit_into_the_terminal() {
        let frame =
            |bar| Frame { lines: vec!["12345".to_owned(), "1234567890123".to_owned()], bar };
        assert_eq!(lines(&frame(None), Size { columns: 16, rows: 9 }), ["12345", "1234567890123"]);
        assert_eq!(lines(&frame(None), Size { columns: 15, rows: 9 }), ["12345", "123456789..."]);
        let low = lines(&frame(bar(1, 2)), Size { columns: 23, rows: 3 });
        assert_eq!(low, ["1234567890123", "[======>     ] words"], "the last of them");
        assert_eq!(lines(&frame(None), Size { columns: 80, rows: 1 }), [""; 0]);
        assert_eq!(lines(&frame(None), Size { columns: 0, rows: 0 }), [""; 0]);
    }

    #[test]
    fn a_bar_shows_how_much_is_done() {
        let shown = |done, of| draw(&bar(done, of).unwrap(), 18);
        assert_eq!(shown(0, 8), "[>         ] words");
        assert_eq!(shown(4, 8), "[=====>    ] words");
        assert_eq!(shown(8, 8), "[==========] words");
        assert_eq!(shown(9, 8), "[==========] words");
        assert_eq!(shown(0, 0), "[==========] words");
        assert_eq!(shown(u64::MAX / 2, u64::MAX), "[====>     ] words");
    }

    #[test]
    fn a_view_is_erased_from_its_first_line() {
        let of = |count| erasing(&vec![String::new(); count]);
        assert_eq!([0, 1, 3].map(of), ["\r\x1b[J", "\r\x1b[J", "\r\x1b[2A\x1b[J"]);
    }
}
