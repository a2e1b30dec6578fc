//! Parsers of sizes, durations, processors and variables on the command line.

use std::time::Duration;

/// Parses a size such as `64k`, `512M`, `2GiB` or `1000000`, in bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size; write for example 64K, 512M or 2G");
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let factor: u64 =
        match unit.trim().to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
            "" => 1,
            "k" => 1 << 10,
            "m" => 1 << 20,
            "g" => 1 << 30,
            _ => return Err(wrong()),
        };
    number.checked_mul(factor).ok_or_else(wrong)
}

/// Parses a duration such as `1.5` (seconds), `30s`, `2m`, `1h` or `500ms`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a time; write for example 30, 1.5s, 500ms, 2m or 1h");
    let (number, factor) = if let Some(number) = text.strip_suffix("ms") {
        (number, 0.001)
    } else if let Some(number) = text.strip_suffix('s') {
        (number, 1.0)
    } else if let Some(number) = text.strip_suffix('m') {
        (number, 60.0)
    } else if let Some(number) = text.strip_suffix('h') {
        (number, 3600.0)
    } else {
        (text, 1.0)
    };
    let seconds: f64 = number.trim().parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(seconds * factor).map_err(|_| wrong())
}

/// Parses a number of processors such as `0.5` or `2`; returns thousandths.
pub(crate) fn cpus(text: &str) -> Result<u32, String> {
    let wrong = || format!("{text:?} is not a number of processors; write for example 0.5 or 2");
    let number: f64 = text.parse().map_err(|_| wrong())?;
    if !(0.0..=1e6).contains(&number) {
        return Err(wrong());
    }
    Ok((number * 1000.0).round() as u32)
}

/// Parses `NAME=VALUE`.
pub(crate) fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !text.contains('\0') => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err(format!("{text:?} is not of the form NAME=VALUE")),
    }
}

#[cfg(test)]
mod tests;
