import argparse
import logging
import pickle

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch import nn
from torch.testing import assert_close
from torchvision.models import resnet50 as their_resnet50

from equigrad.models.backbones.dilated_resnet import dilated_resnet50
from equigrad.models.backbones.pretrained import load_backbone, read_weights
from equigrad.models.backbones.resnets import resnet50


@pytest.fixture
def backbone():
    return nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))


def random_state(network):
    """Weights of no special value, without the counters that old files lack."""
    torch.manual_seed(1)
    state = network.state_dict()
    return {name: torch.rand_like(value) for name, value in state.items() if value.is_floating_point()}


def prefixed(prefix, state):
    return {f"{prefix}{name}": value for name, value in state.items()}


def test_weights_come_back_from_a_file(backbone, tmp_path):
    weights = random_state(backbone)
    torch.save({**weights, "fc.weight": torch.zeros(1000, 2)}, tmp_path / "weights.pth")
    load_backbone(backbone, read_weights(tmp_path / "weights.pth"), "weights.pth")
    for name, value in weights.items():
        assert_close(backbone.state_dict()[name], value)


HEAD = {"fc.weight": torch.zeros(1000, 2048), "fc.bias": torch.zeros(1000)}
LAYOUTS = {
    "torchvision": lambda state: {**state, **HEAD},
    "trainer": lambda state: {"epoch": 3, "state_dict": prefixed("module.", {**state, **HEAD}), "best": 0.7},
    "detector of Meta": lambda state: {"model": prefixed("backbone.", state), "args": argparse.Namespace(lr=0.1)},
    "MoCo": lambda state: {
        "arch": "resnet50",
        "state_dict": {
            **prefixed("module.encoder_q.", {**state, "fc.0.weight": torch.zeros(2, 2)}),
            **{name: value + 1 for name, value in prefixed("module.encoder_k.", state).items()},
            "module.queue": torch.zeros(2, 2),
        },
    },
    "DINO": lambda state: {
        "student": {name: value + 1 for name, value in prefixed("module.backbone.", state).items()},
        "teacher": {**prefixed("backbone.", state), "head.mlp.0.weight": torch.zeros(2, 2)},
        "args": argparse.Namespace(arch="resnet50"),
    },
    "mmsegmentation": lambda state: {
        "meta": {"CLASSES": ["wall"]},
        "state_dict": {**prefixed("backbone.", state), "decode_head.conv_seg.weight": torch.zeros(2, 2)},
    },
    "encoder": lambda state: prefixed("encoder.", state),
}


@pytest.fixture(scope="module")
def trained():
    """Weights of torchvision's ResNet-50, which all of these publish."""
    return {name: value for name, value in random_state(their_resnet50()).items() if not name.startswith("fc.")}


def check_has(network, state):
    found = network.state_dict()
    for name, value in state.items():
        assert torch.equal(found[name], value), name


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_resnet_is_read_from_the_files_that_are_published(layout, trained, tmp_path):
    torch.save(LAYOUTS[layout](trained), tmp_path / "weights.pth.tar")
    check_has(resnet50(tmp_path / "weights.pth.tar"), trained)


def test_a_file_of_timm_is_read_from_safetensors(tmp_path):
    state = random_state(timm.create_model("resnet50"))
    save_file(state, tmp_path / "resnet50.safetensors")
    check_has(resnet50(tmp_path / "resnet50.safetensors"), {n: v for n, v in state.items() if not n.startswith("fc.")})


def test_a_deep_stem_is_read_from_a_file_of_mmcv(tmp_path):
    state = random_state(dilated_resnet50())
    assert "stem.0.weight" in state
    torch.save({"meta": {}, "state_dict": {**state, **HEAD}}, tmp_path / "resnet50_v1c.pth")
    check_has(dilated_resnet50(tmp_path / "resnet50_v1c.pth"), state)
    with pytest.raises(ValueError, match=r"v1c\.pth: 5 weights of the model are missing, the first is conv1\.weight"):
        dilated_resnet50(tmp_path / "resnet50_v1c.pth", deep_stem=False)


def test_one_line_says_what_was_taken_and_left(backbone, caplog):
    others = {name: torch.zeros(1) for name in ("fc.weight", "fc.bias", "queue", "queue_ptr")}
    with caplog.at_level(logging.INFO, logger="equigrad"):
        load_backbone(backbone, random_state(backbone), "a.pth")
        load_backbone(backbone, {**prefixed("net.", random_state(backbone)), **others}, "b.pth")
    assert caplog.messages == [
        "a.pth: all 6 weights taken",
        "b.pth: 6 weights taken, 4 left: fc.weight, fc.bias, queue, …",
    ]


def test_weights_of_a_deeper_network_are_refused(tmp_path):
    deeper = random_state(their_resnet50()) | {"layer3.6.conv1.weight": torch.zeros(256, 1024, 1, 1)}
    torch.save(deeper, tmp_path / "resnet101.pth")
    with pytest.raises(ValueError, match=r"1 weights are not in the model, the first is layer3\.6\.conv1\.weight"):
        resnet50(tmp_path / "resnet101.pth")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"0.weight": None}, "1 weights of the model are missing, the first is 0.weight"),
        ({"1.scale": torch.zeros(1)}, "1 weights are not in the model, the first is 1.scale"),
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
    with pytest.raises(ValueError, match=r"evil\.pth: holds \S+, which may execute code; save its state_dict alone"):
        read_weights(file)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "content", [[1, 2], {}, {"step": 3}, {"state_dict": [1]}, {1: torch.zeros(1)}], ids=lambda content: repr(content)
)
def test_other_content_is_refused(content, tmp_path):
    torch.save(content, tmp_path / "other.pth")
    with pytest.raises(ValueError, match="dictionary of tensors"):
        read_weights(tmp_path / "other.pth")


@pytest.mark.parametrize("name", ["damaged.pth", "damaged.pt", "damaged.safetensors"])
def test_a_damaged_file_is_refused_in_one_line(name, tmp_path):
    (tmp_path / name).write_bytes(b"\x10\x00nothing of the kind\n" * 3)
    with pytest.raises(ValueError, match=rf"{name}: not a file of") as raised:
        read_weights(tmp_path / name)
    assert "\n" not in str(raised.value)
