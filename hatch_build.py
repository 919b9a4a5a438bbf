"""Compiles `rows.c` of the losses where there is gcc; without it torch computes them."""

import hashlib
import os
import re
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = ["-std=gnu11", "-O3", "-fopenmp", "-fno-math-errno", "-fno-trapping-math", "-shared", "-fPIC"]


class CompiledRows(BuildHookInterface):
    """Adds the library to the wheel, or leaves it beside its source for an editable installation."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it packs the files."""
        if self.target_name == "wheel" and compile_library(Path(self.root, "src/equigrad/losses/compiled/rows.c")):
            build_data["pure_python"] = False
            # Of no version of Python: the library knows nothing of it.
            build_data["tag"] = f"py3-none-{re.sub('[-.]', '_', sysconfig.get_platform())}"


def compile_library(source: Path) -> bool:
    """Whether it could be compiled; `CC` names the compiler."""
    library = source.with_name("_rows.so")
    unfinished = library.with_suffix(f".{os.getpid()}.part")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    try:
        if sys.platform == "win32":
            raise OSError("Windows was not tried")
        compiler = shlex.split(os.environ.get("CC", "cc"))
        command = [*compiler, *FLAGS, f'-DSOURCE="{digest}"', str(source), "-o", str(unfinished), "-lm"]
        subprocess.run(command, check=True, capture_output=True, text=True, errors="replace")
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        lines = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        reason = next((line for line in lines if "error" in line), lines[0])
        print(f"equigrad: not compiled, losses on a CPU are slower: {reason}", file=sys.stderr)
        library.unlink(missing_ok=True)
        unfinished.unlink(missing_ok=True)
        return False
    unfinished.replace(library)  # at once, because another process may have loaded the old one
    return True
