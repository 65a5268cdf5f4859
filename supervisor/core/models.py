"""Objects with `model_dump` (those of pydantic, and of the SDKs of OpenAI and Anthropic) as JSON, and back.

Rules
- What was set is written, and not what was left to a default: the next version of an SDK has more defaults, and the
  same arguments must name the same operation there.
- A type is read as its own package reads it. An SDK makes an object of whatever its server says, by a
  `model_construct` of its own. Other types validate.
- `why_unreadable` tells before anything is done that a value could not be read back. It refuses no type that can hold
  plain JSON. The packages are not imported here: their objects are known by what they have.
"""

import types
from collections.abc import Iterator
from functools import lru_cache
from inspect import Parameter, isclass, signature
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

import msgspec

from supervisor.core.encoding import from_json
from supervisor.core.errors import InvalidInput

_OPTIONS: Final = {"mode": "json", "exclude_unset": True, "by_alias": True, "round_trip": True, "warnings": False}
_OF_JSON: Final = (dict, list, str, int, float, bool, type(None))
_UNIONS: Final = (Union, types.UnionType)


def dump(value: Any) -> Any:
    """Return an object as JSON values: a hook for `to_json`. Raises TypeError for one without `model_dump`."""
    kind = type(value)
    if not _is_model(kind):
        raise TypeError(f"Encoding objects of type {kind.__name__} is unsupported")
    known = signature(value.model_dump).parameters
    takes_all = any(each.kind is Parameter.VAR_KEYWORD for each in known.values())
    return value.model_dump(**{name: said for name, said in _OPTIONS.items() if takes_all or name in known})


def read_model(raw: msgspec.Raw | bytes, type_: Any, what: str) -> Any:
    """Decode JSON as a type that may have models in it. Raises InvalidInput, as `from_json` does."""
    parts = _cached(_parts, type_)
    if parts is not None:
        model, others = parts
        type_ = model if others is None or bytes(raw)[:1] == b"{" else others
    return from_json(raw, type_, what, hook=_load)


@lru_cache(maxsize=256)
def _parts(type_: Any) -> tuple[Any, Any] | None:
    """Return the model in a union, and the union of the others, if any; None for a type that msgspec can read."""
    members = _members(type_)
    models = [each for each in members if _is_model(_origin(each))]
    if not len(members) > len(models) == 1:  # msgspec knows no union of a model and others
        return None
    others = tuple(each for each in members if each is not models[0] and why_unreadable(each) is None)
    return models[0], Union[others] if others else None  # noqa: UP007 # made of a tuple


def why_unreadable(type_: Any) -> str | None:
    """Return why no value of a type could be read back from JSON; None if it can, or if that is not known."""
    why: str | None = _cached(_why, type_)
    return why


@lru_cache(maxsize=256)
def _why(type_: Any) -> str | None:
    members = [each for each in _members(type_) if each is not type(None)]
    if not members:
        return None
    refusals = [_why_part(each) for each in members]
    if None not in refusals:
        return refusals[0]
    told = dict(zip(map(id, members), refusals, strict=True))
    models = [each for each in members if _is_model(_origin(each))]
    if (why := next((told[id(each)] for each in models if told[id(each)]), None)) is not None:
        return why
    rest = [each for each in members if told[id(each)] is None and each not in models]
    if len(models) > 1 or (models and any(map(_is_object, rest))):
        return f"of {type_} it cannot be told which one was written"
    return None


def _cached(found: Any, type_: Any) -> Any:
    try:
        return found(type_)
    except TypeError:  # an annotation that cannot be hashed
        return found.__wrapped__(type_)


def _members(type_: Any) -> tuple[Any, ...]:
    while get_origin(type_) is Annotated:
        type_ = get_args(type_)[0]
    return get_args(type_) if get_origin(type_) in _UNIONS else (type_,)


def _origin(type_: Any) -> Any:
    return get_origin(type_) or type_


def _is_model(kind: Any) -> bool:
    return isclass(kind) and callable(getattr(kind, "model_dump", None))


def _is_object(type_: Any) -> bool:
    """Whether a value of a type may be an object of JSON."""
    try:
        msgspec.json.decode(b"{}", type=type_)
    except msgspec.ValidationError as error:
        return "missing required field" in str(error)
    except TypeError:
        return False
    return True


def _why_part(type_: Any) -> str | None:
    """Return why a type that is no union cannot be read back."""
    origin, args = _origin(type_), get_args(type_)
    if origin is Annotated or origin in _UNIONS:
        return why_unreadable(type_)
    if _is_model(origin):
        return next((why for model in _models_of(type_, set()) if (why := _why_model(model)) is not None), None)
    if origin in (list, tuple, dict, set, frozenset):
        return next((why for each in args if each is not ... and (why := why_unreadable(each)) is not None), None)
    if not isclass(origin) or not _is_custom(type_):
        return None
    return f"JSON cannot hold a {origin.__name__}: return what is needed of it"


def _is_custom(type_: Any) -> bool:
    """Whether msgspec does not know a class, and no value of JSON is an instance of it."""
    try:
        is_unknown = isinstance(msgspec.inspect.type_info(type_), msgspec.inspect.CustomType)
        return is_unknown and not any(issubclass(each, _origin(type_)) for each in _OF_JSON)
    except (TypeError, NameError):
        return False


def _models_of(type_: Any, seen: set[Any]) -> Iterator[Any]:
    """Yield the models in a type and in the fields of its models."""
    if _is_model(_origin(type_)) and type_ not in seen:
        seen.add(type_)
        yield type_
        for field in getattr(type_, "model_fields", {}).values():
            yield from _models_of(field.annotation, seen)
    elif isclass(type_) and hasattr(type_, "get_secret_value"):
        yield type_
    for each in get_args(type_):
        yield from _models_of(each, seen)


def _why_model(model: Any) -> str | None:
    name = getattr(model, "__name__", str(model))
    if hasattr(model, "get_secret_value"):
        return f"a {name} is written masked: let the result have no secrets"
    is_bare = not getattr(model, "model_fields", {}) and model.__module__.startswith("pydantic.")
    if is_bare or not callable(getattr(model, "model_validate", None)):
        return f"{name} does not say which fields it has: name the model itself"
    generic = getattr(model, "__pydantic_generic_metadata__", {})
    if any(
        each is Any or isinstance(each, TypeVar) for each in (*generic.get("args", ()), *generic.get("parameters", ()))
    ):
        return f"{name} does not say of what it is: annotate the result as {name.partition('[')[0]}[YourModel]"
    fields = getattr(model, "model_fields", {})
    return next((why for each, field in fields.items() if (why := _why_field(model, each, field)) is not None), None)


def _why_field(model: Any, name: str, field: Any) -> str | None:
    if field.exclude and field.is_required():
        return f"{model.__name__}.{name} is required, and is not written (exclude=True)"
    config = getattr(model, "model_config", {})
    by_name = bool(config.get("populate_by_name") or config.get("validate_by_name"))
    alias = field.validation_alias
    read_as = {name} if alias is None or by_name else set()
    if config.get("validate_by_alias", True):
        read_as.update(each for each in (alias, *getattr(alias, "choices", ())) if isinstance(each, str))
    written_as = field.serialization_alias or name
    if written_as not in read_as:
        return f"{model.__name__}.{name} is written as {written_as!r} and is not read so: give it one alias"
    return None


def _load(kind: Any, value: Any) -> Any:
    """Make an object of a type that msgspec does not know: a hook for `from_json`."""
    if not _is_model(_origin(kind)):
        return value  # msgspec refuses it, unless it is one
    construct = getattr(kind, "model_construct", None)
    if construct is not None and not construct.__module__.startswith("pydantic."):
        if not isinstance(value, dict):
            raise InvalidInput(f"Expected `{kind.__name__}`, got {type(value).__name__}")
        return construct(**value)
    return kind.model_validate(value)
