import json
from itertools import chain

import pytest
from hypothesis import given, settings, strategies as st

from equigrad.evaluation.detection import json_entries as module
from equigrad.evaluation.detection.json_entries import json_entries, list_parts

values = st.dictionaries(
    st.text(max_size=5), st.text() | st.integers() | st.lists(st.integers(), max_size=3), max_size=3
)


@settings(max_examples=50)
@given(st.lists(values, max_size=8), st.sampled_from([None, 1, "\t"]), st.integers(2, 40), st.booleans())
def test_entries_are_what_json_reads_however_the_file_is_cut(tmp_path_factory, entries, indent, chunk, is_ascii):
    file = tmp_path_factory.mktemp("json") / "list.json"
    file.write_text(json.dumps(entries, indent=indent, ensure_ascii=is_ascii), encoding="utf-8")
    whole, module.CHUNK = module.CHUNK, chunk
    try:
        assert list(json_entries(file)) == entries
    finally:
        module.CHUNK = whole


@settings(max_examples=50)
@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.sampled_from([None, 1, "\t"]), st.integers(20, 60))
def test_parts_are_lists_of_whole_entries_however_the_file_is_cut(tmp_path_factory, lengths, indent, part):
    entries = [{"bbox": [1] * length, "segmentation": {"counts": "a, {b"}} for length in lengths]
    file = tmp_path_factory.mktemp("json") / "list.json"
    file.write_text("\ufeff" + json.dumps(entries, indent=indent), encoding="utf-8")
    whole, module.PART = module.PART, part
    try:
        parts = list(list_parts(file))
    finally:
        module.PART = whole
    assert list(chain.from_iterable(json.loads(text) for _, text in parts)) == entries


def test_entries_continue_where_a_part_starts(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PART", 20)
    entries = [{"number": number} for number in range(10)]
    file = tmp_path / "list.json"
    file.write_text(json.dumps(entries))
    index = 0
    for position, text in list_parts(file):
        assert list(json_entries(file, position)) == entries[index:]
        index += len(json.loads(text))
    assert index == len(entries)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a JSON list"),
        ('{"annotations": []}', "expected a JSON list"),
        ("[", "entry 0: broken or cut-off"),
        ('[{"a": 1}, {"a": ', "entry 1: broken or cut-off"),
        ('[{"a": 1}', "entry 0: broken or cut-off"),
        ('[{"a": 1}, ]', "entry 1: broken or cut-off"),
        ('[{"a": 1} {"a": 2}]', "entry 0: broken or cut-off"),
        ('[{"a": "\n"}]', "entry 0: broken or cut-off"),
        ("[{}] []", "unexpected text after the list"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_broken_file_is_named_with_its_first_bad_entry(tmp_path, text, message):
    file = tmp_path / "broken.json"
    file.write_text(text)
    with pytest.raises(ValueError, match=f"broken.json.*{message}"):
        list(json_entries(file))


def test_a_file_of_other_bytes_is_named(tmp_path):
    file = tmp_path / "picture.json"
    file.write_bytes(b"[\xff\xd8\xff")
    with pytest.raises(ValueError, match=r"picture.json: expected JSON in UTF-8"):
        list(json_entries(file))


def test_a_broken_entry_does_not_make_the_rest_of_a_huge_file_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CHUNK", 100)
    monkeypatch.setattr(module, "LONGEST", 300)
    pieces = iter(["[{]" + " " * 97] + ["0" * 100] * 1000)
    with pytest.raises(ValueError, match="entry 0"):
        list(module._entries(tmp_path, lambda size: next(pieces)))
    assert next(pieces, None) is not None
