//! What an experiment found: a table, curves to draw, and remarks. How they look is the business of whoever shows them.

/// The result of an experiment.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    /// What was done, in a line.
    pub title: String,
    /// The table's columns, named in words with underscores.
    pub columns: Vec<&'static str>,
    /// Its rows.
    pub rows: Vec<Vec<Cell>>,
    /// What the curves' axes mean.
    pub axes: Axes,
    /// What can be drawn.
    pub curves: Vec<Curve>,
    /// Remarks, such as figures of others to compare with.
    pub notes: Vec<String>,
    /// How many events were simulated.
    pub events: u64,
}

/// What the curves' axes mean.
#[derive(Clone, Copy, Debug, Default)]
pub struct Axes {
    /// From left to right.
    pub x: &'static str,
    /// From bottom to top.
    pub y: &'static str,
    /// Each step to the right is a doubling.
    pub is_x_log: bool,
}

/// One value of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A name.
    Text(String),
    /// A whole number.
    Count(u64),
    /// A number and how many digits of it mean something.
    Number(f64, usize),
    /// It did not happen.
    Missing,
}

/// A curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}

impl Findings {
    /// One more point of the curve with this name.
    pub(super) fn add_point(&mut self, name: &str, point: (f64, f64)) {
        match self.curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => self.curves.push(Curve { name: name.to_owned(), points: vec![point] }),
        }
    }
}

impl Cell {
    /// Seconds, to the hundredth.
    pub fn seconds(seconds: Option<f64>) -> Cell {
        seconds.map_or(Cell::Missing, |seconds| Cell::Number(seconds, 2))
    }
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Cell::Count(count)
    }
}

impl From<u32> for Cell {
    fn from(count: u32) -> Self {
        Cell::Count(u64::from(count))
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

/// Times or other amounts of which percentiles are wanted.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    sorted: Vec<f64>,
}

impl Samples {
    /// All of them; their order does not matter.
    pub fn new(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        Samples { sorted: samples }
    }

    /// The value at this share (0 to 1) by nearest rank; `None` of nothing.
    pub fn at(&self, share: f64) -> Option<f64> {
        let rank = (self.sorted.len() as f64 * share).ceil() as usize;
        self.sorted.get(rank.saturating_sub(1)).copied()
    }

    /// The mean; `None` of nothing.
    pub fn mean(&self) -> Option<f64> {
        (!self.sorted.is_empty()).then(|| self.sorted.iter().sum::<f64>() / self.sorted.len() as f64)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Median, 99th and 99.9th percentile, in seconds.
    pub fn row(&self) -> [Cell; 3] {
        [0.5, 0.99, 0.999].map(|share| Cell::seconds(self.at(share)))
    }

    /// Which share is at most that large.
    pub fn distribution(&self, name: impl Into<String>) -> Curve {
        let count = self.sorted.len() as f64;
        let points = (1..).zip(&self.sorted).map(|(rank, sample)| (*sample, f64::from(rank) / count));
        Curve { name: name.into(), points: points.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let samples = Samples::new((1..=1_000).rev().map(f64::from).collect());
        assert_eq!(
            [0.0, 0.5, 0.99, 0.999, 1.0].map(|share| samples.at(share)),
            [1.0, 500.0, 990.0, 999.0, 1000.0].map(Some)
        );
        assert_eq!(samples.mean(), Some(500.5));
        assert_eq!((Samples::default().at(0.5), Samples::default().mean()), (None, None));
    }

    #[test]
    fn a_distribution_ends_at_one() {
        let curve = Samples::new(vec![3.0, 1.0]).distribution("both");
        assert_eq!(curve.points, [(1.0, 0.5), (3.0, 1.0)]);
    }
}
