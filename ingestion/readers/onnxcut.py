"""Cutting a text recogniser's last layer down to the characters that are wanted.

A CTC recogniser ends in a matrix with one column a character. PP-OCRv6 small has 18,710 of them, most for
Chinese: cutting those away makes a Latin page cheaper and changes nothing else. The files are edited as what
they are, protocol buffers (https://protobuf.dev/programming-guides/encoding, ONNX field numbers from
onnx.proto3), so that the product needs no ONNX library to do it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

# onnx.proto3
MODEL_GRAPH, MODEL_METADATA = 7, 14
GRAPH_INITIALIZER, GRAPH_OUTPUT, GRAPH_VALUE_INFO = 5, 12, 13
TENSOR_DIMS, TENSOR_TYPE, TENSOR_RAW = 1, 2, 9
ENTRY_KEY, ENTRY_VALUE = 1, 2
ELEMENTS = {1: np.dtype("<f4"), 2: np.dtype("u1"), 3: np.dtype("i1")}  # TensorProto.DataType

Field = tuple[int, int, int | bytes]  # number, wire type, value


class NotCuttable(ValueError):
    """The file is no recogniser as we know them; it is used uncut."""


def read_characters(model: bytes) -> list[str]:
    """The recogniser's dictionary: class ``i + 1`` means ``characters[i]``; class 0 is CTC's blank, the last
    class a space. NotCuttable where the model carries none."""
    for number, _, value in _fields(model):
        if number == MODEL_METADATA and isinstance(value, bytes):
            entry = {field: text for field, _, text in _fields(value)}
            if entry.get(ENTRY_KEY) == b"character" and isinstance(text := entry.get(ENTRY_VALUE), bytes):
                return text.decode("utf-8").split("\n")
    raise NotCuttable("the model carries no dictionary")


def cut_recogniser(model: bytes, wanted: Callable[[str], bool]) -> bytes:
    """The same recogniser, able to say only the characters for which ``wanted`` is true (and blank and space)."""
    characters = read_characters(model)
    kept = [index for index, character in enumerate(characters) if wanted(character)]
    classes = len(characters) + 2
    columns = np.array([0, *(index + 1 for index in kept), classes - 1])
    dictionary = "\n".join(characters[index] for index in kept)

    def model_field(field: Field) -> Field | None:
        number, wire, value = field
        if number == MODEL_GRAPH and isinstance(value, bytes):
            return number, wire, _rewrite(value, lambda inner: _cut_graph_field(inner, classes, columns))
        if number == MODEL_METADATA and isinstance(value, bytes) and b"character" in value[:16]:
            entry = [(ENTRY_KEY, BYTES, b"character"), (ENTRY_VALUE, BYTES, dictionary.encode("utf-8"))]
            return number, wire, b"".join(_encode(part) for part in entry)
        return field

    return _rewrite(model, model_field)


def _cut_graph_field(field: Field, classes: int, columns: np.ndarray) -> Field | None:
    number, wire, value = field
    if number == GRAPH_VALUE_INFO:
        return None  # inferred shapes: now wrong, and inferred again on loading
    if number == GRAPH_INITIALIZER and isinstance(value, bytes):
        return number, wire, _cut_tensor(value, classes, columns)
    if number == GRAPH_OUTPUT and isinstance(value, bytes):
        return number, wire, _without_shape(value)
    return field


def _cut_tensor(tensor: bytes, classes: int, columns: np.ndarray) -> bytes:
    """The tensor with only ``columns`` of its last axis, where that axis holds the classes."""
    fields = list(_fields(tensor))
    dims = _dims(fields)
    if not dims or dims[-1] != classes:
        return tensor
    kind = next((value for number, _, value in fields if number == TENSOR_TYPE), 0)
    raw = next((value for number, _, value in fields if number == TENSOR_RAW), None)
    if not isinstance(kind, int) or kind not in ELEMENTS or not isinstance(raw, bytes):
        raise NotCuttable(f"a tensor of the last layer is stored in an unknown way (type {kind})")
    cut = np.frombuffer(raw, ELEMENTS[kind]).reshape(dims)[..., columns]
    kept: list[Field] = [field for field in fields if field[0] not in (TENSOR_DIMS, TENSOR_RAW)]
    shape: list[Field] = [(TENSOR_DIMS, VARINT, size) for size in cut.shape]
    return b"".join(_encode(field) for field in [*shape, *kept, (TENSOR_RAW, BYTES, cut.tobytes())])


def _dims(fields: Sequence[Field]) -> list[int]:
    dims: list[int] = []
    for number, _, value in fields:
        if number == TENSOR_DIMS:
            dims += [value] if isinstance(value, int) else _packed(value)
    return dims


def _without_shape(value_info: bytes) -> bytes:
    """A graph output whose shape is left to inference: ValueInfo.type(2).tensor_type(1) keeps elem_type(1)."""

    def tensor_type(field: Field) -> Field | None:
        return field if field[0] == 1 else None

    def type_field(field: Field) -> Field | None:
        number, wire, value = field
        return (number, wire, _rewrite(value, tensor_type)) if number == 1 and isinstance(value, bytes) else field

    def info_field(field: Field) -> Field | None:
        number, wire, value = field
        return (number, wire, _rewrite(value, type_field)) if number == 2 and isinstance(value, bytes) else field

    return _rewrite(value_info, info_field)


def _rewrite(message: bytes, change: Callable[[Field], Field | None]) -> bytes:
    """The message with every field passed through ``change``; None drops it."""
    return b"".join(_encode(changed) for field in _fields(message) if (changed := change(field)) is not None)


def _fields(message: bytes) -> Iterator[Field]:
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, at = _varint(message, at)
            yield number, wire, value
            continue
        if wire == BYTES:
            size, at = _varint(message, at)
        elif wire in (FIXED32, FIXED64):
            size = 4 if wire == FIXED32 else 8
        else:
            raise NotCuttable(f"no ONNX file: wire type {wire}")
        if at + size > len(message):
            raise NotCuttable("no ONNX file: a field is longer than the file")
        yield number, wire, message[at : at + size]
        at += size


def _encode(field: Field) -> bytes:
    number, wire, value = field
    head = _to_varint(number << 3 | wire)
    if isinstance(value, int):
        return head + _to_varint(value)
    return head + (_to_varint(len(value)) if wire == BYTES else b"") + value


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message):
            raise NotCuttable("no ONNX file: it ends in the middle of a number")
        byte = message[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7


def _to_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _packed(data: bytes) -> list[int]:
    values: list[int] = []
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values
