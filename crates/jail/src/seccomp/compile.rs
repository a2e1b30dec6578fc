//! Compiles rules to a BPF program: a balanced search tree over ranges of numbers, with the checks
//! of arguments at the leaves.
//!
//! It is balanced because the kernel runs a new filter once for every system call number, to
//! remember which are always allowed: a chain of 300 comparisons takes a millisecond to load, a
//! tree a tenth.

use silica_gate::Instruction;

use super::rules::{ArgumentCheck, CallAction, CallRule, CallVerdict, HIGHEST_KNOWN, verdict};

const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
const X32_SYSCALL_BIT: u32 = 0x4000_0000;

const LOAD_WORD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP_ALWAYS: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_BITS: u16 = 0x45;
const RETURN: u16 = 0x06;

const ALLOW: u32 = 0x7fff_0000;
const KILL_PROCESS: u32 = 0x8000_0000;
const ERRNO: u32 = 0x0005_0000;
const DENIED: u32 = ERRNO | libc::EPERM as u32;
const NO_SUCH_CALL: u32 = ERRNO | libc::ENOSYS as u32;
const NO_SUCH_FAMILY: u32 = ERRNO | libc::EAFNOSUPPORT as u32;

const OFFSET_NUMBER: u32 = 0;
const OFFSET_ARCHITECTURE: u32 = 4;
const OFFSET_ARGUMENTS: u32 = 16;

fn op(code: u16, operand: u32) -> Instruction {
    Instruction { code, operand, ..Instruction::default() }
}

fn jump(code: u16, operand: u32, jump_true: u8, jump_false: u8) -> Instruction {
    Instruction { code, jump_true, jump_false, operand }
}

/// Compiles the rules for x86-64.
pub fn compile(rules: &[CallRule]) -> Vec<Instruction> {
    let mut program = vec![
        op(LOAD_WORD, OFFSET_ARCHITECTURE),
        jump(JUMP_IF_EQUAL, AUDIT_ARCH_X86_64, 1, 0),
        op(RETURN, KILL_PROCESS),
        op(LOAD_WORD, OFFSET_NUMBER),
        jump(JUMP_IF_AT_LEAST, X32_SYSCALL_BIT, 0, 1),
        op(RETURN, KILL_PROCESS),
    ];
    program.extend(search(&ranges(rules)));
    program
}

/// Returns the runs of neighbouring numbers with the same verdict, by their first number.
fn ranges(rules: &[CallRule]) -> Vec<(u32, CallVerdict)> {
    let mut ranges: Vec<(u32, CallVerdict)> = Vec::new();
    for number in 0..=HIGHEST_KNOWN + 1 {
        let verdict = verdict(rules, number);
        if ranges.last().is_none_or(|&(_, last)| last != verdict) {
            ranges.push((number, verdict));
        }
    }
    ranges
}

fn search(ranges: &[(u32, CallVerdict)]) -> Vec<Instruction> {
    if let [(_, verdict)] = ranges {
        return leaf(*verdict);
    }
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let below = search(low);
    let above = search(high);
    let first_above = high[0].0;
    let mut program = match u8::try_from(below.len()) {
        Ok(over) => vec![jump(JUMP_IF_AT_LEAST, first_above, over, 0)],
        // A conditional jump reaches 255 instructions; farther goes by an unconditional one.
        Err(_) => {
            vec![jump(JUMP_IF_AT_LEAST, first_above, 0, 1), op(JUMP_ALWAYS, below.len() as u32)]
        }
    };
    program.extend(below);
    program.extend(above);
    program
}

fn leaf(verdict: CallVerdict) -> Vec<Instruction> {
    match verdict {
        CallVerdict::Ruled(CallAction::Allow) => vec![op(RETURN, ALLOW)],
        CallVerdict::Ruled(CallAction::NoSuchCall) | CallVerdict::Unknown => {
            vec![op(RETURN, NO_SUCH_CALL)]
        }
        CallVerdict::Denied => vec![op(RETURN, DENIED)],
        CallVerdict::Ruled(CallAction::When(check)) => checked(check),
    }
}

/// Loads the low half of an argument; this machine is little endian.
fn load(argument: u8) -> Instruction {
    op(LOAD_WORD, OFFSET_ARGUMENTS + 8 * u32::from(argument))
}

fn checked(check: ArgumentCheck) -> Vec<Instruction> {
    match check {
        ArgumentCheck::NoneOf { argument, mask } => vec![
            load(argument),
            jump(JUMP_IF_BITS, mask, 1, 0),
            op(RETURN, ALLOW),
            op(RETURN, DENIED),
        ],
        ArgumentCheck::OneOf { argument, values } => {
            among(vec![load(argument)], values, ALLOW, DENIED)
        }
        ArgumentCheck::NotOneOf { argument, values } => {
            among(vec![load(argument)], values, DENIED, ALLOW)
        }
        ArgumentCheck::MaskedNotOneOf { argument, mask, values } => {
            among(vec![load(argument), op(AND, mask)], values, DENIED, ALLOW)
        }
        ArgumentCheck::Each { tests } => each(tests),
    }
}

/// Runs `start`, then compares with each value: returns `hit` if one is equal, else `miss`.
fn among(start: Vec<Instruction>, values: &[u32], hit: u32, miss: u32) -> Vec<Instruction> {
    let mut program = start;
    for (index, &value) in values.iter().enumerate() {
        let over = (values.len() - index) as u8;
        program.push(jump(JUMP_IF_EQUAL, value, over, 0));
    }
    program.push(op(RETURN, miss));
    program.push(op(RETURN, hit));
    program
}

/// Runs one test after the other. The first that fails returns EAFNOSUPPORT, as for a family of
/// sockets that does not exist.
fn each(tests: &[(u8, u32, &[u32])]) -> Vec<Instruction> {
    let mut program = Vec::new();
    for &(argument, mask, values) in tests {
        let mut test = among(vec![load(argument), op(AND, mask)], values, ALLOW, NO_SUCH_FAMILY);
        // In place of the return on a hit, the next test follows.
        test.pop();
        program.extend(test);
    }
    program.push(op(RETURN, ALLOW));
    program
}
