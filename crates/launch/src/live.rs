//! The status view at the bottom of a terminal while a job runs.
//!
//! All other output of this process to the terminal goes through [`above`], which removes the view
//! meanwhile; so lines of programs stay whole, and stay above it.
//!
//! Callers may block on a terminal that the user has paused, so the loop that answers heartbeats
//! never calls these functions.
//!
//! The cursor stays behind the last line, and every line is a few columns shorter than the
//! terminal: the `^C` that the terminal prints when a key stops the job stays in that line. So the
//! view never takes more lines than it has, and can be erased. (Existing crates fill each line, so
//! that such a key leaves a remnant.)
//!
//! Left out: the view's content, which the launcher provides; and output of programs that bypasses
//! this process, which the launcher prevents.

#![forbid(unsafe_code)]

use std::io::{Write, stderr};
use std::sync::Mutex;

use rustix::termios::tcgetwinsize;

use raidshmem_sys::lock;

/// The content of the view.
#[derive(Debug, Default)]
pub struct Frame {
    /// The text lines.
    pub lines: Vec<String>,
    /// A progress bar below them.
    pub bar: Option<Bar>,
}

/// A progress bar.
#[derive(Debug)]
pub struct Bar {
    /// The amount done.
    pub done: u64,
    /// The total amount.
    pub of: u64,
    /// The text next to the bar.
    pub words: String,
}

/// The lines on the terminal, if the view is shown.
static VIEW: Mutex<Option<Vec<String>>> = Mutex::new(None);

/// The size of a terminal.
#[derive(Clone, Copy)]
struct Size {
    columns: usize,
    rows: usize,
}

/// The size assumed for a terminal that does not report one.
const SIZE: Size = Size { columns: 80, rows: 24 };
/// Columns left free at the end of a line.
const FREE: usize = 3;
/// Columns of the shortest bar, including its brackets.
const SHORTEST: usize = 12;

/// Shows a frame in place of the previous one.
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

/// Removes the view.
pub fn end() {
    if let Some(lines) = lock(&VIEW).take() {
        write(&erasing(&lines));
    }
}

/// Returns true if the view is shown.
pub fn is_shown() -> bool {
    lock(&VIEW).is_some()
}

/// Runs `print`, which prints whole lines, above the view if there is one.
pub fn above<T>(print: impl FnOnce() -> T) -> T {
    let view = lock(&VIEW);
    let Some(lines) = &*view else {
        drop(view); // `print` may block
        return print();
    };
    write(&erasing(lines));
    let result = print();
    write(&lines.join("\n"));
    result
}

/// Writes `text` in one piece; there may be no reader left.
fn write(text: &str) {
    let _ = stderr().lock().write_all(text.as_bytes());
}

/// Returns the sequence that erases these lines: up to the first of them, and clear from there.
fn erasing(lines: &[String]) -> String {
    match lines.len().saturating_sub(1) {
        0 => "\r\x1b[J".to_owned(),
        up => format!("\r\x1b[{up}A\x1b[J"),
    }
}

/// Formats a frame as lines that fit a terminal, below a rule that separates them from the output;
/// if there are too few rows, keeps the last lines.
fn lines(frame: &Frame, Size { columns, rows }: Size) -> Vec<String> {
    let columns = columns.saturating_sub(FREE);
    let mut lines = vec!["-".repeat(columns)];
    lines.extend(frame.lines.iter().map(|line| cut(line, columns)));
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

/// Cuts a line to at most `columns` columns.
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
        let shown = |columns| lines(&frame(None), Size { columns, rows: 9 });
        assert_eq!(shown(16), ["-------------", "12345", "1234567890123"]);
        assert_eq!(shown(15), ["------------", "12345", "123456789..."]);
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
