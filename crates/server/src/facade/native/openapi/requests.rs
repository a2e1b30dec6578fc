//! What requests may say, field by field: the types of `api/` as JSON Schema.

use serde_json::{Map, Value, json};

use super::parts::{flag, list, named, number, or_null, strict, text, texts, whole};

/// Every body that is JSON, by name. Each has an example.
pub(super) fn schemas() -> Map<String, Value> {
    let mut schemas = Map::new();
    for (name, schema, example) in [
        run(),
        super::interpret::prompt(),
        super::interpret::interpret(),
        limits(),
        create_sandbox(),
        extend_sandbox(),
        create_kernel(),
        create_cell(),
        extend_cell(),
        create_command(),
        signal(),
        terminal_size(),
        make_directory(),
        move_file(),
        make_link(),
        create_key(),
        super::approvals::word_body(),
    ] {
        let mut schema = schema;
        schema["examples"] = json!([example]);
        schemas.insert(name.to_owned(), schema);
    }
    schemas
}

pub(super) type Named = (&'static str, Value, Value);

/// Exactly one of these fields is there, and is not null.
pub(super) fn one_of(mut schema: Value, fields: &[(&str, &str)]) -> Value {
    let choices = fields.iter().map(|(field, kind)| {
        let properties = json!({*field: {"type": kind}});
        json!({"required": [field], "properties": properties})
    });
    schema["oneOf"] = choices.collect();
    schema
}

fn base64(about: &str) -> Value {
    json!({"type": ["string", "null"], "contentEncoding": "base64", "description": about})
}

pub(super) fn optional_text(about: &str) -> Value {
    or_null(text(about))
}

pub(super) fn seconds(about: &str) -> Value {
    or_null(number(about))
}

/// A file that comes with a request.
pub(super) fn file() -> Value {
    let file = strict(
        "A file with content or content_base64",
        &["path"],
        &json!({
            "path": text("Where it is to be"),
            "content": optional_text("Its text"),
            "content_base64": base64("Its bytes"),
        }),
    );
    one_of(file, &[("content", "string"), ("content_base64", "string")])
}

fn run() -> Named {
    let file = file();
    let properties = json!({
        "code": text("Python"),
        "template": optional_text("What the sandbox starts from; the server's default if left out"),
        "limits": named("Limits"),
        "env": texts("Variables"),
        "arguments": list(&json!({"type": "string"}), "`sys.argv` behind the program's name"),
        "timeout_seconds": seconds("How long it may take on the clock"),
        "policy": optional_text("`strict`, `data`, `open`, or the text of a policy file"),
        "files": list(&file, "Files that are there before the code starts"),
        "outputs": list(&json!({"type": "string"}), "Paths of files that are sent back, at most \
                        16 MiB all together"),
    });
    let example = json!({
        "code": "import sys\nprint(sys.argv, 6 * 7)",
        "files": [{"path": "data.csv", "content": "a,b\n1,2\n"}],
        "arguments": ["a"],
        "outputs": ["/workspace/data.csv"],
    });
    ("Run", strict("Code that is run once", &["code"], &properties), example)
}

fn limits() -> Named {
    let bounded = |about: &str| {
        let mut schema = or_null(whole(about));
        schema["maximum"] = u32::MAX.into();
        schema
    };
    let whole = |about: &str| or_null(whole(about));
    let properties = json!({
        "memory_bytes": whole("Memory of all processes and files together"),
        "disk_bytes": whole("Writable files, all together; less than the memory"),
        "cpus": or_null(number("Processors, for example 0.5 or 2")),
        "cpu_seconds": seconds("Processor time of one cell"),
        "wall_seconds": seconds("Time on the clock of one cell"),
        "processes": bounded("Processes and threads"),
        "open_files": bounded("Open files of one process"),
        "file_bytes": whole("The largest single file"),
        "output_bytes": whole("Bytes kept of stdout and of stderr, each"),
        "results": bounded("Results of one cell"),
        "result_bytes": whole("Bytes of all results of one cell"),
    });
    let example = json!({
        "memory_bytes": 536_870_912, "disk_bytes": 104_857_600, "cpus": 1.0, "cpu_seconds": 30,
        "wall_seconds": 30, "processes": 128, "open_files": 1024, "file_bytes": 104_857_600,
        "output_bytes": 65536, "results": 64, "result_bytes": 16_777_216,
    });
    let about = "What a sandbox may use; what is left out is the server's default";
    ("Limits", strict(about, &[], &properties), example)
}

fn create_sandbox() -> Named {
    let input = strict(
        "A read-only input below /data/input: content, content_base64, or something shared",
        &["name"],
        &json!({
            "name": text("Its name below /data/input"),
            "content": optional_text("Its text"),
            "content_base64": base64("Its bytes"),
            "shared": optional_text("The name of something the operator offers"),
        }),
    );
    let choices = [("content", "string"), ("content_base64", "string"), ("shared", "string")];
    let input = one_of(input, &choices);
    let properties = json!({
        "template": optional_text("What it starts from; the server's default if left out"),
        "limits": named("Limits"),
        "env": texts("Variables of everything in it"),
        "metadata": texts("Whatever its owner wants to find it by"),
        "ttl_seconds": seconds("How long it lives"),
        "idle_seconds": seconds("After what time without use it is ended"),
        "max_cells": or_null(whole("How many cells it may run")),
        "inputs": list(&input, "Read-only inputs"),
        "interpreter": {
            "type": "string", "enum": ["forked", "fresh"], "default": "forked",
            "description": "`forked` takes milliseconds, `fresh` shares nothing with any other \
                            sandbox",
        },
    });
    let example = json!({
        "template": "code-interpreter",
        "limits": {"memory_bytes": 536_870_912, "cpus": 1.0},
        "env": {"K": "V"},
        "metadata": {"user": "42"},
        "ttl_seconds": 3600,
        "idle_seconds": 600,
        "inputs": [{"name": "data.csv", "content": "a,b\n1,2\n"}],
        "interpreter": "forked",
    });
    ("CreateSandbox", strict("What a sandbox is to be", &[], &properties), example)
}

fn extend_sandbox() -> Named {
    let properties = json!({"ttl_seconds": number("It lives at least that long from now")});
    let about = "A longer life for a sandbox";
    ("ExtendSandbox", strict(about, &["ttl_seconds"], &properties), json!({"ttl_seconds": 600}))
}

fn create_kernel() -> Named {
    let properties = json!({
        "env": texts("Variables, over those of the sandbox"),
        "directory": optional_text("Where it starts; /workspace if left out"),
    });
    let example = json!({"env": {"K": "V"}, "directory": "/workspace"});
    ("CreateKernel", strict("What a kernel is to be", &[], &properties), example)
}

fn create_cell() -> Named {
    let properties = json!({
        "code": text("Python"),
        "kernel": optional_text("In which kernel; the first if left out"),
        "env": texts("Variables for this cell alone"),
        "timeout_seconds": seconds("How long it may take on the clock"),
        "policy": optional_text("`strict`, `data`, `open`, or the text of a policy file"),
        "background": flag("Answer at once, and let it be fetched"),
        "on_disconnect": {
            "type": "string", "enum": ["continue", "interrupt"], "default": "continue",
            "description": "What becomes of it when a client that waits or streams goes away",
        },
    });
    let example = json!({"code": "print(6 * 7)", "kernel": "k1", "timeout_seconds": 30});
    ("CreateCell", strict("Code that is to be run", &["code"], &properties), example)
}

fn extend_cell() -> Named {
    let properties = json!({"seconds": number("So much more time")});
    let about = "More time for a cell";
    ("ExtendCell", strict(about, &["seconds"], &properties), json!({"seconds": 60}))
}

fn create_command() -> Named {
    let mut arguments = or_null(list(
        &json!({"type": "string"}),
        "A program and its arguments, without a shell, in place of command",
    ));
    arguments["minItems"] = 1.into();
    let properties = json!({
        "command": optional_text("A line for a shell"),
        "arguments": arguments,
        "env": texts("Variables, over those of the sandbox"),
        "directory": optional_text("Where it starts; /workspace if left out"),
        "stdin": flag("Keep its input open until it is closed; otherwise it is empty"),
        "timeout_seconds": seconds("How long it may take on the clock"),
        "background": flag("Answer at once, and let it be fetched"),
        "terminal": or_null(named("TerminalSize")),
    });
    let schema = strict("A command, or a program with arguments", &[], &properties);
    let schema = one_of(schema, &[("command", "string"), ("arguments", "array")]);
    let example = json!({"command": "ls -l | wc -l", "timeout_seconds": 60});
    ("CreateCommand", schema, example)
}

fn signal() -> Named {
    let properties = json!({"signal": {
        "type": ["string", "integer"], "minimum": i32::MIN, "maximum": i32::MAX,
        "description": "A name, with or without SIG, or a number",
    }});
    let about = "A signal for a command's whole process group";
    ("Signal", strict(about, &["signal"], &properties), json!({"signal": "TERM"}))
}

fn terminal_size() -> Named {
    let cells = |about: &str| json!({"type": "integer", "minimum": 0, "maximum": u16::MAX, "description": about});
    let properties = json!({"columns": cells("Its width"), "rows": cells("Its height")});
    let schema = strict("The size of a terminal", &["columns", "rows"], &properties);
    ("TerminalSize", schema, json!({"columns": 80, "rows": 24}))
}

fn make_directory() -> Named {
    let properties = json!({"path": text("Where; parents are made too")});
    let about = "A directory to be made";
    ("MakeDirectory", strict(about, &["path"], &properties), json!({"path": "reports/2026"}))
}

fn move_file() -> Named {
    let properties = json!({
        "from": text("Where it is"),
        "to": text("Where it is to be"),
        "overwrite": flag("Replace a file that is there"),
    });
    let example = json!({"from": "a.csv", "to": "b.csv", "overwrite": false});
    ("MoveFile", strict("A move", &["from", "to"], &properties), example)
}

fn make_link() -> Named {
    let properties = json!({
        "path": text("The file it leads to"),
        "method": {
            "type": "string", "enum": ["GET", "PUT"], "default": "GET",
            "description": "Whether it is for reading or for writing",
        },
        "expires_seconds": seconds("How long it works: 300 if left out, at most a week"),
    });
    let example = json!({"path": "report.md", "method": "GET", "expires_seconds": 300});
    ("MakeLink", strict("A link to be made", &["path"], &properties), example)
}

fn create_key() -> Named {
    let properties = json!({
        "name": text("What people call it: 1 to 100 characters on one line"),
        "admin": flag("Whether it may do everything"),
        "approve": flag("Whether it may decide about what waits for a person"),
    });
    let example = json!({"name": "ci", "admin": false});
    ("CreateKey", strict("A key to be made", &["name"], &properties), example)
}
