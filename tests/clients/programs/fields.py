"""Prints the fields of each type of a message, by the message's `type`: what JSON may have there."""

import json
import types
import typing
from typing import Any

import rollcall.messages

JSON = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array", types.NoneType: "null"}


def told(hint: Any) -> dict[str, Any]:
    """The types that a hint allows, none if it allows all; the values, if it lists them; the fields of an object."""
    if hint is Any:
        return {"types": []}
    if typing.is_typeddict(hint):
        return {"types": ["object"], "fields": fields_of(hint)}
    origin = typing.get_origin(hint)
    parts = typing.get_args(hint)
    if origin is typing.Literal:
        return {"types": ["string"], "values": list(parts)}
    if origin is types.UnionType:
        return {"types": [kind for part in parts for kind in told(part)["types"]]}
    return {"types": [JSON[origin or hint]]}


def fields_of(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    return {name: {"required": name in kind.__required_keys__, **told(hint)} for name, hint in hints.items()}


messages: dict[str, Any] = {}
for kind in vars(rollcall.messages).values():
    if typing.is_typeddict(kind):
        fields = fields_of(kind)
        for name in fields.get("type", {}).get("values", []):
            messages[name] = fields
print(json.dumps(messages))
