import csv
import io

import pytest
import torch

from scripts import run_script


def test_the_gpu_benchmark_writes_a_row_for_each_loss_with_versions_and_date():
    finished = run_script(
        *("benchmarks/gpu.py", "--device", "cpu", "--no-compile", "--repeats", 3),
        *("--shapes", "8x10", "2x5x4x4", "--dtypes", "bfloat16"),
    )
    assert finished.returncode == 0, finished.stderr
    rows = list(csv.DictReader(io.StringIO(finished.stdout)))
    assert len(rows) == 2 * 7  # three plain losses and four of ours
    assert {row["kind"] for row in rows} == {"eager", "blocks"}
    for row in rows:
        assert 0 < float(row["ms_0.2"]) <= float(row["ms"]) <= float(row["ms_0.8"])
        assert row["torch"] == torch.__version__
        assert row["date"]


@pytest.mark.skipif(torch.cuda.is_available(), reason="has a GPU")
def test_the_gpu_benchmark_says_in_one_line_that_there_is_no_gpu():
    finished = run_script("benchmarks/gpu.py")
    assert finished.returncode == 1
    assert finished.stdout == ""
    assert finished.stderr.count("\n") == 1
    assert "--device cpu" in finished.stderr
