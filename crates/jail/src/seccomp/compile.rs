//! From rules to a BPF program: a balanced search over ranges of numbers, tests at the leaves.
//!
//! Balanced because the kernel runs a new filter once for every system call number, to remember
//! which are always allowed: a chain of 300 comparisons costs a millisecond to load, a tree a tenth.

use silica_gate::Instruction;

use super::rules::{Action, Check, HIGHEST_KNOWN, Rule, Verdict, verdict};

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
pub fn compile(rules: &[Rule]) -> Vec<Instruction> {
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

/// Runs of neighbouring numbers with the same verdict, by their first number.
fn ranges(rules: &[Rule]) -> Vec<(u32, Verdict)> {
    let mut ranges: Vec<(u32, Verdict)> = Vec::new();
    for number in 0..=HIGHEST_KNOWN + 1 {
        let verdict = verdict(rules, number);
        if ranges.last().is_none_or(|&(_, last)| last != verdict) {
            ranges.push((number, verdict));
        }
    }
    ranges
}

fn search(ranges: &[(u32, Verdict)]) -> Vec<Instruction> {
    if let [(_, verdict)] = ranges {
        return leaf(*verdict);
    }
    let (low, high) = ranges.split_at(ranges.len() / 2);
    let (below, above) = (search(low), search(high));
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

fn leaf(verdict: Verdict) -> Vec<Instruction> {
    match verdict {
        Verdict::Ruled(Action::Allow) => vec![op(RETURN, ALLOW)],
        Verdict::Ruled(Action::NoSuchCall) | Verdict::Unknown => vec![op(RETURN, NO_SUCH_CALL)],
        Verdict::Denied => vec![op(RETURN, DENIED)],
        Verdict::Ruled(Action::When(check)) => checked(check),
    }
}

/// Loads the low half of an argument.
fn load(argument: u8) -> Instruction {
    op(LOAD_WORD, OFFSET_ARGUMENTS + 8 * u32::from(argument))
}

fn checked(check: Check) -> Vec<Instruction> {
    match check {
        Check::NoneOf { argument, mask } => vec![
            load(argument),
            jump(JUMP_IF_BITS, mask, 1, 0),
            op(RETURN, ALLOW),
            op(RETURN, DENIED),
        ],
        Check::OneOf { argument, values } => among(vec![load(argument)], values, ALLOW, DENIED),
        Check::NotOneOf { argument, values } => among(vec![load(argument)], values, DENIED, ALLOW),
        Check::MaskedNotOneOf { argument, mask, values } => {
            among(vec![load(argument), op(AND, mask)], values, DENIED, ALLOW)
        }
        Check::Each { tests } => each(tests),
    }
}

/// `start`, then a comparison with each value: `hit` if one is equal, else `miss`.
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

/// One test after the other; the first that fails answers as for a family that does not exist.
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
