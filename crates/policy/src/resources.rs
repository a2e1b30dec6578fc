//! Sizes, powers, steps and pauses that no sandbox has room or time for.

use ruff_python_ast::{Expr, ExprBinOp, ExprCall, Operator};

use crate::fold;
use crate::names::Names;

/// One amount that a piece of code would use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Use {
    pub(crate) measure: Measure,
    pub(crate) amount: f64,
}

/// The kind of an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Elements of a list, an array or a string.
    Size,
    /// Bits of a number.
    Number,
    /// Iterations of a loop.
    Steps,
    /// Seconds of sleeping.
    Pause,
}

impl Measure {
    pub(crate) const ALL: [Self; 4] = [Self::Size, Self::Number, Self::Steps, Self::Pause];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Number => "number",
            Self::Steps => "steps",
            Self::Pause => "pause",
        }
    }
}

/// Functions that make an array of the size of their first argument.
const SIZED: [&str; 9] = [
    "bytes",
    "bytearray",
    "numpy.zeros",
    "numpy.ones",
    "numpy.empty",
    "numpy.full",
    "numpy.arange",
    "numpy.eye",
    "numpy.identity",
];
/// Functions that make an array of the size of all their arguments together.
const SIZED_BY_ALL: [&str; 3] = ["numpy.random.rand", "numpy.random.randn", "numpy.random.random"];
/// Functions that store all elements of their argument.
const KEEPING: [&str; 5] = ["list", "tuple", "set", "sorted", "numpy.array"];

/// Returns what an operator would use.
pub(crate) fn of_operator(names: &Names<'_>, binary: &ExprBinOp) -> Option<Use> {
    let number = |expr| fold::number(names, expr);
    match binary.op {
        Operator::Mult => {
            let (sequence, count) = match (length(&binary.left), length(&binary.right)) {
                (Some(length), None) => (length, number(&binary.right)?),
                (None, Some(length)) => (length, number(&binary.left)?),
                _ => return None,
            };
            Some(Use { measure: Measure::Size, amount: sequence * count })
        }
        Operator::Pow => {
            let base = number(&binary.left)?;
            let exponent = number(&binary.right)?;
            let whole = base.fract() == 0.0 && exponent.fract() == 0.0 && exponent > 0.0;
            // A power of floats overflows and takes no memory.
            let bits = base.abs().log2() * exponent;
            (whole || exponent.is_infinite())
                .then_some(Use { measure: Measure::Number, amount: bits })
        }
        Operator::LShift => {
            number(&binary.left)?;
            Some(Use { measure: Measure::Number, amount: number(&binary.right)? })
        }
        _ => None,
    }
}

/// Returns the length of a literal list or string.
fn length(expr: &Expr) -> Option<f64> {
    let length = match expr {
        Expr::List(list) => list.elts.len(),
        Expr::Tuple(tuple) => tuple.elts.len(),
        Expr::StringLiteral(text) => text.value.to_str().len(),
        Expr::BytesLiteral(bytes) => bytes.value.bytes().count(),
        _ => return None,
    };
    Some(length as f64)
}

/// Returns what a call would use, if the function has one of these paths.
pub(crate) fn of_call(names: &Names<'_>, paths: &[String], call: &ExprCall) -> Option<Use> {
    let arguments = &*call.arguments.args;
    let first = arguments.first()?;
    let is = |known: &[&str]| paths.iter().any(|path| known.contains(&path.as_str()));
    if is(&SIZED) {
        return Some(Use { measure: Measure::Size, amount: extent(names, first)? });
    }
    if is(&SIZED_BY_ALL) {
        let amount = arguments.iter().try_fold(1.0, |size, each| Some(size * extent(names, each)?));
        return Some(Use { measure: Measure::Size, amount: amount? });
    }
    if is(&KEEPING) {
        return Some(Use { measure: Measure::Size, amount: steps(names, first)? });
    }
    if is(&["time.sleep", "asyncio.sleep"]) {
        return Some(Use { measure: Measure::Pause, amount: fold::number(names, first)? });
    }
    None
}

/// Returns how many iterations a loop over this would have.
pub(crate) fn of_loop(names: &Names<'_>, over: &Expr) -> Option<Use> {
    Some(Use { measure: Measure::Steps, amount: steps(names, over)? })
}

/// Returns the number of elements of a shape, which is a number or a tuple of them.
fn extent(names: &Names<'_>, shape: &Expr) -> Option<f64> {
    let sides = match shape {
        Expr::Tuple(tuple) => &tuple.elts,
        Expr::List(list) => &list.elts,
        other => return fold::number(names, other),
    };
    sides.iter().try_fold(1.0, |size, side| Some(size * fold::number(names, side)?))
}

/// Returns the length of a literal `range(…)`.
fn steps(names: &Names<'_>, over: &Expr) -> Option<f64> {
    let Expr::Call(call) = over else { return None };
    if !names.paths(&call.func).iter().any(|path| path == "range") {
        return None;
    }
    let number = |place: usize| fold::number(names, &call.arguments.args[place]);
    let (start, end, step) = match call.arguments.args.len() {
        1 => (0.0, number(0)?, 1.0),
        2 => (number(0)?, number(1)?, 1.0),
        3 => (number(0)?, number(1)?, number(2)?),
        _ => return None,
    };
    let steps = ((end - start) / step).max(0.0);
    (!steps.is_nan()).then_some(steps)
}
