"""Which anchor or location is trained on which object."""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.models.detection.assignment.atss import ATSSAssigner as ATSSAssigner
    from equigrad.models.detection.assignment.centre import CentreAssigner as CentreAssigner
    from equigrad.models.detection.assignment.max_iou import Assignment as Assignment, MaxIoUAssigner as MaxIoUAssigner
    from equigrad.models.detection.assignment.paa import PAAAssigner as PAAAssigner
    from equigrad.models.detection.assignment.simota import SimOTAAssigner as SimOTAAssigner
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
