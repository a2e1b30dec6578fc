//! `manifest.json`: what a finished build is and how to start it. The shape of the file itself.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The format this code writes and reads.
pub const MANIFEST_FORMAT: u32 = 1;
/// Largest manifest that is read, in bytes.
const MANIFEST_BYTES_MAX: u64 = 4 << 20;
/// The file's name in a build's folder.
const FILE_NAME: &str = "manifest.json";

/// What a finished build is. Paths are guest paths unless said otherwise.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Manifest {
    /// The version of this shape.
    pub format: u32,
    pub name: String,
    /// What it is for.
    pub description: String,
    /// The full digest.
    pub digest: String,
    /// The digest of the description alone.
    pub description_digest: String,
    /// For example `3.11.7`.
    pub python_version: String,
    /// The interpreter to start: the one in the virtual environment.
    pub interpreter: PathBuf,
    /// The interpreter that one is a link to.
    pub base_interpreter: PathBuf,
    /// The virtual environment.
    pub prefix: PathBuf,
    /// Where packages lie: what `site` would add to `sys.path`.
    pub site: Vec<PathBuf>,
    /// What `LD_LIBRARY_PATH` must hold, empty if the interpreter finds its library by itself.
    pub library_path: Vec<PathBuf>,
    /// The folders of the standard library, for runs without `site`.
    pub stdlib: Vec<PathBuf>,
    /// Host folders that must be visible in the guest at the same path.
    pub system_dirs: Vec<PathBuf>,
    /// Modules to load ahead.
    pub preload: Vec<String>,
    /// Variables for every process in the guest.
    pub environment: BTreeMap<String, String>,
    /// What the tree takes on disk.
    pub bytes: u64,
    /// How long the build took, over all its attempts.
    pub build_seconds: f64,
    /// What is installed, as `name==version`.
    pub packages: Vec<String>,
}

/// Why a manifest could not be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The file could not be read or written.
    #[error("could not access {path}", path = path.display())]
    Io {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The file is not a manifest.
    #[error("{path} is not understood", path = path.display())]
    Json {
        path: PathBuf,
        #[source]
        source: serde_json::Error,
    },
    /// The file was written by another version.
    #[error("{path} has format {format}; this version reads {MANIFEST_FORMAT}", path = path.display())]
    Format { path: PathBuf, format: u32 },
    /// The file is too large to be one of ours.
    #[error("{path} is larger than {MANIFEST_BYTES_MAX} bytes", path = path.display())]
    TooLarge { path: PathBuf },
}

impl Manifest {
    pub(super) fn write(&self, folder: &Path) -> Result<(), ManifestError> {
        let path = folder.join(FILE_NAME);
        let json = serde_json::to_vec_pretty(self)
            .map_err(|source| ManifestError::Json { path: path.clone(), source })?;
        fs::write(&path, json).map_err(|source| ManifestError::Io { path, source })
    }

    /// Reads the manifest in a build's folder; nothing if there is none.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, ManifestError> {
        /// Read first, so that another version's file is named as such.
        #[derive(serde::Deserialize)]
        struct Head {
            format: u32,
        }

        let path = folder.join(FILE_NAME);
        let bytes = match read_bounded(&path) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return Err(ManifestError::TooLarge { path }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(ManifestError::Io { path, source }),
        };
        let json = |source| ManifestError::Json { path: path.clone(), source };
        let Head { format } = serde_json::from_slice(&bytes).map_err(json)?;
        if format != MANIFEST_FORMAT {
            return Err(ManifestError::Format { path, format });
        }
        serde_json::from_slice(&bytes).map(Some).map_err(json)
    }
}

fn read_bounded(path: &Path) -> io::Result<Option<Vec<u8>>> {
    // By its size, before it is read into memory.
    if fs::metadata(path)?.len() > MANIFEST_BYTES_MAX {
        return Ok(None);
    }
    fs::read(path).map(Some)
}
