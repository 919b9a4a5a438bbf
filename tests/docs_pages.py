"""What the pages of the documentation need to run as tests: small data, shorter commands, names a reader has."""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
import torchvision
from PIL import Image
from safetensors.torch import save_file

import equigrad
from equigrad.data.glyphs.files import write_classification
from equigrad.data.glyphs.layout import GlyphData
from equigrad.data.video import video_writer
from images_on_disk import write_images, zip_folder
from integrations.yolo_scenes import write_scenes
from scripts import ROOT
from segmentation_on_disk import write_pair, write_set
from small_detection_data import TEST, annotated, write_small_data

Words = Sequence[str]


def set_words(*settings: str) -> list[str]:
    """`--set` before each setting."""
    return [word for setting in settings for word in ("--set", setting)]


_ONE_EPOCH = ("training.schedule.epochs=1", "training.schedule.warmup.length=1", "training.num_workers=0")
TINY_GLYPHS = set_words(
    "data.num_classes=5", "data.max_count=12", "data.imbalance_factor=6", "data.test_count=2", *_ONE_EPOCH
)
GLYPH_OBJECTS = set_words(
    "data.num_classes=4", "data.max_count=12", "data.test_count=2", "data.image_size=64", *_ONE_EPOCH
)
GLYPH_STEPS = set_words("training.schedule.epochs=none", "training.schedule.steps=2")
GLYPH_SCENES = set_words("data.max_count=12", "data.test_count=5", "data.image_size=48", *_ONE_EPOCH)
OWN_IMAGES = set_words("data.size=32", "training.schedule.epochs=1", "training.batch_size=7", "training.num_workers=0")
OWN_OBJECTS = set_words(
    "preprocessing.short=64",
    "preprocessing.test_short=64",
    "preprocessing.long=96",
    "training.batch_size=4",
    *_ONE_EPOCH,
)
OWN_MAPS = set_words("data.crop_size=32,32", "data.base=none", "training.batch_size=2", *_ONE_EPOCH)
COMPARED_IMAGES = [
    *("--image-size", "32", "--epochs", "1", "--workers", "0", "--seeds", "1"),
    *set_words("backbone.weights=none"),
]
PAPER_ROWS = [
    *("--jobs", "1"),
    *set_words(
        *("training.schedule.steps=1", "training.schedule.warmup.length=1", "training.batch_size=2"),
        *("data.max_count=4", "data.test_count=1"),
    ),
]
COMPARED_OBJECTS = ["--seeds", "1", *OWN_OBJECTS]
COMPARED_MAPS = ["--seeds", "1", *OWN_MAPS]
CAMVID = set_words("data.crop_size=32,32", "training.batch_size=2", *_ONE_EPOCH)

# What makes a script quick, on whatever page it is; the last value of an option wins.
SCRIPTS: dict[str, Words] = {
    "benchmarks/advice.py": ["--steps", "1", "--seeds", "1"],
    "benchmarks/class_counts.py": ["--steps", "1", "--seeds", "1", "--tables", "places_lt"],
    "benchmarks/confounds.py": ["--steps", "1", "--seeds", "1", "--tables", "drift"],
    "benchmarks/detection_index.py": ["--annotations", "1000", "--share", "0.001", "--later", "0", "--against"],
    "benchmarks/endurance.py": ["--steps", "4", "--early", "2", "--losses", "SeesawLoss"],
    "benchmarks/engine.py": ["--steps", "20", "--width", "64", "--workers", "0"],
    "benchmarks/evaluation.py": ["--images", "20", "--categories", "10", "--only", "equigrad"],
    "benchmarks/evidence_summary.py": [],
    "benchmarks/export.py": ["--only", "classifier", "--formats", "torchscript", "--steps", "2", "--repeats", "1"],
    "benchmarks/glyphs.py": ["--objects", "12", "--categories", "3", "--choose", "3"],
    "benchmarks/gpu.py": ["--device", "cpu", "--shapes", "8x10", "--repeats", "2", "--no-compile"],
    "benchmarks/kernel_resources.py": ["--shapes", "8x10", "--targets", "sm_90", "--only", "EFL"],
    "benchmarks/launches.py": ["--shapes", "8x10"],
    "benchmarks/loading.py": ["--side", "64", "--count", "2", "--rounds", "1"],
    "benchmarks/losses.py": ["--shapes", "8x10", "2x5x4x4", "--threads", "1", "--seconds", "0.001", "--no-compile"],
    "benchmarks/meter.py": ["--classes", "10", "--images", "2", "--size", "32", "--repeats", "1"],
    "benchmarks/ranks.py": ["--classes", "10", "--repeats", "2"],
    "benchmarks/segmentation.py": ["--rounds", "1", "--batch-size", "2"],
    "benchmarks/training_time.py": ["--rounds", "1", "--size", "64", "--only", "classification"],
    "benchmarks/segmentation_memory.py": ["--shape", "2x5x32x32", "--losses", "CrossEntropyLoss", "--modes", "tiled"],
    "examples/category_folders.py": [],
    "examples/compare_losses.py": ["--epochs", "1", "--seeds", "1", "--losses", "CE", "tau-norm"],
    "examples/detection_threshold.py": [],
    "examples/gradient_as_prior.py": ["--epochs", "2", "--seeds", "1"],
    "examples/hf_rt_detr.py": ["--steps", "2", "--max-count", "100", "--test-count", "2"],
    "examples/objects_of_label_maps.py": [],
    "examples/own_loop.py": ["--steps", "3"],
    "examples/paper_claims.py": [],
    "examples/run_exported.py": [],
    "examples/seed_table.py": [],
    "examples/segmentation_by_heart.py": ["--images", "2", "--steps", "2"],
    "examples/segmentation_overlays.py": ["--images", "1"],
    "examples/segmentation_ranks.py": [],
    "examples/yolo_long_tail.py": [
        *("--epochs", "1", "--seeds", "1", "--imgsz", "64", "--categories", "3"),
        *("--max-count", "12", "--min-count", "3", "--test-count", "2", "--losses", "sigmoid_eql"),
    ],
}


@dataclass(frozen=True)
class PageSetup:
    """How a page is run.

    Args:
        write: puts the files that the page speaks of into the working folder.
        shorter: words to add to commands, by the beginning of the command.
        not_run: why a command is only parsed, by its beginning.
        outputs: first words of plain blocks that show what a command prints.
        names: what the reader of an example has already, such as a model.
        before: called with each command before it runs.
        check: called with the names of the examples at the end.
        needs: packages that `make test-integrations` has; without them the page is skipped.
    """

    write: Callable[[Path], None] = lambda folder: None
    shorter: Mapping[str, Words] = field(default_factory=dict)
    not_run: Mapping[str, str] = field(default_factory=dict)
    outputs: Sequence[str] = ()
    names: Callable[[], dict[str, Any]] = dict
    before: Callable[[str], None] = lambda command: None
    check: Callable[[Mapping[str, Any]], None] = lambda names: None
    needs: Sequence[str] = ()


def write_photos(folder: Path) -> None:
    write_images(folder / "photos" / "train", {"cat": 12, "dog": 6, "eel": 3}, size=16)
    write_images(folder / "photos" / "test", {"cat": 2, "dog": 1, "eel": 1}, size=16, seed=1)


def write_own_maps(folder: Path) -> None:
    labels = np.kron([[0, 1], [1, 2]], np.ones((24, 32), dtype=np.uint8))
    write_set(folder, dict.fromkeys("abcdefgh", labels))
    write_ade20k(folder)


def write_own_data(folder: Path) -> None:
    """Data of every task, and the recipe module that the page shows."""
    write_photos(folder)
    write_set(
        folder / "scenes", dict.fromkeys("abcdefgh", np.kron([[0, 1], [1, 2]], np.ones((24, 32), dtype=np.uint8)))
    )
    write_small_data(folder / "objects")
    (folder / "labels").mkdir()
    for name in ("train", "test"):
        rows = f"{name}/cat/0.png,cat;dog\n{name}/dog/0.png,dog\n{name}/eel/0.png,\n"
        (folder / "labels" / f"{name}.csv").write_text(f"image,categories\n{rows}")
    page = (Path(__file__).parents[1] / "docs" / "own_data.md").read_text()
    (folder / "plants.py").write_text(page.partition("```python\n")[2].partition("```")[0])


def write_weights(folder: Path) -> None:
    """Photographs, objects, and weights in files of the names and layouts that are published."""
    write_photos(folder)
    write_images(folder / "more" / "train", {"dog": 12, "eel": 6, "fox": 3}, size=16)
    write_images(folder / "more" / "test", {"dog": 2, "eel": 1, "fox": 1}, size=16, seed=1)
    write_small_data(folder / "objects")
    detector = torchvision.models.detection.retinanet_resnet50_fpn(weights=None, weights_backbone=None)
    torch.save(detector.state_dict(), folder / "retinanet_resnet50_fpn_coco-eeacb38b.pth")
    torch.save(torchvision.models.resnet50().state_dict(), folder / "resnet50-0676ba61.pth")
    save_file(timm.create_model("test_resnet").state_dict(), folder / "test_resnet.safetensors")


def write_ade20k(folder: Path) -> None:
    """Eight training images in the layout of the scene parsing challenge, and a set in another layout."""
    root = folder / "ADEChallengeData2016"
    for number in range(8):
        labels = np.kron([[1 + number % 3, 4], [5, 0]], np.ones((6, 8), dtype=np.int64))
        parts = {"images": "images/training", "maps": "annotations/training"}
        write_pair(root, f"ADE_train_{number:08d}", labels, seed=number, **parts)
        write_pair(folder / "DATA", str(number), labels % 5, images="train/images", maps="train/labels", seed=number)
    names = [f"{value},category {value}\n" for value in range(5)]
    (folder / "classes.csv").write_text("".join(["id,name\n", *names]))


def write_detection_folders(folder: Path) -> None:
    """A COCO file with images, and `FOLDER` with a VOC and a YOLO data set in it."""
    write_small_data(folder)
    voc, yolo = folder / "FOLDER", folder / "FOLDER"
    for part in ("Annotations", "JPEGImages", "ImageSets/Main", "images", "labels"):
        (voc / part).mkdir(parents=True)
    box = "<bndbox><xmin>2</xmin><ymin>3</ymin><xmax>9</xmax><ymax>8</ymax></bndbox>"
    objects = f"<object><name>dog</name><difficult>0</difficult>{box}</object>"
    (voc / "Annotations" / "a.xml").write_text(f"<annotation><filename>a.jpg</filename>{objects}</annotation>")
    (voc / "ImageSets" / "Main" / "train.txt").write_text("a\n")
    (yolo / "labels" / "b.txt").write_text("1 0.1 0.2 0.5 0.2 0.5 1.0\n")
    (folder / "data.yaml").write_text("names: [cat, dog]\n")
    for file in (voc / "JPEGImages" / "a.jpg", yolo / "images" / "b.jpg"):
        Image.new("RGB", (20, 10)).save(file)
    zip_folder(yolo, folder / "images.zip")  # the example reads what was converted last


def write_detections(folder: Path) -> None:
    """The test file of the small data, and its objects as detections."""
    content = annotated(TEST)
    for record in content["images"]:
        record["file_name"] = f"{record['id']}.jpg"
    (folder / "lvis_v1_val.json").write_text(json.dumps(content))
    kept = ("image_id", "category_id", "bbox", "segmentation")
    found = [{key: row[key] for key in kept} | {"score": 0.5} for row in content["annotations"]]
    (folder / "predictions.json").write_text(json.dumps(found))


def write_openimages(folder: Path) -> None:
    """The files of the challenge for a category and its ancestor, and an image of each split."""
    root = folder / "annotations"
    root.mkdir()
    tree = {"LabelName": "/m/0", "Subcategory": [{"LabelName": "/m/1", "Subcategory": [{"LabelName": "/m/2"}]}]}
    (root / "challenge-2019-classes-description-500.csv").write_text("/m/1,Animal\n/m/2,Dog\n")
    (root / "challenge-2019-label500-hierarchy.json").write_text(json.dumps(tree))
    for split in ("train", "validation"):
        rows = f"ImageID,LabelName,XMin,XMax,YMin,YMax,IsGroupOf\n{split}1,/m/2,0,0.5,0,1,0\n"
        (root / f"challenge-2019-{split}-detection-bbox.csv").write_text(rows)
        (folder / split).mkdir()
        Image.new("RGB", (40, 20)).save(folder / split / f"{split}1.jpg")
    verified = "ImageID,LabelName,Confidence\nvalidation1,/m/2,1\n"
    (root / "challenge-2019-validation-detection-human-imagelabels.csv").write_text(verified)
    found = [{"image_id": "validation1", "category_id": 2, "bbox": [0, 0, 20, 20], "score": 0.9}]
    (folder / "results.bbox.json").write_text(json.dumps(found))


def write_caltech(folder: Path) -> None:
    """Glyphs under the names of Caltech-101's lists and archive."""
    root = folder / "DATA" / "caltech101"
    write_classification(folder / "glyphs", GlyphData(np.array([24, 6, 2]), eval_count=2, seed=0))
    root.mkdir(parents=True)
    for source, name in (("train", "train_lt100"), ("test", "test")):
        shutil.copy(folder / "glyphs" / f"{source}.txt", root / f"{name}.txt")
    zip_folder(folder / "glyphs", root / "images.zip")


def copy_evidence(folder: Path) -> None:
    """The evidence pages and their tables."""
    shutil.copytree(ROOT / "docs/evidence", folder / "docs/evidence")


def write_compared(folder: Path) -> None:
    """The user's own data of all tasks, and the three data sets of the page under their names."""
    write_photos(folder)
    write_small_data(folder)
    labels = np.kron([[0, 1], [1, 2]], np.ones((24, 32), dtype=np.uint8))
    write_set(folder / "scenes", dict.fromkeys("abcdefgh", labels))
    write_caltech(folder)
    objects = folder / "DATA" / "plantdoc"
    objects.mkdir()
    for name in ("train", "test"):
        shutil.copy(folder / f"{name}.json", objects / f"instances_{name}.json")
    zip_folder(folder / "images", objects / "images.zip")
    for alphabet in ("Greek", "Latin"):
        write_images(folder / "drawings" / alphabet, dict.fromkeys(("a", "b", "c"), 8))
    (folder / "DATA" / "omniglot").mkdir()
    zip_folder(folder / "drawings", folder / "DATA" / "omniglot" / "images_background_small1.zip")


def write_camvid(folder: Path) -> None:
    """CamVid's archive with a few small frames."""
    root = folder / "DATA" / "camvid"
    root.mkdir(parents=True)
    names = [f"{label},category {label}\n" for label in range(31)]
    (root / "classes.csv").write_text("".join(["id,name\n", *names]))
    for split in ("train", "val", "test"):
        for number in range(4):
            squares = np.random.default_rng(number).integers(0, 31, (3, 4))
            labels = np.kron(squares, np.ones((16, 16), dtype=np.int64))
            parts = {"images": f"{split}/images", "maps": f"{split}/labels"}
            write_pair(folder / "frames", str(number), labels, seed=number, **parts)
    zip_folder(folder / "frames", root / "images_labels.zip")


def write_model_inputs(folder: Path) -> None:
    """Annotated images, photographs in folders, and a video of the images."""
    write_small_data(folder)
    write_photos(folder)
    with video_writer(folder / "street.mp4", Fraction(5)) as writer:
        for file in sorted((folder / "images" / "test").iterdir()):
            writer.add(Image.open(file))


def provide_operators(folder: Path) -> None:
    """mmcv-lite has no compiled operators; importing the run of mmdet provides stand-ins."""
    from integrations import mmdet_operators as mmdet_operators


def second_seeds(command: str) -> None:
    """ "The same with seed 1", before a table of both seeds: copies stand in for runs that would take as long again."""
    if command.startswith("python examples/seed_table.py"):
        for run in Path("runs").glob("*_0"):
            second = run.with_name(run.name.removesuffix("0") + "1")
            if not second.exists():
                shutil.copytree(run, second)


def loop_names() -> dict[str, Any]:
    """A model and two batches, as a loop of one's own has them."""
    batches = [(torch.randn(5, 3), torch.tensor([0, 1, 2, 3, 0])) for _ in range(2)]
    return {"num_classes": 4, "model": torch.nn.Linear(3, 4), "loader": batches}


def logits_names() -> dict[str, Any]:
    """What the parts of a loop see of a batch."""
    names = {"equigrad": equigrad, "num_classes": 4, "device": torch.device("cpu")}
    return names | {"logits": torch.randn(5, 4, requires_grad=True), "labels": torch.tensor([0, 1, 2, 3, 0])}


def calibration_names() -> dict[str, Any]:
    """A loss that has gathered statistics, and logits."""
    criterion = equigrad.SoftmaxEqualizationLoss(4)
    criterion(torch.randn(5, 4, requires_grad=True), torch.tensor([0, 1, 2, 3, 0]))
    return {"equigrad": equigrad, "criterion": criterion, "logits": torch.randn(2, 4)}


def has_gathered(names: Mapping[str, Any]) -> None:
    assert names["criterion"].statistics.positive.sum() > 0


_REAL_IMAGES = "needs the real images; tests of recipes train every row on generated ones"

_REPEATED = (
    "equigrad train glyph_objects:mask_rcnn --set method=ce --set sampler=repeat_factor --set repeat_threshold=0.015"
)

PAGES: dict[str, PageSetup] = {
    "benchmarks/README.md": PageSetup(
        shorter={"python benchmarks/ranks.py --resnet50": ["--classes", "10", "--repeats", "2", "--resnet50", "1"]},
        not_run={
            f"python benchmarks/{script}.py": "builds ResNet-50s with 1,203 categories, minutes at any image size"
            for script in ("one_stage", "two_stage")
        },
    ),
    "README.md": PageSetup(
        write=write_photos,
        shorter={"equigrad train own_data:classification": OWN_IMAGES, "equigrad compare": COMPARED_IMAGES},
        not_run={"make ": "this suite is run by it"},
        outputs=["accuracy in %"],
        names=loop_names,
        check=has_gathered,
    ),
    "docs/ade20k_lt.md": PageSetup(write=write_ade20k),
    "docs/cluster.md": PageSetup(
        shorter={"equigrad train tiny:": TINY_GLYPHS, "equigrad train glyph_objects:": GLYPH_OBJECTS},
    ),
    "docs/command_line.md": PageSetup(
        write=write_photos,
        shorter={
            "equigrad demo": ["--epochs", "1"],
            "equigrad compare": COMPARED_IMAGES,
            "equigrad train tiny:": TINY_GLYPHS,
            "equigrad train own_data:": OWN_IMAGES,
            "equigrad train glyph_objects:": GLYPH_OBJECTS,
        },
        not_run={"equigrad train image_classification:": _REAL_IMAGES},
        outputs=["data: 2,671 images"],
    ),
    "docs/compare.md": PageSetup(
        write=write_compared,
        shorter={
            "equigrad compare photos --trained": [*COMPARED_IMAGES, "--batch-size", "7"],
            "equigrad compare train.json --test test.json --images images --task multi_label": COMPARED_IMAGES,
            "equigrad compare train.json": COMPARED_OBJECTS,
            "equigrad compare scenes": COMPARED_MAPS,
            "equigrad compare ": COMPARED_IMAGES,
        },
    ),
    "docs/detection.md": PageSetup(
        write=write_small_data,
        shorter={"equigrad train own_data:": OWN_OBJECTS},
        not_run={
            **dict.fromkeys([f"equigrad train {kind}:" for kind in ("one_stage", "two_stage", "yolox")], _REAL_IMAGES),
            "equigrad evaluate runs/faster_ce": "the run of such a training; tests/recipes calibrate a small one",
        },
    ),
    "docs/detection_data.md": PageSetup(
        write=write_detection_folders,
        not_run={"python benchmarks/detection_index.py --starts": "eight processes that each import torch"},
    ),
    "docs/detection_metrics.md": PageSetup(write=write_detections),
    "docs/doctor.md": PageSetup(
        write=write_own_data, shorter={"equigrad train tiny:": TINY_GLYPHS}, outputs=["runs/ce: run, classification"]
    ),
    "docs/export.md": PageSetup(
        write=write_photos,
        shorter={"equigrad train own_data:": OWN_IMAGES},
        not_run={"python examples/serve_fastapi.py": "never ends; its own tests ask it over HTTP"},
    ),
    "docs/page.md": PageSetup(shorter={"equigrad train tiny:": TINY_GLYPHS}),
    "docs/habits.md": PageSetup(shorter={"equigrad train tiny:": TINY_GLYPHS}),
    **{
        f"docs/integrations/{page}.md": PageSetup(needs=[package])
        for page, package in {
            "accelerate": "accelerate",
            "hf_trainer": "transformers",
            "lightning": "lightning",
            "skorch": "skorch",
            "smp": "segmentation_models_pytorch",
            "supervision_torchmetrics": "supervision",
            "timm": "timm",
        }.items()
    },
    "docs/integrations/hf_detection.md": PageSetup(needs=["transformers"]),
    "docs/integrations/mmdet.md": PageSetup(write=provide_operators, needs=["mmdet"]),
    "docs/integrations/ultralytics.md": PageSetup(write=write_scenes, needs=["ultralytics"]),
    "docs/losses.md": PageSetup(names=calibration_names),
    "docs/openimages.md": PageSetup(write=write_openimages),
    "docs/own_data.md": PageSetup(
        write=write_own_data,
        shorter={
            "equigrad train own_data:classification": OWN_IMAGES,
            "equigrad train own_data:multi_label": OWN_IMAGES,
            "equigrad train own_data:semantic_segmentation": OWN_MAPS,
            "equigrad train own_data:detection": OWN_OBJECTS,
            "equigrad train own_data:instance_segmentation": OWN_OBJECTS,
            "equigrad train plants:": OWN_OBJECTS,
        },
    ),
    "docs/own_loop.md": PageSetup(names=logits_names, check=has_gathered),
    "docs/segmentation.md": PageSetup(
        write=write_own_maps,
        shorter={"equigrad train own_data:": OWN_MAPS},
        not_run={"equigrad train semantic_segmentation:": _REAL_IMAGES},
    ),
    "docs/weights.md": PageSetup(
        write=write_weights,
        shorter={
            "equigrad train own_data:classification": OWN_IMAGES,
            "equigrad train own_data:detection": OWN_OBJECTS,
        },
        outputs=["runs/first: 247 of 247"],
    ),
    "docs/tables.md": PageSetup(
        shorter={
            "equigrad table s_effect --scale full": [],
            "equigrad table component_analysis": [*PAPER_ROWS, "--rows", "obj neg pos"],
            "equigrad table s_effect --seeds": [*PAPER_ROWS, "--seeds", "1", "--rows", "s=8"],
        },
        not_run={
            "equigrad table s_effect --scale full --set": "trains on LVIS",
            "equigrad figure ": "trains ten runs; tests/commands/test_figure.py draws the figures of short ones",
        },
    ),
    "docs/use_the_model.md": PageSetup(
        write=write_model_inputs,
        shorter={
            "equigrad train own_data:detection": OWN_OBJECTS,
            "equigrad train own_data:classification": OWN_IMAGES,
        },
        not_run={"equigrad predict runs/objects --camera": "needs a camera"},
    ),
    "docs/evidence/README.md": PageSetup(
        write=copy_evidence,
        not_run={"equigrad table ": "trains for two hours; tests/commands/test_table.py has short ones"},
    ),
    "docs/evidence/advice.md": PageSetup(write=write_compared, shorter={"equigrad compare ": COMPARED_IMAGES}),
    "docs/evidence/class_counts.md": PageSetup(write=copy_evidence),
    "docs/evidence/classification.md": PageSetup(write=write_caltech),
    "docs/evidence/compare.md": PageSetup(write=write_compared, shorter={"equigrad compare ": COMPARED_IMAGES}),
    "docs/evidence/confounds.md": PageSetup(write=copy_evidence),
    "docs/evidence/indicators.md": PageSetup(
        not_run={"python benchmarks/indicators.py": "sixteen runs, half an hour of one core"},
    ),
    "docs/evidence/one_stage.md": PageSetup(
        shorter={"equigrad train glyph_objects:": GLYPH_OBJECTS, "python examples/seed_table.py": ["--metrics", "AP"]},
        before=second_seeds,
    ),
    "docs/evidence/segmentation.md": PageSetup(
        write=write_camvid,
        shorter={
            "equigrad train camvid:": CAMVID,
            "equigrad train own_data:": OWN_MAPS,
            "equigrad train tiny:": GLYPH_SCENES,
        },
        before=second_seeds,
    ),
    "docs/evidence/two_stage.md": PageSetup(
        shorter={
            # The only command with a number of steps, which excludes one of epochs.
            f"{_REPEATED} --set training.schedule.epochs=none": [*GLYPH_OBJECTS, *GLYPH_STEPS],
            "equigrad train glyph_objects:": GLYPH_OBJECTS,
            "python examples/seed_table.py": ["--metrics", "APb"],  # a group of categories may be empty here
        },
        before=second_seeds,
    ),
}
