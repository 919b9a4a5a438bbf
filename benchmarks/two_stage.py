"""Mask R-CNN against torchvision's own, and inference with the categories of LVIS, as ratios in one process.

    python benchmarks/two_stage.py training                # step time and memory, ours / torchvision's
    python benchmarks/two_stage.py inference               # 1000 proposals x 1203 categories -> 300 detections

Training compares models with the same weights, images and settings; they take turns, and the ratio is that of the
median processor times. Memory is the peak of what a step adds to the process, each model in a process of its own.
Inference compares all that follows the logits (scores, boxes of pairs, choice of detections) with the backbone alone,
and with NMS of each category on all pairs.
"""

import argparse
import ctypes
import gc
import multiprocessing
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torchvision.models.detection import MaskRCNN
from torchvision.models.detection.backbone_utils import resnet_fpn_backbone
from torchvision.ops import batched_nms

from equigrad import CrossEntropyLoss, SigmoidScores
from equigrad.models.detection.pyramids.resnet_fpn import resnet50_fpn
from equigrad.models.detection.torchvision_weights import from_torchvision
from equigrad.models.detection.two_stage.rcnn import mask_rcnn
from equigrad.models.detection.two_stage.roi_head import CODER, BoxPredictor
from equigrad.models.detection.two_stage.roi_inference import RoIInference
from equigrad.models.detection.two_stage.roi_scores import SoftmaxBackgroundScores

Step = Callable[[], None]


def batch(size: int, num_images: int, num_classes: int) -> tuple[Tensor, list[dict[str, Tensor]]]:
    """Noise with twelve objects an image."""
    torch.manual_seed(0)
    images = torch.randint(0, 256, (num_images, 3, size, size), dtype=torch.uint8)
    targets = []
    for _ in range(num_images):
        start = torch.rand(12, 2) * size * 0.6
        boxes = torch.cat([start, start + 16 + torch.rand(12, 2) * size * 0.3], 1)
        masks = torch.zeros(12, size, size, dtype=torch.uint8)
        for mask, (x1, y1, x2, y2) in zip(masks, boxes.int().tolist(), strict=True):
            mask[y1:y2, x1:x2] = 1
        targets.append({"boxes": boxes, "labels": torch.randint(0, num_classes, (12,)), "masks": masks})
    return images, targets


def theirs_and_ours(num_classes: int, size: int) -> tuple[nn.Module, nn.Module]:
    torch.manual_seed(0)
    backbone = resnet_fpn_backbone(backbone_name="resnet50", weights=None, trainable_layers=3)
    for name, buffer in backbone.named_buffers():
        if name.endswith("bn3.weight"):
            buffer.fill_(0.3)  # without weights activations would grow from block to block
    theirs = MaskRCNN(backbone, num_classes + 1, min_size=size, max_size=size, rpn_post_nms_top_n_train=1000)
    loss, scores = CrossEntropyLoss(), SoftmaxBackgroundScores()
    ours = mask_rcnn(resnet50_fpn(extra="pool"), num_classes, loss, scores, background_column=num_classes)
    ours.load_state_dict(from_torchvision(theirs.state_dict()))
    return theirs.train(), ours.train()


def step_of(name: str, num_classes: int, size: int, num_images: int) -> Step:
    """Forward and backward of one of the two models."""
    theirs, ours = theirs_and_ours(num_classes, size)
    images, targets = batch(size, num_images, num_classes)
    model, arguments = ours, (images, targets)
    if name == "torchvision":
        shifted = [target | {"labels": target["labels"] + 1} for target in targets]
        model, arguments = theirs, (list(images.float() / 255), shifted)

    def step() -> None:
        torch.manual_seed(1)
        sum(model(*arguments).values()).backward()
        model.zero_grad(set_to_none=False)

    return step


def seconds(step: Step) -> float:
    start = time.process_time()
    step()
    return time.process_time() - start


def megabytes(field: str) -> float:
    """Of this process, on Linux: VmRSS now, VmHWM the peak."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def peak_of_step(name: str, settings: tuple[int, int, int], answer: Any) -> None:
    torch.set_num_threads(1)
    step = step_of(name, *settings)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what the other model left would be used again, and not be seen
    before = megabytes("VmRSS")
    step()
    answer.put(megabytes("VmHWM") - before)


def training(arguments: argparse.Namespace) -> None:
    print("| categories | size | images | torchvision s | ours s | time | torchvision MB | ours MB | memory |")
    print("|---|---|---|---|---|---|---|---|---|")
    for num_classes in arguments.categories:
        settings = (num_classes, arguments.size, arguments.images)
        steps = {name: step_of(name, *settings) for name in ("torchvision", "ours")}
        times: dict[str, list[float]] = {name: [] for name in steps}
        for turn in range(arguments.steps + 1):
            for name, step in steps.items():
                times[name] += [seconds(step)] if turn else []
                if not turn:
                    step()
        median = {name: statistics.median(values) for name, values in times.items()}
        memory = {name: in_own_process(peak_of_step, name, settings) for name in steps}
        cells = [f"{num_classes}", f"{arguments.size}", f"{arguments.images}"]
        for figures, digits in ((median, 2), (memory, 0)):
            cells += [f"{figures[name]:.{digits}f}" for name in steps]
            cells.append(f"{figures['ours'] / figures['torchvision']:.2f}")
        print(f"| {' | '.join(cells)} |", flush=True)


def in_own_process(function: Callable[..., None], *arguments: Any) -> float:
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=function, args=(*arguments, answer))
    process.start()
    found: float = answer.get()
    process.join()
    return found


def inference(arguments: argparse.Namespace) -> None:
    torch.manual_seed(0)
    num_rois, num_classes = 1000, 1203
    backbone = resnet50_fpn(extra="pool").eval()
    images = torch.randint(0, 256, (1, 3, arguments.height, arguments.width), dtype=torch.uint8)
    start = torch.rand(num_rois, 2) * 600
    proposals = torch.cat([start, start + 20 + torch.rand(num_rois, 2) * 200], 1)
    predictor = BoxPredictor(nn.Identity(), 1024, num_classes)
    vectors = torch.randn(num_rois, 1024)
    rule = RoIInference()

    def boxes_of(rows: Tensor, labels: Tensor) -> Tensor:
        return CODER.decode(proposals[rows], predictor.box_values(vectors, rows, labels)).clamp(min=0)

    def plain(logits: Tensor) -> None:
        scores = SigmoidScores()(logits)
        rows, labels = (scores > rule.score_threshold).nonzero().T
        batched_nms(boxes_of(rows, labels), scores[rows, labels], labels, rule.nms_threshold)[: rule.num_boxes]

    with torch.no_grad():
        backbone(images)
        backbone_seconds = statistics.median(seconds(lambda: backbone(images)) for _ in range(arguments.steps))
        print(f"backbone at {arguments.height} x {arguments.width}: {backbone_seconds:.2f} s of the processor")
        print("| scores | pairs above 1e-4 | detections s | of the backbone | plain NMS s |")
        print("|---|---|---|---|---|")
        for name, mean in {"at the start (prior 0.001)": -6.9, "trained": -11.0}.items():
            logits = torch.randn(num_rois, num_classes) * 1.5 + mean
            choose = partial(lambda logits: rule(SigmoidScores()(logits), boxes_of), logits)
            choose()
            found = statistics.median(seconds(choose) for _ in range(arguments.steps))
            slow = seconds(partial(plain, logits)) if arguments.plain else float("nan")
            count = int((SigmoidScores()(logits) > rule.score_threshold).sum())
            print(f"| {name} | {count} | {found:.3f} | {found / backbone_seconds:.3f} | {slow:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    train = commands.add_parser("training")
    train.add_argument("--categories", type=int, nargs="+", default=[80, 1203])
    train.add_argument("--size", type=int, default=256)
    train.add_argument("--images", type=int, default=1)
    detect = commands.add_parser("inference")
    detect.add_argument("--height", type=int, default=800)
    detect.add_argument("--width", type=int, default=1344)
    detect.add_argument("--plain", action="store_true", help="also time NMS on all pairs")
    for command in (train, detect):
        command.add_argument("--steps", type=int, default=3)
        command.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    training(arguments) if arguments.command == "training" else inference(arguments)


if __name__ == "__main__":
    main()
