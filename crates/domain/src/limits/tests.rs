//! The bounds of every limit, and the words for those outside.

use super::*;

fn with(change: impl Fn(&mut LimitValues)) -> Result<Limits, LimitError> {
    let mut limits = LimitValues::default();
    change(&mut limits);
    limits.checked(&LimitsMax::default())
}

fn message(change: impl Fn(&mut LimitValues)) -> String {
    with(change).map_or_else(|error| error.to_string(), |_| "accepted".to_owned())
}

#[test]
fn defaults_and_maxima_are_accepted() {
    assert_eq!(with(|_| ()), Ok(Limits::default()));
    let LimitsMax(most) = LimitsMax::default();
    assert_eq!(*most.clone().checked(&LimitsMax::default()).unwrap(), most);
}

#[test]
fn values_outside_are_refused_in_words() {
    type Change = fn(&mut LimitValues);
    let table: &[(Change, &str)] = &[
        (|l| l.memory_bytes = 0, "the memory limit is 0 bytes, but at least 32 MiB is needed"),
        (
            |l| l.memory_bytes = 32 * MIB - 1,
            "the memory limit is 33554431 bytes, but at least 32 MiB is needed",
        ),
        (
            |l| l.memory_bytes = 17 * GIB,
            "the memory limit is 17 GiB, but at most 16 GiB is allowed here",
        ),
        (
            |l| l.memory_bytes = u64::MAX,
            "the memory limit is 18446744073709551615 bytes, but at most 16 GiB is allowed here",
        ),
        (|l| l.cpu = Duration::ZERO, "the cpu limit is 0 s, but at least 0.001 s is needed"),
        (
            |l| l.cpu = Duration::from_secs(3601),
            "the cpu limit is 3601 s, but at most 3600 s is allowed here",
        ),
        (
            |l| l.wall = Duration::from_micros(999),
            "the wall limit is 0 s, but at least 0.001 s is needed",
        ),
        (
            |l| l.wall = Duration::from_secs(3601),
            "the wall limit is 3601 s, but at most 3600 s is allowed here",
        ),
        (|l| l.cpu_millis = 19, "the cpus limit is 0.019, but at least 0.02 is needed"),
        (|l| l.cpu_millis = 64_001, "the cpus limit is 64.001, but at most 64 is allowed here"),
        (|l| l.processes = 1, "the processes limit is 1, but at least 2 is needed"),
        (|l| l.processes = 4097, "the processes limit is 4097, but at most 4096 is allowed here"),
        (|l| l.open_files = 15, "the open_files limit is 15, but at least 16 is needed"),
        (
            |l| l.open_files = 65_537,
            "the open_files limit is 65537, but at most 65536 is allowed here",
        ),
        (
            |l| l.disk_bytes = 64 * KIB - 1,
            "the disk limit is 65535 bytes, but at least 64 KiB is needed",
        ),
        (|l| l.disk_bytes = 9 * GIB, "the disk limit is 9 GiB, but at most 8 GiB is allowed here"),
        (
            |l| l.disk_bytes = 512 * MIB,
            "the disk limit is 512 MiB, but files are kept in memory and the memory limit is 512 MiB",
        ),
        (|l| l.file_bytes = 0, "the file_size limit is 0 bytes, but at least 1 bytes is needed"),
        (
            |l| l.file_bytes = 9 * GIB,
            "the file_size limit is 9 GiB, but at most 8 GiB is allowed here",
        ),
        (|l| l.output_bytes = 0, "the output limit is 0 bytes, but at least 1 bytes is needed"),
        (
            |l| l.output_bytes = 65 * MIB,
            "the output limit is 65 MiB, but at most 64 MiB is allowed here",
        ),
        (|l| l.results = 0, "the results limit is 0, but at least 1 is needed"),
        (|l| l.results = 1025, "the results limit is 1025, but at most 1024 is allowed here"),
        (
            |l| l.result_bytes = 0,
            "the result_bytes limit is 0 bytes, but at least 1 bytes is needed",
        ),
        (
            |l| l.result_bytes = 65 * MIB,
            "the result_bytes limit is 65 MiB, but at most 64 MiB is allowed here",
        ),
    ];
    for (change, expected) in table {
        assert_eq!(message(change), *expected);
    }
}

#[test]
fn least_values_are_accepted() {
    let least = |limits: &mut LimitValues| {
        *limits = LimitValues {
            memory_bytes: 32 * MIB,
            cpu: Duration::from_millis(1),
            wall: Duration::from_millis(1),
            cpu_millis: 20,
            processes: 2,
            open_files: 16,
            disk_bytes: 64 * KIB,
            file_bytes: 1,
            output_bytes: 1,
            results: 1,
            result_bytes: 1,
        };
    };
    assert_eq!(message(least), "accepted");
}

#[test]
fn operator_can_allow_less() {
    let max = LimitsMax(LimitValues { memory_bytes: 256 * MIB, ..LimitsMax::default().0 });
    let error = LimitValues::default().checked(&max).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the memory limit is 512 MiB, but at most 256 MiB is allowed here"
    );
}

#[test]
fn bytes_are_shown_in_the_largest_unit_that_divides() {
    for (number, shown) in [
        (0, "0 bytes"),
        (1, "1 bytes"),
        (1024, "1 KiB"),
        (1025, "1025 bytes"),
        (1536 * KIB, "1536 KiB"),
        (100 * MIB, "100 MiB"),
        (2 * GIB, "2 GiB"),
    ] {
        assert_eq!(bytes(number), shown);
    }
}

#[test]
fn every_limit_has_a_name_and_a_value() {
    let names: std::collections::HashSet<&str> =
        Limit::ALL.iter().map(|limit| limit.name()).collect();
    assert_eq!(names.len(), Limit::ALL.len());
    for &limit in Limit::ALL {
        assert!(!LimitValues::default().describe(limit).is_empty(), "{limit:?}");
        assert!(LimitValues::LEAST.get(limit) < LimitsMax::default().0.get(limit), "{limit:?}");
    }
}

#[test]
fn limits_of_cells_do_not_tell_sandboxes_apart() {
    let ordinary = Limits::default();
    let is_same = |change: fn(&mut LimitValues)| ordinary.fixes_the_same(&with(change).unwrap());
    assert!(is_same(|l| l.wall = Duration::from_secs(5)));
    assert!(is_same(|l| l.output_bytes = 7));
    assert!(is_same(|l| l.cpu = Duration::from_millis(30_500)));
    assert!(!is_same(|l| l.cpu = Duration::from_secs(31)));
    assert!(!is_same(|l| l.open_files = 17));
    assert!(!is_same(|l| l.memory_bytes = 600 * MIB));
}
