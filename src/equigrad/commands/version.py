"""`equigrad --version`: what is installed, and what computes the losses on this machine."""

import argparse
from typing import Any


class ShowVersion(argparse.Action):
    """Prints the versions and the kernels in use, and ends."""

    def __init__(self, option_strings: list[str], dest: str, **options: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, help="show versions, and which code computes the losses here")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        """Answer without reading the rest of the command."""
        print(version_text())
        parser.exit()


def version_text() -> str:
    """Two lines: versions; the device and its kernels."""
    return f"{versions()}\n{kernels_text()}"


def versions() -> str:
    """What is installed."""
    from importlib import metadata

    import torch

    return f"equigrad {metadata.version('equigrad')}, torch {torch.__version__}"


def kernels_text() -> str:
    """What computes the losses on this machine."""
    import torch

    from equigrad.losses.compiled import rows
    from equigrad.losses.kernel_choice import VARIABLE, kernels_for

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU, no GPU found"
    kernels, compiled = kernels_for(device), ""
    if kernels == "blocks":
        compiled = ", compiled" if rows.library else ", not compiled: installed again with gcc they are faster"
    return f"losses are computed by: {kernels} ({name}; {VARIABLE} chooses){compiled}"


def machine_text() -> str:
    """Kernels, and the precision that trainings have here unless a setting changes it."""
    import torch

    has_bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    return f"{kernels_text()}; precision 32 by default{', this GPU also has --precision bf16' if has_bf16 else ''}"
