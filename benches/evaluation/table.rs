//! Tables of measurements: a table has a name, a row is a point, a cell a median over the rounds.
//! Pure, except [`Tables::write`].

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;

use super::chart::Series;
use super::figure::median;
use super::programs::Trouble;

/// Keys of a row, in the order of its columns: `mode=raid5`, `pes=4`.
pub type Keys = Vec<(&'static str, String)>;

#[derive(Debug, Default, Clone)]
struct Row {
    keys: Keys,
    values: Vec<(&'static str, Vec<f64>)>,
}

/// All tables, each with its rows in the order of their first measurement.
#[derive(Debug, Default)]
pub struct Tables(BTreeMap<&'static str, Vec<Row>>);

impl Tables {
    /// Adds one measurement.
    pub fn add(&mut self, table: &'static str, keys: &Keys, values: &[(&'static str, f64)]) {
        let rows = self.0.entry(table).or_default();
        let at = rows.iter().position(|row| row.keys == *keys).unwrap_or_else(|| {
            rows.push(Row { keys: keys.clone(), ..Row::default() });
            rows.len() - 1
        });
        let row = &mut rows[at];
        for &(name, value) in values {
            match row.values.iter_mut().find(|(known, _)| *known == name) {
                Some((_, all)) => all.push(value),
                None => row.values.push((name, vec![value])),
            }
        }
    }

    /// Returns the median of a cell; `None` if it was not measured.
    pub fn cell(&self, table: &str, keys: &[(&str, &str)], value: &str) -> Option<f64> {
        let has = |row: &&Row| {
            keys.iter().all(|&(name, of)| row.keys.iter().any(|(k, v)| *k == name && v == of))
        };
        let row = self.0.get(table)?.iter().find(has)?;
        row.values.iter().find(|(name, _)| *name == value).map(|(_, all)| median(all))
    }

    /// Returns the lines of a chart: `up` against the key `across`, of rows that match all of
    /// `only` (`mib=64 pes=4`); one line per combination of the other keys.
    pub fn series(&self, table: &str, across: &str, only: &str, up: &str) -> Vec<Series> {
        let fixed: Vec<(&str, &str)> =
            only.split(' ').filter_map(|pair| pair.split_once('=')).collect();
        let mut lines: Vec<Series> = Vec::new();
        for row in self.0.get(table).into_iter().flatten() {
            let key = |name: &str| row.keys.iter().find(|(k, _)| *k == name).map(|(_, v)| v);
            let x = key(across).and_then(|text| text.parse::<f64>().ok());
            let y = row.values.iter().find(|(name, _)| *name == up).map(|(_, all)| median(all));
            let (Some(x), Some(y)) = (x, y) else { continue };
            if fixed.iter().any(|(name, of)| key(name).is_none_or(|value| value != of)) {
                continue;
            }
            let is_fixed = |name: &str| fixed.iter().any(|(fixed, _)| *fixed == name);
            let others = row.keys.iter().filter(|(k, _)| *k != across && !is_fixed(k));
            let name = others.map(|(k, v)| match *k {
                "faults" => format!("{v} faults"),
                "pes" => format!("{v} PEs"),
                "mib" => format!("{v} MiB"),
                _ => v.clone(),
            });
            let name = name.collect::<Vec<_>>().join(", ");
            let name = if name.is_empty() { up.to_owned() } else { name };
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push((x, y)),
                None => lines.push(Series { name, points: vec![(x, y)] }),
            }
        }
        for line in &mut lines {
            line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        }
        lines
    }

    /// Formats a table as CSV: keys, then medians, in four digits.
    fn csv(rows: &[Row]) -> String {
        let Some(first) = rows.first() else { return String::new() };
        let keys = first.keys.iter().map(|(name, _)| (*name).to_owned());
        let names: Vec<&str> = rows.iter().fold(Vec::new(), |mut names, row| {
            names.extend(row.values.iter().map(|(name, _)| *name));
            names.dedup();
            names
        });
        let mut columns: Vec<&str> = Vec::new();
        names.into_iter().for_each(|name| {
            if !columns.contains(&name) {
                columns.push(name);
            }
        });
        let heading = keys.chain(columns.iter().map(|name| (*name).to_owned()));
        let mut text = heading.collect::<Vec<_>>().join(",") + "\n";
        for row in rows {
            let value = |column: &&str| {
                let found = row.values.iter().find(|(name, _)| name == column);
                found.map_or(String::new(), |(_, all)| digits(median(all)))
            };
            let cells = row.keys.iter().map(|(_, v)| v.clone()).chain(columns.iter().map(value));
            text += &(cells.collect::<Vec<_>>().join(",") + "\n");
        }
        text
    }

    /// Writes `NAME.csv` for each table.
    pub fn write(&self, folder: &Path) -> Result<(), Trouble> {
        for (name, rows) in &self.0 {
            let path = folder.join(format!("{name}.csv"));
            std::fs::write(&path, Tables::csv(rows))
                .map_err(|e| Trouble::new(format!("{}: {e}", path.display())))?;
        }
        Ok(())
    }
}

/// Rounds to four digits, the precision of medians over a few rounds.
fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    let rounded = (value * scale).round() / scale;
    format!("{rounded:.6}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Runs this module's checks under `cargo test`.
pub fn check() {
    let mut tables = Tables::default();
    let keys = |mode: &str, pes: &str| vec![("mode", mode.to_owned()), ("pes", pes.to_owned())];
    for (mode, pes, ms) in [("a", "4", 3.0), ("a", "4", 1.0), ("a", "4", 2.0), ("a", "2", 5.0)] {
        tables.add("t", &keys(mode, pes), &[("ms", ms)]);
    }
    tables.add("t", &keys("b", "4"), &[("ms", 12345.678), ("s", 0.5)]);
    assert_eq!(tables.cell("t", &[("mode", "a"), ("pes", "4")], "ms"), Some(2.0));
    assert_eq!(tables.cell("t", &[("mode", "c")], "ms"), None);
    let csv = Tables::csv(&tables.0["t"]);
    assert_eq!(csv, "mode,pes,ms,s\na,4,2,\na,2,5,\nb,4,12350,0.5\n");
    let series = tables.series("t", "pes", "mode=a", "ms");
    assert_eq!(
        (series.len(), series[0].points.as_slice()),
        (1, [(2.0, 5.0), (4.0, 2.0)].as_slice())
    );
}
