"""Converts between the dataclasses of this package and protobuf messages.

The fields of both have the same names. What a field needs follows from its Python type, so a new
field of the API is a new field of a dataclass and nothing else.
"""

import collections.abc
import dataclasses
import functools
import typing
from typing import Any, Callable, Dict, Mapping, Type, TypeVar

from google.protobuf.message import Message

T = TypeVar("T")


def fill(message: Message, fields: Mapping[str, Any]) -> None:
    """Sets the fields of a message, except those that are None. Raises TypeError for a value of a
    wrong type or outside the range of its type."""
    for name, value in fields.items():
        if value is None:
            continue
        try:
            _set(message, name, value)
        except (TypeError, ValueError, AttributeError) as error:
            raise TypeError(f"{message.DESCRIPTOR.name}.{name} is {value!r}: {error}") from error


def _set(message: Message, name: str, value: Any) -> None:
    if dataclasses.is_dataclass(value):
        getattr(message, name).SetInParent()  # An empty message is not an absent one.
        fill(getattr(message, name), vars(value))
    elif isinstance(value, collections.abc.Mapping):  # A map or a Struct.
        getattr(message, name).update(value)
    elif isinstance(value, collections.abc.Iterable) and not isinstance(value, str):
        for element in value:
            if dataclasses.is_dataclass(element):
                fill(getattr(message, name).add(), vars(element))
            else:
                getattr(message, name).append(element)
    else:
        setattr(message, name, value)


def parse(kind: Type[T], message: Message) -> T:
    """REQUIRES: the message has every field of `kind`."""
    untyped: type = kind  # For mypy, which finds no hash in Type[T].
    return kind(**{name: read(message) for name, read in _readers(untyped).items()})


@functools.lru_cache(maxsize=None)
def _readers(kind: type) -> Dict[str, Callable[[Message], Any]]:
    return {name: _reader(name, hint) for name, hint in typing.get_type_hints(kind).items()}


def _reader(name: str, hint: Any) -> Callable[[Message], Any]:
    if typing.get_origin(hint) is typing.Union:  # Optional[…]
        convert = _converter(typing.get_args(hint)[0])
        return lambda message: convert(getattr(message, name)) if message.HasField(name) else None
    convert = _converter(hint)
    return lambda message: convert(getattr(message, name))


def _converter(hint: Any) -> Callable[[Any], Any]:
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return functools.partial(parse, hint)
    if hint is float:
        return _seconds
    if typing.get_origin(hint) is tuple:
        element = _converter(typing.get_args(hint)[0])
        return lambda values: tuple(map(element, values))
    if typing.get_origin(hint) is collections.abc.Mapping:
        return dict
    return hint  # int, str, bool or an enum.


def _seconds(value: Any) -> float:
    """A number, or a google.protobuf.Duration in seconds."""
    return value if isinstance(value, float) else value.seconds + value.nanos * 1e-9
