"""The hosts that `python -m tests.integrations` checks, each with a run of `equigrad.integrations.check`."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from equigrad.integrations import CheckReport, HostRun, check


@dataclass(frozen=True)
class Host:
    """A row of the table.

    Args:
        name: of the row.
        package: whose version is shown, and without which the row is left out.
        run: `module:function` of this folder, which makes a `HostRun`.
        page: its page below docs/integrations.
        lines: that a user adds to a script of the host.
    """

    name: str
    package: str
    run: str
    page: str
    lines: int

    @property
    def version(self) -> str | None:
        """None if the host is not installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None

    def check(self) -> CheckReport:
        """Train a few steps in the host."""
        module, name = self.run.split(":")
        make: Callable[[], HostRun] = getattr(import_module(f"tests.integrations.{module}"), name)
        return check(make)


HOSTS = [
    Host("torchvision, Faster R-CNN", "torchvision", "torchvision_runs:faster_rcnn_run", "torchvision.md", 2),
    Host("torchvision, Mask R-CNN", "torchvision", "torchvision_runs:mask_rcnn_run", "torchvision.md", 2),
    Host("torchvision, RetinaNet", "torchvision", "torchvision_runs:retinanet_run", "torchvision.md", 1),
    Host("torchvision, FCOS", "torchvision", "torchvision_runs:fcos_run", "torchvision.md", 1),
    Host("Ultralytics, YOLOv8", "ultralytics", "yolo_runs:yolov8_run", "ultralytics.md", 1),
    Host("Ultralytics, YOLO11", "ultralytics", "yolo_runs:yolo11_run", "ultralytics.md", 1),
    Host("Ultralytics, YOLO26 (end to end)", "ultralytics", "yolo_runs:yolo26_run", "ultralytics.md", 1),
    Host("Hugging Face Trainer, ViT", "transformers", "hf.classification_run:ClassificationRun", "hf_trainer.md", 1),
    Host("Hugging Face, RT-DETR", "transformers", "hf.detection_run:DetectionRun", "hf_detection.md", 1),
    Host("Hugging Face, RT-DETRv2", "transformers", "hf.detection_run:RTDetrV2Run", "hf_detection.md", 1),
    Host("Hugging Face, D-FINE", "transformers", "hf.detection_run:DFineRun", "hf_detection.md", 1),
    Host("Hugging Face, Deformable DETR", "transformers", "hf.detection_run:DeformableDetrRun", "hf_detection.md", 1),
    Host("mmdetection, RetinaNet", "mmdet", "mmdet_run:MmdetRun", "mmdet.md", 3),
    Host("mmdetection, Faster R-CNN", "mmdet", "mmdet_run:FasterRun", "mmdet.md", 3),
    Host("timm", "timm", "classifier_runs:timm_run", "timm.md", 1),
    Host("segmentation_models_pytorch", "segmentation-models-pytorch", "classifier_runs:smp_run", "smp.md", 1),
    Host("Lightning", "lightning", "classifier_runs:lightning_run", "lightning.md", 1),
    Host("Accelerate", "accelerate", "classifier_runs:accelerate_run", "accelerate.md", 1),
    Host("DDP", "torch", "classifier_runs:ddp_run", "ddp_fsdp2.md", 1),
    Host("FSDP2", "torch", "classifier_runs:fsdp2_run", "ddp_fsdp2.md", 1),
    Host("skorch", "skorch", "classifier_runs:skorch_run", "skorch.md", 3),
]
