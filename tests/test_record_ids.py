import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from equigrad.record_ids import LONGEST_ID, IdTable, id_column, plain_id


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (0, 0),
        (2**53, 2**53),
        (7.0, 7),
        ("a.jpg", "a.jpg"),
        ("007", "007"),
        (2**53 + 1, None),
        (10**400, None),
        (-1, None),
        (1.5, None),
        (math.nan, None),
        (math.inf, None),
        (True, None),
        (None, None),
        ([1], None),
        ("", None),
        ("a\nb", None),
        ("x" * (LONGEST_ID + 1), None),
    ],
)
def test_an_id_is_a_whole_number_or_a_text(value, plain):
    assert plain_id(value) == plain
    assert type(plain_id(value)) is type(plain)


@pytest.mark.parametrize(
    ("values", "column"),
    [([], []), ([3, 1], [3, 1]), ([3.0, 1], [3, 1]), (["b", "a"], ["b", "a"]), (["1", "01"], ["1", "01"])],
)
def test_ids_become_an_array_of_numbers_or_of_texts(values, column):
    assert id_column(values).tolist() == column


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1, 1.5], "number 2: id: expected a whole number from 0 or a text, got 1.5"),
        (["a", "\x7f"], r"number 2: id: expected a whole number from 0 or a text, got '\\x7f'"),
        ([1, "a"], "number 2: id: expected a whole number, as the first has, got 'a'"),
        (["a", 2], "number 2: id: expected a text, as the first has, got 2"),
    ],
)
def test_a_value_that_is_no_id_or_of_another_kind_is_named(values, message):
    with pytest.raises(ValueError, match=message):
        id_column(values)


@pytest.mark.parametrize("ids", [[10, 2, 33], ["10", "2", "33"]])
def test_a_record_may_write_an_id_as_number_or_as_text(ids):
    table = IdTable(id_column(ids))
    for wanted in ([33, 10], [33.0, 10], ["33", "10"], ["33", 10.0], np.array([33, 10]), np.array(["33", "10"])):
        assert table.find(wanted).tolist() == [2, 0]
    assert table.find([34, "2.0", "02", None, 2.5, True, [2], "x" * 999]).tolist() == [-1] * 8


@pytest.mark.parametrize("ids", [[], ["a", "b"]])
def test_texts_that_are_not_in_the_table_are_refused(ids):
    assert not IdTable(id_column(ids)).has("c")
    with pytest.raises(ValueError, match="ids of the annotations"):
        IdTable(id_column(ids)).indices(["c"])


@given(st.lists(st.integers(0, 25), unique=True, min_size=1), st.data())
def test_ids_are_found_in_any_order_and_as_often_as_wanted(ids, data):
    wanted = data.draw(st.lists(st.sampled_from(ids)))
    table = IdTable(np.array(ids))
    assert table.indices(np.array(wanted, np.int64)).tolist() == [ids.index(number) for number in wanted]
    assert [table.has(number) for number in range(-1, 27)] == [number in ids for number in range(-1, 27)]


@pytest.mark.parametrize("ids", [[], [3, 9], [3, 2**60]])
@pytest.mark.parametrize("unknown", [4, -3, 2**61])
def test_an_unknown_id_is_refused(ids, unknown):
    with pytest.raises(ValueError, match="ids of the annotations"):
        IdTable(np.array(ids, np.int64)).indices(np.array([unknown]))


def test_large_ids_are_found_too():
    assert IdTable(np.array([2**60, 5, 2**50])).indices(np.array([5, 2**60])).tolist() == [1, 0]


def test_no_ids_have_no_indices():
    assert len(IdTable(np.zeros(0, np.int64)).indices(np.zeros(0, np.int64))) == 0
