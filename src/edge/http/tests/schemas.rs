//! Checks JSON against the schemas of a document, as OpenAPI and AsyncAPI have them. It is stricter
//! than they are: a field that no schema names is wrong.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// A document with schemas that refer to each other.
pub(crate) struct Schemas<'a>(pub(crate) &'a Value);

/// What schemas that hold together say of an object.
#[derive(Default)]
struct Object<'a> {
    fields: BTreeMap<&'a str, &'a Value>,
    required: BTreeSet<&'a str>,
    /// The schema of all other fields.
    others: Option<&'a Value>,
}

impl<'a> Schemas<'a> {
    /// What a reference in the document leads to.
    pub(crate) fn at(&self, reference: &Value) -> &'a Value {
        let pointer = reference["$ref"].as_str().unwrap();
        let found = self.0.pointer(pointer.trim_start_matches('#'));
        found.unwrap_or_else(|| panic!("{pointer} leads nowhere"))
    }

    /// Checks a value.
    pub(crate) fn check(&self, schema: &'a Value, value: &Value) -> Result<(), String> {
        if !schema["$ref"].is_null() {
            return self.check(self.at(schema), value);
        }
        for either in ["oneOf", "anyOf"] {
            if let Some(either) = schema[either].as_array() {
                let fits = either
                    .iter()
                    .any(|schema| self.check(schema, value).is_ok());
                return if fits {
                    Ok(())
                } else {
                    Err(format!("{value} fits none of {schema}"))
                };
            }
        }
        if schema["allOf"].is_array() {
            return self.check_fields(schema, value);
        }
        check_type(schema, value)?;
        if !schema["const"].is_null() && schema["const"] != *value {
            return Err(format!("{value} is not {}", schema["const"]));
        }
        if let Some(known) = schema["enum"].as_array()
            && !known.contains(value)
        {
            return Err(format!("{value} is none of {known:?}"));
        }
        check_bounds(schema, value)?;
        if let Some(items) = value.as_array() {
            for item in items {
                self.check(&schema["items"], item)?;
            }
        }
        if value.is_object() && schema["type"] == "object" {
            return self.check_fields(schema, value);
        }
        Ok(())
    }

    fn check_fields(&self, schema: &'a Value, value: &Value) -> Result<(), String> {
        let Some(fields) = value.as_object() else {
            return Err(format!("{value} is no object"));
        };
        let mut object = Object::default();
        self.gather(schema, &mut object);
        for name in &object.required {
            if !fields.contains_key(*name) {
                return Err(format!("{name} is missing"));
            }
        }
        for (name, field) in fields {
            let schema = object.fields.get(name.as_str()).copied();
            let Some(schema) = schema.or(object.others) else {
                return Err(format!("{name} is not described"));
            };
            self.check(schema, field)
                .map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(())
    }

    /// Gathers the fields of a schema, and of those that it puts together.
    fn gather(&self, schema: &'a Value, object: &mut Object<'a>) {
        if !schema["$ref"].is_null() {
            return self.gather(self.at(schema), object);
        }
        for part in schema["allOf"].as_array().into_iter().flatten() {
            self.gather(part, object);
        }
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            object.fields.insert(name, field);
        }
        let required = schema["required"].as_array().into_iter().flatten();
        object.required.extend(required.filter_map(Value::as_str));
        if schema["additionalProperties"].is_object() {
            object.others = Some(&schema["additionalProperties"]);
        }
    }
}

fn check_type(schema: &Value, value: &Value) -> Result<(), String> {
    let types: Vec<&Value> = match &schema["type"] {
        Value::Null => return Ok(()),
        Value::Array(types) => types.iter().collect(),
        one => vec![one],
    };
    let kind = type_of(value);
    let fits = |wanted: &&Value| *wanted == kind || (kind == "integer" && *wanted == "number");
    if types.iter().any(fits) {
        return Ok(());
    }
    Err(format!("{value} is not {types:?}"))
}

fn check_bounds(schema: &Value, value: &Value) -> Result<(), String> {
    let length = match value {
        Value::String(text) => Some(text.chars().count() as u64),
        _ => None,
    };
    let size = value.as_array().map(|items| items.len() as u64);
    for (number, least, most) in [
        (value.as_u64(), "minimum", "maximum"),
        (length, "minLength", "maxLength"),
        (size, "minItems", "maxItems"),
    ] {
        let Some(number) = number else {
            continue;
        };
        let least = schema[least].as_u64().unwrap_or(0);
        let most = schema[most].as_u64().unwrap_or(u64::MAX);
        if !(least..=most).contains(&number) {
            return Err(format!("{value} is not within {least} and {most}"));
        }
    }
    Ok(())
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
