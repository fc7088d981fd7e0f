//! The table of all rows.

use std::fmt;

use crate::server::Contender;

/// Rows as they come.
#[derive(Debug)]
pub(crate) struct Table {
    contenders: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    work: String,
    floor: Option<f64>,
    values: Vec<f64>,
    unit: &'static str,
    reach: &'static str,
}

impl Table {
    pub(crate) fn new(contenders: &[Contender]) -> Self {
        Self {
            contenders: contenders.iter().map(|one| one.name.clone()).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row: what was done, what is the least that it can take here, what it took each
    /// contender, and what is to be reached.
    pub(crate) fn row(
        &mut self,
        work: &str,
        floor: Option<f64>,
        values: Vec<f64>,
        unit: &'static str,
        reach: &'static str,
    ) {
        self.rows.push(Row {
            work: work.into(),
            floor,
            values,
            unit,
            reach,
        });
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "| work | floor | {} | to reach |",
            self.contenders.join(" | ")
        )?;
        writeln!(f, "|---|---|{}---|", "---|".repeat(self.contenders.len()))?;
        for row in &self.rows {
            write!(f, "| {} |", row.work)?;
            match row.floor {
                Some(floor) => write!(f, " {} |", figure(floor, row.unit))?,
                None => write!(f, " |")?,
            }
            for value in &row.values {
                write!(f, " {}", figure(*value, row.unit))?;
                if let Some(floor) = row.floor.filter(|floor| *floor > 0.0) {
                    write!(f, " ({:.2} x)", value / floor)?;
                }
                write!(f, " |")?;
            }
            writeln!(f, " {} |", row.reach)?;
        }
        Ok(())
    }
}

/// Three digits that mean something.
fn figure(value: f64, unit: &str) -> String {
    let digits = match value {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$} {unit}").trim().to_owned()
}
