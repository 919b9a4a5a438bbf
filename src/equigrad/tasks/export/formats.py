"""The formats of an exported model. Each writes bytes, and gives back a function from inputs to outputs of bytes."""

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.fx.experimental.symbolic_shapes import is_concrete_int

from equigrad.engine import EngineError
from equigrad.models.deployment.suppression import Suppress, kept_boxes
from equigrad.tasks.export.deployable import Deployable, Tensors

METADATA = "equigrad.json"
"""Name of the metadata in a file of PyTorch; in ONNX they are the property `equigrad`."""

OPSET = 18
"""Of ONNX: the first with antialiased resizing."""

Run = Callable[[Tensors], Sequence[Tensor]]


@dataclass(frozen=True)
class Format:
    """A format.

    Args:
        suffix: file name suffix.
        write: the file of a model, which is traced with the inputs.
        load: runs such a file.
        suppress: gives the suppression of boxes that the format can write.
    """

    suffix: str
    write: Callable[[Deployable, Tensors], bytes]
    load: Callable[[bytes], Run]
    suppress: Callable[[], Suppress] = lambda: kept_boxes


def write_torch_export(deployable: Deployable, inputs: Tensors) -> bytes:
    """The file of `torch.export.save`."""
    stream = io.BytesIO()
    with _quiet():
        torch.export.save(_program(deployable, inputs), stream, extra_files={METADATA: json.dumps(deployable.metadata)})
    return stream.getvalue()


def load_torch_export(content: bytes) -> Run:
    """Run a file of `torch.export`."""
    module = torch.export.load(io.BytesIO(content)).module()
    return lambda inputs: _as_sequence(module(*inputs))


def write_torchscript(deployable: Deployable, inputs: Tensors) -> bytes:
    """The file of `torch.jit.save`, by tracing."""
    stream = io.BytesIO()
    with _quiet():
        traced = torch.jit.trace(deployable.model, inputs, check_trace=False)  # type: ignore[no-untyped-call]
        torch.jit.save(traced, stream, _extra_files={METADATA: json.dumps(deployable.metadata)})
    return stream.getvalue()


def load_torchscript(content: bytes) -> Run:
    """Run a file of TorchScript."""
    with _quiet():
        module = torch.jit.load(io.BytesIO(content))  # type: ignore[no-untyped-call]
    return lambda inputs: _as_sequence(module(*inputs))


def write_onnx(deployable: Deployable, inputs: Tensors) -> bytes:
    """An ONNX model in one file."""
    from equigrad.tasks.export.onnx_operators import translations

    with _quiet():
        exported = torch.onnx.export(
            _program(deployable, inputs),
            dynamo=True,
            opset_version=OPSET,
            custom_translation_table=translations(),
            input_names=list(deployable.inputs),
            output_names=list(deployable.outputs),
            verbose=False,
        )
    assert exported is not None
    exported.model.metadata_props["equigrad"] = json.dumps(deployable.metadata)
    content: bytes = exported.model_proto.SerializeToString()
    return content


def load_onnx(content: bytes) -> Run:
    """Run an ONNX model in ONNX Runtime, on the CPU."""
    import onnxruntime  # type: ignore[import-untyped]

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def run(inputs: Tensors) -> list[Tensor]:
        arrays = (each.numpy() for each in inputs)
        return [torch.from_numpy(output) for output in session.run(None, dict(zip(names, arrays, strict=True)))]

    return run


def _onnx_suppression() -> Suppress:
    try:
        import onnx  # noqa: F401  # type: ignore[import-untyped]
        import onnxruntime  # noqa: F401

        from equigrad.tasks.export.onnx_operators import suppression_operator
    except ModuleNotFoundError as error:
        raise EngineError(f"{error}; install what --format onnx needs: pip install 'equigrad[export]'") from None
    return suppression_operator()


FORMATS = {
    "onnx": Format(".onnx", write_onnx, load_onnx, _onnx_suppression),
    "torch_export": Format(".pt2", write_torch_export, load_torch_export),
    "torchscript": Format(".torchscript.pt", write_torchscript, load_torchscript),
}


def _program(deployable: Deployable, inputs: Tensors) -> ExportedProgram:
    shapes = tuple(
        {dimension: _open(name, deployable.multiples) for dimension, name in dimensions.items()}
        for dimensions in deployable.inputs.values()
    )
    model = _InMultiples(deployable) if deployable.multiples else deployable.model
    program = torch.export.export(model, inputs, dynamic_shapes=shapes)
    _check_open(program, deployable.inputs)
    return program


class _InMultiples(nn.Module):
    """A detector that cuts its images to multiples, which they are, so that torch knows it from the start.

    The sizes of levels are then fractions without remainder; with remainders the export of EfficientNet-Lite0 took
    minutes. And they are computed from tensors: torch makes no special case of what it cannot know, such as a level of
    a single row, and the file takes images of all sizes.
    """

    def __init__(self, deployable: Deployable) -> None:
        super().__init__()
        self.model = deployable.model
        sides = next(iter(deployable.inputs.values()))
        self.multiples = {side: deployable.multiples[name] for side, name in sides.items() if side > 0}

    def forward(self, images: Tensor, image_sizes: Tensor) -> Any:
        """Outputs of images (N, 3, H, W) and their sizes (N, 2)."""
        for side, multiple in self.multiples.items():
            count: Any = torch.scalar_tensor(images.shape[side] // multiple, dtype=torch.int64).item()
            torch._check(count >= 1)
            torch._check(multiple * count <= images.shape[side])
            images = images.narrow(side, 0, multiple * count)
        return self.model(images, image_sizes)


def _open(name: str, multiples: Mapping[str, int]) -> Any:
    """A dimension of any size, or of any multiple."""
    if name in multiples:
        return multiples[name] * Dim(name)
    # AUTO for sides: a network that halves them makes conditions that hold, but that the export cannot prove.
    return Dim(name) if name == "batch" else Dim.AUTO


def _check_open(program: ExportedProgram, inputs: Mapping[str, Mapping[int, str]]) -> None:
    """AUTO may silently take a size for a constant."""
    nodes = [node for node in program.graph.nodes if node.op == "placeholder"][-len(inputs) :]
    for node, (name, dimensions) in zip(nodes, inputs.items(), strict=True):
        for dimension, what in dimensions.items():
            if is_concrete_int(node.meta["val"].shape[dimension]):
                raise AssertionError(f"torch takes the {what} of {name} for a constant")


def _as_sequence(outputs: Any) -> Sequence[Tensor]:
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what is meant for developers of PyTorch: warnings, logs, and the code of a model that is refused."""
    before = logging.root.manager.disable
    logging.disable()
    try:
        unseen = io.StringIO()
        with warnings.catch_warnings(), redirect_stdout(unseen), redirect_stderr(unseen), torch.no_grad():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
