//! Lists the guest's Python files, so that they become part of the binary.

use std::fmt::Write;
use std::path::{Path, PathBuf};

fn main() {
    let variable = |name: &str| std::env::var_os(name).expect("Cargo sets it for build scripts");
    let guest = PathBuf::from(variable("CARGO_MANIFEST_DIR")).join("../../guest/silica_guest");
    println!("cargo::rerun-if-changed={}", guest.display());
    let mut names: Vec<String> = std::fs::read_dir(&guest)
        .expect("the guest's folder is part of the source")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| Path::new(name).extension().is_some_and(|extension| extension == "py"))
        .collect();
    names.sort();
    let mut list = String::from("&[\n");
    for name in names {
        let path = guest.join(&name).display().to_string();
        writeln!(list, "({name:?}, include_bytes!({path:?})),").expect("strings take all");
    }
    list.push(']');
    let output = PathBuf::from(variable("OUT_DIR")).join("guest_files.rs");
    std::fs::write(output, list).expect("the build folder can be written to");
}
