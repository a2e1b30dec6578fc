//! From values to places: straight or logarithmic, with ticks at round numbers.

/// The most ticks of an axis; more would run into each other.
const TICKS_MAX: usize = 8;

/// How an axis grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Straight,
    Logarithmic,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// An axis that holds all values, drawn from one place to another. A straight one begins at
    /// zero, so that lengths can be compared.
    pub(super) fn new(scale: Scale, values: &[f64], from: f64, to: f64) -> Self {
        let usable =
            |value: &&f64| value.is_finite() && (scale == Scale::Straight || **value > 0.0);
        let fold = |start: f64, pick: fn(f64, f64) -> f64| {
            values.iter().filter(usable).fold(start, |most, &value| pick(most, value))
        };
        let (least, most) = (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max));
        let (low, high) = match scale {
            _ if !least.is_finite() => (1.0, 10.0),
            Scale::Straight => (least.min(0.0), if most > 0.0 { most } else { 1.0 }),
            Scale::Logarithmic => decades(least, most),
        };
        Self { scale, low, high, from, to }
    }

    /// Where a value lies; one that the axis cannot show lies at its beginning.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Straight => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic if value > 0.0 => {
                (value / self.low).ln() / (self.high / self.low).ln()
            }
            Scale::Logarithmic => 0.0,
        };
        let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
        self.from + share * (self.to - self.from)
    }

    pub(super) fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Straight => straight_ticks(self.low, self.high),
            Scale::Logarithmic => logarithmic_ticks(self.low, self.high),
        }
    }
}

/// Powers of ten around two values, at least one apart.
fn decades(least: f64, most: f64) -> (f64, f64) {
    let low = 10_f64.powf(least.log10().floor());
    let high = 10_f64.powf(most.log10().ceil());
    (low, if high > low { high } else { low * 10.0 })
}

fn logarithmic_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().round() as i32, high.log10().round() as i32);
    let every = ((last - first) as usize / TICKS_MAX + 1) as i32;
    (first..=last)
        .filter(|power| (power - first) % every == 0)
        .map(|power| 10_f64.powi(power))
        .collect()
}

fn straight_ticks(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / (TICKS_MAX as f64 / 2.0);
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 5.0, 10.0].map(|part| part * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(rough);
    let first = (low / step).ceil() as i64;
    let last = (high * 1.0001 / step).floor() as i64;
    (first..=last).map(|index| index as f64 * step).collect()
}
