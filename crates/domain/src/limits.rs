//! What one sandbox may use. [`Limits`] exist only if every value was checked against the
//! operator's maximum; [`LimitValues`] are what was asked for.
//!
//! Each limit has one row in the table below: its name, field, unit, scope, least, default and
//! largest value. Everything else in this file is made from the table.

#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::time::Duration;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;

/// What the number of a limit counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// Thousandths of a processor.
    Thousandths,
    /// Things.
    Count,
}

/// What a limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitScope {
    /// Fixed when a sandbox is made.
    Sandbox,
    /// A time that is fixed in whole seconds when a sandbox is made, and counted for each cell.
    Both,
    /// Counted for each cell; another cell may have another.
    Cell,
}

/// A value of a limit as a plain number, in the limit's unit.
trait LimitValue {
    fn number(&self) -> u64;
}

impl LimitValue for u64 {
    fn number(&self) -> u64 {
        *self
    }
}

impl LimitValue for u32 {
    fn number(&self) -> u64 {
        (*self).into()
    }
}

impl LimitValue for Duration {
    fn number(&self) -> u64 {
        self.as_millis() as u64
    }
}

macro_rules! limits {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal = $field:ident: $type:ty,
        $unit:ident, $scope:ident, $least:expr, $default:expr, $max:expr;)+) => {
        /// The name of one limit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Limit {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Limit {
            /// Every limit, in the order of the table.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns its name in messages and reports.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns what its number counts.
            pub fn unit(self) -> LimitUnit {
                match self {
                    $(Self::$variant => LimitUnit::$unit,)+
                }
            }

            /// Returns what it applies to.
            pub fn scope(self) -> LimitScope {
                match self {
                    $(Self::$variant => LimitScope::$scope,)+
                }
            }
        }

        /// A value for each limit, not checked.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct LimitValues {
            $($(#[doc = $doc])+ pub $field: $type,)+
        }

        impl LimitValues {
            /// The least of each that works.
            pub const LEAST: Self = Self { $($field: $least,)+ };

            /// Returns the value of one limit, in its unit.
            pub fn get(&self, limit: Limit) -> u64 {
                match limit {
                    $(Limit::$variant => self.$field.number(),)+
                }
            }
        }

        impl Default for LimitValues {
            /// Returns the defaults of the documentation. They are the tight end, so that falling
            /// back to them is safe.
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl Default for LimitsMax {
            fn default() -> Self {
                Self(LimitValues { $($field: $max,)+ })
            }
        }
    };
}

limits! {
    /// Memory of all processes and writable files
    // An interpreter with its libraries needs 32 MiB.
    Memory "memory" = memory_bytes: u64, Bytes, Sandbox, 32 * MIB, 512 * MIB, 16 * GIB;
    /// Processor time of one cell
    Cpu "cpu" = cpu: Duration, Milliseconds, Both,
        Duration::from_millis(1), Duration::from_secs(30), Duration::from_hours(1);
    /// Wall-clock time of one cell
    Wall "wall" = wall: Duration, Milliseconds, Cell,
        Duration::from_millis(1), Duration::from_mins(1), Duration::from_hours(1);
    /// Thousandths of one processor
    // The kernel's least share: one thousandth of a 50 ms period would round to nothing.
    Cpus "cpus" = cpu_millis: u32, Thousandths, Sandbox, 20, 1000, 64_000;
    /// Processes and threads
    // An interpreter and one helper.
    Processes "processes" = processes: u32, Count, Sandbox, 2, 128, 4096;
    /// Open files of one process
    // The three streams, the control socket and some modules.
    OpenFiles "open_files" = open_files: u32, Count, Sandbox, 16, 1024, 65_536;
    /// All writable files together
    // Less does not hold a file system at all.
    Disk "disk" = disk_bytes: u64, Bytes, Sandbox, 64 * KIB, 100 * MIB, 8 * GIB;
    /// One file
    FileSize "file_size" = file_bytes: u64, Bytes, Sandbox, 1, 100 * MIB, 8 * GIB;
    /// Bytes kept of each of stdout and stderr
    Output "output" = output_bytes: u64, Bytes, Cell, 1, 64 * KIB, 64 * MIB;
    /// Results of one cell
    Results "results" = results: u32, Count, Cell, 1, 64, 1024;
    /// Bytes of all results of one cell
    ResultBytes "result_bytes" = result_bytes: u64, Bytes, Cell, 1, 16 * MIB, 64 * MIB;
}

/// The most that the operator allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitsMax(pub LimitValues);

/// What one sandbox may use: values that work and that the operator allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits(LimitValues);

impl Deref for Limits {
    type Target = LimitValues;

    fn deref(&self) -> &LimitValues {
        &self.0
    }
}

/// Why values cannot be limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Zero or too little to work with.
    #[error("the {} limit is {asked}, but at least {least} is needed", .limit.name())]
    TooSmall { limit: Limit, asked: String, least: String },
    /// More than the operator allows.
    #[error("the {} limit is {asked}, but at most {most} is allowed here", .limit.name())]
    TooLarge { limit: Limit, asked: String, most: String },
    /// Files are kept in memory, so they cannot be larger than it.
    #[error(
        "the disk limit is {disk}, but files are kept in memory and the memory limit is {memory}"
    )]
    DiskOverMemory { disk: String, memory: String },
}

impl LimitValues {
    /// Checks every value against what works and what the operator allows.
    pub fn checked(self, max: &LimitsMax) -> Result<Limits, LimitError> {
        for &limit in Limit::ALL {
            let asked = self.get(limit);
            let least = Self::LEAST.get(limit);
            let most = max.0.get(limit);
            let show = |number| limit.unit().describe(number);
            if asked < least {
                let least = show(least);
                return Err(LimitError::TooSmall { limit, asked: show(asked), least });
            }
            if asked > most {
                let most = show(most);
                return Err(LimitError::TooLarge { limit, asked: show(asked), most });
            }
        }
        // Files are a tmpfs that is charged to the sandbox's memory. With less disk than memory, a
        // full disk is an error in the code and not the death of its process
        // (docs/design/writable-memory.md).
        if self.disk_bytes >= self.memory_bytes {
            let disk = self.describe(Limit::Disk);
            let memory = self.describe(Limit::Memory);
            return Err(LimitError::DiskOverMemory { disk, memory });
        }
        Ok(Limits(self))
    }

    /// Describes the value of one limit, for people.
    pub fn describe(&self, limit: Limit) -> String {
        limit.unit().describe(self.get(limit))
    }
}

impl Limits {
    /// Returns these limits with another wall-clock time for one cell, of at most `wall_max`.
    pub fn with_wall(&self, wall: Duration, wall_max: Duration) -> Result<Self, LimitError> {
        // The other values are their own maximum: they were checked when the sandbox was made, and
        // the operator's maximum is not known here.
        let max = LimitsMax(LimitValues { wall: wall_max, ..self.0.clone() });
        LimitValues { wall, ..self.0.clone() }.checked(&max)
    }

    /// Gives one cell more wall-clock time. The caller has checked how much more.
    pub fn extend_wall(&mut self, more: Duration) {
        self.0.wall = self.0.wall.saturating_add(more);
    }

    /// Returns whether a sandbox made with `other` serves for these limits: what is fixed when a
    /// sandbox is made is equal.
    pub fn fixes_the_same(&self, other: &Self) -> bool {
        Limit::ALL.iter().all(|&limit| match limit.scope() {
            LimitScope::Sandbox => self.get(limit) == other.get(limit),
            // The kernel's own limit has whole seconds, at least one; cells are counted exactly.
            LimitScope::Both => {
                let seconds = |limits: &Self| (limits.get(limit) / 1000).max(1);
                seconds(self) == seconds(other)
            }
            LimitScope::Cell => true,
        })
    }
}

impl LimitUnit {
    /// Describes a number of this unit, for people.
    fn describe(self, number: u64) -> String {
        match self {
            Self::Bytes => bytes(number),
            Self::Milliseconds => format!("{} s", number as f64 / 1000.0),
            Self::Thousandths => format!("{}", number as f64 / 1000.0),
            Self::Count => number.to_string(),
        }
    }
}

/// Describes a number of bytes in the largest unit that divides it.
pub(crate) fn bytes(number: u64) -> String {
    for (unit, name) in [(GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")] {
        if number >= unit && number.is_multiple_of(unit) {
            return format!("{} {name}", number / unit);
        }
    }
    format!("{number} bytes")
}
