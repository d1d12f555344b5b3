//! Checks of JSON against the schemas in `docs/schema`.
//!
//! Only the keywords that these use are known, and any other one fails: a validator for all of JSON
//! Schema brings dozens of crates.

use serde_json::Value;

/// Parses `text` and checks that it conforms to `docs/schema/NAME.json`.
#[track_caller]
pub fn conforms(name: &str, text: &[u8]) -> Value {
    let path = format!("{}/docs/schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let schema = std::fs::read_to_string(&path).expect(&path);
    let schema = serde_json::from_str(&schema).expect(&path);
    let value = serde_json::from_slice(text).expect("JSON");
    let mut wrong = Vec::new();
    check(&schema, &value, "$", &mut wrong);
    assert!(wrong.is_empty(), "{name}: {}\nin {value:#}", wrong.join("\n"));
    value
}

fn check(schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    for (keyword, wanted) in schema.as_object().expect("a schema is an object") {
        let holds = match keyword.as_str() {
            "$schema" | "title" | "description" | "required" | "additionalProperties" => true,
            "const" => value == wanted,
            "enum" => wanted.as_array().is_some_and(|choices| choices.contains(value)),
            "minimum" => value.as_f64().is_none_or(|number| Some(number) >= wanted.as_f64()),
            "type" => match wanted.as_array() {
                Some(types) => types.iter().any(|one| is_of(one, value)),
                None => is_of(wanted, value),
            },
            "items" => {
                let items = value.as_array().into_iter().flatten().enumerate();
                items.for_each(|(i, item)| check(wanted, item, &format!("{at}[{i}]"), wrong));
                true
            }
            "properties" => true,
            other => panic!("{at}: the keyword {other} is unknown here"),
        };
        if !holds {
            wrong.push(format!("{at}: {keyword} {wanted} was expected, not {value}"));
        }
    }
    if let Some(fields) = value.as_object() {
        let required = schema["required"].as_array().into_iter().flatten();
        let missing = required.filter_map(Value::as_str).filter(|name| !fields.contains_key(*name));
        wrong.extend(missing.map(|name| format!("{at}: {name} is missing")));
        for (name, field) in fields {
            let at = format!("{at}.{name}");
            match (schema["properties"].get(name), &schema["additionalProperties"]) {
                (Some(schema), _) => check(schema, field, &at, wrong),
                (None, schema @ Value::Object(_)) => check(schema, field, &at, wrong),
                (None, _) => wrong.push(format!("{at} is not in the schema")),
            }
        }
    }
}

fn is_of(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("the name of a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        other => panic!("no type {other}"),
    }
}
