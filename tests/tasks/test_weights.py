import pytest
import torch
from torch import nn

from equigrad.engine import EngineError
from equigrad.engine.checkpoint import save_checkpoint
from equigrad.tasks.weights import with_weights_of


def save(folder, model, step, averaged=None):
    ema = None if averaged is None else {"model": averaged.state_dict()}
    save_checkpoint(folder, {"step": step, "model": model.state_dict(), "ema": ema}, step, keep=3)


def test_a_model_gets_the_newest_weights_of_a_run_and_is_ready_to_evaluate(tmp_path):
    older, newer = nn.Linear(3, 2), nn.Linear(3, 2)
    save(tmp_path, older, 5)
    save(tmp_path, newer, 10)
    model = nn.Linear(3, 2).train()
    assert with_weights_of(model, tmp_path) is model
    assert torch.equal(model.weight, newer.weight)
    assert not model.training


def test_averaged_weights_are_preferred_where_a_run_keeps_them(tmp_path):
    plain, averaged = nn.Linear(3, 2), nn.Linear(3, 2)
    save(tmp_path, plain, 5, averaged)
    assert torch.equal(with_weights_of(nn.Linear(3, 2), tmp_path).weight, averaged.weight)


def test_weights_of_another_shape_or_name_are_refused_in_one_line(tmp_path):
    save(tmp_path, nn.Linear(3, 2), 5)
    named = nn.Sequential(nn.Linear(3, 2))  # its weight is 0.weight
    for model, complaint in ((nn.Linear(4, 2), "size mismatch for weight"), (named, "Unexpected .*weight")):
        with pytest.raises(EngineError, match=f"does not fit its recipe: {complaint}") as raised:
            with_weights_of(model, tmp_path)
        assert str(raised.value).startswith(str(tmp_path))
        assert "\n" not in str(raised.value)


def test_a_folder_without_checkpoint_is_named(tmp_path):
    with pytest.raises(EngineError, match="has no checkpoint to load"):
        with_weights_of(nn.Linear(3, 2), tmp_path)
