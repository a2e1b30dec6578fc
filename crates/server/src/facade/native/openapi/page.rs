//! The document as one page of HTML that needs no script, no network and no server but ours.
//!
//! Everything is taken from the document, and everything that is put into the page is escaped.

use std::fmt::Write as _;

use serde_json::{Map, Value};

const STYLE: &str = include_str!("page.css");

const PROBLEM: &str = "application/problem+json";

/// The longest example that is written on one line.
const LINE_CHARACTERS: usize = 72;

/// The page of a document.
pub(super) fn write(document: &Value) -> String {
    let page = Page { document };
    let info = &document["info"];
    let title = format!("{} {}", string(&info["title"]), string(&info["version"]));
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}: HTTP API</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<nav>\n\
         <h1>{title}: HTTP API</h1>\n<p>{}</p>\n\
         <p>For programs: <a href=\"openapi.json\">openapi.json</a></p>\n",
        prose(string(&info["description"])),
        title = escape(&title),
    );
    let tags: Vec<&Value> = items(&document["tags"]).collect();
    for tag in &tags {
        page.contents(&mut html, string(&tag["name"]));
    }
    html.push_str("<h2><a href=\"#errors\">Errors</a></h2>\n");
    html.push_str("<h2><a href=\"#schemas\">Schemas</a></h2>\n</nav>\n<main>\n");
    for tag in tags {
        page.group(&mut html, tag);
    }
    page.errors(&mut html);
    page.schemas(&mut html);
    html.push_str("</main>\n</body>\n</html>\n");
    html
}

/// One operation with its method and path.
struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    value: &'a Value,
}

impl Operation<'_> {
    fn id(&self) -> &str {
        string(&self.value["operationId"])
    }
}

struct Page<'a> {
    document: &'a Value,
}

/// Text is written into a string, which cannot fail.
macro_rules! put {
    ($html:expr, $($part:tt)*) => { let _ = write!($html, $($part)*); };
}

impl<'a> Page<'a> {
    fn operations(&self, tag: &str) -> impl Iterator<Item = Operation<'a>> {
        let paths = fields(&self.document["paths"]).flat_map(|(path, item)| {
            fields(item).map(move |(method, value)| Operation { method, path, value })
        });
        paths.filter(move |operation| operation.value["tags"][0] == tag)
    }

    /// What a reference points to, or the schema itself.
    fn resolve(&self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str().and_then(|place| place.strip_prefix('#')) {
            Some(place) => self.document.pointer(place).unwrap_or(schema),
            None => schema,
        }
    }

    fn contents(&self, html: &mut String, tag: &str) {
        put!(html, "<h2><a href=\"#{}\">{}</a></h2>\n<ul>\n", anchor(tag), escape(tag));
        for operation in self.operations(tag) {
            let (id, summary) = (operation.id(), string(&operation.value["summary"]));
            put!(html, "<li><a href=\"#{}\">{}</a></li>\n", escape(id), escape(summary));
        }
        html.push_str("</ul>\n");
    }

    fn group(&self, html: &mut String, tag: &Value) {
        let name = string(&tag["name"]);
        put!(html, "<section id=\"{}\">\n<h2>{}</h2>\n", anchor(name), escape(name));
        put!(html, "<p>{}</p>\n", prose(string(&tag["description"])));
        for operation in self.operations(name) {
            self.operation(html, &operation);
        }
        html.push_str("</section>\n");
    }

    fn operation(&self, html: &mut String, operation: &Operation<'a>) {
        let value = operation.value;
        put!(
            html,
            "<article id=\"{}\">\n<h3><span class=\"method {method}\">{}</span> <code>{}</code></h3>\n",
            escape(operation.id()),
            escape(&operation.method.to_uppercase()),
            escape(operation.path),
            method = escape(operation.method),
        );
        put!(
            html,
            "<p>{}. {}",
            prose(string(&value["summary"])),
            prose(string(&value["description"]))
        );
        if value["x-admin"] == true {
            html.push_str(" <em>Wants an admin key.</em>");
        }
        if value["security"].is_array() {
            html.push_str(" <em>Wants no key.</em>");
        }
        html.push_str("</p>\n");
        write_parameters(html, &value["parameters"]);
        self.body(html, &value["requestBody"]);
        put!(html, "<pre>{}</pre>\n", escape(&self.curl(operation)));
        self.answers(html, &value["responses"]);
        html.push_str("</article>\n");
    }

    fn body(&self, html: &mut String, body: &'a Value) {
        for (mime, content) in fields(&body["content"]) {
            put!(html, "<h4>Body: <code>{}</code></h4>\n", escape(mime));
            put!(html, "<p>{}</p>\n", prose(string(&body["description"])));
            self.properties(html, self.resolve(&content["schema"]));
        }
    }

    /// A table of an object's fields.
    fn properties(&self, html: &mut String, schema: &'a Value) {
        if fields(&schema["properties"]).next().is_none() {
            return;
        }
        // Only requests are closed to unknown fields.
        let always = if schema["additionalProperties"] == false { "needed" } else { "always" };
        html.push_str("<table>\n");
        for (name, property) in fields(&schema["properties"]) {
            let needed = items(&schema["required"]).any(|required| required == name);
            let own = property.get("description");
            let about = string(own.unwrap_or(&self.resolve(property)["description"]));
            put!(
                html,
                "<tr><td><code>{}</code></td><td>{} <span class=\"dim\">{}</span></td><td>{}</td></tr>\n",
                escape(name),
                kind(property),
                if needed { always } else { "" },
                prose(about),
            );
        }
        html.push_str("</table>\n");
    }

    fn answers(&self, html: &mut String, responses: &'a Value) {
        html.push_str("<h4>Answers</h4>\n<table>\n");
        let mut failures = Vec::new();
        for (status, response) in fields(responses) {
            let response = self.resolve(response);
            let about = prose(string(&response["description"]));
            if response["content"].get(PROBLEM).is_some() {
                failures.push(format!("{} {about}", escape(status)));
                continue;
            }
            let kinds: Vec<String> = fields(&response["content"]).map(content_kind).collect();
            put!(
                html,
                "<tr><td>{}</td><td>{about}</td><td>{}</td></tr>\n",
                escape(status),
                kinds.join("<br>"),
            );
        }
        let failures = failures.join("; ");
        put!(html, "</table>\n<p class=\"dim\"><a href=\"#errors\">Errors</a>: {failures}</p>\n");
    }

    /// A call that can be pasted into a shell.
    fn curl(&self, operation: &Operation<'a>) -> String {
        let value = operation.value;
        let (mut path, mut query) = (operation.path.to_owned(), Vec::new());
        for parameter in items(&value["parameters"]) {
            let (name, example) = (string(&parameter["name"]), string(&parameter["example"]));
            match string(&parameter["in"]) {
                "path" if name == "sandbox" => path = path.replace("{sandbox}", "$SANDBOX"),
                "path" => path = path.replace(&format!("{{{name}}}"), example),
                "query" if parameter["required"] == true => {
                    query.push(format!("{name}={example}"));
                }
                _ => {}
            }
        }
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        let method = operation.method.to_uppercase();
        let method = if method == "GET" { String::new() } else { format!("-X {method} ") };
        let mut call = format!("curl -s {method}\"$SILICA_URL{path}{query}\"");
        if !value["security"].is_array() {
            call.push_str(" \\\n  -H \"X-API-Key: $SILICA_KEY\"");
        }
        let content = &value["requestBody"]["content"];
        if let Some(json) = content.get("application/json") {
            let example = &self.resolve(&json["schema"])["examples"][0];
            let example = match example.to_string() {
                short if short.len() <= LINE_CHARACTERS => short,
                _ => serde_json::to_string_pretty(example).unwrap_or_default(),
            };
            put!(call, " \\\n  -d '{}'", example.replace('\'', "'\\''"));
        } else if content.is_object() {
            call.push_str(" \\\n  --data-binary @FILE");
        }
        call
    }

    fn errors(&self, html: &mut String) {
        html.push_str("<section id=\"errors\">\n<h2>Errors</h2>\n<table>\n");
        let code = &self.document["components"]["schemas"]["Problem"]["properties"]["code"];
        for row in items(&code["x-codes"]) {
            put!(
                html,
                "<tr><td>{}</td><td><code>{}</code></td><td>{}</td></tr>\n",
                escape(&row["status"].to_string()),
                escape(string(&row["code"])),
                prose(string(&row["meaning"])),
            );
        }
        html.push_str("</table>\n</section>\n");
    }

    fn schemas(&self, html: &mut String) {
        html.push_str("<section id=\"schemas\">\n<h2>Schemas</h2>\n");
        for (name, schema) in fields(&self.document["components"]["schemas"]) {
            put!(html, "<article id=\"{name}\">\n<h3>{name}</h3>\n", name = escape(name));
            put!(html, "<p>{}</p>\n", prose(string(&schema["description"])));
            self.properties(html, schema);
            if let Some(events) = schema["x-events"].as_object() {
                write_events(html, events);
            }
            if let Some(example) = schema["examples"].get(0) {
                let text = serde_json::to_string_pretty(example).unwrap_or_default();
                put!(html, "<pre>{}</pre>\n", escape(&text));
            }
            html.push_str("</article>\n");
        }
        html.push_str("</section>\n");
    }
}

/// What an answer holds.
fn content_kind((mime, content): (&str, &Value)) -> String {
    let kind = match content.get("schema") {
        Some(schema) => format!(": {}", kind(schema)),
        None => String::new(),
    };
    format!("<code>{}</code>{kind}", escape(mime))
}

fn write_parameters(html: &mut String, parameters: &Value) {
    if items(parameters).next().is_none() {
        return;
    }
    html.push_str("<h4>Parameters</h4>\n<table>\n");
    for parameter in items(parameters) {
        put!(
            html,
            "<tr><td><code>{}</code></td><td class=\"dim\">{}{}</td><td>{}</td><td>{}</td></tr>\n",
            escape(string(&parameter["name"])),
            escape(string(&parameter["in"])),
            if parameter["required"] == true { ", needed" } else { "" },
            kind(&parameter["schema"]),
            prose(string(&parameter["description"])),
        );
    }
    html.push_str("</table>\n");
}

fn write_events(html: &mut String, events: &Map<String, Value>) {
    html.push_str("<table>\n");
    for (event, schema) in events {
        let (event, kind) = (escape(event), kind(schema));
        put!(html, "<tr><td><code>event: {event}</code></td><td>{kind}</td></tr>\n");
    }
    html.push_str("</table>\n");
}

/// A schema in a few words.
fn kind(schema: &Value) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|place| place.rsplit('/').next()) {
        return format!("<a href=\"#{name}\">{name}</a>", name = escape(name));
    }
    if let Some(words) = schema["enum"].as_array() {
        let words = words.iter().map(|word| format!("<code>{}</code>", escape(&word.to_string())));
        return words.collect::<Vec<_>>().join(", ");
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        let choices = choices.iter().map(kind);
        return choices.collect::<Vec<_>>().join(" or ");
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => vec!["anything"],
    };
    let name = escape(&names.join(" or "));
    if let Some(items) = schema.get("items") {
        return format!("{name} of {}", kind(items));
    }
    let inner: Vec<String> = fields(&schema["properties"]).map(|(name, _)| escape(name)).collect();
    if !inner.is_empty() {
        return format!("<code>{{{}}}</code>", inner.join(", "));
    }
    match schema.get("default") {
        Some(default) => format!("{name}, default {}", escape(&default.to_string())),
        None => name,
    }
}

fn string(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn fields(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    value.as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// The name of a group as part of an address.
fn anchor(name: &str) -> String {
    escape(&name.to_lowercase().replace(' ', "-"))
}

/// Text in which nothing is HTML.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Text in which backquotes mean code.
fn prose(text: &str) -> String {
    let mut html = String::new();
    for (number, part) in text.split('`').enumerate() {
        let part = escape(part);
        if number % 2 == 0 {
            html.push_str(&part);
        } else {
            put!(html, "<code>{part}</code>");
        }
    }
    html
}
