//! The OpenAPI document of the admin API, and answers beside the schemas that it has for them.

use pantala::api::client::Client;
use serde_json::{Map, Value};

use crate::commands::server::World;

/// Requests whose answers are no JSON values, or need a running stack.
const OTHERS: [&str; 3] = ["/metrics", "/v1/stream", "/v1/changes"];

fn client(world: &World) -> Client {
    Client::new(&world.folder.socket()).unwrap()
}

fn document(world: &World) -> Value {
    client(world).get("/v1/openapi.json").unwrap()
}

/// Why a value does not fit a schema.
fn misfit(value: &Value, schema: &Value, document: &Value) -> Result<(), String> {
    let Some(schema) = schema.as_object() else { return Ok(()) };
    let wrong = |why: &str| Err(format!("{why}: {value}\n  is not {}", Value::from(schema.clone())));
    if let Some(reference) = schema.get("$ref") {
        let pointer = reference.as_str().unwrap().strip_prefix('#').unwrap();
        let schema =
            document.pointer(pointer).unwrap_or_else(|| panic!("{reference} is not in the document"));
        misfit(value, schema, document)?;
    }
    for choice in ["anyOf", "oneOf"] {
        let Some(schemas) = schema.get(choice) else { continue };
        let fits = |schema: &Value| misfit(value, schema, document).is_ok();
        if !schemas.as_array().unwrap().iter().any(fits) {
            return wrong("none fits");
        }
    }
    let is_one = |list: &Value| list.as_array().unwrap().contains(value);
    if schema.get("enum").is_some_and(|list| !is_one(list))
        || schema.get("const").is_some_and(|one| one != value)
    {
        return wrong("another value");
    }
    let kinds: Vec<&str> = match schema.get("type") {
        Some(Value::Array(kinds)) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
        Some(kind) => vec![kind.as_str().unwrap()],
        None => Vec::new(),
    };
    if !kinds.is_empty() && !kinds.iter().any(|kind| is_kind(value, kind)) {
        return wrong("another type");
    }
    if let (Some(item), Some(items)) = (schema.get("items"), value.as_array()) {
        items.iter().try_for_each(|value| misfit(value, item, document))?;
    }
    let Some(fields) = value.as_object().filter(|_| schema.contains_key("properties")) else { return Ok(()) };
    object(fields, schema, document).or_else(|why| wrong(&why))
}

/// Checks that an object has all keys that it must have, and no others than those of the schema.
fn object(fields: &Map<String, Value>, schema: &Map<String, Value>, document: &Value) -> Result<(), String> {
    let known = schema["properties"].as_object().unwrap();
    for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
        fields.get(name.as_str().unwrap()).ok_or_else(|| format!("no {name}"))?;
    }
    for (name, value) in fields {
        let schema = known.get(name).ok_or_else(|| format!("unknown key `{name}`"))?;
        misfit(value, schema, document)?;
    }
    Ok(())
}

fn is_kind(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other}"),
    }
}

fn answers_fit_the_schemas_of_the_document() {
    let world = World::new();
    let (client, document) = (client(&world), document(&world));
    let mut answered = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        let Some(get) = methods.get("get").filter(|_| !OTHERS.contains(&&**path)) else { continue };
        let schema = &get["responses"]["200"]["content"]["application/json"]["schema"];
        assert!(!schema.is_null(), "{path}");
        let request = path
            .replace("/interfaces/{name}", "/interfaces/lan")
            .replace("/nat/{number}", "/nat/1")
            .replace("/routes/get", "/routes/get?to=203.0.113.9");
        if request.contains('{') {
            continue;
        }
        // What this stack does not have is refused.
        let Ok(answer) = client.get::<Value>(&request) else { continue };
        if let Err(why) = misfit(&answer, schema, &document) {
            panic!("{path}: {why}");
        }
        answered += 1;
    }
    assert!(answered > 25, "only {answered} requests were answered");
}

fn refusals_fit_the_schema_of_errors() {
    let world = World::new();
    let (client, document) = (client(&world), document(&world));
    let error = &document["components"]["schemas"]["Error"];
    let refused = client.get::<Value>("/v1/routes?family=ipx").unwrap_err();
    let pantala::api::client::ClientError::Refused(refused) = refused else { panic!("{refused:?}") };
    misfit(&serde_json::to_value(&refused).unwrap(), error, &document).unwrap();
}

fn each_request_has_its_parameters_its_body_and_a_name_of_its_own() {
    let world = World::new();
    let document = document(&world);
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            ids.push(operation["operationId"].as_str().unwrap().to_owned());
            let parameters = operation["parameters"].as_array().unwrap();
            let of_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(of_path, path.matches('{').count(), "{method} {path}");
            let has_body = operation.get("requestBody").is_some();
            assert!(!has_body || method != "get", "{method} {path}");
        }
    }
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert!(ids.len() == count && count > 60, "{count} requests");
    let route = &document["paths"]["/v1/routes"];
    let body = &route["post"]["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(body["$ref"], "#/components/schemas/RouteRequest");
    assert!(
        route["delete"]["parameters"].as_array().unwrap().iter().any(|parameter| parameter["name"] == "to")
    );
    let text = document.to_string();
    let references = text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap());
    references.for_each(|pointer| assert!(document.pointer(pointer).is_some(), "{pointer}"));
}

harness::tests![
    answers_fit_the_schemas_of_the_document,
    refusals_fit_the_schema_of_errors,
    each_request_has_its_parameters_its_body_and_a_name_of_its_own,
];
