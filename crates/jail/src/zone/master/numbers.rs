//! The engine's numbers for what it asks for.
//!
//! In packets they are bare integers. The master gives each kind a type of its own, so that the
//! number of an interpreter cannot be used to look up an enclosure.

/// A request, whose reply repeats the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestNumber(pub(super) u64);

/// An enclosure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct EnclosureNumber(pub(super) u64);

/// An interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct KernelNumber(pub(super) u64);

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct CommandNumber(pub(super) u64);
