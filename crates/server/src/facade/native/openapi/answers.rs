//! What answers say, field by field: the JSON of `render` and of the handlers.

use serde_json::{Map, Value, json};

use super::parts::{list, moment, named, number, object, or_null, text, texts, truth, whole, word};

/// Every answer that is JSON, and every stream of events, by name.
pub(super) fn schemas() -> Map<String, Value> {
    let mut schemas = Map::new();
    let all = [
        sandboxes(),
        cells(),
        streams(),
        super::interpret::answers(),
        commands(),
        files(),
        account(),
        administration(),
    ];
    for (name, schema) in all.into_iter().flatten() {
        schemas.insert(name.to_owned(), schema);
    }
    schemas
}

pub(super) type Group = Vec<(&'static str, Value)>;

/// A list under one name.
fn page_of(field: &str, schema: &str, about: &str) -> Value {
    object(about, &[field], &json!({field: list(&named(schema), about)}))
}

fn anything(about: &str) -> Value {
    json!({"type": "object", "description": about})
}

fn id(prefix: &str, about: &str) -> Value {
    json!({"type": "string", "pattern": format!("^{prefix}"), "description": about})
}

fn sandboxes() -> Group {
    let fields = sandbox_fields();
    let required = ["id", "state", "template", "metadata", "limits", "created_at", "kernels"];
    let mut sandbox = object("A sandbox", &required, &fields.clone().into());
    sandbox["examples"] = json!([{
        "id": "sbx0", "state": "running", "template": "code-interpreter",
        "metadata": {"user": "42"}, "limits": {"memory_bytes": 536_870_912, "cpus": 1.0},
        "created_at": "2026-01-01T00:00:00.000000Z", "expires_at": "2026-01-01T01:00:00.000000Z",
        "idle_seconds": 600, "max_cells": 1000, "cells_run": 0,
        "kernels": [{"id": "k1", "state": "idle", "cell": null, "cells_run": 0, "restarts": 0,
                     "created_at": "2026-01-01T00:00:00.000000Z"}],
        "end_reason": null, "ended_at": null, "containment": null,
    }]);
    let next = or_null(text("The value of `page` for the next page"));
    let listed = json!({
        "sandboxes": list(&named("Sandbox"), "Newest first"),
        "next_page": next,
    });
    let usage = json!({
        "now": named("Usage"),
        "samples": list(&named("Usage"), "Once every ten seconds, the last hour of it"),
    });
    vec![
        ("Sandbox", sandbox),
        ("SandboxList", object("A page of sandboxes", &["sandboxes", "next_page"], &listed)),
        ("SandboxLimits", sandbox_limits()),
        ("Containment", containment()),
        ("Usage", usage_sample()),
        ("UsageReport", object("What a sandbox uses", &["now", "samples"], &usage)),
        ("Kernel", kernel()),
        ("KernelList", page_of("kernels", "Kernel", "The kernels of a sandbox")),
    ]
}

fn sandbox_fields() -> Map<String, Value> {
    let reasons = ["deleted", "expired", "idle", "max_cells", "out_of_memory", "died", "shutdown"];
    let fields = json!({
        "id": id("sbx", "Its id"),
        "state": word(
            &["running", "ended", "lost"],
            "`lost` if the server stopped without ending it",
        ),
        "template": text("What it started from"),
        "metadata": texts("What its owner says about it"),
        "limits": named("SandboxLimits"),
        "created_at": moment("When it was made"),
        "expires_at": or_null(moment("When it will be ended")),
        "idle_seconds": or_null(whole("After what time without use it is ended")),
        "max_cells": whole("How many cells it may run"),
        "cells_run": whole("How many it has run"),
        "kernels": list(&named("Kernel"), "Its kernels; none of one that has ended"),
        "end_reason": {
            "type": ["string", "null"],
            "description": format!("Why it has ended: {}, or words if it was lost",
                                   reasons.join(", ")),
        },
        "ended_at": or_null(moment("When it ended")),
        "containment": or_null(named("Containment")),
        "usage": {"description": "What one that has ended has used, where it is known"},
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn sandbox_limits() -> Value {
    let properties = json!({
        "memory_bytes": whole("Memory of all processes and files together"),
        "disk_bytes": whole("Writable files, all together"),
        "cpus": number("Processors"),
        "cpu_seconds": number("Processor time of one cell"),
        "wall_seconds": number("Time on the clock of one cell"),
        "processes": whole("Processes and threads"),
        "open_files": whole("Open files of one process"),
        "file_bytes": whole("The largest single file"),
        "output_bytes": whole("Bytes kept of stdout and of stderr, each"),
        "results": whole("Results of one cell"),
        "result_bytes": whole("Bytes of all results of one cell"),
    });
    object("What a sandbox may use", &[], &properties)
}

fn containment() -> Value {
    let measure = json!({
        "state": word(&["full", "partial", "missing"], "Whether it is enforced"),
        "detail": text("How, or why not"),
    });
    let measure = object("One measure", &["state", "detail"], &measure);
    let properties = json!({
        "tier": text("How the sandbox is isolated"),
        "measures": {"type": "object", "additionalProperties": measure},
    });
    object("What is really enforced", &["tier", "measures"], &properties)
}

fn usage_sample() -> Value {
    let properties = json!({
        "at": moment("When"),
        "cpu_ms": or_null(whole("Processor time so far, where it is measured")),
        "memory_bytes": or_null(whole("Memory, files included, where it is measured")),
        "memory_peak_bytes": or_null(whole("The most memory so far, where it is measured")),
        "disk_bytes": whole("Bytes in files"),
        "files": whole("Number of files and directories"),
    });
    let required = ["at", "cpu_ms", "memory_bytes", "memory_peak_bytes", "disk_bytes", "files"];
    object("What a sandbox used at a moment", &required, &properties)
}

fn kernel() -> Value {
    let properties = json!({
        "id": id("k", "Its id"),
        "state": word(&["idle", "busy", "ended"], "What it does"),
        "cell": or_null(text("The cell that runs in it")),
        "cells_run": whole("Cells it has run"),
        "restarts": whole("How often its interpreter was started again"),
        "created_at": moment("When it was made"),
    });
    let required = ["id", "state", "cell", "cells_run", "restarts", "created_at"];
    object("A kernel", &required, &properties)
}

fn cell_fields() -> Map<String, Value> {
    let outcomes = [
        "ok",
        "raised",
        "exited",
        "interrupted",
        "timed_out",
        "cpu_exceeded",
        "out_of_memory",
        "crashed",
        "vanished",
        "disconnected",
        "sandbox_died",
        "denied",
    ];
    let changed = list(&named("ChangedFile"), "Files below the places for files");
    let what_became = json!({
        "created": changed, "changed": changed, "removed": changed,
        "truncated": truth("Whether there were more than are listed"),
    });
    let hit = json!({"limit": text("Its name"), "message": text("What happened, for people")});
    let truncated = json!({
        "stdout": whole("Bytes"), "stderr": whole("Bytes"), "results": whole("Results"),
    });
    let usage = json!({
        "cpu_ms": or_null(number("Processor time, where it is measured")),
        "memory_peak_bytes": or_null(whole("The most memory, where it is measured")),
    });
    let fields = json!({
        "id": id("c", "Its id"),
        "kernel": text("The kernel it runs in"),
        "state": word(&["awaiting_approval", "queued", "running", "done"], "How far it is; what \
                      follows is there when it is done"),
        "created_at": moment("When it was asked for"),
        "policy": text("The policy that found something"),
        "findings": list(&named("Finding"), "What it found, if anything"),
        "approval": named("CellApproval"),
        "outcome": word(&outcomes, "How it ended"),
        "exit_code": {"type": "integer", "description": "The exit status a shell would show"},
        "message": or_null(text("What happened, for people, unless all is well")),
        "stdout": text("What was kept of it, with a mark where bytes were left out"),
        "stderr": text("The same"),
        "text": or_null(text("The text of the main result")),
        "results": list(&named("Bundle"), "Results, in order"),
        "error": or_null(named("CellError")),
        "files": object("What became of files", &[], &what_became),
        "duration_ms": number("Time on the clock"),
        "limits_hit": list(&object("A limit", &["limit", "message"], &hit), "Limits it ran into"),
        "truncated": object("What was left out", &[], &truncated),
        "usage": object("What it used", &[], &usage),
        "kernel_state": word(&["ready", "restarted", "ended"], "What became of its kernel"),
        "lost": or_null(text("What was lost with the interpreter, and what is still there")),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn cells() -> Group {
    let required = ["id", "kernel", "state", "created_at"];
    let mut cell = object("A cell", &required, &cell_fields().into());
    cell["examples"] = json!([{
        "id": "c1", "kernel": "k1", "state": "done", "created_at": "2026-01-01T00:00:00.000000Z",
        "outcome": "ok", "exit_code": 0, "message": null, "stdout": "42\n", "stderr": "",
        "results": [], "text": null, "error": null,
        "files": {"created": [], "changed": [], "removed": [], "truncated": false},
        "duration_ms": 1.2, "limits_hit": [],
        "truncated": {"stdout": 0, "stderr": 0, "results": 0},
        "usage": {"cpu_ms": 1.0, "memory_peak_bytes": 5_992_448},
        "kernel_state": "ready", "lost": null,
    }]);
    let output = json!({
        "path": text("Its path"),
        "size": whole("Bytes"),
        "content_base64": {"type": "string", "contentEncoding": "base64"},
        "error": text("Why there is none, in place of the content"),
    });
    let mut run = cell_fields();
    let output = object("A file that was asked for", &["path"], &output);
    run.insert("outputs".into(), list(&output, "The files that were asked for"));
    let bundle = json!({
        "main": truth("Whether it is the value of the last expression"),
        "data": {
            "type": "object",
            "description": "By MIME type: text as text, JSON as JSON, everything else in base 64",
        },
        "metadata": {
            "type": "object",
            "description": "By MIME type: sizes of pictures, what of a table was cut off, and the like",
        },
    });
    let error = json!({
        "name": text("The exception's class"),
        "value": text("Its message"),
        "traceback": list(&json!({"type": "string"}), "Line by line"),
    });
    let changed = json!({"path": text("Its path"), "size": whole("Bytes")});
    let extended = json!({"timeout_seconds": number("What it may take now, all in all")});
    vec![
        ("Cell", cell),
        ("CellList", page_of("cells", "Cell", "The last 100, newest first, in short")),
        (
            "RunReport",
            object(
                "A cell and the files that were asked for",
                &[&required[..], &["outputs"]].concat(),
                &run.into(),
            ),
        ),
        ("Bundle", object("A result", &["main", "data", "metadata"], &bundle)),
        ("CellError", object("An exception", &["name", "value", "traceback"], &error)),
        ("ChangedFile", object("A file", &["path", "size"], &changed)),
        ("CellExtended", object("A cell's time", &["timeout_seconds"], &extended)),
    ]
}

/// What a stream carries; OpenAPI 3.1 has no words for it, so the kinds of events stand in `x-events`.
pub(super) fn stream(about: &str, events: &Value) -> Value {
    json!({"type": "string", "description": about, "x-events": events})
}

fn streams() -> Group {
    let output = json!({
        "type": "object",
        "description": "Output as it was printed; bytes that are no UTF-8 in base 64",
        "properties": {
            "text": {"type": "string"},
            "base64": {"type": "string", "contentEncoding": "base64"},
        },
    });
    let gap = json!({"events": whole("How many were dropped before this one, because nobody \
                                      listened")});
    let gap = object("Events that are missing", &["events"], &gap);
    let cell_start = json!({"cell": text("Its id"), "kernel": text("Its kernel")});
    let command_start = json!({
        "command": text("Its id"),
        "process_id": or_null(whole("Its process, as the sandbox sees it")),
    });
    let about = "Server-sent events, numbered from 1; a client that comes back sends \
                 Last-Event-ID. The last one is `done`.";
    let cell = json!({
        "approval": named("CellApproval"),
        "start": object("It is known", &["cell", "kernel"], &cell_start),
        "stdout": named("OutputEvent"),
        "stderr": named("OutputEvent"),
        "result": named("Bundle"),
        "error": named("CellError"),
        "gap": named("GapEvent"),
        "done": named("Cell"),
    });
    let command = json!({
        "start": object("It has started", &["command"], &command_start),
        "stdout": named("OutputEvent"),
        "stderr": named("OutputEvent"),
        "gap": named("GapEvent"),
        "done": named("Command"),
    });
    vec![
        ("OutputEvent", output),
        ("GapEvent", gap),
        ("CellEvents", stream(about, &cell)),
        ("CommandEvents", stream(about, &command)),
    ]
}

fn commands() -> Group {
    let outcomes = ["exited", "killed", "timed_out", "out_of_memory", "sandbox_died"];
    let truncated = json!({"stdout": whole("Bytes"), "stderr": whole("Bytes")});
    let properties = json!({
        "id": id("p", "Its id"),
        "command": text("What was asked for"),
        "process_id": or_null(whole("Its process, as the sandbox sees it")),
        "created_at": moment("When it was asked for"),
        "state": word(&["running", "done"], "How far it is; what follows is there when it is \
                      done"),
        "outcome": word(&outcomes, "How it ended"),
        "exit_code": {"type": "integer", "description": "128 and the signal for one that was \
                                                         killed"},
        "signal": {"type": ["integer", "null"], "description": "The signal that killed it"},
        "duration_ms": number("Time on the clock"),
        "stdout": text("What was kept of it"),
        "stderr": text("What was kept of it"),
        "truncated": object("What was left out", &[], &truncated),
    });
    let required = ["id", "command", "process_id", "created_at", "state"];
    let mut command = object("A command", &required, &properties);
    command["examples"] = json!([{
        "id": "p1", "command": "echo hi", "process_id": 7,
        "created_at": "2026-01-01T00:00:00.000000Z", "state": "done", "outcome": "exited",
        "exit_code": 0, "signal": null, "duration_ms": 2.5, "stdout": "hi\n", "stderr": "",
        "truncated": {"stdout": 0, "stderr": 0},
    }]);
    let about = "Those that run, and the last 100 that ended, newest first, in short";
    vec![("Command", command), ("CommandList", page_of("commands", "Command", about))]
}

fn files() -> Group {
    let properties = json!({
        "path": text("Its path"),
        "name": text("The last part of it"),
        "kind": word(&["file", "directory", "symlink", "other"], "What it is"),
        "size": whole("Bytes"),
        "mode": text("Its permissions, octal"),
        "modified_at": moment("When its content last changed"),
        "owner": word(&["user", "nobody"], "Whose it is"),
        "target": or_null(text("Where a symbolic link points")),
        "usable": truth("In a list: whether its path can be used in requests"),
    });
    let required = ["path", "name", "kind", "size", "mode", "modified_at", "owner", "target"];
    let mut entry = object("A file or directory", &required, &properties);
    entry["examples"] = json!([{
        "path": "/workspace/data.csv", "name": "data.csv", "kind": "file", "size": 8,
        "mode": "644", "modified_at": "2026-01-01T00:00:00.000000Z", "owner": "user",
        "target": null,
    }]);
    let listing = json!({
        "entries": list(&named("Entry"), "What is in it"),
        "truncated": truth("Whether there is more than is listed"),
    });
    let unpacked = json!({
        "files": whole("Files that were written"),
        "bytes": whole("Bytes that were written"),
        "left_out": whole("Links, devices and other entries that were left out"),
        "left_out_names": list(&json!({"type": "string"}), "The first names of those"),
    });
    let required = ["files", "bytes", "left_out", "left_out_names"];
    let link = json!({
        "url": text("An address that works without a key"),
        "expires_at": moment("Until when"),
    });
    vec![
        ("Entry", entry),
        ("Listing", object("A directory", &["entries", "truncated"], &listing)),
        ("Unpacked", object("What became of an archive", &required, &unpacked)),
        ("Link", object("A link", &["url", "expires_at"], &link)),
    ]
}

fn account() -> Group {
    let template = json!({
        "name": text("Its name"),
        "description": text("What it is for"),
        "python": text("The version of Python"),
        "packages": {"description": "The Python packages in it"},
    });
    let quota_names = [
        "sandboxes",
        "cells_running",
        "cells_queued",
        "requests_per_second",
        "request_burst",
        "upload_bytes_per_minute",
        "output_bytes_per_minute",
        "cpu_seconds_per_minute",
    ];
    let quota: Map<String, Value> =
        quota_names.iter().map(|name| ((*name).to_owned(), number("At most"))).collect();
    let server = json!({
        "sandboxes": whole("Sandboxes of everybody"),
        "cells_running": whole("Cells of everybody that run"),
        "pool_ready": whole("Sandboxes kept ready"),
        "sandboxes_ended": {"type": "object", "additionalProperties": whole("By reason")},
    });
    let stats = json!({
        "sandboxes": whole("Own sandboxes"),
        "cells_running": whole("Own cells that run"),
        "cells_queued": whole("Own cells that wait"),
        "quota": object("What a key may use", &quota_names, &quota.into()),
        "queue_depth": whole("Cells of everybody that wait"),
        "models_today": super::interpret::spent(),
        "server": object("For an admin key: the whole server", &[], &server),
    });
    let required = ["sandboxes", "cells_running", "cells_queued", "quota", "queue_depth"];
    let execution = json!({
        "seq": whole("The number of its record in the chain"),
        "execution": text("Its id"),
        "tenant": or_null(text("For which key")),
        "sandbox": or_null(text("In which sandbox")),
        "begun_at": moment("When it began"),
        "finished_at": or_null(moment("When it ended")),
        "outcome": text("How it ended, or `unfinished`"),
        "begin": anything("What was recorded before it began"),
        "finish": or_null(anything("What was recorded after it ended")),
    });
    let begun = ["seq", "execution", "begun_at", "outcome", "begin"];
    vec![
        ("Template", object("A template", &["name"], &template)),
        ("TemplateList", page_of("templates", "Template", "What sandboxes can start from")),
        ("Stats", object("A key's own numbers", &required, &stats)),
        ("Execution", object("Something that was run", &begun, &execution)),
        ("ExecutionList", page_of("executions", "Execution", "Newest first")),
    ]
}

fn administration() -> Group {
    let verdict = json!({
        "ok": truth("Whether nothing was changed or taken away"),
        "records": whole("Records that were checked"),
        "first": or_null(whole("The number of the first one")),
        "head": text("The last one, to be noted elsewhere"),
        "unfinished": whole("Executions without an end"),
        "fault": text("What is wrong, if it is not ok"),
    });
    let key = json!({
        "id": text("Its id, which is no secret"),
        "name": text("What people call it"),
        "admin": truth("Whether it may do everything"),
        "approve": truth("Whether it may decide about what waits for a person"),
        "created_at": moment("When it was made"),
        "revoked_at": or_null(moment("When it was revoked")),
    });
    let required = ["id", "name", "admin", "approve", "created_at", "revoked_at"];
    let mut new_key = key.clone();
    new_key["key"] = text("The secret, in this answer and never again");
    let mut watched = sandbox_fields();
    watched.insert("owner".into(), text("The id of the key it belongs to"));
    watched.insert("owner_name".into(), or_null(text("What people call that key")));
    watched.insert("commands_running".into(), whole("Commands that run in it"));
    watched.insert("usage".into(), named("Usage"));
    let seen = [
        "id",
        "owner",
        "owner_name",
        "state",
        "template",
        "metadata",
        "limits",
        "created_at",
        "expires_at",
        "cells_run",
        "kernels",
        "commands_running",
        "usage",
    ];
    let everything = json!({
        "at": moment("When this was so"),
        "sandboxes": list(&named("WatchedSandbox"), "Every live sandbox, by id"),
    });
    let status = json!({"status": word(&["ok"], "All is well")});
    let mut ready = status.clone();
    ready["pool"] = whole("Sandboxes kept ready");
    vec![
        ("AuditVerdict", object("What the check of the chain said", &["ok"], &verdict)),
        ("Key", object("A key", &required, &key)),
        ("NewKey", object("A new key", &[&required[..], &["key"]].concat(), &new_key)),
        ("KeyList", page_of("keys", "Key", "Every key")),
        (
            "WatchedSandbox",
            object("A live sandbox, its owner, and what it uses now", &seen, &watched.into()),
        ),
        ("WatchedSandboxList", object("Live sandboxes", &["at", "sandboxes"], &everything)),
        ("Alive", object("The server lives", &["status"], &status)),
        ("Ready", object("The server works", &["status", "pool"], &ready)),
    ]
}
