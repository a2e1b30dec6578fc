//! Holds the document to the router, to the types that parse requests, and to the contract in words.
//!
//! `tests/openapi-3.1.json` is the OpenAPI Initiative's own schema of such documents, as published under
//! Apache-2.0.

use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect_file;
use jsonschema::Validator;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::document;
use crate::facade::limits::LimitsBody;
use crate::facade::native::ROUTES;
use crate::facade::native::{
    approvals, audit, branching, cells, commands, files, interpret, kernels, keys, network, ports,
    run, sandboxes, secrets,
};
use crate::http::problem::Code;

const CONTRACT: &str = include_str!("../../../../../../docs/reference/api.md");

/// Every operation with its method and path.
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, item)| {
        let item = item.as_object().unwrap();
        item.iter().map(|(method, value)| (method.clone(), path.clone(), value.clone()))
    });
    all.collect()
}

fn schemas(document: &Value) -> serde_json::Map<String, Value> {
    document["components"]["schemas"].as_object().unwrap().clone()
}

/// What decides whether a value is one of a named schema.
fn validator(document: &Value, name: &str) -> Validator {
    let root = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$ref": format!("#/components/schemas/{name}"),
        "components": document["components"],
    });
    jsonschema::validator_for(&root).unwrap()
}

#[track_caller]
fn assert_valid(document: &Value, name: &str, value: &Value) {
    let problems: Vec<String> = validator(document, name)
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path))
        .collect();
    assert!(problems.is_empty(), "{name}: {value}: {problems:#?}");
}

/// Changed on purpose? `UPDATE_EXPECT=1 cargo test -p silica-server` writes it anew.
#[test]
fn document_is_the_one_that_was_reviewed() {
    let text = serde_json::to_string_pretty(&document()).unwrap() + "\n";
    expect_file!["../../../../openapi.json"].assert_eq(&text);
    assert_eq!(serde_json::from_str::<Value>(super::text()).unwrap(), document());
}

#[test]
fn every_route_is_described_and_nothing_else() {
    let served: BTreeSet<_> =
        ROUTES.iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned())).collect();
    let described: BTreeSet<_> =
        operations(&document()).into_iter().map(|(method, path, _)| (method, path)).collect();
    assert_eq!(served, described);
    assert_eq!(served.len(), ROUTES.len(), "a route is there twice");
}

#[test]
fn document_is_openapi_3_1() {
    let document = document();
    let rules: Value = serde_json::from_str(include_str!("tests/openapi-3.1.json")).unwrap();
    let rules = jsonschema::validator_for(&rules).unwrap();
    let problems: Vec<String> = rules
        .iter_errors(&document)
        .map(|error| format!("{}: {error}", error.instance_path))
        .collect();
    assert_eq!(problems, Vec::<String>::new());
    let mut broken = document.clone();
    broken["paths"]["/healthz"]["get"]["responses"] = json!({"200": {}});
    assert!(!rules.is_valid(&broken), "the rules would accept anything");
    for (name, schema) in schemas(&document) {
        assert!(jsonschema::meta::is_valid(&schema), "{name} is no schema");
    }
}

#[test]
fn references_lead_somewhere_and_names_are_used_once() {
    let document = document();
    let mut places = Vec::new();
    references(&document, &mut places);
    for place in &places {
        assert!(document.pointer(&place[1..]).is_some(), "{place} leads nowhere");
    }
    for name in schemas(&document).keys() {
        let place = format!("#/components/schemas/{name}");
        assert!(places.contains(&place), "nothing uses {name}");
    }
    let all = operations(&document);
    let ids: BTreeSet<_> = all.iter().map(|(.., value)| value["operationId"].to_string()).collect();
    assert_eq!(ids.len(), all.len(), "two operations have one name");
    let tags: Vec<_> = super::TAGS.iter().map(|(name, _)| json!([name])).collect();
    for (method, path, value) in all {
        assert!(tags.contains(&value["tags"]), "{method} {path} is in no group");
    }
}

fn references(value: &Value, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            into.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| references(field, into));
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, into)),
        _ => {}
    }
}

#[test]
fn every_code_is_described_and_happens_somewhere() {
    let document = document();
    let names: Vec<&str> = Code::ALL.iter().map(|code| code.name_and_status().0).collect();
    let code = &schemas(&document)["Problem"]["properties"]["code"];
    assert_eq!(code["enum"], json!(names));
    let mut happens = BTreeSet::new();
    for (.., value) in operations(&document) {
        for (status, response) in value["responses"].as_object().unwrap() {
            let Some(place) = response["$ref"].as_str() else { continue };
            let response = document.pointer(&place[1..]).unwrap();
            let problem = &response["content"]["application/problem+json"]["schema"];
            for name in problem["properties"]["code"]["enum"].as_array().into_iter().flatten() {
                let name = name.as_str().unwrap().to_owned();
                let code = Code::ALL.iter().find(|code| code.name_and_status().0 == name).unwrap();
                assert_eq!(code.name_and_status().1.as_str(), status, "{name}");
                happens.insert(name);
            }
        }
    }
    // These two are answers of no route.
    happens.extend(["not_found", "method_not_allowed"].map(str::to_owned));
    assert_eq!(happens, names.into_iter().map(str::to_owned).collect());
}

/// The page at `/docs` has all codes; the contract names some, and none that is not there.
#[test]
fn contract_names_codes_that_exist() {
    let errors = CONTRACT.split("\n## ").find(|section| section.starts_with("Errors")).unwrap();
    let words = errors.split('`').skip(1).step_by(2);
    let is_code = |word: &&str| {
        word.contains('_') && word.chars().all(|c| c.is_ascii_lowercase() || c == '_')
    };
    let told: BTreeSet<&str> = words.filter(is_code).collect();
    let known: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name_and_status().0).collect();
    assert!(told.len() > 5 && told.is_subset(&known), "{told:?}");
}

#[test]
fn security_is_what_handlers_ask_for() {
    let document = document();
    for (method, path, value) in operations(&document) {
        let free = !path.starts_with("/v1/") && path != "/interpret";
        let open = free || path.starts_with("/v1/links/");
        assert_eq!(value["security"] == json!([]), open, "{method} {path}");
        let refuses = value["responses"]["401"].is_object();
        assert_eq!(refuses, !open, "{method} {path}");
    }
}

/// Names of the fields that a type is read from, as its `Deserialize` says.
fn fields_of<T: DeserializeOwned>() -> BTreeSet<&'static str> {
    struct Asking<'a>(&'a mut &'static [&'static str]);
    impl<'de> serde::Deserializer<'de> for Asking<'_> {
        type Error = serde::de::value::Error;
        fn deserialize_any<V: serde::de::Visitor<'de>>(
            self,
            _: V,
        ) -> Result<V::Value, Self::Error> {
            Err(serde::de::Error::custom("not a struct"))
        }
        fn deserialize_struct<V: serde::de::Visitor<'de>>(
            self,
            _: &'static str,
            fields: &'static [&'static str],
            _: V,
        ) -> Result<V::Value, Self::Error> {
            *self.0 = fields;
            Err(serde::de::Error::custom("only asking"))
        }
        serde::forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
            option unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier
            ignored_any
        }
    }
    let mut fields: &'static [&'static str] = &[];
    assert!(T::deserialize(Asking(&mut fields)).is_err());
    assert!(!fields.is_empty());
    fields.iter().copied().collect()
}

fn parses<T: DeserializeOwned>(value: &Value) -> bool {
    serde_json::from_value::<T>(value.clone()).is_ok()
}

/// Values of every type, to see what is taken where.
fn probes() -> Vec<Value> {
    vec![
        Value::Null,
        json!(true),
        json!(0),
        json!(1.5),
        json!(70_000),
        json!(5_000_000_000_u64),
        json!("GET"),
        json!("word"),
        json!([]),
        json!(["word"]),
        json!([1]),
        json!([{"name": "a", "path": "a"}]),
        json!([{"name": "a", "content": "b"}]),
        json!([{"path": "a", "content": "b", "content_base64": null}]),
        json!({}),
        json!({"a": "b"}),
        json!({"a": 1}),
        json!({"columns": 1, "rows": 2}),
    ]
}

/// A schema and a parser must say the same of the example, of it without each field, of it with an
/// unknown field, and of it with each kind of value in each field.
#[track_caller]
fn check_request<T: DeserializeOwned>(name: &str, accepts: impl Fn(&Value) -> bool) {
    let document = document();
    let schema = &schemas(&document)[name];
    assert_eq!(schema["additionalProperties"], false, "{name}");
    let properties: BTreeSet<&str> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(properties, fields_of::<T>(), "{name}");
    let validator = validator(&document, name);
    let agree = |value: &Value| {
        assert_eq!(validator.is_valid(value), accepts(value), "{name} (schema, parser): {value}");
    };
    let example = &schema["examples"][0];
    assert!(validator.is_valid(example) && accepts(example), "{name}: {example}");
    let mut more = example.clone();
    more["unknown"] = 1.into();
    assert!(!validator.is_valid(&more) && !accepts(&more), "{name} takes unknown fields");
    agree(&json!({}));
    for property in properties {
        let mut less = example.clone();
        less.as_object_mut().unwrap().shift_remove(property);
        agree(&less);
        for probe in probes() {
            let mut other = example.clone();
            other[property] = probe;
            agree(&other);
        }
    }
}

#[test]
fn request_schemas_say_what_parsers_do() {
    let offered = BTreeMap::new();
    // What is chosen among alternatives is decided after parsing, so that is looked at too.
    check_request::<run::RunBody>("Run", |value| {
        let good = |mut body: run::RunBody| body.take_files().is_ok();
        serde_json::from_value(value.clone()).is_ok_and(good)
    });
    check_request::<interpret::PromptBody>("Prompt", parses::<interpret::PromptBody>);
    check_request::<interpret::InterpretBody>("Interpret", |value| {
        let good = |mut body: interpret::InterpretBody| body.take_files().is_ok();
        serde_json::from_value(value.clone()).is_ok_and(good)
    });
    check_request::<LimitsBody>("Limits", parses::<LimitsBody>);
    check_request::<sandboxes::CreateSandboxBody>("CreateSandbox", |value| {
        let good = |mut body: sandboxes::CreateSandboxBody| body.take_inputs(&offered).is_ok();
        serde_json::from_value(value.clone()).is_ok_and(good)
    });
    check_request::<sandboxes::ExtendSandboxBody>(
        "ExtendSandbox",
        parses::<sandboxes::ExtendSandboxBody>,
    );
    check_request::<branching::ForkSandboxBody>(
        "ForkSandbox",
        parses::<branching::ForkSandboxBody>,
    );
    check_request::<branching::SnapshotBody>("CreateSnapshot", parses::<branching::SnapshotBody>);
    check_request::<branching::UndoBody>("Undo", parses::<branching::UndoBody>);
    check_request::<kernels::CreateKernelBody>("CreateKernel", parses::<kernels::CreateKernelBody>);
    check_request::<cells::CellBody>("CreateCell", parses::<cells::CellBody>);
    check_request::<cells::ExtendCellBody>("ExtendCell", parses::<cells::ExtendCellBody>);
    check_request::<cells::InputBody>("CellInput", parses::<cells::InputBody>);
    check_request::<kernels::QuestionBody>("CodeQuestion", parses::<kernels::QuestionBody>);
    check_request::<commands::CommandBody>("CreateCommand", |value| {
        let good = |body: commands::CommandBody| body.request().is_ok();
        serde_json::from_value(value.clone()).is_ok_and(good)
    });
    check_request::<commands::SignalBody>("Signal", parses::<commands::SignalBody>);
    check_request::<commands::TerminalBody>("TerminalSize", parses::<commands::TerminalBody>);
    check_request::<files::DirectoryBody>("MakeDirectory", parses::<files::DirectoryBody>);
    check_request::<files::MoveBody>("MoveFile", parses::<files::MoveBody>);
    check_request::<files::LinkBody>("MakeLink", parses::<files::LinkBody>);
    check_request::<ports::PortLinkBody>("MakePortLink", parses::<ports::PortLinkBody>);
    check_request::<keys::CreateKeyBody>("CreateKey", parses::<keys::CreateKeyBody>);
    check_request::<approvals::DecisionBody>("Word", parses::<approvals::DecisionBody>);
    check_request::<network::NetworkBody>("NetworkRequest", parses::<network::NetworkBody>);
    check_request::<network::CheckBody>("CheckNetwork", parses::<network::CheckBody>);
    check_request::<secrets::SecretBody>("PutSecret", parses::<secrets::SecretBody>);
}

#[test]
fn every_json_body_has_been_checked() {
    let mut checked = super::Schemas::new();
    for operation in super::operations::all() {
        operation.render(&mut checked);
    }
    let (checked, _) = checked.finish();
    for (method, path, value) in operations(&document()) {
        let schema = &value["requestBody"]["content"]["application/json"]["schema"]["$ref"];
        if let Some(place) = schema.as_str() {
            let name = place.rsplit('/').next().unwrap();
            assert!(checked.contains_key(name), "{method} {path}: {name}");
        }
    }
    // The test above names each of them.
    assert_eq!(checked.len(), 26);
}

#[track_caller]
fn check_query<T: DeserializeOwned>(id: &str, unused: &[&str]) {
    let operations = operations(&document());
    let (.., value) = operations.iter().find(|(.., value)| value["operationId"] == id).unwrap();
    let parameters = value["parameters"].as_array().unwrap().iter();
    let queries = parameters.filter(|parameter| parameter["in"] == "query");
    let mut names: BTreeSet<&str> =
        queries.map(|parameter| parameter["name"].as_str().unwrap()).collect();
    names.extend(unused);
    assert_eq!(names, fields_of::<T>(), "{id}");
}

#[test]
fn query_parameters_are_those_that_are_parsed() {
    check_query::<audit::SearchQuery>("searchAudit", &[]);
    check_query::<cells::Wait>("getCell", &[]);
    check_query::<cells::After>("watchCell", &[]);
    check_query::<cells::Wait>("getCommand", &[]);
    check_query::<cells::After>("watchCommand", &[]);
    check_query::<commands::StdinQuery>("writeStdin", &[]);
    // One type reads the query of every operation on files.
    check_query::<files::PathQuery>("listFiles", &["mode"]);
    check_query::<files::PathQuery>("writeFile", &["depth"]);
    check_query::<files::PathQuery>("statFile", &["depth", "mode"]);
}

#[test]
fn examples_are_examples() {
    let document = document();
    let mut examples = 0;
    for (name, schema) in schemas(&document) {
        for example in schema["examples"].as_array().into_iter().flatten() {
            assert_valid(&document, &name, example);
            examples += 1;
        }
    }
    assert_eq!(examples, 37);
}

/// The blocks of JSON in the contract, with what stands for more taken out: `{…}`, and all but the
/// first of several values.
fn blocks() -> Vec<Value> {
    let parts = CONTRACT.split("```json\n").skip(1);
    let blocks = parts.map(|part| part.split("```").next().unwrap());
    let whole = |block: &str| {
        let mut text = block.replace("{…}", "{}");
        while let Some(start) = text.find(" | ") {
            let rest = &text[start + 3..];
            let length = rest.find([',', '}', '\n', ' ']).unwrap();
            text.replace_range(start..start + 3 + length, "");
        }
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    };
    blocks.map(whole).collect()
}

#[test]
fn examples_of_the_contract_fit() {
    let document = document();
    let names = ["Problem", "Run", "ForkSandbox"];
    let blocks = blocks();
    assert_eq!(blocks.len(), names.len());
    for (name, block) in names.iter().zip(&blocks) {
        assert_valid(&document, name, block);
    }
    for (text, name) in [
        (r#"{"code": "…"}"#, "CreateCell"),
        (r#"{"command": "ls -l | wc -l"}"#, "CreateCommand"),
        (r#"{"arguments": ["ls", "-l"]}"#, "CreateCommand"),
    ] {
        assert!(CONTRACT.contains(text), "{text} is not in the contract any more");
        assert_valid(&document, name, &serde_json::from_str(text).unwrap());
    }
}

/// The table of a cell's fields has all of them, and no other.
#[test]
fn contract_has_the_fields_of_a_cell() {
    let table = CONTRACT.split("| field of a cell |").nth(1).unwrap().split("\n\n").next().unwrap();
    let cells = table.lines().skip(2).filter_map(|line| line.split('|').nth(1));
    let told: BTreeSet<&str> = cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(|name| name.trim_end_matches("[]"))
        .collect();
    let schema = &schemas(&document())["Cell"];
    let fields: BTreeSet<&str> =
        schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
    // Findings and approvals are described where policies are.
    let elsewhere = BTreeSet::from(["approval", "findings", "policy"]);
    assert_eq!(told, &fields - &elsewhere);
}

#[test]
fn page_shows_everything() {
    let (page, document) = (super::page(), document());
    for (method, path, value) in operations(&document) {
        let id = value["operationId"].as_str().unwrap();
        assert!(page.contains(&format!("<article id=\"{id}\">")), "{method} {path}");
        assert!(page.contains(&format!("<code>{path}</code></h3>")), "{method} {path}");
    }
    for code in Code::ALL {
        let (name, status) = code.name_and_status();
        let row = format!("<tr><td>{}</td><td><code>{name}</code></td>", status.as_u16());
        assert!(page.contains(&row), "{name}");
    }
    for part in page.split("href=\"#").skip(1) {
        let place = part.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{place}\"")), "#{place} leads nowhere");
    }
}

#[test]
fn page_runs_and_loads_nothing() {
    let page = super::page();
    for word in ["<script", "<link", "<img", "<iframe", "http://", "https://", "url(", "@import"] {
        assert!(!page.contains(word), "{word}");
    }
    let handler = |tag: &str| tag.split('>').next().is_some_and(|tag| tag.contains(" on"));
    assert!(!page.split('<').skip(1).any(handler));
}

#[test]
fn what_is_put_into_the_page_is_escaped() {
    let mut document = document();
    let hostile = "<script>alert('&\"`<b>`')</script>";
    document["info"]["description"] = hostile.into();
    document["paths"]["/healthz"]["get"]["summary"] = hostile.into();
    document["components"]["schemas"]["Run"]["examples"] = json!([{"code": hostile}]);
    document["tags"][0]["description"] = hostile.into();
    let page = super::page::write(&document);
    assert!(!page.contains("<script") && !page.contains("<b>"));
    assert!(page.contains("&lt;script&gt;alert(&#39;&amp;&quot;<code>&lt;b&gt;</code>&#39;)"));
}
