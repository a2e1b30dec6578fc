//! Pictures: bars for comparisons, lines for growth. Plain SVG that follows light and dark.
//!
//! Labels are next to what they name, so there is no legend. Both draw through a
//! [`Canvas`], which knows how wide words are and keeps them inside the frame.

mod axis;
mod bars;
mod canvas;
mod lines;
#[cfg(test)]
mod tests;

pub(crate) use axis::Scale;
pub(crate) use bars::{Bar, bars};
pub(crate) use lines::{LineChart, lines};
