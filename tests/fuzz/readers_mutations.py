"""Damage to a file: of its bytes, whatever it holds, and of its structure, if it holds JSON."""

import json
from random import Random

TOKENS = (
    *(b"nan", b"inf", b"-1", b"0", b"1e999", b"1e308", b"-0.0", b"2000000000", b"9007199254740993", b"9" * 30),
    *(b"9" * 5000, b"&a;"),
    *(b"null", b"true", b'""', b"[]", b"{}", b"[" * 3000, b'{"a":' * 3000, b",", b":", b'"', b"\n", b"\r", b"\0", b" "),
    *(b"../", b"/etc/passwd", b"\xff\xfe", b"\xed\xa0\x80", b"\\ud800", b"\x1b[2J", b"=1+1", b"<a>", b"<!DOCTYPE a>"),
    *(b"&a [*a, *a]", b"!!python/object:a ", b"%s%n", b"\x93NUMPY", b"PK\x05\x06", b"\xff" * 4, b"\x7f\xff\xff\xff"),
)  # fmt: skip
VALUES = (
    *(None, True, False, 0, 1, -1, 2, 7, 1.5, -0.5, 1e308, float("nan"), float("inf"), -float("inf"), 2**31, 2**64),
    *(2**53, 10**30, 10**400, "", "cat", "../x", "\ud800", "\x1b[2J\n", "1", [], [[]], [1, 2, 3, 4], {}, [None] * 9),
    {"type": "x"},
)  # fmt: skip


def mutated(content: bytes, random: Random) -> bytes:
    """The content with one to three changes."""
    for _ in range(random.choice((1, 1, 2, 3))):
        if random.random() < 0.6:
            content = _mutated_json(content, random)
        else:
            content = random.choice(_BYTE_MUTATIONS)(content, random)
    return content


def _flip(content: bytes, random: Random) -> bytes:
    if not content:
        return content
    place = random.randrange(len(content))
    return content[:place] + bytes([content[place] ^ (1 << random.randrange(8))]) + content[place + 1 :]


def _cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _remove(content: bytes, random: Random) -> bytes:
    start = random.randrange(len(content) + 1)
    return content[:start] + content[start + random.choice((1, 2, 4, 16, 64)) :]


def _repeat(content: bytes, random: Random) -> bytes:
    start = random.randrange(len(content) + 1)
    end = start + random.choice((1, 4, 16, 64, 256))
    return content[:end] + content[start:end] * random.choice((1, 2, 50)) + content[end:]


def _insert(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content) + 1)
    return content[:place] + random.choice(TOKENS) + content[place + random.choice((0, 0, 1, 4)) :]


def _lines(content: bytes, random: Random) -> bytes:
    lines = content.split(b"\n")
    lines.insert(random.randrange(len(lines) + 1), random.choice(lines))
    random.shuffle(lines)
    return b"\n".join(lines)


def _word(content: bytes, random: Random) -> bytes:
    """Another word or number in the place of one."""
    words = [(start, end) for start, end in _spans(content) if end > start]
    if not words:
        return content
    start, end = random.choice(words)
    return content[:start] + random.choice(TOKENS) + content[end:]


def _spans(content: bytes) -> list[tuple[int, int]]:
    spans, start = [], 0
    for place, byte in enumerate(content[:20_000]):
        if byte in b" ,\n\"'<>:[]{}\t":
            spans.append((start, place))
            start = place + 1
    return [*spans, (start, len(content))]


_BYTE_MUTATIONS = (_flip, _flip, _cut, _remove, _repeat, _insert, _lines, _word, _word)


def _mutated_json(content: bytes, random: Random) -> bytes:
    """Another value, one more, one less or a copy somewhere in a JSON document; other bytes of any other file."""
    try:
        tree = [json.loads(content)]
    except (ValueError, RecursionError):
        return random.choice(_BYTE_MUTATIONS)(content, random)
    place = tree
    while True:  # down to a random depth
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            break
        key = random.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and random.random() < 0.8:
            place = place[key]
            continue
        _change(place, key, random)
        break
    return json.dumps(tree[0]).encode()


def _change(place: dict | list, key: object, random: Random) -> None:
    kind = random.randrange(5)
    if kind == 0 and not (isinstance(place, list) and len(place) == 1):
        del place[key]
    elif kind == 1 and isinstance(place, list):
        place.append(place[key])
    elif kind == 1:
        place["more"] = random.choice(VALUES)
    elif kind == 2:
        place[key] = [place[key]]
    else:
        place[key] = random.choice(VALUES)
