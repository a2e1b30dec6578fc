//! Prices of tokens.

#[cfg(test)]
mod tests;

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::Tokens;

/// The price of a model: dollars per million tokens read and written, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Price {
    input: u64,
    output: u64,
}

/// A text that is not a price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a price must be dollars per million tokens read and written, such as 3/15")]
pub struct PriceError;

/// The highest price of a million tokens, in dollars.
const DOLLARS_MAX: f64 = 100_000.0;

impl Price {
    /// Returns the cost of tokens.
    pub fn of(self, tokens: Tokens) -> Cost {
        let input = tokens.input.saturating_mul(self.input);
        Cost(input.saturating_add(tokens.output.saturating_mul(self.output)))
    }
}

impl FromStr for Price {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Self, PriceError> {
        let micros = |text: &str| {
            let dollars: f64 = text.trim().parse().map_err(|_| PriceError)?;
            let good = (0.0..=DOLLARS_MAX).contains(&dollars);
            if good { Ok((dollars * 1e6).round() as u64) } else { Err(PriceError) }
        };
        let (input, output) = text.split_once('/').ok_or(PriceError)?;
        Ok(Self { input: micros(input)?, output: micros(output)? })
    }
}

impl std::fmt::Display for Price {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.input as f64 / 1e6, self.output as f64 / 1e6)
    }
}

/// An amount of money, in units of 10⁻¹² dollars, of which the price of a token is a whole number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(u64);

impl Cost {
    /// Creates an amount in dollars; zero for a negative or infinite number.
    pub fn dollars(dollars: f64) -> Self {
        Self((dollars.max(0.0) * 1e12) as u64)
    }

    /// Returns it in dollars.
    pub fn as_dollars(self) -> f64 {
        self.0 as f64 / 1e12
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.0 = self.0.saturating_add(more.0);
    }
}
