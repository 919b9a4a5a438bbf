"""The losses in training loops that people already have, one module for each host library.

    equigrad.integrations.torchvision.equalize(model, equigrad.EqualizedFocalLoss(80), equigrad.SigmoidScores())

    report = equigrad.integrations.check(MyRun)  # five checks, also of a set-up of your own
    print(report)

A module imports its host, and is itself imported when it is first used.
"""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.integrations import hf as hf, mmdet as mmdet, torchvision as torchvision, ultralytics as ultralytics
    from equigrad.integrations.accumulation import BatchPerStep as BatchPerStep
    from equigrad.integrations.five_checks import (
        CheckReport as CheckReport,
        CheckResult as CheckResult,
        HostRun as HostRun,
        NotApplicable as NotApplicable,
        check as check,
    )
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
