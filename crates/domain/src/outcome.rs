//! How a cell ended. The guest's code failing is data, not an error of ours.

#[cfg(test)]
mod tests;

use crate::{Limit, Limits};

/// How a cell ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ran to its end.
    Ok,
    /// It raised an exception that nothing caught.
    Raised,
    /// It asked to exit with this status.
    Exited(i32),
    /// It was interrupted from outside.
    Interrupted,
    /// It ran out of time on the clock.
    TimedOut,
    /// It ran out of processor time.
    CpuExceeded,
    /// The kernel killed its interpreter for lack of memory.
    OutOfMemory,
    /// Its interpreter was ended by this signal.
    Crashed(i32),
    /// Its interpreter left with this status without saying so.
    Vanished(i32),
    /// Its interpreter stopped speaking the protocol.
    Disconnected,
    /// The whole sandbox ended under it.
    SandboxDied,
    /// It never began: a person denied it, or none approved it in time.
    Denied,
}

impl Outcome {
    /// Returns its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Raised => "raised",
            Self::Exited(_) => "exited",
            Self::Interrupted => "interrupted",
            Self::TimedOut => "timed_out",
            Self::CpuExceeded => "cpu_exceeded",
            Self::OutOfMemory => "out_of_memory",
            Self::Crashed(_) => "crashed",
            Self::Vanished(_) => "vanished",
            Self::Disconnected => "disconnected",
            Self::SandboxDied => "sandbox_died",
            Self::Denied => "denied",
        }
    }

    /// Returns the exit status that a shell would show for it.
    pub fn exit_code(self) -> i32 {
        match self {
            Self::Ok => 0,
            Self::Raised => 1,
            Self::Exited(status) | Self::Vanished(status) => status & 0xff,
            // 128 and the number of a signal, as in a shell: SIGINT here, SIGXCPU and SIGKILL
            // below. 124 is what timeout(1) answers.
            Self::Interrupted => 130,
            Self::TimedOut => 124,
            Self::CpuExceeded => 152,
            Self::OutOfMemory => 137,
            Self::Crashed(signal) => 128 + signal,
            // EX_SOFTWARE of sysexits.h: the failure is not the code's own.
            Self::Disconnected | Self::SandboxDied => 70,
            // What a shell answers for a program that may not be run.
            Self::Denied => 126,
        }
    }

    /// Describes what happened, for people; `None` where the code's own words say it all. `setting`
    /// names what raises a limit: a flag, or a field of a request.
    pub fn explain(
        self,
        limits: &Limits,
        setting: impl Fn(Limit) -> &'static str,
    ) -> Option<String> {
        let hit = |limit: Limit, what: &str| {
            Some(LimitHit::new(limit, limits, what).message(setting(limit)))
        };
        match self {
            Self::Ok | Self::Raised | Self::Exited(_) => None,
            Self::Interrupted => Some("interrupted".to_owned()),
            Self::TimedOut => hit(Limit::Wall, "the code ran longer than"),
            Self::CpuExceeded => hit(Limit::Cpu, "the code used more processor time than"),
            Self::OutOfMemory => hit(Limit::Memory, "the code needed more memory than"),
            Self::Crashed(signal) => Some(format!("the interpreter was killed by signal {signal}")),
            Self::Vanished(status) => {
                Some(format!("the interpreter left with status {status} in the middle of the code"))
            }
            Self::Disconnected => {
                Some("the code broke the connection between interpreter and host".to_owned())
            }
            Self::SandboxDied => Some("the sandbox ended while the code ran".to_owned()),
            Self::Denied => Some("the code was not approved, so it did not run".to_owned()),
        }
    }
}

/// A limit that a cell ran into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitHit {
    pub limit: Limit,
    /// What was hit: words of the shape "«what» 60 s (the wall limit)".
    words: String,
}

impl LimitHit {
    /// Records that `what` happened, and the value of the limit.
    pub fn new(limit: Limit, limits: &Limits, what: &str) -> Self {
        let words = format!("{what} {} (the {} limit)", limits.describe(limit), limit.name());
        Self { limit, words }
    }

    /// Describes what was hit and how to raise it, by the name that it has for the reader.
    pub fn message(&self, setting: &str) -> String {
        format!("{}; raise it with {setting}", self.words)
    }
}
