import pickle

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from equigrad.models.backbones.pretrained import load_backbone, read_weights


@pytest.fixture
def backbone():
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def test_weights_come_back_from_a_file(backbone, tmp_path):
    weights = {name: torch.rand_like(value.float()) for name, value in backbone.state_dict().items()}
    weights["1.num_batches_tracked"] = torch.tensor(7)
    torch.save({**weights, "fc.weight": torch.zeros(1000, 2)}, tmp_path / "weights.pth")
    load_backbone(backbone, read_weights(tmp_path / "weights.pth"), "weights.pth", left_out=("fc.",))
    for name, value in backbone.state_dict().items():
        assert_close(value, weights[name])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"0.weight": None}, "1 weights of the model are missing, the first is 0.weight"),
        ({"2.weight": torch.zeros(1)}, "1 weights are not in the model, the first is 2.weight"),
        ({"0.weight": torch.zeros(2, 4)}, r"0.weight must be \(2, 3\), got \(2, 4\)"),
    ],
)
def test_what_does_not_fit_is_named(backbone, change, message):
    weights = {name: value for name, value in (backbone.state_dict() | change).items() if value is not None}
    with pytest.raises(ValueError, match=f"w.pth: {message}"):
        load_backbone(backbone, weights, "w.pth")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"absent\.pth"):
        read_weights(tmp_path / "absent.pth")


class Exploit:
    def __reduce__(self):
        return (print, ("executed",))


def test_nothing_in_a_file_is_executed(tmp_path, capsys):
    file = tmp_path / "evil.pth"
    file.write_bytes(pickle.dumps(Exploit(), protocol=2))
    with pytest.raises(ValueError, match=r"evil\.pth: not a file of PyTorch weights"):
        read_weights(file)
    assert capsys.readouterr().out == ""


def test_other_content_is_refused(tmp_path):
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ValueError, match="dictionary of tensors"):
        read_weights(tmp_path / "list.pth")
