//! Reading Rust: the code in a text, and the positions of words in it.

/// Returns the text with comments, and the contents of strings and characters, turned into spaces.
pub fn code_only(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => find(bytes, at, b"\n"),
            b'/' if bytes[at..].starts_with(b"/*") => find(bytes, at, b"*/") + 2,
            b'r' if raw_hashes(bytes, at).is_some() => raw_end(bytes, at),
            b'"' => quoted_end(bytes, at, b'"'),
            b'\'' if is_char(bytes, at) => quoted_end(bytes, at, b'\''),
            _ => {
                at += 1;
                continue;
            }
        };
        let end = end.min(bytes.len());
        out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    String::from_utf8_lossy(&out).into_owned()
}

pub fn find(bytes: &[u8], from: usize, what: &[u8]) -> usize {
    let hit = bytes[from..].windows(what.len()).position(|window| window == what);
    hit.map_or(bytes.len(), |hit| from + hit)
}

/// Returns the number of `#` of a raw string that begins here.
pub fn raw_hashes(bytes: &[u8], at: usize) -> Option<usize> {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if at > 0 && word(bytes[at - 1]) && bytes[at - 1] != b'b' {
        return None;
    }
    let hashes = bytes[at + 1..].iter().take_while(|&&byte| byte == b'#').count();
    (bytes.get(at + 1 + hashes) == Some(&b'"')).then_some(hashes)
}

pub fn raw_end(bytes: &[u8], at: usize) -> usize {
    let hashes = raw_hashes(bytes, at).unwrap_or(0);
    let close = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    find(bytes, at + 2 + hashes, &close) + close.len()
}

pub fn quoted_end(bytes: &[u8], at: usize, quote: u8) -> usize {
    let mut end = at + 1;
    while end < bytes.len() && bytes[end] != quote {
        end += if bytes[end] == b'\\' { 2 } else { 1 };
    }
    end + 1
}

/// True for a character, false for a lifetime.
pub fn is_char(bytes: &[u8], at: usize) -> bool {
    bytes.get(at + 1) == Some(&b'\\') || bytes.get(at + 2) == Some(&b'\'')
}

/// Returns the positions of `word` as a whole word in `code`.
pub fn words(code: &str, word: &str) -> Vec<usize> {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let alone = |at: &usize| {
        !part(code[..*at].chars().next_back()) && !part(code[at + word.len()..].chars().next())
    };
    code.match_indices(word).map(|(at, _)| at).filter(alone).collect()
}

pub fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}
