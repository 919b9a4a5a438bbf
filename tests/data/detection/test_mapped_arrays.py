import numpy as np
import pytest

from equigrad.data.detection.mapped_arrays import map_arrays, write_arrays

ARRAYS = {
    "numbers": np.arange(5),
    "none": np.zeros((0, 4), np.float32),
    "flags": np.array([True, False]),
    "names": np.array([b"one", b"three"]),
    "table": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
}


def test_arrays_come_back_aligned_and_read_only(tmp_path):
    write_arrays(tmp_path / "a", {"format": 3}, ARRAYS)
    about, found = map_arrays(tmp_path / "a")
    assert bytes(about) == b'{"format":3}'
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].flags.aligned
    assert not found["numbers"].flags.writeable


def test_objects_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="allow_pickle=False"):
        write_arrays(tmp_path / "a", {}, {"objects": np.array([{}])})
    assert not (tmp_path / "a").exists()


def test_no_damage_is_read_as_something_else_than_arrays(tmp_path):
    write_arrays(tmp_path / "a", {}, {"numbers": np.arange(4)})
    content = (tmp_path / "a").read_bytes()
    for length in range(len(content)):
        (tmp_path / "b").write_bytes(content[:length])
        with pytest.raises(ValueError):  # noqa: PT011 (numpy has many messages)
            map_arrays(tmp_path / "b")
    (tmp_path / "b").write_bytes(content.replace(b"(4,), }", b"(9,), }"))
    with pytest.raises(ValueError, match="an array ends at byte"):
        map_arrays(tmp_path / "b")
