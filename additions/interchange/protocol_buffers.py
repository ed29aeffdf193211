"""The fields of a protocol buffer, such as a sentencepiece model, by number."""

from typing import Any

__all__ = ["all_fields_of", "fields_of"]


def fields_of(message: bytes) -> dict[int, Any]:
    """The fields of a protocol buffer by number, the last where one is repeated; none where it has groups."""
    return dict(all_fields_of(message))


def all_fields_of(message: bytes) -> list[tuple[int, Any]]:
    """The fields of a protocol buffer in order, each with its number; none where it has groups."""
    found: list[tuple[int, Any]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            found.append((number, varint()))
        elif kind in (1, 2, 5):
            size = varint() if kind == 2 else 8 if kind == 1 else 4
            found.append((number, message[at : at + size]))
            at += size
        else:
            return []
    return found
