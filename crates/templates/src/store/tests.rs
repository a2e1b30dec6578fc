//! Holding, swapping and sweeping made-up builds.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use expect_test::expect;

use super::{
    IN_USE, ListedTemplate, TemplateStoreError, list, load, make_current, publish, remove, sweep,
};
use crate::python::Python;
use crate::{Home, MANIFEST_FORMAT, Manifest, TemplateDigest, TemplateName, TemplateSource};

struct Case {
    _folder: tempfile::TempDir,
    home: Home,
    name: TemplateName,
}

impl Case {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("folder");
        Self {
            home: Home::new(folder.path()),
            name: TemplateName::new("mine").expect("name"),
            _folder: folder,
        }
    }

    fn digest(number: u32) -> TemplateDigest {
        let folder = tempfile::tempdir().expect("folder");
        fs::write(folder.path().join("template.toml"), format!("name = \"mine\"\n# {number}\n"))
            .expect("write");
        let spec = TemplateSource::from_path(folder.path()).spec().expect("good");
        TemplateDigest::of(&spec, &Python::example("/usr/bin/python3", "3.11.7")).expect("digest")
    }

    fn publish(&self, digest: &TemplateDigest) {
        let building = self.home.building(&self.name, digest);
        fs::create_dir_all(building.join("root")).expect("make");
        fs::write(building.join(IN_USE), "").expect("write");
        manifest(digest).write(&building).expect("write");
        publish(&self.home, &self.name, digest).expect("published");
    }

    fn entries(&self) -> String {
        let folder = self.home.template(&self.name);
        super::names_in(&folder)
            .expect("list")
            .iter()
            .filter(|name| *name != ".lock")
            .count()
            .to_string()
    }
}

fn manifest(digest: &TemplateDigest) -> Manifest {
    Manifest {
        format: MANIFEST_FORMAT,
        name: "mine".to_owned(),
        description: String::new(),
        digest: digest.as_str().to_owned(),
        description_digest: String::new(),
        python_version: "3.11.7".to_owned(),
        interpreter: PathBuf::from("/opt/silica/venv/bin/python3"),
        base_interpreter: PathBuf::from("/usr/bin/python3"),
        prefix: PathBuf::from("/opt/silica/venv"),
        site: Vec::new(),
        library_path: Vec::new(),
        stdlib: Vec::new(),
        system_dirs: Vec::new(),
        preload: Vec::new(),
        environment: BTreeMap::new(),
        bytes: 0,
        build_seconds: 0.0,
        packages: Vec::new(),
    }
}

#[test]
fn nothing_was_built_yet() {
    let case = Case::new();
    assert_eq!(load(&case.home, &case.name).expect("load"), None);
    assert!(list(&case.home).expect("list").is_empty());
    assert!(!remove(&case.home, &case.name).expect("remove"));
}

#[test]
fn a_held_build_outlives_its_successor_and_no_longer() {
    let case = Case::new();
    let (old, new) = (Case::digest(1), Case::digest(2));
    case.publish(&old);
    let template = load(&case.home, &case.name).expect("load").expect("built");
    let hold = template.hold().expect("held");

    case.publish(&new);
    sweep(&case.home, &case.name, &new).expect("swept");
    assert!(template.root().is_dir());
    let current = load(&case.home, &case.name).expect("load").expect("built");
    assert_eq!(current.manifest.digest, new.as_str());

    drop(hold);
    sweep(&case.home, &case.name, &new).expect("swept");
    assert!(!template.folder().exists());
    assert!(matches!(template.hold(), Err(TemplateStoreError::Gone { .. })));
}

#[test]
fn a_reader_never_sees_a_gap_while_the_build_is_swapped() {
    let case = Case::new();
    let digests = [Case::digest(1), Case::digest(2)];
    for digest in &digests {
        case.publish(digest);
    }
    std::thread::scope(|scope| {
        let swapping = scope.spawn(|| {
            for round in 0..200 {
                make_current(&case.home, &case.name, &digests[round % 2]).expect("swapped");
            }
        });
        while !swapping.is_finished() {
            assert!(load(&case.home, &case.name).expect("load").is_some());
        }
    });
}

#[test]
fn removing_is_refused_while_in_use_or_being_built() {
    let case = Case::new();
    case.publish(&Case::digest(1));
    let template = load(&case.home, &case.name).expect("load").expect("built");
    let hold = template.hold().expect("held");
    expect!["template `mine` is in use"]
        .assert_eq(&remove(&case.home, &case.name).unwrap_err().to_string());
    assert!(load(&case.home, &case.name).expect("load").is_some());
    drop(hold);

    let lock = super::try_exclusive(&case.home.build_lock(&case.name)).expect("lock");
    expect!["template `mine` is being built"]
        .assert_eq(&remove(&case.home, &case.name).unwrap_err().to_string());
    drop(lock);

    assert!(remove(&case.home, &case.name).expect("removed"));
    assert_eq!(case.entries(), "0");
}

#[test]
fn says_what_is_wrong_with_a_build() {
    let case = Case::new();
    let digest = Case::digest(1);
    case.publish(&digest);
    let file = case.home.finished(&case.name, &digest).join("manifest.json");

    fs::write(&file, "{\"format\": 99}").expect("write");
    assert!(matches!(load(&case.home, &case.name), Err(TemplateStoreError::Manifest { .. })));
    fs::write(&file, "nonsense").expect("write");
    let listed = list(&case.home).expect("list");
    assert!(matches!(
        &listed[..],
        [ListedTemplate { build: Err(TemplateStoreError::Manifest { .. }), .. }]
    ));

    fs::remove_file(case.home.current(&case.name)).expect("remove");
    std::os::unix::fs::symlink("../../etc", case.home.current(&case.name)).expect("link");
    assert!(matches!(load(&case.home, &case.name), Err(TemplateStoreError::Current { .. })));
}
