//! How amounts are written: three digits, and a unit that fits.

#[cfg(test)]
mod tests;

/// A value with its unit, such as `63 µs`, `1.28 ms`, `1.40 s`, `2.64 MB` or `104 /s`.
pub(crate) fn amount(value: f64, unit: &str) -> String {
    match unit {
        "ms" if value.abs() >= 1e3 => format!("{} s", digits(value / 1e3)),
        "ms" if value != 0.0 && value.abs() < 0.1 => format!("{} µs", digits(value * 1e3)),
        "×" => format!("{} ×", digits(value)),
        "" => digits(value),
        unit => format!("{} {unit}", digits(value)),
    }
}

/// Three digits of a number, none invented; a dash for what is no number.
pub(crate) fn digits(value: f64) -> String {
    let size = value.abs();
    if !size.is_finite() {
        return "–".to_owned();
    }
    if size >= 1e4 {
        return thousands(value);
    }
    let decimals = match size {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        size if size >= 0.0995 || size == 0.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$}")
}

/// A large number with its thousands apart.
fn thousands(value: f64) -> String {
    let text = format!("{value:.0}");
    let (sign, number) = text.strip_prefix('-').map_or(("", text.as_str()), |rest| ("-", rest));
    let mut grouped = String::new();
    for (index, digit) in number.chars().enumerate() {
        if index > 0 && (number.len() - index) % 3 == 0 {
            grouped.push('\u{202f}');
        }
        grouped.push(digit);
    }
    format!("{sign}{grouped}")
}

/// A number on an axis: short, without digits that say nothing.
pub(crate) fn tick(value: f64) -> String {
    if value >= 1e4 {
        return thousands(value);
    }
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
