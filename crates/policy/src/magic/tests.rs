//! What of a cell is IPython's.

use super::{line, split, starts_program};

fn split_names(code: &str) -> (Vec<(&str, &str)>, Option<String>) {
    let cell = split(code);
    let magics = cell.magics.iter().map(|magic| (magic.name, magic.code)).collect();
    (magics, cell.python.map(std::borrow::Cow::into_owned))
}

#[test]
fn plain_python_is_left_as_it_is() {
    assert_eq!(split_names("x = 1"), (vec![], Some("x = 1".into())));
    assert_eq!(split_names("x = 5 %% 2"), (vec![], Some("x = 5 %% 2".into())));
}

#[test]
fn a_magic_that_runs_python_leaves_the_rest_where_it_stood() {
    assert_eq!(split_names("%%time\nx = 1"), (vec![("time", "")], Some("      \nx = 1".into())));
    let stacked = split_names("\n%%capture\n%%timeit -n 5 import os\ny");
    assert_eq!(stacked.0, vec![("capture", ""), ("timeit", "import os")]);
    assert_eq!(stacked.1, Some(format!("{}\ny", " ".repeat(34))));
}

#[test]
fn a_magic_that_runs_something_else_leaves_no_python() {
    assert_eq!(split_names("%%bash\nrm -r x"), (vec![("bash", "")], None));
    assert_eq!(split_names("%%writefile a.py\nimport os"), (vec![("writefile", "")], None));
    assert!(starts_program("bash") && !starts_program("time"));
}

#[test]
fn the_code_on_a_line_is_found_behind_its_options() {
    assert_eq!(line("time eval('1')"), ("time", "eval('1')"));
    assert_eq!(line("timeit -n 10 -r3 -q x + 1"), ("timeit", "x + 1"));
    assert_eq!(line("timeit -x"), ("timeit", ""));
    assert_eq!(line("time -1 + x"), ("time", "-1 + x"));
    assert_eq!(line("matplotlib inline"), ("matplotlib", ""));
}
