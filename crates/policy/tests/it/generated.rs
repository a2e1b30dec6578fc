//! A thousand programs: valid ones put together from pieces, the same with damage, and noise.
//!
//! The numbers come from a fixed seed, so every run checks the same programs.

use silica_policy::{Action, Policy, Preset};

/// How many programs are generated.
const PROGRAMS: u32 = 1_000;
const STATEMENTS_MAX: u32 = 30;
const DEPTH_MAX: u32 = 6;

/// A small generator of numbers (xorshift), so that no other crate is needed.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 33) % u64::from(below)) as u32
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.roll(from.len() as u32) as usize]
    }
}

const NAMES: [&str; 16] = [
    "x",
    "df",
    "eval",
    "os",
    "np",
    "getattr",
    "__builtins__",
    "self",
    "f",
    "data",
    "open",
    "größe",
    "_",
    "print",
    "exec",
    "n",
];
const ATTRIBUTES: [&str; 10] = [
    "system",
    "__class__",
    "mean",
    "__subclasses__",
    "path",
    "join",
    "format",
    "gi_frame",
    "T",
    "read_csv",
];
const TEXTS: [&str; 8] = [
    "'os'",
    "'sys' 'tem'",
    "f'{x}'",
    "'/etc/passwd'",
    "b'a'",
    "'{0.__class__}'",
    "r'\\d'",
    "f\"{x!r:>{n}}\"",
];
const OPERATORS: [&str; 12] =
    ["+", "-", "*", "**", "<<", "and", "or", "==", "in", "not in", "@", "//"];
const MODULES: [&str; 8] =
    ["os", "numpy as np", "os.path", "importlib", "math, sys", "ctypes as c", "pandas", "json"];
const ESCAPES: [&str; 6] =
    ["!ls", "%time eval('1')", "%matplotlib inline", "x = !ls", "%%bash", "df?"];
const NOISE: [&str; 20] = [
    "(", ")", "[", "'''", "\"", "\\", "\0", "\u{202e}", "\t", "\r\n", "é", "lambda", ":=", "$",
    "f'{", "}", "#", "...", "`", "\u{feff}",
];

fn expression(dice: &mut Dice, depth: u32) -> String {
    if depth == 0 {
        return match dice.roll(3) {
            0 => dice.pick(&NAMES).to_owned(),
            1 => dice.pick(&TEXTS).to_owned(),
            _ => format!("{}", dice.roll(1_000_000)),
        };
    }
    let below = depth - 1;
    let mut inner = || expression(dice, below);
    let a = inner();
    let b = inner();
    match dice.roll(12) {
        0 => format!("{a}.{}", dice.pick(&ATTRIBUTES)),
        1 => format!("{}({a}, {b})", dice.pick(&NAMES)),
        2 => format!("({a} {} {b})", dice.pick(&OPERATORS)),
        3 => format!("[{a} for {} in {b}]", dice.pick(&NAMES)),
        4 => format!("{{{a}: {b}}}"),
        5 => format!("(lambda {}={a}: {b})", dice.pick(&NAMES)),
        6 => format!("({a} if {b} else None)"),
        7 => format!("({a})[{b}:]"),
        8 => format!("({} := {a})", dice.pick(&NAMES)),
        9 => format!("({a}).{}({b})", dice.pick(&ATTRIBUTES)),
        10 => format!("getattr({a}, {})", dice.pick(&TEXTS)),
        _ => format!("-({a}, *{b})"),
    }
}

fn statement(dice: &mut Dice, indent: usize, depth: u32, out: &mut String) {
    let margin = "    ".repeat(indent);
    let value = expression(dice, depth);
    let name = dice.pick(&NAMES);
    let block = indent < 4;
    let line: String = match dice.roll(12) {
        0 => format!("import {}", dice.pick(&MODULES)),
        1 => format!("from {} import {} as {name}", dice.pick(&NAMES), dice.pick(&ATTRIBUTES)),
        2 => format!("{name} = {value}"),
        3 if block => format!("while {value}:"),
        4 if block => format!("def {name}({}={value}):", dice.pick(&NAMES)),
        5 if block => format!("for {name} in {value}:"),
        6 if block => format!("with {value} as {name}:"),
        7 if block => format!("class {name}({value}):"),
        8 => dice.pick(&ESCAPES).to_owned(),
        9 => format!("assert {value}, {name}"),
        10 => format!("del {name}[{value}]"),
        _ => value,
    };
    let opens = line.ends_with(':');
    out.extend([margin.as_str(), line.as_str(), "\n"]);
    if opens {
        for _ in 0..=dice.roll(2) {
            statement(dice, indent + 1, depth.saturating_sub(1), out);
        }
    }
}

fn valid(dice: &mut Dice) -> String {
    let mut code = String::new();
    for _ in 0..=dice.roll(STATEMENTS_MAX) {
        let depth = dice.roll(DEPTH_MAX);
        statement(dice, 0, depth, &mut code);
    }
    code
}

/// Cuts, doubles and sprinkles noise into a program.
fn broken(dice: &mut Dice, code: &str) -> String {
    let mut chars: Vec<char> = code.chars().collect();
    for _ in 0..=dice.roll(12) {
        let place = dice.roll(chars.len() as u32 + 1) as usize;
        match dice.roll(4) {
            0 => chars.truncate(place.max(1)),
            1 if place < chars.len() => {
                chars.remove(place);
            }
            2 => {
                let piece: Vec<char> = chars.iter().copied().skip(place).take(40).collect();
                chars.splice(place..place, piece);
            }
            _ => {
                let noise = dice.pick(&NOISE).repeat(1 + dice.roll(50) as usize);
                chars.splice(place..place, noise.chars());
            }
        }
    }
    chars.into_iter().collect()
}

fn noise(dice: &mut Dice) -> String {
    let mut code = String::new();
    for _ in 0..dice.roll(3_000) {
        let piece = match dice.roll(4) {
            0 => dice.pick(&NOISE),
            1 => dice.pick(&NAMES),
            2 => dice.pick(&OPERATORS),
            _ => "\n",
        };
        code.push_str(piece);
    }
    code
}

#[test]
fn a_thousand_programs_are_read_to_the_end() {
    let mut dice = Dice(0x5eed_1234_abcd_0001);
    let mut found = [0_usize; 3];
    for number in 0..PROGRAMS {
        let whole = valid(&mut dice);
        let code = match number % 3 {
            0 => whole,
            1 => broken(&mut dice, &whole),
            _ => noise(&mut dice),
        };
        for preset in Preset::ALL {
            let report = Policy::preset(preset).check(&code);
            let strongest = report.findings.iter().map(|finding| finding.action).max();
            assert_eq!(strongest.unwrap_or(Action::Allow), report.verdict);
            drop(report.render(&code, "a.py"));
            drop(report.feedback());
            found[preset as usize] += report.findings.len();
        }
    }
    // The programs are full of what strict forbids, so finding little would mean not looking.
    assert!(found[0] > 5_000 && found[0] > found[1] && found[1] > found[2], "{found:?}");
}
