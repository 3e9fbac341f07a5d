//! The samples of the OpenAPI document and of `docs/http.md`, held against the schemas.

use serde_json::Value;

use crate::edge::http::tests::schemas::Schemas;
use crate::edge::http::tests::world::World;

const GUIDE: &str = include_str!("../../../docs/http.md");

/// Checks every example of a part of the document. Answers how many there were.
fn check_examples<'a>(schemas: &Schemas<'a>, part: &'a Value, at: &str) -> usize {
    let mut checked = 0;
    if let Value::Array(parts) = part {
        for part in parts {
            checked += check_examples(schemas, part, at);
        }
    }
    let Some(fields) = part.as_object() else {
        return checked;
    };
    // A parameter and a body have their schema beside the example, and a schema is its own.
    let schema = fields.get("schema").unwrap_or(part);
    let mut examples = Vec::new();
    examples.extend(fields.get("example"));
    match fields.get("examples") {
        Some(Value::Array(several)) => examples.extend(several),
        Some(Value::Object(named)) => examples.extend(named.values().map(|named| &named["value"])),
        _ => {}
    }
    for example in examples {
        if let Err(why) = schemas.check(schema, example) {
            panic!("the example at {at}: {why}");
        }
        checked += 1;
    }
    for (name, part) in fields {
        if !["example", "examples"].contains(&name.as_str()) {
            checked += check_examples(schemas, part, &format!("{at}/{name}"));
        }
    }
    checked
}

#[tokio::test]
async fn every_example_of_the_openapi_document_fits_its_schema() {
    let document = World::new().get("/openapi.json").await.is(200);
    let checked = check_examples(&Schemas(&document), &document, "");
    assert!(checked > 200, "{checked}");
}

/// A call of the guide, as its `curl` has it.
struct Call<'a> {
    method: &'a str,
    path: &'a str,
    /// The names of the fields of the query.
    query: Vec<&'a str>,
    body: Option<&'a str>,
}

/// The call of a line such as `curl -X PUT "$B/v1/lives/42?a=b" -d '{}'`.
fn call_of(line: &str) -> Option<Call<'_>> {
    let arguments = line.trim_start_matches("$ ").strip_prefix("curl ")?;
    let body = match arguments.split_once("-d '") {
        Some((_, rest)) => rest.split_once('\'').map(|(body, _)| body),
        None => None,
    };
    let method = match arguments.split_once("-X ") {
        Some((_, rest)) => rest.split(' ').next()?,
        None => "GET",
    };
    let (_, rest) = arguments.split_once("$B/")?;
    let end = rest.find(['"', ' ']).unwrap_or(rest.len());
    let (path, query) = rest[..end].split_once('?').unwrap_or((&rest[..end], ""));
    let fields = query.split('&').filter(|field| !field.is_empty());
    Some(Call {
        method,
        path,
        query: fields
            .map(|field| field.split_once('=').map_or(field, |(name, _)| name))
            .collect(),
        body,
    })
}

/// The operation of a call: that with the most literal path.
fn operation_of<'a>(document: &'a Value, call: &Call<'_>) -> &'a Value {
    let asked: Vec<&str> = call.path.split('/').collect();
    let mut best: Option<(usize, &Value)> = None;
    for (path, item) in document["paths"].as_object().unwrap() {
        let pattern: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let pairs = || pattern.iter().zip(&asked);
        let fits = pairs().all(|(part, there)| part == there || part.starts_with('{'));
        let literal = pairs().filter(|(part, there)| part == there).count();
        let operation = &item[call.method.to_lowercase()];
        if fits
            && pattern.len() == asked.len()
            && operation.is_object()
            && best.is_none_or(|(most, _)| literal > most)
        {
            best = Some((literal, operation));
        }
    }
    let Some((_, operation)) = best else {
        panic!("no operation is {} {}", call.method, call.path);
    };
    operation
}

/// Checks what a call sends.
fn check_call(document: &Value, call: &Call<'_>) {
    let at = format!("{} {}", call.method, call.path);
    let operation = operation_of(document, call);
    let parameters = operation["parameters"].as_array();
    for field in &call.query {
        let is_there = parameters
            .into_iter()
            .flatten()
            .any(|parameter| parameter["in"] == "query" && parameter["name"] == **field);
        assert!(is_there, "{at} has no {field}");
    }
    if let Some(body) = call.body {
        let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
        assert!(!schema.is_null(), "{at} takes no body");
        let body = serde_json::from_str(body).unwrap();
        if let Err(why) = Schemas(document).check(schema, &body) {
            panic!("the body of {at}: {why}");
        }
    }
}

/// Checks what a call is answered.
fn check_answer(document: &Value, call: &Call<'_>, answer: &str) {
    let at = format!("{} {}", call.method, call.path);
    let answer = serde_json::from_str(answer).unwrap_or_else(|why| panic!("{at}: {why}"));
    let mut wrong = Vec::new();
    for status in ["200", "201", "202"] {
        let content = &operation_of(document, call)["responses"][status]["content"];
        let schema = &content["application/json"]["schema"];
        if schema.is_null() {
            continue;
        }
        match Schemas(document).check(schema, &answer) {
            Ok(()) => return,
            Err(why) => wrong.push(why),
        }
    }
    panic!("the answer to {at}: {wrong:?}");
}

/// The calls of the guide can be made, and the answers behind them are such as the gateway gives.
#[tokio::test]
async fn every_sample_of_the_guide_fits_its_operation() {
    let document = World::new().get("/openapi.json").await.is(200);
    let (mut calls, mut answers) = (0, 0);
    let mut last: Option<Call<'_>> = None;
    for (index, block) in GUIDE.split("```").enumerate() {
        // Every second part is text between blocks.
        if index % 2 == 0 {
            if block.contains("\n## ") || block.contains("\n### ") {
                last = None;
            }
            continue;
        }
        let (language, text) = block.split_once('\n').unwrap();
        match language {
            "sh" | "console" => {
                last = None;
                for line in text.lines() {
                    if let Some(call) = call_of(line) {
                        check_call(&document, &call);
                        last = Some(call);
                        calls += 1;
                    }
                }
            }
            "json" => {
                if let Some(call) = last.take() {
                    check_answer(&document, &call, text);
                    answers += 1;
                }
            }
            _ => {}
        }
    }
    assert!(calls > 50 && answers > 35, "{calls} {answers}");
}
