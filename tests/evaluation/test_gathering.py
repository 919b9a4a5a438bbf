import numpy as np
import pytest
import torch.distributed as dist

from equigrad.evaluation import gathering
from equigrad.evaluation.gathering import gather_arrays, gather_files, sees_first_folder
from quick_processes import run_ranks


def arrays_of(rank):
    rng = np.random.default_rng(rank)
    return [rng.random((1000 * rank + 3, 4)), np.arange(rank, dtype=np.int64), np.zeros((0, 2), np.float32)]


def gather_on_rank(rank, folder):
    gathering.BYTES_AT_ONCE = 1000  # many pieces
    own = folder / str(rank)
    own.mkdir()
    contents = {f"{rank}-{number}": bytes([rank]) * length for number, length in enumerate((0, 1000, 2345))}
    for name, content in contents.items():
        (own / name).write_bytes(content)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'store'}", rank=rank, world_size=3)
    gathered = gather_arrays(arrays_of(rank))
    assert len(gathered) == (3 if rank == 0 else 0)
    for other, arrays in enumerate(gathered):
        for found, expected in zip(arrays, arrays_of(other), strict=True):
            np.testing.assert_array_equal(found, expected)
            assert found.dtype == expected.dtype
    gather_files(sorted(own.iterdir()) if rank != 1 else [], folder / "0")
    assert sees_first_folder(folder)
    assert sees_first_folder(own) == (rank == 0)
    dist.destroy_process_group()


def test_arrays_and_files_reach_the_first_rank_in_pieces(tmp_path):
    run_ranks(gather_on_rank, tmp_path, world_size=3)
    found = {file.name: file.read_bytes() for file in (tmp_path / "0").iterdir()}
    expected = {
        f"{rank}-{number}": bytes([rank]) * length for rank in (0, 2) for number, length in enumerate((0, 1000, 2345))
    }
    assert found == expected


def test_a_process_on_its_own_has_its_own_arrays(tmp_path):
    (gathered,) = gather_arrays(arrays_of(1))
    assert gathered[0] == pytest.approx(arrays_of(1)[0])
    assert sees_first_folder(tmp_path / "nowhere")
