//! Code together with the report of the policy that checked it.

use std::sync::Arc;

use crate::{Policy, Report};

/// Code that a policy has checked. Only [`Policy::check_code`] makes one, so that
/// its holder need not check the code by that policy again.
#[derive(Clone, Debug)]
pub struct CheckedCode {
    code: Arc<str>,
    policy: u64,
    report: Arc<Report>,
}

impl CheckedCode {
    /// Returns the code.
    pub fn code(&self) -> &Arc<str> {
        &self.code
    }

    /// Returns what the policy found.
    pub fn report(&self) -> &Arc<Report> {
        &self.report
    }

    /// Returns the report if this policy made it; `None` if another policy did.
    pub fn report_of(&self, policy: &Policy) -> Option<&Arc<Report>> {
        (self.policy == policy.number()).then_some(&self.report)
    }
}

impl Policy {
    /// Checks code and keeps the report with it.
    pub fn check_code(&self, code: impl Into<Arc<str>>) -> CheckedCode {
        let code = code.into();
        let report = Arc::new(self.check(&code));
        CheckedCode { code, policy: self.number(), report }
    }
}
