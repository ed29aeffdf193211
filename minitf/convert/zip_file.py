"""The members of a zip file that are stored without compression, as NumPy, Marian and PyTorch write them.

`zipfile` would do, but allocates what the file's directory asks for, and inflates what a few bytes claim to hold.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from minitf.convert.stored_arrays import Member, SourceFile, refuse_overlap

END = struct.Struct("<4s4H2IH")
"""The end of the directory: signature, disk numbers, entries (here, in all), bytes and offset, length of a comment."""
LOCATOR = struct.Struct("<4sIQI")
END_64 = struct.Struct("<4sQ2H2I4Q")
ENTRY = struct.Struct("<4s6H3I5H2I")
LOCAL = struct.Struct("<4s5H3I2H")
UNSET, UNSET_SHORT = 0xFFFF_FFFF, 0xFFFF
MAX_COMMENT = 0xFFFF
MAX_DIRECTORY_BYTES = 64 * 2**20


def stored_members(file: SourceFile) -> dict[str, Member]:
    """Where each member's bytes are.

    Raises: ModelFileError for what is not a zip file, for compressed, encrypted or overlapping members, for two of one
    name, and for any offset or size that the file does not have.
    """
    count, size, offset = _directory(file)
    if size > MAX_DIRECTORY_BYTES:
        raise file.damaged(f"its directory of {size} bytes is too long")
    members: dict[str, Member] = {}
    for name, local, length, crc in _entries(file, file.bytes(offset, size), count):
        if name in members:
            raise file.damaged(f"it has two members {name[:80]!r}")
        signature, *_, name_length, extra_length = LOCAL.unpack(file.bytes(local, LOCAL.size))
        if signature != b"PK\3\4":
            raise file.damaged(f"its member {name[:80]!r} does not begin where the directory says")
        members[name] = Member(name, local + LOCAL.size + name_length + extra_length, length, crc)
        file.check(members[name].offset, length)
    refuse_overlap(file, [(member.offset, member.size) for member in members.values()])
    return members


def _directory(file: SourceFile) -> tuple[int, int, int]:
    """Number of entries, bytes and offset of the directory."""
    start = max(0, file.size - END.size - MAX_COMMENT)
    tail = file.bytes(start, file.size - start)
    place = tail.rfind(b"PK\5\6")
    if place < 0 or len(tail) - place < END.size:
        raise file.damaged("it is not a zip file, or has been cut short")
    _, _, _, _, count, size, offset, _ = END.unpack_from(tail, place)
    if UNSET in (size, offset) or count == UNSET_SHORT:  # more than 4 GiB: zip64
        begin = start + place - LOCATOR.size
        signature, _, end_64, _ = LOCATOR.unpack(file.bytes(begin, LOCATOR.size))
        if signature == b"PK\6\7":
            signature, *_, count, size, offset = END_64.unpack(file.bytes(end_64, END_64.size))
            if signature != b"PK\6\6":
                raise file.damaged("the end of its directory is not where it says")
    file.check(offset, size)
    return count, size, offset


def _entries(file: SourceFile, directory: bytes, count: int) -> Iterator[Member]:
    """The members in the directory, with the offsets of their headers."""
    place = 0
    for _ in range(count):
        if len(directory) - place < ENTRY.size:
            raise file.damaged(f"its directory ends before the last of {count} entries")
        entry = ENTRY.unpack_from(directory, place)
        signature, flags, method = entry[0], entry[3], entry[4]
        crc, compressed, size, name_length, extra_length, comment_length, local = *entry[7:13], entry[16]
        place += ENTRY.size
        raw, extra = directory[place : place + name_length], directory[place + name_length :][:extra_length]
        place += name_length + extra_length + comment_length
        if signature != b"PK\1\2" or len(raw) < name_length:
            raise file.damaged("an entry of its directory is damaged")
        name = raw.decode("utf-8", "replace")
        if method or flags & 1:
            how = "encrypted" if flags & 1 else "compressed"
            raise file.damaged(f"its member {name[:80]!r} is {how}; write it without, as numpy.savez does")
        compressed, size, local = _wide(extra, compressed, size, local, file)
        if compressed != size:
            raise file.damaged(f"its member {name[:80]!r} has two sizes, {compressed} and {size}")
        yield Member(name, local, size, crc)


def _wide(extra: bytes, compressed: int, size: int, local: int, file: SourceFile) -> tuple[int, int, int]:
    """The sizes and the offset of an entry, which zip64 keeps in the extra field where 32 bits are too few."""
    place = 0
    while len(extra) - place >= 4:
        kind, length = struct.unpack_from("<2H", extra, place)
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{min(length, len(extra) - place - 4) // 8}Q", extra, place + 4))
            try:  # those that are unset, in this order
                size = next(wide) if size == UNSET else size
                compressed = next(wide) if compressed == UNSET else compressed
                local = next(wide) if local == UNSET else local
            except StopIteration:
                raise file.damaged("an entry of its directory lacks its size") from None
        place += 4 + length
    return compressed, size, local
