//! `silica template build`: the way of the guide for data scientists.

use std::fs;
use std::process::Command;

use crate::harness::{CommandOutput, PYTHON, SILICA, TestHome, finish};

/// The guide that shows a template.
const GUIDE: &str = include_str!("../../../docs/guides/data-scientist.md");

/// The template is the one in the guide. Its folder is named without a slash, as people do.
#[test]
fn the_template_of_the_guide_is_built_from_its_folder() {
    let home = TestHome::new(PYTHON);
    // A folder of its own: that of the other tests is theirs.
    fs::remove_file(home.path().join("templates")).unwrap();
    let silica = |arguments: &[&str]| -> CommandOutput {
        let mut command = Command::new(SILICA);
        command.args(arguments).env("SILICA_HOME", home.path());
        finish(command.current_dir(home.working_directory()))
    };
    let unknown = silica(&["template", "build", "geo"]);
    assert_eq!(unknown.status, 125);
    assert!(unknown.stderr.contains("code-interpreter"), "{}", unknown.stderr);
    let (_, rest) = GUIDE.split_once("```toml\n").unwrap();
    let (toml, _) = rest.split_once("```").unwrap();
    fs::create_dir(home.working_directory().join("geo")).unwrap();
    fs::write(home.working_directory().join("geo/template.toml"), toml).unwrap();
    let built = silica(&["template", "build", "geo"]);
    assert_eq!(built.status, 0, "{}", built.stderr);
    assert!(built.stderr.contains("building from the folder geo/"), "{}", built.stderr);
    assert!(built.stderr.contains("template geo is ready"), "{}", built.stderr);
    let code = "import shapely; shapely.Point(0, 0).buffer(1).area > 3";
    let ran = silica(&["run", "--template", "geo", "-c", code]);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, "True\n"), "{}", ran.stderr);
    // Without the folder it is still known where it came from.
    fs::remove_dir_all(home.working_directory().join("geo")).unwrap();
    let again = silica(&["template", "build", "geo"]);
    assert!(again.stderr.contains("was built from a folder"), "{}", again.stderr);
}
