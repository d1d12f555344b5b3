//! Suggestions for misspelled words.

/// Returns the similarity of two words, from 0 to 1 (Damerau and Levenshtein).
pub use strsim::normalized_damerau_levenshtein as likeness;

/// Returns the word of `known` with the highest `likeness`, if that is at least `least`; the first
/// if several are equal.
pub fn nearest<'a>(
    known: impl Iterator<Item = &'a str>,
    likeness: impl Fn(&str) -> f64,
    least: f64,
) -> Option<&'a str> {
    let known = known.map(|word| (likeness(word), word));
    let better = |best: (f64, _), other: (f64, _)| if other.0 > best.0 { other } else { best };
    known.reduce(better).filter(|best| best.0 >= least).map(|best| best.1)
}
