import os
import zipfile

import pytest
import torch

from equigrad.engine import EngineError, latest_checkpoint, load_checkpoint, load_weights
from equigrad.engine.checkpoint import checkpoint_files, save_checkpoint


def content(step):
    return {"step": step, "model": {"weight": torch.full((1000,), float(step))}, "ema": None}


@pytest.fixture
def run_folder(tmp_path):
    for step in (5, 10, 100):
        save_checkpoint(tmp_path, content(step), step, keep=5)
    return tmp_path


def test_the_last_k_are_kept(run_folder):
    save_checkpoint(run_folder, content(1000), 1000, keep=2)
    assert [file.name for file in checkpoint_files(run_folder)] == ["step_00000100.pt", "step_00001000.pt"]


def test_the_newest_is_found(run_folder):
    file, found = latest_checkpoint(run_folder)
    assert file.name == "step_00000100.pt"
    assert found["step"] == 100


def test_a_folder_without_checkpoints_has_no_latest(tmp_path):
    assert latest_checkpoint(tmp_path) is None
    with pytest.raises(EngineError, match="no checkpoint"):
        load_weights(tmp_path)


def flip_a_bit(file):
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    file.write_bytes(damaged)


@pytest.mark.parametrize("damage", [lambda file: os.truncate(file, 700), flip_a_bit, lambda file: os.truncate(file, 0)])
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_is_used(run_folder, damage):
    newest = checkpoint_files(run_folder)[-1]
    damage(newest)
    warnings = []
    _, found = latest_checkpoint(run_folder, warnings.append)
    assert found["step"] == 10
    (warning,) = warnings
    assert str(newest) in warning
    assert "\n" not in warning


def test_a_checkpoint_cannot_run_code(tmp_path):
    class Harmful:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    torch.save({"model": Harmful()}, tmp_path / "harmful.pt")
    with pytest.raises(EngineError, match="cannot load"):
        load_checkpoint(tmp_path / "harmful.pt")
    assert not (tmp_path / "harm").exists()


def test_weights_for_evaluation_are_the_averaged_ones_if_there_are(run_folder):
    assert load_weights(run_folder)["weight"][0] == 100
    averaged = {**content(200), "ema": {"model": {"weight": torch.zeros(1)}, "updates": 1}}
    save_checkpoint(run_folder, averaged, 200, keep=2)
    assert load_weights(run_folder)["weight"][0] == 0


def rewritten(file, change=lambda name, content: content, compression=zipfile.ZIP_STORED):
    """The same archive with other content and right checksums."""
    with zipfile.ZipFile(file) as archive:
        entries = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in entries:
            archive.writestr(name, change(name, content))


def claim_a_billion_values(name, content):
    """In place of 1,000, as pickle writes whole numbers."""
    return content.replace(b"M\xe8\x03", b"J\x00\xca\x9a\x3b") if name.endswith("data.pkl") else content


def save_expanded(file):
    torch.save({"step": 1, "model": {"weight": torch.zeros(1).expand(10**12)}}, file)


@pytest.mark.parametrize(
    ("lie", "message"),
    [
        (lambda file: rewritten(file, claim_a_billion_values), "does not match expected size"),
        (lambda file: rewritten(file, compression=zipfile.ZIP_DEFLATED), "compressed, which torch.save never does"),
        (save_expanded, "has more values than are stored"),
        (lambda file: torch.save([1, 2], file), "expected a dictionary, got list"),
    ],
)
def test_a_checkpoint_that_lies_about_its_size_is_refused_before_it_takes_memory(run_folder, lie, message):
    file = checkpoint_files(run_folder)[-1]
    lie(file)
    with pytest.raises(EngineError, match=message) as raised:
        load_checkpoint(file)
    assert str(file) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_checkpoint_of_something_else_has_no_weights(tmp_path):
    save_checkpoint(tmp_path, {"state_dict": {}}, 1, keep=1)
    with pytest.raises(EngineError, match=r"step_00000001.pt is not a checkpoint of a run"):
        load_weights(tmp_path)
