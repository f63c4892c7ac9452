//! A manifest that only grew.

use std::collections::BTreeMap;

use serde_json::Value;

/// What `on` changes of `off`, or lacks of it, each with its place. A function and a variable are known by their name.
pub fn changes(off: &Value, on: &Value) -> Vec<String> {
    let mut changes = Vec::new();
    compare("manifest", off, on, &mut changes);
    changes
}

/// How many functions each app has of a role.
pub fn count(manifest: &Value, role: &str) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for function in functions(manifest) {
        let of_app = count.entry(text(function, "app")).or_default();
        *of_app += usize::from(function["role"] == role);
    }
    count
}

pub fn functions(manifest: &Value) -> impl Iterator<Item = &Value> {
    manifest["functions"].as_array().into_iter().flatten()
}

pub fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn compare(at: &str, off: &Value, on: &Value, changes: &mut Vec<String>) {
    match (off, on) {
        (Value::Object(off), Value::Object(on)) => {
            for (key, value) in off {
                let at = format!("{at}.{key}");
                match on.get(key) {
                    Some(other) => compare(&at, value, other, changes),
                    None => changes.push(format!("{at} is gone")),
                }
            }
        }
        (Value::Array(off), Value::Array(on)) => {
            // In their order, with others between them.
            let mut rest = on.iter();
            for value in off {
                let name = value.get("name");
                let found = rest.find(|other| match name {
                    Some(_) => other.get("name") == name,
                    None => *other == value,
                });
                let at = format!("{at}[{}]", name.unwrap_or(value));
                match found {
                    Some(other) => compare(&at, value, other, changes),
                    None => changes.push(format!("{at} is gone, or elsewhere")),
                }
            }
        }
        (off, on) if off == on => {}
        (off, on) => changes.push(format!("{at} is {on}, and was {off}")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn additions_are_no_changes() {
        let off = json!({"schema": 1, "functions": [{"name": "f", "app": "a", "role": "foreground", "routes": ["/x"],
            "environment": [{"name": "V"}]}]});
        let mut on = off.clone();
        on["more"] = json!(true);
        on["functions"][0]["environment"] = json!([{"name": "U"}, {"name": "V", "value": "lambda"}]);
        on["functions"][0]["routes"] = json!(["/w", "/x"]);
        let background = json!({"name": "b", "app": "a", "role": "background"});
        on["functions"].as_array_mut().unwrap().push(background);
        assert_eq!(changes(&off, &on), Vec::<String>::new());
        assert_eq!(count(&on, "background"), BTreeMap::from([("a".to_owned(), 1)]));
        assert_eq!(count(&off, "background"), BTreeMap::from([("a".to_owned(), 0)]));
    }

    #[test]
    fn what_changed_or_went_is_told() {
        let off = json!({"a": 1, "b": [{"name": "x"}, {"name": "y"}], "c": ["p"]});
        let on = json!({"a": 2, "b": [{"name": "y"}, {"name": "x"}], "c": []});
        assert_eq!(
            changes(&off, &on),
            [
                "manifest.a is 2, and was 1",
                "manifest.b[\"y\"] is gone, or elsewhere",
                "manifest.c[\"p\"] is gone, or elsewhere",
            ]
        );
    }
}
