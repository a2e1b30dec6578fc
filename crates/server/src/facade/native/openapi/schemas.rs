//! Schemas of requests and responses, derived from the types that are parsed and serialised.

use schemars::generate::{Contract, SchemaSettings};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value};

/// Adds the schema of a type to a generator, and returns it or a reference to it.
pub(super) type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Returns the function that adds the schema of a type.
pub(super) fn schema_of<T: JsonSchema>() -> SchemaOf {
    |generator| generator.subschema_for::<T>()
}

/// Where schemas are collected while operations are rendered.
#[derive(Debug)]
pub(super) struct Schemas {
    requests: SchemaGenerator,
    responses: SchemaGenerator,
}

impl Schemas {
    pub(super) fn new() -> Self {
        Self {
            requests: generator(Contract::Deserialize),
            responses: generator(Contract::Serialize),
        }
    }

    /// Returns the schema of a request's body, and whether the body can be left out.
    pub(super) fn request(&mut self, schema: SchemaOf) -> (Value, bool) {
        let reference = schema(&mut self.requests).to_value();
        let name = reference["$ref"].as_str().and_then(|place| place.rsplit('/').next());
        let definition = name.and_then(|name| self.requests.definitions().get(name));
        let needs = definition.is_some_and(|definition| {
            let required = definition["required"].as_array();
            required.is_some_and(|required| !required.is_empty())
                || definition.get("oneOf").is_some()
        });
        (reference, !needs)
    }

    /// Returns the schema of a response.
    pub(super) fn response(&mut self, schema: SchemaOf) -> Value {
        schema(&mut self.responses).to_value()
    }

    /// Returns the schemas of all requests, then those of all responses, by name.
    pub(super) fn finish(mut self) -> (Map<String, Value>, Map<String, Value>) {
        let mut requests = self.requests.take_definitions(true);
        requests.values_mut().for_each(|schema| simplify(schema, &Contract::Deserialize));
        let mut responses = self.responses.take_definitions(true);
        responses.values_mut().for_each(|schema| simplify(schema, &Contract::Serialize));
        (requests, responses)
    }
}

fn generator(contract: Contract) -> SchemaGenerator {
    let mut settings = SchemaSettings::draft2020_12();
    settings.contract = contract;
    settings.meta_schema = None;
    settings.definitions_path = "/components/schemas".into();
    settings.into_generator()
}

/// Keywords whose values are not schemas.
const DATA: [&str; 6] = ["examples", "default", "const", "enum", "required", "x-codes"];

/// Adapts a schema and those in it: descriptions on one line, no formats of Rust's numbers but their
/// bounds where they are parsed, no negative fractions, no defaults that mean "nothing".
fn simplify(schema: &mut Value, contract: &Contract) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(|one| simplify(one, contract)),
        Value::Object(keywords) => {
            adapt(keywords, contract);
            for (keyword, value) in keywords.iter_mut() {
                if !DATA.contains(&keyword.as_str()) {
                    simplify(value, contract);
                }
            }
        }
        _ => {}
    }
}

fn adapt(keywords: &mut Map<String, Value>, contract: &Contract) {
    if let Some(Value::String(text)) = keywords.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    let format = keywords.get("format").and_then(Value::as_str).map(str::to_owned);
    if let Some(format) = format.filter(|format| format != "date-time") {
        keywords.shift_remove("format");
        let bounds = match format.as_str() {
            "uint32" => Some((0, i64::from(u32::MAX))),
            "int32" => Some((i64::from(i32::MIN), i64::from(i32::MAX))),
            _ => None,
        };
        if let Some((min, max)) = bounds.filter(|_| contract.is_deserialize()) {
            keywords.insert("minimum".to_owned(), min.into());
            keywords.insert("maximum".to_owned(), max.into());
        }
    }
    let is_number = match keywords.get("type") {
        Some(Value::String(kind)) => kind == "number",
        Some(Value::Array(kinds)) => kinds.contains(&"number".into()),
        _ => false,
    };
    if is_number && !keywords.contains_key("minimum") {
        keywords.insert("minimum".to_owned(), 0.into());
    }
    let says_nothing = match keywords.get("default") {
        Some(Value::Null) => true,
        Some(Value::Object(fields)) => fields.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        _ => false,
    };
    if says_nothing {
        keywords.shift_remove("default");
    }
    if keywords.get("additionalProperties") == Some(&Value::Bool(true)) {
        keywords.shift_remove("additionalProperties");
    }
}
