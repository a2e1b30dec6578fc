//! What is enforced for one sandbox, measure by measure. A report must never claim more than its
//! tier has probed or read back.

use crate::Tier;

/// How far a measure is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// Fully, by the named mechanism.
    Full(String),
    /// In part; the text says how far.
    Partial(String),
    /// Not at all; the text says why.
    Missing(String),
}

/// One measure of containment, and how far it is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measure {
    /// Its stable name.
    pub name: &'static str,
    /// How far it is in force.
    pub enforcement: Enforcement,
}

/// The report: every measure, in a fixed order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Containment {
    /// The isolation tier.
    pub tier: Tier,
    pub measures: Vec<Measure>,
}

impl Containment {
    /// Replaces how far one measure is in force, for a sandbox that differs from its tier's others.
    /// Does nothing if there is no measure of that name.
    pub fn replace(&mut self, name: &str, enforcement: Enforcement) {
        if let Some(measure) = self.measures.iter_mut().find(|measure| measure.name == name) {
            measure.enforcement = enforcement;
        }
    }
}
