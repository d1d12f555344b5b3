//! Exact, optimal parity groups for two kinds of failure domain that cross each other.
//!
//! The domains of one kind (racks) are the points on the left, those of the other (power feeds) the
//! points on the right, and each PE is a line between its two domains. A domain with more PEs than
//! there are groups is split into several points, so that no point has more lines than there are
//! groups. The lines can then be coloured, one colour per group, so that no point sees a colour
//! twice: a domain with `c` PEs has `floor(c / k)` or `ceil(c / k)` members of each of `k` groups.
//!
//! Source: D. Koenig, Ueber Graphen und ihre Anwendung auf Determinantentheorie und Mengenlehre,
//! Mathematische Annalen 77, 1916; even sizes: D. de Werra, Equitable colorations of graphs, 1971.
//!
//! Left out: a third kind, and the case of a rack with more members of a group than its parity.

const NONE: usize = usize::MAX;

struct Coloring {
    colors: usize,
    /// The two points of each line.
    ends: Vec<[usize; 2]>,
    color: Vec<usize>,
    /// The line of each point and colour, or `NONE`.
    lines: Vec<usize>,
    sizes: Vec<usize>,
}

/// Returns the group of each PE, of `groups`; `left` and `right` are its domains of the two kinds.
pub(super) fn groups(left: &[usize], right: &[usize], groups: usize) -> Vec<usize> {
    let (left, used) = points(left, groups, 0);
    let (right, used) = points(right, groups, used);
    let mut coloring = Coloring {
        colors: groups,
        ends: left.into_iter().zip(right).map(|(l, r)| [l, r]).collect(),
        color: Vec::new(),
        lines: vec![NONE; used * groups],
        sizes: vec![0; groups],
    };
    coloring.color = vec![NONE; coloring.ends.len()];
    for line in 0..coloring.ends.len() {
        coloring.insert(line);
    }
    coloring.even_out();
    coloring.color
}

/// Returns the point of each PE on one side, numbered from `first`, and the first unused number.
fn points(domain_of: &[usize], most: usize, first: usize) -> (Vec<usize>, usize) {
    let mut open = std::collections::BTreeMap::new(); // current point of each domain, and its lines
    let mut next = first;
    let mut point = |domain: &usize| {
        let (point, lines) = open.entry(*domain).or_insert((NONE, most));
        if *lines == most {
            (*point, *lines) = (next, 0);
            next += 1;
        }
        *lines += 1;
        *point
    };
    (domain_of.iter().map(&mut point).collect(), next)
}

impl Coloring {
    fn at(&self, point: usize, color: usize) -> usize {
        self.lines[point * self.colors + color]
    }

    /// Colours one more line; conflicting lines swap colours along a path from point to point.
    fn insert(&mut self, line: usize) {
        let [left, right] = self.ends[line];
        let start = line % self.colors; // so that sizes are about even from the start
        let free = |point: usize| {
            let colors = (0..self.colors).map(|step| (start + step) % self.colors);
            colors.into_iter().find(|&color| self.at(point, color) == NONE)
        };
        let (Some(a), Some(b)) = (free(left), free(right)) else {
            unreachable!("a point has no more lines than there are colours")
        };
        let chain = self.chain(right, a, b);
        self.flip(&chain, a, b);
        self.set(line, a);
    }

    /// Returns the lines of the path that begins at `point` with colour `a` and alternates with
    /// `b`.
    fn chain(&self, mut point: usize, mut a: usize, mut b: usize) -> Vec<usize> {
        let mut chain = Vec::new();
        loop {
            let line = self.at(point, a);
            if line == NONE {
                return chain;
            }
            chain.push(line);
            let [left, right] = self.ends[line];
            point = if point == left { right } else { left };
            (a, b) = (b, a);
        }
    }

    fn set(&mut self, line: usize, color: usize) {
        self.color[line] = color;
        self.sizes[color] += 1;
        for point in self.ends[line] {
            self.lines[point * self.colors + color] = line;
        }
    }

    /// Swaps two colours on the lines of a path.
    fn flip(&mut self, chain: &[usize], a: usize, b: usize) {
        for &line in chain {
            let color = self.color[line];
            self.sizes[color] -= 1;
            for point in self.ends[line] {
                self.lines[point * self.colors + color] = NONE;
            }
        }
        for &line in chain {
            self.set(line, a + b - self.color[line]);
        }
    }

    /// Evens out sizes: while one colour has two lines more than another, flips a path with one
    /// more.
    fn even_out(&mut self) {
        loop {
            let most = (0..self.colors).max_by_key(|&color| self.sizes[color]).unwrap_or(0);
            let least = (0..self.colors).min_by_key(|&color| self.sizes[color]).unwrap_or(0);
            if self.sizes[most] - self.sizes[least] < 2 {
                return;
            }
            let longer = |&point: &usize| {
                self.at(point, least) == NONE && self.chain(point, most, least).len() % 2 == 1
            };
            let points = self.lines.len() / self.colors;
            let Some(point) = (0..points).find(longer) else { return };
            let chain = self.chain(point, most, least);
            self.flip(&chain, most, least);
        }
    }
}
