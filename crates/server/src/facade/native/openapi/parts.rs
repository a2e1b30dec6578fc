//! Small pieces of JSON Schema, and the operation that is made of them.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::errors;
use crate::http::problem::Code;

/// Text.
pub(super) fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

/// A whole number that is not negative.
pub(super) fn whole(about: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": about})
}

/// A number that is not negative.
pub(super) fn number(about: &str) -> Value {
    json!({"type": "number", "minimum": 0, "description": about})
}

/// True or false; false if it is left out.
pub(super) fn flag(about: &str) -> Value {
    json!({"type": "boolean", "default": false, "description": about})
}

/// Whether something is so.
pub(super) fn truth(about: &str) -> Value {
    json!({"type": "boolean", "description": about})
}

/// A moment.
pub(super) fn moment(about: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": about})
}

/// One of a few words.
pub(super) fn word(words: &[&str], about: &str) -> Value {
    json!({"type": "string", "enum": words, "description": about})
}

/// Names and their texts.
pub(super) fn texts(about: &str) -> Value {
    json!({"type": "object", "additionalProperties": {"type": "string"}, "description": about})
}

pub(super) fn list(items: &Value, about: &str) -> Value {
    json!({"type": "array", "items": items, "description": about})
}

/// A schema by its name.
pub(super) fn named(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

/// The same, or null.
pub(super) fn or_null(mut schema: Value) -> Value {
    if let Some(kind) = schema.get("type").cloned() {
        schema["type"] = json!([kind, "null"]);
        if let Some(Value::Array(words)) = schema.get_mut("enum") {
            words.push(Value::Null);
        }
        return schema;
    }
    json!({"anyOf": [schema, {"type": "null"}]})
}

/// An object with these fields, of which some are always there.
pub(super) fn object(about: &str, required: &[&str], properties: &Value) -> Value {
    json!({
        "type": "object",
        "description": about,
        "required": required,
        "properties": properties,
    })
}

/// An object with these fields and no other.
pub(super) fn strict(about: &str, required: &[&str], properties: &Value) -> Value {
    let mut schema = object(about, required, properties);
    schema["additionalProperties"] = false.into();
    schema
}

/// Who may call an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Anybody,
    Key,
    Admin,
}

/// One method of one path.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    pub(super) method: &'static str,
    pub(super) path: &'static str,
    id: &'static str,
    summary: &'static str,
    about: Option<&'static str>,
    tag: &'static str,
    access: Access,
    parameters: Vec<Value>,
    body: Option<Value>,
    answers: BTreeMap<u16, Value>,
    codes: Vec<Code>,
}

/// An operation that wants a key.
pub(super) fn operation(
    method: &'static str,
    path: &'static str,
    id: &'static str,
    summary: &'static str,
) -> Operation {
    Operation {
        method,
        path,
        id,
        summary,
        about: None,
        tag: "",
        access: Access::Key,
        parameters: Vec::new(),
        body: None,
        answers: BTreeMap::new(),
        codes: Vec::new(),
    }
}

impl Operation {
    pub(super) fn about(mut self, about: &'static str) -> Self {
        self.about = Some(about);
        self
    }

    pub(super) fn under(mut self, tag: &'static str) -> Self {
        self.tag = tag;
        self
    }

    /// It wants no key.
    pub(super) fn open(mut self) -> Self {
        self.access = Access::Anybody;
        self
    }

    /// It wants an admin's key.
    pub(super) fn admin(mut self) -> Self {
        self.access = Access::Admin;
        self
    }

    /// A parameter that may be left out.
    pub(super) fn query(self, name: &str, schema: Value) -> Self {
        self.parameter(name, "query", schema)
    }

    /// A header that may be left out.
    pub(super) fn header(self, name: &str, schema: Value) -> Self {
        self.parameter(name, "header", schema)
    }

    fn parameter(mut self, name: &str, place: &str, mut schema: Value) -> Self {
        let about = schema.as_object_mut().and_then(|schema| schema.shift_remove("description"));
        self.parameters.push(json!({
            "name": name, "in": place, "required": false,
            "description": about.unwrap_or_default(), "schema": schema,
        }));
        self.fails(if place == "query" { &[Code::BadRequest] } else { &[] })
    }

    /// A parameter as it is.
    pub(super) fn raw_parameter(mut self, parameter: Value) -> Self {
        self.parameters.push(parameter);
        self
    }

    /// The query's `path`, and how files fail.
    pub(super) fn on_path(self, about: &str, example: &str) -> Self {
        let parameter = json!({
            "name": "path", "in": "query", "required": true, "description": about,
            "schema": {"type": "string"}, "example": example,
        });
        self.raw_parameter(parameter).fails(&[Code::BadRequest, Code::BadPath, Code::Refused])
    }

    /// A JSON body of a named schema.
    pub(super) fn body(mut self, schema: &str) -> Self {
        let required = requests_required(schema);
        self.body = Some(json!({
            "required": required,
            "content": {"application/json": {"schema": named(schema)}},
        }));
        self.fails(&[Code::BadRequest, Code::TooLarge])
    }

    /// A body of bytes.
    pub(super) fn raw_body(mut self, mime: &str, about: &str) -> Self {
        self.body = Some(json!({
            "required": true, "description": about, "content": {mime: {}},
        }));
        self.fails(&[Code::BadRequest, Code::QuotaExceeded])
    }

    /// An answer of a named schema.
    pub(super) fn answers(self, status: u16, about: &str, schema: &str) -> Self {
        let content = json!({"application/json": {"schema": named(schema)}});
        self.answer(status, json!({"description": about, "content": content}))
    }

    /// The answer of this status can also be a stream of a named kind of events.
    pub(super) fn or_events(mut self, status: u16, schema: &str) -> Self {
        if let Some(answer) = self.answers.get_mut(&status) {
            answer["content"]["text/event-stream"] = json!({"schema": named(schema)});
        }
        self
    }

    /// An answer without a body.
    pub(super) fn empty(self, about: &str) -> Self {
        self.answer(204, json!({"description": about}))
    }

    /// An answer in some other form.
    pub(super) fn sends(self, status: u16, about: &str, mime: &str) -> Self {
        self.answer(status, json!({"description": about, "content": {mime: {}}}))
    }

    pub(super) fn answer(mut self, status: u16, answer: Value) -> Self {
        self.answers.insert(status, answer);
        self
    }

    pub(super) fn fails(mut self, codes: &[Code]) -> Self {
        self.codes.extend_from_slice(codes);
        self
    }

    /// The operation as the document has it.
    pub(super) fn render(&self) -> Value {
        let mut value = Map::new();
        value.insert("operationId".into(), self.id.into());
        value.insert("tags".into(), json!([self.tag]));
        value.insert("summary".into(), self.summary.into());
        if let Some(about) = self.about {
            value.insert("description".into(), about.into());
        }
        match self.access {
            Access::Anybody => drop(value.insert("security".into(), json!([]))),
            Access::Key => {}
            Access::Admin => drop(value.insert("x-admin".into(), true.into())),
        }
        let mut parameters: Vec<Value> =
            path_parameters(self.path).map(|(name, _)| path_parameter(name)).collect();
        parameters.extend(self.parameters.iter().cloned());
        if !parameters.is_empty() {
            value.insert("parameters".into(), parameters.into());
        }
        if let Some(body) = &self.body {
            value.insert("requestBody".into(), body.clone());
        }
        value.insert("responses".into(), self.responses());
        value.into()
    }

    fn responses(&self) -> Value {
        let mut responses = Map::new();
        for (status, answer) in &self.answers {
            responses.insert(status.to_string(), answer.clone());
        }
        for (status, failure) in errors::responses(&self.codes()) {
            responses.insert(status.to_string(), failure);
        }
        responses.into()
    }

    /// How it can fail.
    pub(super) fn codes(&self) -> Vec<Code> {
        [self.common_codes(), self.codes.clone()].concat()
    }

    /// How every operation of its kind can fail.
    fn common_codes(&self) -> Vec<Code> {
        let mut codes = vec![Code::WrongOrigin, Code::Internal];
        if self.access != Access::Anybody {
            codes.extend([Code::Unauthorized, Code::RateLimited, Code::StoreUnavailable]);
        }
        if self.access == Access::Admin {
            codes.push(Code::Forbidden);
        }
        codes.extend(path_parameters(self.path).filter_map(|(_, code)| code));
        let looks_only = self.method == "get" && self.path.ends_with("/{sandbox}");
        if self.path.contains("{sandbox}") && !looks_only {
            codes.push(Code::SandboxEnded);
        }
        codes
    }
}

/// Whether a request's body cannot be left out.
fn requests_required(schema: &str) -> bool {
    let schemas = super::requests::schemas();
    let schema = &schemas[schema];
    let needs = schema["required"].as_array().is_some_and(|required| !required.is_empty());
    needs || schema.get("oneOf").is_some()
}

/// What the parameters in paths are, an example, and the code if there is no such thing.
const PATH_PARAMETERS: [(&str, &str, &str, Option<Code>); 8] = [
    ("sandbox", "The id of a sandbox", "sbx0", Some(Code::SandboxNotFound)),
    ("kernel", "The id of a kernel in it", "k1", Some(Code::KernelNotFound)),
    ("cell", "The id of a cell in it", "c1", Some(Code::CellNotFound)),
    ("command", "The id of a command in it", "p1", Some(Code::CommandNotFound)),
    ("name", "The name of a template", "code-interpreter", Some(Code::TemplateNotFound)),
    ("id", "The id of a key", "key_0", Some(Code::KeyNotFound)),
    ("approval", "The id of an approval", "apr_0", Some(Code::ApprovalNotFound)),
    ("token", "The last part of the link's address", "…", Some(Code::LinkInvalid)),
];

fn path_parameters(path: &str) -> impl Iterator<Item = (&str, Option<Code>)> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names.map(|name| {
        let known = PATH_PARAMETERS.iter().find(|(known, ..)| *known == name);
        (name, known.and_then(|(.., code)| *code))
    })
}

fn path_parameter(name: &str) -> Value {
    let known = PATH_PARAMETERS.iter().find(|(known, ..)| *known == name);
    let (_, about, example, _) = known.copied().unwrap_or((name, "", "", None));
    json!({
        "name": name, "in": "path", "required": true, "description": about,
        "schema": {"type": "string"}, "example": example,
    })
}
