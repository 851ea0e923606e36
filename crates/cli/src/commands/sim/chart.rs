//! Curves as SVG: axes with round numbers, a legend beside them, nothing else.

use std::fmt::Write;

use sim::swim::experiments::{Curve, Findings};

const WIDTH: f64 = 1_130.0;
const HEIGHT: f64 = 480.0;
const LEFT: f64 = 70.0;
/// Room for the legend, which would hide curves within the axes.
const RIGHT: f64 = 290.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 60.0;
const LEGEND: f64 = WIDTH - RIGHT + 16.0;
/// About so many numbers along an axis.
const TICKS: f64 = 8.0;
/// Colours that people with any kind of sight can tell apart (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

/// The picture of an experiment.
pub(super) fn svg(findings: &Findings) -> String {
    let frame = Frame::around(&findings.curves, findings.axes.is_x_log);
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        svg,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
         <text x=\"{LEFT}\" y=\"24\" font-size=\"14\">{}</text>\n",
        escaped(&findings.title)
    );
    axes(&mut svg, &frame, findings);
    for (number, curve) in findings.curves.iter().enumerate() {
        draw(&mut svg, &frame, curve, number);
    }
    svg.push_str("</svg>\n");
    svg
}

/// What part of the plane is shown.
#[derive(Debug, PartialEq)]
struct Frame {
    x: (f64, f64),
    y: (f64, f64),
    is_x_log: bool,
}

impl Frame {
    fn around(curves: &[Curve], is_x_log: bool) -> Self {
        let points = || curves.iter().flat_map(|curve| &curve.points);
        let most = |along: fn(&(f64, f64)) -> f64| points().map(along).fold(0.0, f64::max);
        let least_x = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let x_min = if is_x_log && least_x.is_finite() { least_x.max(f64::MIN_POSITIVE) } else { 0.0 };
        // Where all is zero the axis goes up to one, so that the curve lies on the lower edge.
        let or_one = |most: f64| if most > 0.0 { most } else { 1.0 };
        let x_max =
            if is_x_log { most(|point| point.0).max(x_min * 2.0) } else { or_one(most(|point| point.0)) };
        Frame { x: (x_min, x_max), y: (0.0, or_one(most(|point| point.1))), is_x_log }
    }

    fn place(&self, (x, y): (f64, f64)) -> (f64, f64) {
        let share = if self.is_x_log {
            (x / self.x.0).ln() / (self.x.1 / self.x.0).ln()
        } else {
            (x - self.x.0) / (self.x.1 - self.x.0)
        };
        let up = (y - self.y.0) / (self.y.1 - self.y.0);
        (LEFT + share * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM))
    }

    /// Where numbers stand along the lower edge.
    fn x_ticks(&self) -> Vec<f64> {
        if !self.is_x_log {
            return round_numbers(self.x.1);
        }
        std::iter::successors(Some(self.x.0), |x| Some(x * 2.0))
            .take_while(|x| *x <= self.x.1 * 1.001)
            .collect()
    }
}

/// Round numbers from zero up to this, about as many as fit.
fn round_numbers(max: f64) -> Vec<f64> {
    let rough = max / TICKS;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(max);
    (0..).map(|number| f64::from(number) * step).take_while(|number| *number <= max * 1.000_001).collect()
}

fn axes(svg: &mut String, frame: &Frame, findings: &Findings) {
    let (left, bottom) = frame.place((frame.x.0, 0.0));
    let (right, top) = (WIDTH - RIGHT, TOP);
    for x in frame.x_ticks() {
        let (at, _) = frame.place((x, 0.0));
        let _ = writeln!(
            svg,
            "<line x1=\"{at:.1}\" y1=\"{top:.1}\" x2=\"{at:.1}\" y2=\"{bottom:.1}\" stroke=\"#e5e5e5\"/>\
             <text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 18.0,
            number(x)
        );
    }
    for y in round_numbers(frame.y.1) {
        let (_, at) = frame.place((frame.x.0, y));
        let _ = writeln!(
            svg,
            "<line x1=\"{left:.1}\" y1=\"{at:.1}\" x2=\"{right:.1}\" y2=\"{at:.1}\" stroke=\"#e5e5e5\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 6.0,
            at + 4.0,
            number(y)
        );
    }
    let middle = (left + right) / 2.0;
    let _ = writeln!(
        svg,
        "<path d=\"M{left:.1} {top:.1} V{bottom:.1} H{right:.1}\" fill=\"none\" stroke=\"black\"/>\
         <text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>\
         <text x=\"16\" y=\"{:.1}\" text-anchor=\"middle\" transform=\"rotate(-90 16 {:.1})\">{}</text>",
        HEIGHT - 16.0,
        escaped(findings.axes.x),
        (top + bottom) / 2.0,
        (top + bottom) / 2.0,
        escaped(findings.axes.y)
    );
}

fn draw(svg: &mut String, frame: &Frame, curve: &Curve, number: usize) {
    let colour = COLOURS[number % COLOURS.len()];
    let points: Vec<String> = curve
        .points
        .iter()
        .map(|point| {
            let (x, y) = frame.place(*point);
            format!("{x:.1},{y:.1}")
        })
        .collect();
    let legend = TOP + 14.0 + 16.0 * number as f64;
    let _ = writeln!(
        svg,
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"/>\
         <line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\" stroke-width=\"3\"/>\
         <text x=\"{:.1}\" y=\"{legend:.1}\">{}</text>",
        points.join(" "),
        LEGEND,
        legend - 4.0,
        LEGEND + 20.0,
        legend - 4.0,
        LEGEND + 26.0,
        escaped(&curve.name)
    );
}

/// As short as it can be said.
fn number(number: f64) -> String {
    let digits = if number.abs() >= 10.0 || number == number.trunc() { 0 } else { 2 };
    format!("{number:.digits$}")
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(points: Vec<(f64, f64)>) -> Findings {
        let curves = vec![Curve { name: "a < b".to_owned(), points }];
        Findings { title: "crashes & more".to_owned(), curves, ..Findings::default() }
    }

    #[test]
    fn the_axes_have_round_numbers() {
        assert_eq!(round_numbers(10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(round_numbers(1.0), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
    }

    #[test]
    fn the_first_and_the_last_point_are_at_the_edges() {
        let svg = svg(&findings(vec![(0.0, 0.0), (5.0, 0.5), (10.0, 1.0)]));
        assert!(svg.contains("points=\"70.0,420.0 455.0,235.0 840.0,50.0\""), "{svg}");
        assert!(svg.contains("crashes &amp; more") && svg.contains("a &lt; b"), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn what_is_always_zero_lies_on_the_lower_edge_under_round_numbers() {
        let svg = svg(&findings(vec![(10.0, 0.0), (30.0, 0.0)]));
        assert!(svg.contains("points=\"326.7,420.0 840.0,420.0\""), "{svg}");
        assert!(svg.contains(">0.20</text>") && svg.contains(">1</text>"), "{svg}");
    }

    #[test]
    fn the_legend_is_beside_the_curves() {
        let svg = svg(&findings(vec![(0.0, 0.0), (10.0, 1.0)]));
        let line = svg.lines().find(|line| line.contains("a &lt; b")).expect("a legend");
        let text =
            line.rsplit("<text x=\"").next().and_then(|rest| rest.split('"').next()).expect("its place");
        let x: f64 = text.parse().expect("a number");
        assert!(x > 840.0, "{line}");
    }

    #[test]
    fn doublings_are_equally_far_apart() {
        let frame =
            Frame::around(&[Curve { name: String::new(), points: vec![(128.0, 1.0), (512.0, 2.0)] }], true);
        let [a, b, c] = [128.0, 256.0, 512.0].map(|x| frame.place((x, 0.0)).0);
        assert!((b - a - (c - b)).abs() < 1e-6 && frame.x_ticks() == [128.0, 256.0, 512.0]);
    }

    #[test]
    fn nothing_is_a_picture_too() {
        assert!(!svg(&Findings::default()).contains("NaN"));
    }
}
