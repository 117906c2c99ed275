//! The table of requests: the server dispatches by it, and `GET /v1/openapi.json` is made from it.

use core::time::Duration;
use std::sync::Arc;

use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodFilter, get, on};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::SharedStack;
use super::accept::Limits;
use super::routes;
use crate::api::types::Error;

/// Where the document is.
const OPENAPI: &str = "/v1/openapi.json";
/// Where its schemas are in it.
const SCHEMAS: &str = "/components/schemas";

type SchemaOf = fn(&mut SchemaGenerator) -> Schema;

/// Requests, each with its handler and its documentation.
#[derive(Default)]
pub(in crate::api) struct Requests {
    router: Router<SharedStack>,
    all: Vec<Request>,
}

/// A request, for the document.
struct Request {
    method: &'static str,
    path: &'static str,
    about: About,
}

/// The documentation of a request.
pub(in crate::api) struct About {
    summary: &'static str,
    query: &'static [Parameter],
    body: Option<SchemaOf>,
    answer: (&'static str, SchemaOf),
}

/// A query parameter: its name, its type in JSON Schema, its meaning, and whether it must be there.
#[derive(Clone, Copy)]
pub(in crate::api) struct Parameter {
    name: &'static str,
    kind: &'static str,
    meaning: &'static str,
    is_required: bool,
}

/// Describes an optional query parameter.
pub(in crate::api) const fn may(name: &'static str, kind: &'static str, meaning: &'static str) -> Parameter {
    Parameter { name, kind, meaning, is_required: false }
}

/// Describes a query parameter that must be there.
pub(in crate::api) const fn must(name: &'static str, kind: &'static str, meaning: &'static str) -> Parameter {
    Parameter { name, kind, meaning, is_required: true }
}

/// Parameters of a page of a long list.
pub(in crate::api) const PAGE: &[Parameter] =
    &[may("after", "string", "`next` of the page before"), may("limit", "integer", "rows, 10,000 at most")];

/// Begins the documentation of a request. It answers `null`, unless something else is said.
pub(in crate::api) const fn about(summary: &'static str) -> About {
    About { summary, query: &[], body: None, answer: ("application/json", schema_of::<()>) }
}

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

impl About {
    pub(in crate::api) const fn query(self, query: &'static [Parameter]) -> Self {
        Self { query, ..self }
    }

    /// The body is a JSON value of this type.
    pub(in crate::api) const fn takes<T: JsonSchema>(self) -> Self {
        Self { body: Some(schema_of::<T>), ..self }
    }

    /// The answer is a JSON value of this type.
    pub(in crate::api) const fn answers<T: JsonSchema>(self) -> Self {
        Self { answer: ("application/json", schema_of::<T>), ..self }
    }

    /// The answer has another media type; each part of it is of this type.
    pub(in crate::api) const fn streams<T: JsonSchema>(self, media: &'static str) -> Self {
        Self { answer: (media, schema_of::<T>), ..self }
    }
}

/// Adds a function for each method.
macro_rules! methods {
    ($($name:ident $filter:ident),*) => {
        $(pub(in crate::api) fn $name<H, T>(self, path: &'static str, handler: H, about: About) -> Self
        where
            H: Handler<T, SharedStack>,
            T: 'static,
        {
            let router = self.router.route(path, on(MethodFilter::$filter, handler));
            let mut all = self.all;
            all.push(Request { method: stringify!($name), path, about });
            Self { router, all }
        })*
    };
}

impl Requests {
    methods![get GET, post POST, put PUT, patch PATCH, delete DELETE];

    /// Adds the requests of another table.
    pub(in crate::api) fn merge(mut self, other: Self) -> Self {
        self.all.extend(other.all);
        Self { router: self.router.merge(other.router), all: self.all }
    }

    /// Returns the router, which also answers the document of all its requests.
    pub(super) fn router(self) -> Router<SharedStack> {
        let Self { router, mut all } = self;
        let about = about("This document").answers::<Map<String, Value>>();
        all.push(Request { method: "get", path: OPENAPI, about });
        let all: Arc<[Request]> = all.into();
        let answer = move || {
            let all = Arc::clone(&all);
            async move { routes::json(&document(&all)) }
        };
        router.route(OPENAPI, get(answer))
    }
}

/// Makes the document (OpenAPI 3.1).
fn document(all: &[Request]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.definitions_path = SCHEMAS.into());
    let mut generator = settings.into_generator();
    let error = schema_of::<Error>(&mut generator);
    let mut paths = Map::new();
    for request in all {
        let operation = operation(request, &error, &mut generator);
        let path = paths.entry(request.path).or_insert_with(|| json!({}));
        if let Some(methods) = path.as_object_mut() {
            methods.insert(request.method.to_owned(), operation);
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "pantala admin API",
            "version": env!("CARGO_PKG_VERSION"),
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
            "description": description(),
        },
        "servers": [{ "url": "/", "description": "the control socket, or the HTTP listener" }],
        "security": [{ "token": [] }, {}],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "The token of token_file in [http]. The control sockets need none.",
            } },
        },
    })
}

fn description() -> String {
    let Limits { connections, head_within, body_within, stall, .. } = Limits::default();
    let [head, body, stall] = [head_within, body_within, stall].map(|time: Duration| time.as_secs());
    format!(
        "Users of the control socket read and write; those of the read-only socket, and of the HTTP listener unless it has \
         `write = true`, may only GET, and not /v1/config. A socket serves {connections} connections at a time. A request's \
         head must arrive within {head} s and its body within {body} s; a client that reads nothing of an answer for {stall} s \
         is disconnected."
    )
}

fn operation(request: &Request, error: &Schema, generator: &mut SchemaGenerator) -> Value {
    let Request { method, path, about } = request;
    let (media, answer) = about.answer;
    let mut operation = json!({
        "operationId": operation_id(method, path),
        "summary": about.summary,
        "parameters": parameters(path, about.query),
        "responses": {
            "200": { "description": "done", "content": { media: { "schema": answer(generator) } } },
            "default": { "description": "refused, or failed", "content": { "application/json": { "schema": error } } },
        },
    });
    if let (Some(body), Some(fields)) = (about.body, operation.as_object_mut()) {
        let content = json!({ "application/json": { "schema": body(generator) } });
        fields.insert("requestBody".to_owned(), json!({ "required": true, "content": content }));
    }
    operation
}

/// `getV1InterfacesName` of `GET /v1/interfaces/{name}`.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.fold(method.to_owned(), |mut id, word| {
        let (first, rest) = word.split_at(1);
        id.push_str(&first.to_ascii_uppercase());
        id.push_str(rest);
        id
    })
}

fn parameters(path: &str, query: &[Parameter]) -> Vec<Value> {
    let names = path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let of_path = names
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let of_query = query.iter().map(|Parameter { name, kind, meaning, is_required }| {
        json!({
            "name": name, "in": "query", "required": is_required, "description": meaning, "schema": { "type": kind },
        })
    });
    of_path.chain(of_query).collect()
}
