//! What a build reports while it runs. This crate prints nothing itself.

use std::time::Duration;

use super::Step;

/// Receives the progress of a build.
pub trait Progress {
    /// Reports that a step begins.
    fn started(&mut self, step: Step);
    /// Reports one line about the step under way.
    fn message(&mut self, text: &str);
    /// Reports how far the step under way is, from 0 to 1.
    fn fraction(&mut self, done: f32);
    /// Reports that a step is done.
    fn finished(&mut self, step: Step, took: Duration);
}

/// Discards all progress.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {
    fn started(&mut self, _step: Step) {}
    fn message(&mut self, _text: &str) {}
    fn fraction(&mut self, _done: f32) {}
    fn finished(&mut self, _step: Step, _took: Duration) {}
}
