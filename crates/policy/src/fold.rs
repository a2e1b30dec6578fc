//! Constant folding: computes strings and numbers that are known from the text.
//!
//! `"sys" + "tem"` and `chr(111) + "s"` are evaluated, so that dividing a word is not enough to
//! hide it. What cannot be computed cheaply has no value here.

use ruff_python_ast::{
    Expr, ExprCall, ExprFString, ExprSubscript, FStringPart, InterpolatedStringElement, Number,
    Operator, UnaryOp,
};

use crate::names::Names;

/// How deep an expression is followed.
const DEPTH_MAX: u32 = 48;
/// How many values one expression may have; a name can refer to several.
pub(crate) const VALUES_MAX: usize = 16;
/// The longest string that is computed.
const TEXT_BYTES_MAX: usize = 4_096;
/// Most pieces of one string.
const PIECES_MAX: usize = 256;

/// Returns what strings an expression can be, as far as the text shows.
pub(crate) fn texts(names: &Names<'_>, expr: &Expr) -> Vec<String> {
    texts_below(names, expr, DEPTH_MAX)
}

/// Returns what number an expression is. Huge ones come to infinity.
pub(crate) fn number(names: &Names<'_>, expr: &Expr) -> Option<f64> {
    number_below(names, expr, DEPTH_MAX)
}

fn texts_below(names: &Names<'_>, expr: &Expr, fuel: u32) -> Vec<String> {
    let Some(fuel) = fuel.checked_sub(1) else { return Vec::new() };
    match expr {
        Expr::StringLiteral(literal) => {
            let text = literal.value.to_str();
            if text.len() > TEXT_BYTES_MAX { Vec::new() } else { vec![text.to_owned()] }
        }
        Expr::Name(name) => names.texts_of(&name.id).to_vec(),
        Expr::Named(walrus) => texts_below(names, &walrus.value, fuel),
        Expr::If(choice) => {
            let mut both = texts_below(names, &choice.body, fuel);
            both.extend(texts_below(names, &choice.orelse, fuel));
            both.truncate(VALUES_MAX);
            both
        }
        Expr::BinOp(sum) if sum.op == Operator::Add => {
            let left = texts_below(names, &sum.left, fuel);
            if left.is_empty() {
                return left;
            }
            product(&left, &texts_below(names, &sum.right, fuel))
        }
        Expr::FString(text) => formatted(names, text, fuel),
        Expr::Call(call) => called(names, call, fuel),
        Expr::Subscript(subscript) => reversed(names, subscript, fuel),
        _ => Vec::new(),
    }
}

fn product(left: &[String], right: &[String]) -> Vec<String> {
    left.iter()
        .flat_map(|left| right.iter().map(move |right| format!("{left}{right}")))
        .filter(|text| text.len() <= TEXT_BYTES_MAX)
        .take(VALUES_MAX)
        .collect()
}

fn formatted(names: &Names<'_>, text: &ExprFString, fuel: u32) -> Vec<String> {
    let mut found = vec![String::new()];
    for part in text.value.iter().take(PIECES_MAX) {
        match part {
            FStringPart::Literal(literal) => found = product(&found, &[literal.value.to_string()]),
            FStringPart::FString(inner) => {
                for element in inner.elements.iter().take(PIECES_MAX) {
                    found = product(&found, &element_texts(names, element, fuel));
                }
            }
        }
    }
    found
}

fn element_texts(names: &Names<'_>, element: &InterpolatedStringElement, fuel: u32) -> Vec<String> {
    match element {
        InterpolatedStringElement::Literal(literal) => vec![literal.value.to_string()],
        InterpolatedStringElement::Interpolation(value) => {
            texts_below(names, &value.expression, fuel)
        }
    }
}

/// `chr(n)`, `"".join([…])` and `"…".replace("a", "b")`, `.lower()`, `.upper()`, `.strip()`.
fn called(names: &Names<'_>, call: &ExprCall, fuel: u32) -> Vec<String> {
    let arguments = &call.arguments.args;
    match &*call.func {
        Expr::Name(name) if name.id == "chr" => arguments
            .first()
            .and_then(|argument| number_below(names, argument, fuel))
            .and_then(|number| char::from_u32(number as u32))
            .map(|c| vec![c.to_string()])
            .unwrap_or_default(),
        Expr::Name(name) if name.id == "str" => {
            arguments.first().map(|value| texts_below(names, value, fuel)).unwrap_or_default()
        }
        Expr::Attribute(method) if method.attr.as_str() == "join" => {
            join(names, &method.value, arguments.first(), fuel)
        }
        Expr::Attribute(method) => {
            let change: fn(&str) -> String = match (method.attr.as_str(), arguments.len()) {
                ("lower" | "casefold", 0) => str::to_lowercase,
                ("upper", 0) => str::to_uppercase,
                ("strip", 0) => |text| text.trim().to_owned(),
                ("replace", 2) => return replaced(names, &method.value, arguments, fuel),
                _ => return Vec::new(),
            };
            texts_below(names, &method.value, fuel).iter().map(|text| change(text)).collect()
        }
        _ => Vec::new(),
    }
}

fn join(names: &Names<'_>, glue: &Expr, pieces: Option<&Expr>, fuel: u32) -> Vec<String> {
    let pieces = match pieces {
        Some(Expr::List(list)) => &list.elts,
        Some(Expr::Tuple(tuple)) => &tuple.elts,
        _ => return Vec::new(),
    };
    let glue = texts_below(names, glue, fuel);
    let (Some(glue), true) = (glue.first(), pieces.len() <= PIECES_MAX) else {
        return Vec::new();
    };
    let mut found = vec![String::new()];
    for (place, piece) in pieces.iter().enumerate() {
        if place > 0 {
            found = product(&found, std::slice::from_ref(glue));
        }
        found = product(&found, &texts_below(names, piece, fuel));
    }
    found
}

fn replaced(names: &Names<'_>, text: &Expr, arguments: &[Expr], fuel: u32) -> Vec<String> {
    let from = texts_below(names, &arguments[0], fuel);
    let to = texts_below(names, &arguments[1], fuel);
    let (Some(from), Some(to)) = (from.first(), to.first()) else { return Vec::new() };
    // Replacing every character by a long text would make the result too long.
    if from.is_empty() || to.len() > PIECES_MAX {
        return Vec::new();
    }
    texts_below(names, text, fuel)
        .iter()
        .map(|text| text.replace(from.as_str(), to))
        .filter(|text| text.len() <= TEXT_BYTES_MAX)
        .collect()
}

/// `"metsys"[::-1]`, the one slice that is there only to hide a word.
fn reversed(names: &Names<'_>, subscript: &ExprSubscript, fuel: u32) -> Vec<String> {
    let Expr::Slice(slice) = &*subscript.slice else { return Vec::new() };
    let backwards = slice.step.as_ref().and_then(|step| number_below(names, step, fuel));
    if slice.lower.is_some() || slice.upper.is_some() || backwards != Some(-1.0) {
        return Vec::new();
    }
    texts_below(names, &subscript.value, fuel)
        .iter()
        .map(|text| text.chars().rev().collect())
        .collect()
}

fn number_below(names: &Names<'_>, expr: &Expr, fuel: u32) -> Option<f64> {
    let fuel = fuel.checked_sub(1)?;
    match expr {
        Expr::NumberLiteral(literal) => match &literal.value {
            // An integer of more than 64 bits is treated as infinite.
            Number::Int(int) => Some(int.as_i64().map_or(f64::INFINITY, |value| value as f64)),
            Number::Float(value) => Some(*value),
            Number::Complex { .. } => None,
        },
        Expr::Name(name) => names.number_of(&name.id),
        Expr::Named(walrus) => number_below(names, &walrus.value, fuel),
        Expr::UnaryOp(unary) => {
            let value = number_below(names, &unary.operand, fuel)?;
            match unary.op {
                UnaryOp::USub => Some(-value),
                UnaryOp::UAdd => Some(value),
                UnaryOp::Invert | UnaryOp::Not => None,
            }
        }
        Expr::BinOp(binary) => {
            let left = number_below(names, &binary.left, fuel)?;
            let right = number_below(names, &binary.right, fuel)?;
            arithmetic(binary.op, left, right)
        }
        Expr::Call(call) => match (&*call.func, &*call.arguments.args) {
            (Expr::Name(name), [value]) if name.id == "int" || name.id == "float" => {
                number_below(names, value, fuel)
            }
            _ => None,
        },
        _ => None,
    }
}

fn arithmetic(op: Operator, left: f64, right: f64) -> Option<f64> {
    let value = match op {
        Operator::Add => left + right,
        Operator::Sub => left - right,
        Operator::Mult => left * right,
        Operator::Div => left / right,
        Operator::FloorDiv => (left / right).floor(),
        Operator::Pow => left.powf(right),
        Operator::LShift => left * right.exp2(),
        Operator::Mod
        | Operator::MatMult
        | Operator::RShift
        | Operator::BitOr
        | Operator::BitXor
        | Operator::BitAnd => return None,
    };
    (!value.is_nan()).then_some(value)
}
