//! Operations on files, links and ports.

use serde_json::json;

use crate::facade::native::openapi::parts::{Operation, operation, text, whole};
use crate::facade::native::wire::{file, port};
use crate::facade::native::{files, ports};
use crate::http::problem::Code;

const BYTES: &str = "application/octet-stream";
const TAR: &str = "application/x-tar";

pub(super) fn files() -> Vec<Operation> {
    let files = "/v1/sandboxes/{sandbox}/files";
    vec![
        operation("get", files, "listFiles", "List a directory")
            .on_path("The directory", "/workspace")
            .query("depth", whole("How many levels; 1 if left out"))
            .answers::<file::Listing>(200, "What is in it")
            .fails(&[Code::FileNotFound, Code::NotADirectory, Code::TooLarge]),
        operation("delete", files, "removeFile", "Remove a file or a whole directory")
            .on_path("The file or directory", "data.csv")
            .empty("It is gone")
            .fails(&[Code::FileNotFound, Code::Conflict, Code::TooLarge]),
        operation("get", "/v1/sandboxes/{sandbox}/files/stat", "statFile", "Look at one")
            .on_path("The file or directory", "data.csv")
            .answers::<file::Entry>(200, "The object")
            .fails(&[Code::FileNotFound]),
        download(operation(
            "get",
            "/v1/sandboxes/{sandbox}/files/content",
            "readFile",
            "Read a file",
        ))
        .on_path("The file", "data.csv"),
        upload(operation(
            "put",
            "/v1/sandboxes/{sandbox}/files/content",
            "writeFile",
            "Write a file",
        ))
        .on_path("Where; parents are made", "data.csv")
        .query(
            "mode",
            json!({
                "type": "string", "pattern": "^[0-7]{1,4}$", "default": "644",
                "description": "Its permissions, octal, at most 777",
            }),
        ),
    ]
}

pub(super) fn more_files() -> Vec<Operation> {
    let written = [Code::NotAFile, Code::NotADirectory, Code::TooLarge, Code::DiskFull];
    vec![
        operation(
            "post",
            "/v1/sandboxes/{sandbox}/files/directory",
            "makeDirectory",
            "Make a directory",
        )
        .body::<files::DirectoryBody>()
        .answers::<file::Entry>(200, "It existed")
        .answers::<file::Entry>(201, "It is made")
        .fails(&[Code::BadPath, Code::Refused, Code::Conflict])
        .fails(&written),
        operation(
            "post",
            "/v1/sandboxes/{sandbox}/files/move",
            "moveFile",
            "Move a file or directory",
        )
        .body::<files::MoveBody>()
        .answers::<file::Entry>(200, "It, where it is now")
        .fails(&[Code::BadPath, Code::FileNotFound, Code::Refused, Code::Conflict])
        .fails(&written),
        operation(
            "get",
            "/v1/sandboxes/{sandbox}/files/archive",
            "readArchive",
            "Read a directory as a tar archive",
        )
        .on_path("The directory", "/workspace")
        .sends(200, "The archive", TAR)
        .fails(&[Code::FileNotFound, Code::NotADirectory]),
        operation(
            "put",
            "/v1/sandboxes/{sandbox}/files/archive",
            "unpackArchive",
            "Unpack a tar archive into a directory",
        )
        .on_path("The directory", "/workspace")
        .raw_body(TAR, "The archive, not compressed")
        .answers::<file::Unpacked>(200, "What was unpacked")
        .fails(&[Code::Conflict, Code::RequestTimeout])
        .fails(&written),
        operation(
            "post",
            "/v1/sandboxes/{sandbox}/files/link",
            "makeLink",
            "Make a link to a file that works without a key",
        )
        .body::<files::LinkBody>()
        .answers::<file::LinkCreated>(200, "The link")
        .fails(&[Code::BadPath]),
    ]
}

pub(super) fn links() -> Vec<Operation> {
    let link = "/v1/links/{token}";
    let lost =
        [Code::SandboxNotFound, Code::SandboxEnded, Code::RateLimited, Code::StoreUnavailable];
    vec![
        download(operation("get", link, "readLink", "Read the file of a link")).open().fails(&lost),
        upload(operation("put", link, "writeLink", "Write the file of a link")).open().fails(&lost),
    ]
}

pub(super) fn ports() -> Vec<Operation> {
    vec![
        operation(
            "get",
            "/v1/sandboxes/{sandbox}/ports",
            "listPorts",
            "List the ports that a sandbox exposes",
        )
        .about("Tries to connect to each, to see whether a server listens there.")
        .answers::<port::PortList>(200, "The ports"),
        operation(
            "get",
            "/v1/sandboxes/{sandbox}/ports/{port}/",
            "getPort",
            "Ask the server that listens on a port",
        )
        .about(
            "So does any other method, and any path below this one; WebSocket works too. The answer is \
             that of the server in the sandbox, whatever it is, with `Content-Security-Policy: \
             sandbox`.",
        )
        .sends(200, "What the server answers", BYTES)
        .fails(&[Code::PortNotExposed, Code::PortClosed, Code::PortFailed, Code::PortSlow])
        .fails(&[Code::QuotaExceeded]),
        operation(
            "post",
            "/v1/sandboxes/{sandbox}/ports/{port}/link",
            "makePortLink",
            "Make a link to a port that works without a key",
        )
        .about(
            "With `ports.domain` configured it leads to the port's own host, where a browser gets a \
             cookie. Without, every answer is a page of its own that runs no script.",
        )
        .body::<ports::PortLinkBody>()
        .answers::<file::LinkCreated>(200, "The link")
        .fails(&[Code::PortNotExposed]),
    ]
}

fn download(operation: Operation) -> Operation {
    operation
        .header("Range", text("One range of bytes, for example `bytes=0-99`"))
        .sends(200, "The bytes", BYTES)
        .sends(206, "The bytes of the range", BYTES)
        .fails(&[Code::FileNotFound, Code::NotAFile, Code::Refused, Code::BadRange])
}

fn upload(operation: Operation) -> Operation {
    operation
        .about("The body becomes the file when it is complete; until then nothing changes.")
        .raw_body(BYTES, "The bytes")
        .answers::<file::Entry>(200, "It existed and is replaced")
        .answers::<file::Entry>(201, "It is new")
        .fails(&[Code::NotAFile, Code::NotADirectory, Code::Refused])
        .fails(&[Code::RequestTimeout, Code::TooLarge, Code::DiskFull])
}
