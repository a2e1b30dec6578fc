//! One operation of the document, and the schemas of its parameters.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use super::errors;
use super::schemas::{SchemaOf, Schemas, schema_of};
use crate::http::problem::Code;

/// A parameter that is text.
pub(super) fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

/// A parameter that is a whole number, not negative.
pub(super) fn whole(about: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": about})
}

/// A parameter that is a number, not negative.
pub(super) fn number(about: &str) -> Value {
    json!({"type": "number", "minimum": 0, "description": about})
}

/// A parameter that is true or false; false if it is left out.
pub(super) fn flag(about: &str) -> Value {
    json!({"type": "boolean", "default": false, "description": about})
}

/// A parameter that is a point in time.
pub(super) fn moment(about: &str) -> Value {
    json!({"type": "string", "format": "date-time", "description": about})
}

/// Who may call an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Open,
    Key,
    Admin,
}

/// The body of a request.
#[derive(Clone, Debug)]
enum Body {
    Json(SchemaOf),
    Bytes { mime: &'static str, about: &'static str },
}

/// A response that is not an error.
#[derive(Clone, Debug)]
struct Response {
    about: &'static str,
    content: Vec<(&'static str, Option<SchemaOf>)>,
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
    body: Option<Body>,
    answers: BTreeMap<u16, Response>,
    codes: Vec<Code>,
}

/// Returns an operation that needs a key.
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

    /// Needs no key.
    pub(super) fn open(mut self) -> Self {
        self.access = Access::Open;
        self
    }

    /// Needs an admin key.
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

    /// The query's `path`, and the errors of file operations.
    pub(super) fn on_path(self, about: &str, example: &str) -> Self {
        let parameter = json!({
            "name": "path", "in": "query", "required": true, "description": about,
            "schema": {"type": "string"}, "example": example,
        });
        self.raw_parameter(parameter).fails(&[Code::BadRequest, Code::BadPath, Code::Refused])
    }

    /// A JSON body.
    pub(super) fn body<T: JsonSchema>(mut self) -> Self {
        self.body = Some(Body::Json(schema_of::<T>()));
        self.fails(&[Code::BadRequest, Code::RequestTimeout, Code::TooLarge])
    }

    /// A body of bytes.
    pub(super) fn raw_body(mut self, mime: &'static str, about: &'static str) -> Self {
        self.body = Some(Body::Bytes { mime, about });
        self.fails(&[Code::BadRequest, Code::QuotaExceeded])
    }

    /// A JSON response.
    pub(super) fn answers<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.answer(status, about, Some(("application/json", Some(schema_of::<T>()))))
    }

    /// A response that is a stream of events.
    pub(super) fn streams<T: JsonSchema>(self, status: u16, about: &'static str) -> Self {
        self.answer(status, about, Some(("text/event-stream", Some(schema_of::<T>()))))
    }

    /// The response of this status can also be a stream of events.
    pub(super) fn or_events<T: JsonSchema>(mut self, status: u16) -> Self {
        if let Some(answer) = self.answers.get_mut(&status) {
            answer.content.push(("text/event-stream", Some(schema_of::<T>())));
        }
        self
    }

    /// A response without a body.
    pub(super) fn empty(self, about: &'static str) -> Self {
        self.answer(204, about, None)
    }

    /// A response in another form.
    pub(super) fn sends(self, status: u16, about: &'static str, mime: &'static str) -> Self {
        self.answer(status, about, Some((mime, None)))
    }

    fn answer(
        mut self,
        status: u16,
        about: &'static str,
        content: Option<(&'static str, Option<SchemaOf>)>,
    ) -> Self {
        let content = content.into_iter().collect();
        self.answers.insert(status, Response { about, content });
        self
    }

    pub(super) fn fails(mut self, codes: &[Code]) -> Self {
        self.codes.extend_from_slice(codes);
        self
    }

    /// Renders the operation, and adds its schemas.
    pub(super) fn render(&self, schemas: &mut Schemas) -> Value {
        let mut value = Map::new();
        value.insert("operationId".into(), self.id.into());
        value.insert("tags".into(), json!([self.tag]));
        value.insert("summary".into(), self.summary.into());
        if let Some(about) = self.about {
            value.insert("description".into(), about.into());
        }
        match self.access {
            Access::Open => drop(value.insert("security".into(), json!([]))),
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
            value.insert("requestBody".into(), body.render(schemas));
        }
        value.insert("responses".into(), self.responses(schemas));
        value.into()
    }

    fn responses(&self, schemas: &mut Schemas) -> Value {
        let mut responses = Map::new();
        for (status, answer) in &self.answers {
            responses.insert(status.to_string(), answer.render(schemas));
        }
        for (status, failure) in errors::responses(&self.codes()) {
            responses.insert(status.to_string(), failure);
        }
        responses.into()
    }

    /// Returns every error of the operation.
    pub(super) fn codes(&self) -> Vec<Code> {
        [self.common_codes(), self.codes.clone()].concat()
    }

    /// Returns the errors of every operation of its kind.
    fn common_codes(&self) -> Vec<Code> {
        let mut codes = vec![Code::WrongOrigin, Code::Internal];
        if self.access != Access::Open {
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

impl Body {
    fn render(&self, schemas: &mut Schemas) -> Value {
        match self {
            Self::Json(schema) => {
                let (schema, is_optional) = schemas.request(*schema);
                let content = json!({"application/json": {"schema": schema}});
                json!({"required": !is_optional, "content": content})
            }
            Self::Bytes { mime, about } => {
                json!({"required": true, "description": about, "content": {*mime: {}}})
            }
        }
    }
}

impl Response {
    fn render(&self, schemas: &mut Schemas) -> Value {
        let mut response = json!({"description": self.about});
        for (mime, schema) in &self.content {
            response["content"][mime] = match schema {
                Some(schema) => json!({"schema": schemas.response(*schema)}),
                None => json!({}),
            };
        }
        response
    }
}

/// The parameters in paths: name, description, example, and the error if there is no such thing.
const PATH_PARAMETERS: [(&str, &str, &str, Option<Code>); 11] = [
    ("sandbox", "The id of a sandbox", "sbx0", Some(Code::SandboxNotFound)),
    ("kernel", "The id of a kernel in it", "k1", Some(Code::KernelNotFound)),
    ("cell", "The id of a cell in it", "c1", Some(Code::CellNotFound)),
    ("command", "The id of a command in it", "p1", Some(Code::CommandNotFound)),
    ("port", "The number of a port in it", "8000", None),
    ("name", "The name of a template", "code-interpreter", Some(Code::TemplateNotFound)),
    ("secret", "The name of a secret", "openai", Some(Code::SecretNotFound)),
    ("id", "The id of a key", "key_0", Some(Code::KeyNotFound)),
    ("approval", "The id of an approval", "apr_0", Some(Code::ApprovalNotFound)),
    ("snapshot", "The id of a snapshot", "snp0", Some(Code::SnapshotNotFound)),
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
