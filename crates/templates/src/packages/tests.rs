//! What is read from the lines that pip prints.

use super::downloading;

#[test]
fn downloads_are_shown_with_their_size() {
    for (line, shown) in [
        (
            "  Downloading numpy-2.3.4-cp312-cp312-manylinux_2_28_x86_64.whl (16.6 MB)",
            Some("downloading numpy-2.3.4-cp312-cp312-manylinux_2_28_x86_64.whl (16.6 MB)"),
        ),
        // From an index with full addresses, and with metadata before the wheel.
        (
            "Downloading https://index.example/p/six-1.17.0-py2.py3-none-any.whl (11 kB)",
            Some("downloading six-1.17.0-py2.py3-none-any.whl (11 kB)"),
        ),
        (
            "  Downloading six-1.17.0-py2.py3-none-any.whl.metadata (1.7 kB)",
            Some("downloading six-1.17.0-py2.py3-none-any.whl.metadata (1.7 kB)"),
        ),
        ("  Using cached six-1.17.0-py2.py3-none-any.whl (11 kB)", None),
        ("Downloading six-1.17.0-py2.py3-none-any.whl", None),
        ("Downloading six-1.17.0.whl (11 kB", None),
        ("Collecting six", None),
    ] {
        assert_eq!(downloading(line).as_deref(), shown, "{line}");
    }
}
