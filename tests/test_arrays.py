"""`.npz` files that lie: each is refused in one line, before memory is taken."""

import pickle
import zipfile

import numpy as np
import pytest

from equigrad.arrays import read_npz
from hostile_files import refusal


def write_npz(file, header, data=b"", **options):
    """An `.npz` file with one array `x`, whose header may claim anything."""
    text = header.ljust(117).encode() + b"\n"
    with zipfile.ZipFile(file, "w", **options) as archive:
        archive.writestr("x.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data)
    return file


def test_arrays_come_back_as_they_were(tmp_path):
    arrays = {"a": np.arange(6).reshape(2, 3), "b": np.array("text"), "c": np.zeros((0, 4)), "d": np.array([True])}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "x.npz", **arrays)
        read = read_npz(tmp_path / "x.npz")
        assert read.keys() == arrays.keys()
        assert all((read[name] == arrays[name]).all() and read[name].dtype == arrays[name].dtype for name in arrays)
    assert read_npz(tmp_path / "x.npz", ["b"]).keys() == {"b"}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }", "claims 8,000,000,000,128 bytes"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (99999999999, 99999999999), }", "claims"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }", "claims"),
        ("{'descr': '|S0', 'fortran_order': False, 'shape': (1000000000000,), }", "expected numbers or text"),
        ("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", "expected numbers or text, got object"),
        ("__import__('os').system('touch hacked')", "not a readable .npz file"),
    ],
)
def test_a_header_that_lies_is_refused_before_memory_is_taken(tmp_path, header, message):
    file = write_npz(tmp_path / "lying.npz", header, b"\0" * 8)
    text = refusal(read_npz, file)
    assert text.startswith(f"{file}: not a readable .npz file")
    assert message in text


def test_a_bomb_of_zeros_is_refused_by_its_index(tmp_path):
    shape = 3 << 30
    header = f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({shape},), }}"
    file = write_npz(tmp_path / "bomb.npz", header, compression=zipfile.ZIP_DEFLATED)
    content = file.read_bytes()
    # The index claims 3 GB of zeros; nobody needs to write them to see that it is refused.
    claimed = (128).to_bytes(4, "little")
    file.write_bytes(content[:60] + content[60:].replace(claimed, (shape + 128).to_bytes(4, "little")))
    assert "are a zip bomb" in refusal(read_npz, file)


class Planted:
    def __init__(self, file):
        self.file = file

    def __reduce__(self):
        return open, (str(self.file), "w")


def test_a_pickled_array_is_never_unpickled(tmp_path):
    np.savez(tmp_path / "evil.npz", x=np.array([Planted(tmp_path / "hacked")], dtype=object))
    pickle.loads(pickle.dumps(Planted(tmp_path / "works")))
    assert (tmp_path / "works").exists()
    assert "expected numbers or text" in refusal(read_npz, tmp_path / "evil.npz")
    assert not (tmp_path / "hacked").exists()


def test_a_missing_array_is_named_with_those_there_are(tmp_path):
    np.savez(tmp_path / "x.npz", a=[1], b=[2])
    with pytest.raises(ValueError, match=r"x\.npz: .*expected an array named 'labels', found a, b"):
        read_npz(tmp_path / "x.npz", ["labels"])
