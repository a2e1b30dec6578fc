//! Where a template's description comes from: the binary, a path, or the data directory.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::lock::LOCK_BYTES_MAX;
use super::spec::{Beside, FILE_BYTES_MAX, TOML_BYTES_MAX};
use super::{Home, Spec, SpecError, TemplateName};

/// The name of a description's file.
const FILE_NAME: &str = "template.toml";

/// A template that is part of the binary.
#[derive(Debug, PartialEq, Eq)]
struct Builtin {
    name: &'static str,
    toml: &'static str,
    lock: &'static str,
}

macro_rules! builtin {
    ($name:literal) => {
        Builtin {
            name: $name,
            toml: include_str!(concat!("../../../templates/", $name, "/template.toml")),
            lock: include_str!(concat!("../../../templates/", $name, "/requirements.lock")),
        }
    };
}

static BUILTINS: &[Builtin] = &[builtin!("python"), builtin!("code-interpreter")];

/// Where a template is described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateSource(Place);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Builtin(&'static Builtin),
    Folder {
        folder: PathBuf,
        file: PathBuf,
        /// The name it must have, where the folder's name promises one.
        name: Option<TemplateName>,
    },
}

impl TemplateSource {
    /// Returns the built-in template of that name, if there is one.
    pub fn builtin(name: &TemplateName) -> Option<Self> {
        let builtin = BUILTINS.iter().find(|builtin| builtin.name == name.as_str())?;
        Some(Self(Place::Builtin(builtin)))
    }

    /// Returns the names of the built-in templates.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTINS.iter().map(|builtin| builtin.name)
    }

    /// Takes the path of a `template.toml`, or of the folder that holds one.
    pub fn from_path(path: &Path) -> Self {
        let (folder, file) = if path.is_dir() {
            (path.to_owned(), path.join(FILE_NAME))
        } else {
            let folder = path.parent().unwrap_or(Path::new(""));
            (folder.to_owned(), path.to_owned())
        };
        Self(Place::Folder { folder, file, name: None })
    }

    /// Finds a template by name: first the user's own in the data directory, then the built-in.
    pub fn find(home: &Home, name: &TemplateName) -> Result<Self, SpecError> {
        let folder = home.user_template(name);
        let file = folder.join(FILE_NAME);
        if file.is_file() {
            return Ok(Self(Place::Folder { folder, file, name: Some(name.clone()) }));
        }
        Self::builtin(name).ok_or_else(|| SpecError::Unknown {
            name: name.clone(),
            known: Self::builtin_names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Reads and checks the description.
    pub fn spec(&self) -> Result<Spec, SpecError> {
        match &self.0 {
            Place::Builtin(builtin) => Spec::parse(builtin.toml, builtin),
            Place::Folder { folder, file, name } => {
                let text = read_text(file, TOML_BYTES_MAX)?;
                let spec = Spec::parse(&text, &Folder(folder))?;
                match name {
                    Some(folder) if *folder != spec.name => {
                        Err(SpecError::OtherName { folder: folder.clone(), name: spec.name })
                    }
                    Some(_) | None => Ok(spec),
                }
            }
        }
    }
}

struct Folder<'path>(&'path Path);

impl Folder<'_> {
    /// Returns the path of a plain file of the template. A link, of the file or of a folder above it,
    /// could lead anywhere on the host, and the guest would see what is there.
    fn plain(&self, key: &'static str, name: &Path) -> Result<PathBuf, SpecError> {
        let wrong =
            |problem| Err(SpecError::Value { key, value: name.display().to_string(), problem });
        let root = match self.0 {
            empty if empty.as_os_str().is_empty() => Path::new("."),
            root => root,
        };
        let path = root.join(name);
        let read = |source| SpecError::Read { path: path.clone(), source };
        if !fs::symlink_metadata(&path).map_err(read)?.is_file() {
            return wrong("is not a plain file");
        }
        let parent = fs::canonicalize(path.parent().unwrap_or(root)).map_err(read)?;
        if !parent.starts_with(fs::canonicalize(root).map_err(read)?) {
            return wrong("leads out of the template's folder");
        }
        Ok(path)
    }
}

impl Beside for Folder<'_> {
    fn text(&self, name: &Path) -> Result<String, SpecError> {
        read_text(&self.plain("requirements", name)?, LOCK_BYTES_MAX)
    }

    fn file(&self, name: &Path) -> Result<PathBuf, SpecError> {
        let path = self.plain("files.source", name)?;
        let metadata = fs::symlink_metadata(&path)
            .map_err(|source| SpecError::Read { path: path.clone(), source })?;
        if metadata.len() > FILE_BYTES_MAX {
            return Err(SpecError::TooLarge { path, bytes_max: FILE_BYTES_MAX });
        }
        Ok(path)
    }
}

impl Beside for &'static Builtin {
    fn text(&self, _name: &Path) -> Result<String, SpecError> {
        Ok(self.lock.to_owned())
    }

    fn file(&self, name: &Path) -> Result<PathBuf, SpecError> {
        Err(SpecError::Value {
            key: "files.source",
            value: name.display().to_string(),
            problem: "cannot be part of a built-in template",
        })
    }
}

fn read_text(path: &Path, bytes_max: usize) -> Result<String, SpecError> {
    let read = |source| SpecError::Read { path: path.to_owned(), source };
    // A pipe would be waited for without end.
    if !fs::metadata(path).map_err(read)?.is_file() {
        return Err(read(std::io::Error::other("it is not a plain file")));
    }
    let file = fs::File::open(path).map_err(read)?;
    let mut text = String::new();
    // One byte more than allowed tells a file that is too long from one that just fits.
    file.take(bytes_max as u64 + 1).read_to_string(&mut text).map_err(read)?;
    if text.len() > bytes_max {
        return Err(SpecError::TooLarge { path: path.to_owned(), bytes_max: bytes_max as u64 });
    }
    Ok(text)
}
