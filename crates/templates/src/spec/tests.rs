//! What a `template.toml` may say, and what is said to who got it wrong.

use std::error::Error as _;
use std::fs;
use std::path::Path;

use expect_test::{Expect, expect};

use super::{Spec, SpecError};
use crate::{Home, TemplateName, TemplateSource};

fn parse(toml: &str) -> Result<Spec, SpecError> {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("data")).expect("data");
    fs::write(folder.path().join("data/hello.csv"), "a,b\n").expect("file");
    std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).expect("link");
    fs::write(folder.path().join("template.toml"), toml).expect("toml");
    TemplateSource::from_path(folder.path()).spec()
}

fn check(toml: &str, expected: &Expect) {
    let shown = match parse(toml) {
        Ok(spec) => format!(
            "{} {} {:?} {:?} {:?}",
            spec.name,
            spec.python,
            spec.packages,
            spec.preload,
            spec.files.iter().map(|file| &file.target).collect::<Vec<_>>()
        ),
        Err(error) => match error.source() {
            Some(source) => format!("{error}: {}", source.to_string().trim_end()),
            None => error.to_string(),
        },
    };
    expected.assert_eq(&shown);
}

#[test]
fn reads_a_whole_template() {
    check(
        r#"
        name = "mine"
        python = ">=3.10"
        packages = ["ipython==9.6.0"]
        preload = ["os.path"]
        [environment]
        A = "1"
        [[files]]
        source = "data/hello.csv"
        target = "/opt/data//hello.csv"
        "#,
        &expect![[
            r#"mine >=3.10 Pinned([Pin { requirement: "ipython", version: "9.6.0" }]) ["os.path"] ["/opt/data/hello.csv"]"#
        ]],
    );
}

#[test]
fn names_the_unknown_key_and_the_allowed_ones() {
    check(
        "name = \"a\"\nprelaod = []\n",
        &expect![[r"
        template.toml is not understood: TOML parse error at line 2, column 1
          |
        2 | prelaod = []
          | ^^^^^^^
        unknown field `prelaod`, expected one of `name`, `description`, `python`, `interpreter`, `requirements`, `packages`, `preload`, `environment`, `files`"]],
    );
    check(
        "name = \"a\"\n[[files]]\nfrom = \"x\"\n",
        &expect![[r#"
        template.toml is not understood: TOML parse error at line 3, column 1
          |
        3 | from = "x"
          | ^^^^
        unknown field `from`, expected `source` or `target`"#]],
    );
}

#[test]
fn refuses_bad_values() {
    check(
        "name = \"A\"\n",
        &expect![
            "`name` in template.toml: `A` is not a template name: use 1 to 40 of a-z, 0-9 and `-`, not starting with `-`"
        ],
    );
    check(
        "name = \"a\"\npython = \"3\"\n",
        &expect![
            "`python` in template.toml: `3` is not understood: write `>=3.10`, `<3.14` or `==3.12.*`, joined by commas"
        ],
    );
    check(
        "name = \"a\"\npackages = [\"x\"]\n",
        &expect![
            "the packages of the template: line 1: `x` is not `name==version`; `pip index versions x` lists the versions"
        ],
    );
    check(
        "name = \"a\"\npackages = []\nrequirements = \"x\"\n",
        &expect![[
            r#"`requirements` in template.toml: "x" cannot be given together with `packages`"#
        ]],
    );
    check(
        "name = \"a\"\nrequirements = \"../x\"\n",
        &expect![[
            r#"`requirements` in template.toml: "../x" is not a path beside template.toml (no `..`, not absolute)"#
        ]],
    );
    let error = parse("name = \"a\"\nrequirements = \"absent\"\n").unwrap_err();
    assert!(matches!(error, SpecError::Read { .. }), "{error}");
    check(
        "name = \"a\"\npreload = [\"os; x\"]\n",
        &expect![[r#"`preload` in template.toml: "os; x" is not a module name"#]],
    );
    check(
        "name = \"a\"\ninterpreter = \"python3\"\n",
        &expect![[r#"`interpreter` in template.toml: "python3" is not an absolute path"#]],
    );
    check(
        "name = \"a\"\nenvironment = { LD_PRELOAD = \"x\" }\n",
        &expect![[r#"`environment` in template.toml: "LD_PRELOAD" is for Silica to set"#]],
    );
    check(
        "name = \"a\"\nenvironment = { \"A B\" = \"x\" }\n",
        &expect![[r#"`environment` in template.toml: "A B" is not a variable's name and value"#]],
    );
}

#[test]
fn refuses_files_that_come_from_or_go_to_the_wrong_place() {
    let file = |source: &str, target: &str| {
        format!("name = \"a\"\nfiles = [{{ source = \"{source}\", target = \"{target}\" }}]\n")
    };
    for target in [
        "/",
        "opt/x",
        "/opt/../etc/x",
        "/etc/passwd",
        "/usr/x",
        "/opt/silica/venv/x",
        "/proc/1",
        "/workspace/x",
        "/home/user/x",
        "/data/input/x",
    ] {
        let error = parse(&file("data/hello.csv", target)).unwrap_err();
        assert!(matches!(error, SpecError::Value { key: "files.target", .. }), "{target}: {error}");
    }
    for source in ["/etc/passwd", "../x", "link", "data"] {
        let error = parse(&file(source, "/opt/x")).unwrap_err();
        assert!(matches!(error, SpecError::Value { key: "files.source", .. }), "{source}: {error}");
    }
    assert!(parse(&file("data/hello.csv", "/opt/silica2/x")).is_ok());
}

#[test]
fn hostile_folder_shows_nothing_of_the_host_and_holds_nothing_up() {
    let outside = tempfile::tempdir().expect("outside");
    fs::write(outside.path().join("secret"), "secret==1.0 --hash=sha256:00\n").expect("write");
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("inside")).expect("folder");
    fs::write(path("inside/file"), "x").expect("write");
    let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, path(name)).expect("link");
    link(outside.path(), "door");
    link(&outside.path().join("secret"), "inside/link");
    link(Path::new(".."), "up");
    link(Path::new("inside"), "alias");
    let mkfifo = std::process::Command::new("mkfifo").arg(path("pipe")).status();
    assert!(mkfifo.expect("mkfifo").success());
    let check = |toml: &str| {
        fs::write(path("template.toml"), toml).expect("write");
        TemplateSource::from_path(folder.path()).spec()
    };
    let file = |source: &str| {
        check(&format!(
            "name = \"a\"\nfiles = [{{ source = \"{source}\", target = \"/opt/x\" }}]\n"
        ))
    };
    for source in ["door/secret", "inside/link", "up/x", "pipe", "/etc/hostname", "inside/../../x"]
    {
        let error = file(source).expect_err(source).to_string();
        assert!(!error.contains("secret==1.0"), "{source}: {error}");
    }
    assert!(file("inside/file").is_ok());
    // A folder under another name inside of the template leads nowhere else.
    assert!(file("alias/file").is_ok());
    for lock in ["door/secret", "inside/link", "pipe", "/etc/hostname"] {
        let error = check(&format!("name = \"a\"\nrequirements = \"{lock}\"\n")).expect_err(lock);
        assert!(!error.to_string().contains("secret==1.0"), "{lock}: {error}");
    }
    for toml in [
        format!("name = \"a\"\nx = {}", "[".repeat(500_000)),
        format!("name = \"a\"\n{}", "[a.b.c.d]\n".repeat(1_000_000)),
        format!("name = \"{}\"", "a".repeat(10_000_000)),
        format!("name = \"a\"\nx = {}1{}", "{a=".repeat(20_000), "}".repeat(20_000)),
        format!("name = \"a\"\n{}.x = 1", vec!["a"; 20_000].join(".")),
    ] {
        let began = std::time::Instant::now();
        assert!(check(&toml).is_err(), "{}", &toml[..40]);
        assert!(began.elapsed() < std::time::Duration::from_secs(10), "{}", &toml[..40]);
    }
    fs::remove_file(path("template.toml")).expect("remove");
    fs::rename(path("pipe"), path("template.toml")).expect("rename");
    assert!(TemplateSource::from_path(folder.path()).spec().is_err(), "a pipe is waited for");
}

#[test]
fn built_in_templates_are_good() {
    for name in TemplateSource::builtin_names() {
        let name = TemplateName::new(name).expect("a name");
        let spec = TemplateSource::builtin(&name).expect("built in").spec().expect("good");
        assert_eq!(spec.name(), &name);
    }
}

#[test]
fn a_user_template_wins_and_must_carry_its_folders_name() {
    let home = tempfile::tempdir().expect("home");
    let home = Home::new(home.path());
    let name = TemplateName::new("python").expect("name");
    let folder = home.user_template(&name);
    fs::create_dir_all(&folder).expect("folder");
    fs::write(folder.join("template.toml"), "name = \"python\"\n").expect("write");
    let spec = TemplateSource::find(&home, &name).expect("found").spec().expect("good");
    assert_eq!(spec.preload, Vec::<String>::new());

    fs::write(folder.join("template.toml"), "name = \"other\"\n").expect("write");
    let error = TemplateSource::find(&home, &name).expect("found").spec().unwrap_err();
    expect!["the template in the folder `python` calls itself `other`"]
        .assert_eq(&error.to_string());

    let absent = TemplateName::new("absent").expect("name");
    expect!["there is no template `absent`; built in are: python, code-interpreter"]
        .assert_eq(&TemplateSource::find(&home, &absent).unwrap_err().to_string());
}
