//! The image, as a directory in the form of the Open Container Initiative: `index.json` and blobs
//! by their digests. Made without a container engine.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Dist, archive, run_program, stage};

/// The release of Debian that the image has below Silica.
const SUITE: &str = "bookworm";
const PACKAGES: &str = "python3,python3-pip,python3-venv,ca-certificates";

/// What debootstrap leaves and no image needs.
const LEFT_OVER: [&str; 4] =
    ["var/cache/apt", "var/lib/apt/lists", "var/log", "var/cache/ldconfig"];

/// Returns the root of a small Debian with Python, made once.
pub(super) fn base(dist: &Dist) -> Result<PathBuf> {
    let base = dist.target.join("dist-base");
    if base.exists() {
        return Ok(base);
    }
    let temporary = dist.target.join("dist-base.new");
    if temporary.exists() {
        fs::remove_dir_all(&temporary)?;
    }
    let mut command = Command::new("debootstrap");
    command.args(["--variant=minbase", &format!("--include={PACKAGES}"), SUITE]).arg(&temporary);
    run_program(&mut command)
        .context("the image's base needs root and debootstrap (apt-get install debootstrap)")?;
    for name in LEFT_OVER {
        let directory = temporary.join(name);
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
            fs::create_dir(&directory)?;
        }
    }
    fs::rename(&temporary, &base)?;
    Ok(base)
}

/// Where the image is.
pub(super) fn directory(dist: &Dist) -> PathBuf {
    dist.output.join(format!("silica-{}-oci", dist.version))
}

/// Writes the image: Debian's layer, ours, and their description.
pub(super) fn make(dist: &Dist, binary: &Path, base: &Path) -> Result<()> {
    let image = directory(dist);
    if image.exists() {
        fs::remove_dir_all(&image)?;
    }
    fs::create_dir_all(image.join("blobs/sha256"))?;
    let stage = stage(binary, "/usr", &[])?;
    let mut layers = Vec::new();
    let mut contents = Vec::new();
    for root in [base, stage.path()] {
        let tar = archive::tar_of_root(root)?;
        contents.push(digest(&tar));
        let kind = "application/vnd.oci.image.layer.v1.tar+gzip";
        layers.push(add_blob(&image, kind, &archive::gz(&tar)?)?);
    }
    let configuration = configuration(&contents).to_string();
    let kind = "application/vnd.oci.image.config.v1+json";
    let configuration = add_blob(&image, kind, configuration.as_bytes())?;
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let manifest = json!({
        "schemaVersion": 2, "mediaType": kind, "config": configuration, "layers": layers,
    });
    let mut manifest = add_blob(&image, kind, manifest.to_string().as_bytes())?;
    manifest["annotations"] = json!({"org.opencontainers.image.ref.name": dist.version});
    let index = json!({"schemaVersion": 2, "manifests": [manifest]});
    fs::write(image.join("index.json"), index.to_string())?;
    fs::write(image.join("oci-layout"), json!({"imageLayoutVersion": "1.0.0"}).to_string())?;
    let bytes: u64 = layers.iter().filter_map(|layer| layer["size"].as_u64()).sum();
    println!("{} ({:.1} MB)", image.display(), bytes as f64 / 1e6);
    Ok(())
}

/// Unpacks the layers of an image, as a container engine would; none of ours removes a file.
pub(super) fn unpack(image: &Path, root: &Path) -> Result<()> {
    let read =
        |path: &str| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(image.join(path))?)?) };
    let blob = |descriptor: &Value| -> Result<String> {
        let name = descriptor["digest"].as_str().context("a descriptor has no digest")?;
        Ok(format!("blobs/{}", name.replace(':', "/")))
    };
    let manifest = read(&blob(&read("index.json")?["manifests"][0])?)?;
    fs::create_dir_all(root)?;
    for layer in manifest["layers"].as_array().context("the manifest has no layers")? {
        let path = blob(layer)?;
        let bytes = fs::read(image.join(&path))?;
        if layer["digest"] != json!(format!("sha256:{}", digest(&bytes))) {
            bail!("{path} is not what its name says");
        }
        let mut command = Command::new("tar");
        command.args(["--extract", "--gzip", "--numeric-owner", "--file"]);
        run_program(command.arg(image.join(&path)).arg("--directory").arg(root))?;
    }
    Ok(())
}

fn configuration(contents: &[String]) -> Value {
    let ids: Vec<String> = contents.iter().map(|digest| format!("sha256:{digest}")).collect();
    json!({
        "created": "2026-01-01T00:00:00Z",
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Entrypoint": ["/usr/bin/silica"],
            "Cmd": ["serve", "--listen", "0.0.0.0:8585"],
            "Env": [
                "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                "SILICA_HOME=/var/lib/silica",
            ],
            "ExposedPorts": {"8585/tcp": {}},
            "Volumes": {"/var/lib/silica": {}},
        },
        "rootfs": {"type": "layers", "diff_ids": ids},
    })
}

/// Writes a blob and returns what an index says about it.
fn add_blob(image: &Path, kind: &str, bytes: &[u8]) -> Result<Value> {
    let digest = digest(bytes);
    fs::write(image.join("blobs/sha256").join(&digest), bytes)?;
    Ok(json!({"mediaType": kind, "digest": format!("sha256:{digest}"), "size": bytes.len()}))
}

fn digest(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
