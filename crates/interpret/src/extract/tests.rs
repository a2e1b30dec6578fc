//! Answers of every shape.

use proptest::prelude::*;

use super::{ExtractedCode, extract};

/// Words with a full stop are no Python; that is enough of a parser here.
fn parses(text: &str) -> bool {
    let prose = |line: &str| line.ends_with(['.', ':', '!']) && !line.ends_with("):");
    !text.lines().any(prose)
}

#[track_caller]
fn check(answer: &str, code: &str) {
    assert_eq!(extract(answer, parses), ExtractedCode::Python(code.to_owned()), "{answer}");
}

#[test]
fn fences_of_every_kind() {
    check("```python\nprint(1)\n```", "print(1)");
    check("```\nprint(1)\n```", "print(1)");
    check("~~~py\nprint(1)\n~~~", "print(1)");
    check("````python\nx = '''\n```\n'''\n````", "x = '''\n```\n'''");
    check("```Python title=\"a.py\"\nprint(1)\n```", "print(1)");
    check("```{.python}\nprint(1)\n```", "print(1)");
    check("```python:main.py\nprint(1)\n```", "print(1)");
    check("```python\r\nprint(1)\r\n```\r\n", "print(1)");
    check("```python print(1)```", "print(1)");
    check(
        "1. First:\n   ```python\n   for i in x:\n       print(i)\n   ```",
        "for i in x:\n    print(i)",
    );
    check("```pycon\n>>> x = 1\n>>> print(x)\n1\n```", "x = 1\nprint(x)");
}

#[test]
fn an_answer_that_was_cut_off_still_has_its_code() {
    check("Here you are.\n```python\nprint(1)\nprint(2)", "print(1)\nprint(2)");
}

#[test]
fn prose_around_and_several_blocks() {
    check(
        "First this.\n```python\na = 1\n```\nand then\n```python\nprint(a)\n```\nDone.",
        "a = 1\n\nprint(a)",
    );
    check("```bash\npip install x\n```\n```python\nprint(1)\n```\n```text\n1\n```", "print(1)");
    check("```output\n1\n```\n```\nprint(1)\n```", "print(1)");
}

#[test]
fn bare_code_and_bare_code_between_prose() {
    check("import math\nprint(math.pi)", "import math\nprint(math.pi)");
    check("Here is the program:\n\nx = 1\n\nprint(x)\n\nIt prints one.", "x = 1\n\nprint(x)");
    // Broken, but meant as code: the check will tell the model what is wrong.
    check("print(1)\nis wrong.", "print(1)\nis wrong.");
}

#[test]
fn no_code_is_no_code() {
    for answer in ["", " \n ", "Yes", "42", "I cannot do that.", "The answer is 42 (as always)."] {
        assert_eq!(extract(answer, parses), ExtractedCode::Nothing, "{answer:?}");
    }
    assert_eq!(extract("```\n\n```", parses), ExtractedCode::Nothing);
    assert_eq!(extract("```text\nhello\n```", parses), ExtractedCode::Nothing);
}

#[test]
fn another_language_is_distinguished() {
    let answer = "```javascript\nconsole.log(1)\n```";
    assert_eq!(extract(answer, parses), ExtractedCode::Other("javascript".to_owned()));
}

proptest! {
    #[test]
    fn no_answer_makes_it_panic(answer in "[`~ \\n\\r>{}.:a-z\u{e4}(='\"]{0,200}") {
        // Whether there is code in it is not the question.
        drop(extract(&answer, |_| false));
    }

    #[test]
    fn what_is_fenced_comes_out_as_it_is(code in "[a-z][a-z0-9 =()\\n]{0,80}[a-z)]") {
        prop_assert_eq!(
            extract(&format!("Words.\n```python\n{code}\n```\nWords."), |_| false),
            ExtractedCode::Python(code)
        );
    }
}
