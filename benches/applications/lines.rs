//! The lines of a program that exist only so that it survives losses: those that its source marks.
//!
//! A comment `survival` at the end of a line marks it; `survival: begin` and `survival: end` mark
//! all lines between them that are not empty. Lines of `survive.h` count for a program that
//! includes it. Those of the library do not, nor does the placement of data in symmetric memory.
//!
//! Left out: the meaning of the lines, which tests check by killing PEs.

#![forbid(unsafe_code)]

/// The header whose lines count for each program that includes it.
const HEADER: &str = "survive.h";
/// Comments of C, C++ and Python: their beginnings and ends.
const COMMENTS: [(&str, &str); 3] = [("/* ", " */"), ("// ", ""), ("# ", "")];

/// Returns the lines of `text` that are marked, without those of its headers.
pub fn marked(text: &str) -> Vec<&str> {
    let says = |line: &str, words: &str| {
        COMMENTS.iter().any(|(begin, end)| line.ends_with(&format!("{begin}{words}{end}")))
    };
    let mut inside = false;
    let mut found = Vec::new();
    for line in text.lines() {
        inside &= !says(line, "survival: end");
        if says(line, "survival") || inside && !line.trim().is_empty() {
            found.push(line);
        }
        inside |= says(line, "survival: begin");
    }
    found
}

/// Counts the marked lines of a program, and of `survive.h`, whose text is `header`, if the program
/// includes it.
pub fn count(text: &str, header: &str) -> usize {
    let included = text.lines().any(|line| line.starts_with(&format!("#include \"{HEADER}\"")));
    marked(text).len() + if included { marked(header).len() } else { 0 }
}

/// Runs this module's checks under `cargo test`.
pub fn check() {
    let header = "a /* survival: begin */\nb\n\nc\nd /* survival: end */\ne /* survival */\n";
    assert_eq!(marked(header), ["b", "c", "e /* survival */"]);
    assert_eq!(count("x // survival\ny # survival\nsurvival\n", header), 2);
    assert_eq!(count("#include \"survive.h\" /* survival */\n", header), 4);
}
