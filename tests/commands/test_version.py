import pytest

from equigrad.cli import main
from equigrad.commands.version import version_text
from equigrad.losses.compiled import rows


def test_the_version_says_what_computes_the_losses(monkeypatch, capsys):
    monkeypatch.delenv("EQUIGRAD_KERNELS", raising=False)
    with pytest.raises(SystemExit) as end:
        main(["--version"])
    assert end.value.code == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("equigrad ")
    assert "torch" in first
    assert second.startswith("losses are computed by: blocks (CPU, no GPU found; EQUIGRAD_KERNELS chooses)")


def test_the_version_says_whether_the_passes_are_compiled(monkeypatch):
    monkeypatch.setenv("EQUIGRAD_KERNELS", "blocks")
    monkeypatch.setattr(rows, "library", object())
    assert version_text().endswith("chooses), compiled")
    monkeypatch.setattr(rows, "library", None)
    assert version_text().endswith("chooses), not compiled: installed again with gcc they are faster")


def test_another_choice_of_kernels_shows(monkeypatch):
    monkeypatch.setenv("EQUIGRAD_KERNELS", "torch")
    assert "computed by: torch" in version_text()


def test_a_wrong_choice_of_kernels_is_one_line(monkeypatch, capsys):
    monkeypatch.setenv("EQUIGRAD_KERNELS", "cuda")
    assert main(["--version"]) == 1
    message = "equigrad: EQUIGRAD_KERNELS must be one of auto, triton, torch, blocks, got 'cuda'\n"
    assert capsys.readouterr().err == message
