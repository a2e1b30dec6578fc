//! Finds loops that never end.

use ruff_python_ast::{CmpOp, Expr, Number, UnaryOp};

use crate::names::Names;

/// The loops and functions that the walk is in.
#[derive(Default)]
pub(super) struct Loops {
    frames: Vec<Frame>,
}

enum Frame {
    Loop { endless: bool, left: Left },
    Function,
}

/// The furthest exit of a loop that was seen.
#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Left {
    Nothing,
    Loop,
    Function,
}

impl Loops {
    pub(super) fn enter(&mut self, endless: bool) {
        self.frames.push(Frame::Loop { endless, left: Left::Nothing });
    }

    pub(super) fn enter_function(&mut self) {
        self.frames.push(Frame::Function);
    }

    /// Leaves a loop or function; returns whether it was a loop that never ends.
    pub(super) fn leave(&mut self) -> bool {
        let Some(Frame::Loop { endless, left }) = self.frames.pop() else { return false };
        if left == Left::Function {
            self.mark(Left::Function);
        }
        endless && left == Left::Nothing
    }

    pub(super) fn break_out(&mut self) {
        self.mark(Left::Loop);
    }

    /// Notes what ends all loops of the function: `return`, `raise`, and `yield`, since the
    /// consumer of a generator decides how many values it takes.
    pub(super) fn leave_function(&mut self) {
        self.mark(Left::Function);
    }

    fn mark(&mut self, how: Left) {
        if let Some(Frame::Loop { left, .. }) = self.frames.last_mut()
            && *left < how
        {
            *left = how;
        }
    }
}

/// Whether a condition is constant and true.
pub(super) fn always_true(test: &Expr) -> bool {
    match test {
        Expr::BooleanLiteral(literal) => literal.value,
        Expr::NumberLiteral(literal) => match &literal.value {
            Number::Int(int) => int.as_i64() != Some(0),
            Number::Float(value) => *value != 0.0,
            Number::Complex { .. } => false,
        },
        Expr::StringLiteral(literal) => !literal.value.is_empty(),
        Expr::UnaryOp(unary) if unary.op == UnaryOp::Not => always_false(&unary.operand),
        Expr::Compare(compare) => match (&*compare.left, &*compare.ops, &*compare.comparators) {
            (Expr::NumberLiteral(left), [CmpOp::Eq], [Expr::NumberLiteral(right)]) => {
                left.value == right.value
            }
            _ => false,
        },
        _ => false,
    }
}

fn always_false(test: &Expr) -> bool {
    match test {
        Expr::BooleanLiteral(literal) => !literal.value,
        Expr::NoneLiteral(_) => true,
        Expr::NumberLiteral(literal) => {
            matches!(&literal.value, Number::Int(int) if int.as_i64() == Some(0))
        }
        _ => false,
    }
}

/// Whether a loop is over an infinite iterator.
pub(super) fn never_ends(names: &Names<'_>, over: &Expr) -> bool {
    let Expr::Call(call) = over else { return false };
    let arguments = call.arguments.args.len() + call.arguments.keywords.len();
    names.paths(&call.func).iter().any(|path| match path.as_str() {
        "itertools.count" | "itertools.cycle" => true,
        "itertools.repeat" => arguments == 1,
        _ => false,
    })
}
