"""What the meter costs: a step of ResNet-50 with and without it, in turn, in one process.

    python benchmarks/meter.py
    python benchmarks/meter.py --images 8 --size 112 --repeats 5

A step is forward, cross-entropy, backward and SGD of 32 images of 224 pixels in float32 with one thread. Steps with and
without the meter alternate, and the median of the ratios of neighbours is printed, so that a busy machine slows both.
The meter alone is the hook and `watch` on logits of a small graph, to show what the ratio is made of.
"""

import statistics
import time
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torchvision.models import resnet50

import equigrad


def seconds(call: Callable[[], object]) -> float:
    """CPU seconds of this process: others on the machine do not count."""
    start = time.process_time()
    call()
    return time.process_time() - start


def network_step(num_classes: int, num_images: int, size: int) -> Callable[[equigrad.GradientMeter | None], None]:
    """A training step of ResNet-50."""
    torch.manual_seed(0)
    model = resnet50(num_classes=num_classes)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images, labels = torch.randn(num_images, 3, size, size), torch.randint(num_classes, (num_images,))

    def step(meter: equigrad.GradientMeter | None) -> None:
        logits = model(images)
        loss = F.cross_entropy(logits, labels)
        if meter is not None:
            meter.watch(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def meter_alone(num_classes: int, num_images: int, repeats: int = 30) -> float:
    """Median CPU seconds that the meter adds to a step of nothing but the loss."""
    meter, labels = equigrad.GradientMeter(num_classes), torch.randint(num_classes, (num_images,))

    def step(*, watched: bool) -> None:
        logits = torch.zeros(num_images, num_classes, requires_grad=True)
        loss = F.cross_entropy(logits, labels)
        if watched:
            meter.watch(logits, labels)
        loss.backward()

    for is_watched in (True, False):
        step(watched=is_watched)
    pairs = [(seconds(lambda: step(watched=True)), seconds(lambda: step(watched=False))) for _ in range(repeats)]
    return statistics.median(watched - plain for watched, plain in pairs)


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--classes", type=int, nargs="+", default=[1000, 1203, 8142])
    parser.add_argument("--images", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(f"{'categories':>10}{'step in s':>12}{'with / without':>17}{'meter alone in ms':>20}{'of a step':>12}")
    for num_classes in arguments.classes:
        step, meter = network_step(num_classes, arguments.images, arguments.size), equigrad.GradientMeter(num_classes)
        step(meter)
        pairs = [(seconds(partial(step, meter)), seconds(partial(step, None))) for _ in range(arguments.repeats)]
        plain, ratio = (statistics.median(values) for values in ([b for _, b in pairs], [a / b for a, b in pairs]))
        alone = meter_alone(num_classes, arguments.images)
        print(f"{num_classes:10,}{plain:12.2f}{ratio:17.3f}{1000 * alone:20.2f}{alone / plain:12.2%}", flush=True)


if __name__ == "__main__":
    main()
