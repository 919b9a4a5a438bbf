import numpy as np
import pytest

from analysis.run_folders import PATH, write_run
from equigrad.analysis.snapshots import read_snapshots


def test_the_ratio_is_unknown_until_a_negative_gradient_arrives(tmp_path):
    found, _ = read_snapshots(write_run(tmp_path / "run") / "statistics.npz")
    ratio = found[PATH].ratio
    assert np.isnan(ratio[0]).all()
    np.testing.assert_allclose(ratio[-1], [1, 0.9, 0.6, 0.4, 0.1, 0.01])


def test_a_cut_statistics_file_is_refused(tmp_path):
    folder = write_run(tmp_path / "run")
    whole = (folder / "statistics.npz").read_bytes()
    for size in range(1, len(whole), 97):
        (folder / "statistics.npz").write_bytes(whole[:size])
        with pytest.raises(ValueError, match=r"statistics\.npz"):
            read_snapshots(folder / "statistics.npz")


class Trap:
    def __reduce__(self):
        return (pytest.fail, ("unpickled",))


def test_nothing_is_unpickled(tmp_path):
    folder = write_run(tmp_path / "run")
    trap = np.array([Trap()], dtype=object)
    np.savez(folder / "statistics.npz", steps=np.array([1]), **{f"{PATH}.positive": trap, f"{PATH}.negative": trap})
    with pytest.raises(ValueError, match="plain arrays"):
        read_snapshots(folder / "statistics.npz")
