"""Checks documents against docs/schemas. Stricter than a reader has to be: a key that the schema lacks is an error, so
that the schemas do not become stale."""

import json
import pathlib

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "schemas"
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None), "integer": int,
         "number": (int, float)}


def schema(name):
    return json.loads((SCHEMAS / f"{name}.schema.json").read_text())


def has_type(value, name):
    if isinstance(value, bool) and name != "boolean":
        return False
    return isinstance(value, TYPES[name])


def problems(value, rule, place="$"):
    if "$ref" in rule:
        rule = json.loads((SCHEMAS / rule["$ref"]).read_text())
    if "const" in rule and value != rule["const"]:
        yield f"{place}: {value!r} is not {rule['const']!r}"
    if "enum" in rule and value not in rule["enum"]:
        yield f"{place}: {value!r} is not one of {rule['enum']}"
    types = rule.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(has_type(value, name) for name in types):
        yield f"{place}: {value!r} is not {' or '.join(types)}"
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from problems(item, rule.get("items", {}), f"{place}[{i}]")
    elif isinstance(value, dict) and "properties" in rule:
        yield from (f"{place}: {key} is missing" for key in rule.get("required", []) if key not in value)
        for key, item in value.items():
            if key in rule["properties"]:
                yield from problems(item, rule["properties"][key], f"{place}.{key}")
            else:
                yield f"{place}: {key} is not in the schema"


def check(case, name, document):
    """Fails the test case if the document does not match the schema of this name."""
    case.assertEqual(list(problems(document, schema(name)))[:20], [])
