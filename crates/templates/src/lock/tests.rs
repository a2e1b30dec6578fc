//! Locks and pins: what is read and what is refused.

use expect_test::{Expect, expect};

use super::{Packages, canonical};

fn check(text: &str, expected: &Expect) {
    let shown = match Packages::locked(text) {
        Ok(Packages::Locked(entries)) => entries.iter().fold(String::new(), |text, entry| {
            text + &format!(
                "{:?} {}
",
                entry.marker,
                entry.to_requirement()
            )
        }),
        Ok(other) => format!("{other:?}"),
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&shown);
}

const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn reads_what_uv_writes() {
    check(
        &format!(
            "# made by a tool\n\nnumpy==2.2.6 ; python_full_version < '3.11' \\\n    --hash=sha256:{HASH} \\\n    --hash=sha256:{HASH}\nsix==1.17.0 \\\n    --hash=sha256:{HASH}\n    # via x\n"
        ),
        &expect![[r#"
            Some("python_full_version < '3.11'") numpy==2.2.6 --hash=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef --hash=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
            None six==1.17.0 --hash=sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
        "#]],
    );
}

#[test]
fn refuses_options_that_pip_would_obey() {
    check(
        "--no-binary :all:\n",
        &expect![
            "line 1: `--no-binary :all:` is not allowed in a lock; indexes and proxies belong in pip's own configuration"
        ],
    );
    check(
        "\n-e .\n",
        &expect![
            "line 2: `-e .` is not allowed in a lock; indexes and proxies belong in pip's own configuration"
        ],
    );
    check(
        &format!("six==1.17.0 --hash=sha256:{HASH} --global-option=x\n"),
        &expect![
            "line 1: `--global-option=x` is not allowed in a lock; indexes and proxies belong in pip's own configuration"
        ],
    );
}

#[test]
fn refuses_what_is_not_locked() {
    check(
        "six\n",
        &expect![
            "line 1: `six` is not `name==version`; `pip index versions six` lists the versions"
        ],
    );
    check(
        "six>=1\n",
        &expect![
            "line 1: `six>=1` is not `name==version`; `pip index versions six` lists the versions"
        ],
    );
    check(
        "six @ file:///x==1\n",
        &expect![
            "line 1: `six @ file:///x==1` is not `name==version`; `pip index versions six` lists the versions"
        ],
    );
    check(
        "six==1.17.0\n",
        &expect!["line 1: `six` needs at least one `--hash=sha256:` and no other kind"],
    );
    check(
        "six==1.17.0 --hash=md5:00\n",
        &expect!["line 1: `six` needs at least one `--hash=sha256:` and no other kind"],
    );
}

#[test]
fn bounds_the_number_of_packages() {
    let pins: Vec<String> = (0..2001).map(|number| format!("p{number}==1")).collect();
    expect!["more than 2000 packages, or 1000 hashes for one"]
        .assert_eq(&Packages::pinned(&pins).unwrap_err().to_string());
}

#[test]
fn pins_must_be_exact() {
    for bad in ["ipython", "ipython>=9", "ipython==", "-e x==1", "a b==1", "x==1 --pre"] {
        assert!(Packages::pinned(&[bad.to_owned()]).is_err(), "{bad}");
    }
    assert!(Packages::pinned(&["ipython[all]==9.6.0".to_owned()]).is_ok());
}

#[test]
fn names_are_compared_in_one_form() {
    assert_eq!(canonical("Jinja2.x--y_z"), "jinja2_x_y_z");
}
