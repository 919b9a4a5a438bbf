"""What users get wrong: each is answered by one line that names the remedy, and leaves no run behind."""

import json
import re
import shutil

import pytest

from commands.running_commands import equigrad
from detection_on_disk import with_text_ids
from equigrad.commands.exit_codes import FAILED, WRONG_USAGE
from images_on_disk import write_images, zip_folder

USAGE = [  # words and what the line must say; these never come as far as importing torch
    ("", "required: COMMAND"),
    ("fly", "invalid choice: 'fly' (choose from"),
    ("train", "required: RECIPE"),
    ("train tiny:ce --batchsize 8", "did you mean --batch-size?"),
    ("train tiny:ce --epochs many", "argument --epochs: invalid float value: 'many'"),
    ("train tiny:ce --device 0", "argument --device: invalid choice: '0' (choose from"),
    ("train tiny:ce --precision half", "invalid choice: 'half' (choose from"),
    ("train tiny:ce --resume RUN", "--resume takes no path: the run folder is --run FOLDER"),
    ("train tiny:ce --learning-rate 0.1", "here: --lr"),
    ("train tiny:ce --patience 5", "there is no early stopping: the tail is learned last"),
    ("train tiny:ce --imgsz 640", "here: --image-size PIXELS"),
    ("train tiny:ce --amp", "here: --precision bf16 or fp16"),
    ("train tiny:ce epochs=3", "a setting is --set epochs=3"),
    ("evaluate", "required: RUN"),
    ("evaluate RUN --iou-type mask", "invalid choice: 'mask' (choose from"),
    ("predict RUN", "nothing to predict: name images"),
    ("predict RUN --source photos", "here: images are plain words: equigrad predict RUN IMAGE"),
    ("predict RUN photos --conf 0.2", "here: --threshold SCORE"),
    ("report", "required: RUN"),
    ("export RUN --format tflite", "invalid choice: 'tflite' (choose from"),
    ("compare photos --seeds two", "argument --seeds: expected a whole number from 1, got 'two'"),
    ("compare photos --output mine", "here: --folder FOLDER says where it goes"),
    ("figure", "required: NAME; see"),
    ("recipes tiny", "unknown: tiny; see `equigrad recipes --help`"),
    ("data", "required: COMMAND"),
    ("data count photos", "invalid choice: 'count' (choose from"),
    ("data long-tail photos", "required: --output"),
    ("demo --epochs few", "argument --epochs: invalid int value: 'few'"),
]
WORDS = [  # that fit the command, but no recipe, setting, table or use of it
    ("train tiny", "tiny has tiny:ce, tiny:softmax_eql"),
    ("train tiny:sofmax_eql", "did you mean tiny:softmax_eql"),
    ("train own:recipe", "no module 'own', in the current folder or installed"),
    ("train tiny:ce --set lr=0.1", "did you mean training.optimizer.lr?"),
    ("train tiny:ce --set training.lr=0.1", "did you mean training.optimizer.lr?"),
    ("train tiny:ce --set epoch=3", "did you mean training.schedule.epochs?"),
    ("train tiny:ce --set workers=0", "did you mean training.num_workers?"),
    ("train tiny:ce --set learning_rate=0.1", "no such setting; here: --lr"),
    ("train tiny:ce --set lr", "--set lr: expected field=value"),
    ("train tiny:ce --set training.evaluate_every=never", "expected none or a whole number"),
    ("train tiny:ce --set training.evaluate_every=0", "evaluate_every must be above 0"),
    ("train tiny:ce --lr nan", "training.optimizer.lr=nan: expected a number"),
    ("train tiny:ce --workers -1", "num_workers must be 0 or more, got -1"),
    ("train tiny:ce --epochs 0", "a training has a positive length, got epochs=0"),
    (
        "train own_data:classification --image-size 0 --set data.train=photos",
        "image_size=0: expected 16 pixels or more",
    ),
    ("train own_data:classification --frozen all", "frozen=all: expected one of auto, none, lower, backbone"),
    (
        "train own_data:detection --detector atss --method sigmoid_eql --set data.test=none",
        "goes with detector=faster_rcnn or mask_rcnn",
    ),
    ("train tiny:ce --set training.optimizer=Adam", "expected SGD or AdamW; did you mean AdamW?"),
    ("train own_data:detection --set training.schedule.length=3", "length=3: expected EnoughSteps"),
    ("train tiny:ce --set training.schedule.warmup.unit=share", "a share of the training, in [0, 1], got 40"),
    ("table s_efect", "did you mean s_effect?"),
    ("evaluate RUN --set method=norcal", "--set and --output FOLDER go together"),
    ("evaluate found.json", "detections are evaluated against their annotations: --annotations FILE"),
    ("evaluate found.json --annotations objects.json --workers 2", "--workers are for the model of a run"),
    ("evaluate found.json --annotations objects.json --norcal 1", "--train-annotations FILE"),
    ("predict RUN photos --set precision=64", "precision=64: expected one of 32, bf16, fp16"),
    ("recipes --check tiny:nothing", "tiny has tiny:ce, tiny:softmax_eql"),
    ("data check photos --labels photos", "--labels needs --names FILE"),
    ("evaluate RUN --annotations objects.json", "a run on other data: --set data.test=FILE --output FOLDER"),
    ("demo --epochs 0", "a training has a positive length"),
]
FAILURES = [
    ("train tiny:ce --run file.txt", "the run folder file.txt is a file"),
    ("train tiny:softmax_eql --run RUN", "its run is finished, step "),
    ("train own_data:classification", "name yours with --set data.train=…"),
    (
        "train own_data:classification --set data.train=photos --set data.test=gone",
        "with --set data.test=…",
    ),
    ("train own_data:detection --set data.train=gone.json", "gone.json: no such file or folder"),
    (
        "train own_data:classification --set data.train=objects.json --set data.test=none",
        "own_data:detection trains on",
    ),
    (
        "train own_data:classification --set data.train=file.txt --set data.test=none",
        "expected `path label`; a table whose first line names its columns must be called .csv",
    ),
    (
        "train own_data:classification --init file.txt --set data.train=photos --set data.test=none",
        "file.txt: not a file of PyTorch weights",
    ),
    ("train own_data:detection --set data.train=photos", "data.train is an annotation file (.json)"),
    (
        "train own_data:detection --set data.train=objects.json --set data.test=none --set data.images=photos",
        "test set",
    ),
    ("train own_data:multi_label --set data.train=photos --set data.test=none", "photos/labels.csv: no such file"),
    (
        "train own_data:classification --set data.train=nested --set data.test=none",
        "the categories, name nested/photos",
    ),
    (
        "train own_data:detection --set data.train=yolo/data.yaml --set data.test=none",
        "`equigrad data convert yolo yolo objects.json` makes the COCO file to train on",
    ),
    ("train own_data:classification --set data.train=yolo/data.yaml", "`equigrad data convert yolo yolo objects.json`"),
    ("data check splits", "name splits/train to train on and splits/test to test on"),
    ("train own_data:classification --set data.train=splits --set data.test=none", "name splits/train to train on"),
    ("doctor yolo/data.yaml", "`equigrad data convert yolo yolo objects.json`"),
    ("compare yolo/data.yaml", "`equigrad data convert yolo yolo objects.json`"),
    ("data check yolo/data.yaml", "`equigrad data check yolo`"),
    ("data counts yolo/data.yaml", "`equigrad data check yolo`"),
    ("data convert yolo yolo/data.yaml new.json", "`equigrad data convert yolo yolo objects.json`"),
    ("data check settings.yaml", "`equigrad data check FOLDER`"),
    ("data check nested", "1 kind of fault would make training or evaluation wrong"),
    ("train own_data:semantic_segmentation --set data.images=gone", "name yours with --set data.images=…"),
    ("train own_data:multi_label --set data.train=gone.csv", "name yours with --set data.train=…"),
    ("compare gone", "gone: no such file or folder of data"),
    ("compare photos --task multi_label", "photos/labels.csv: no such file"),
    ("compare objects.json --methods fl", "name that of objects.json with --images FOLDER"),
    ("export gone --format onnx", "gone: no such run"),
    ("doctor gone", "gone: no such data, run or checkpoint"),
    ("evaluate gone", "gone: no such run; expected a folder that `equigrad train` made"),
    ("evaluate photos", "photos: not the folder of a run, it has no recipe.json"),
    ("evaluate gone.json --annotations objects.json", "gone.json: No such file or directory"),
    ("evaluate found.json --annotations gone.json", "gone.json: no such annotation file"),
    ("evaluate found.json --annotations half.json", "half.json: not a complete JSON file, it ends at byte 1"),
    ("evaluate found.json --annotations objects.json --iou-type segm", "evaluate boxes (bbox) instead"),
    ("evaluate found.json --annotations objects.json --json file.txt/result.json", "file.txt"),
    ("predict gone photos", "gone: no such run"),
    ("predict RUN empty", "empty: expected images in the folder, found none (.jpg"),
    ("predict RUN gone.jpg", "gone.jpg: no such image, folder or video"),
    ("predict RUN http://a.example/b.jpg", "images are not read from addresses; download it"),
    ("predict RUN photos.zip/gone.jpg", "photos.zip/gone.jpg: no such image in the archive"),
    ("predict RUN photos.zip/gone", "no such folder in the archive; it has cat, dog"),
    ("predict RUN not.zip", "not.zip: not a zip archive"),
    ("predict photos RUN", "the run comes first, then the images"),
    ("train own_data:classification --set data.train=far.csv --set data.test=none", "--set data.root=FOLDER (--root"),
    ("train own_data:multi_label --set data.train=far.csv --set data.test=none", "--set data.root=FOLDER (--root"),
    (
        "train own_data:detection --set data.train=objects.json --set data.test=objects.json --set data.images=photos",
        "photos/a.jpg: no such image, nor others of the annotations in photos; name the folder that has them",
    ),
    ("train own_data:multi_label --set data.train=near.csv --set data.test=none", "--set data.root=photos (--root in"),
    ("compare far.csv", "--set data.root=FOLDER (--root in other commands) says where the paths of"),
    ("data counts RUN", "it is the folder of a run"),
    ("compare RUN", "it is the folder of a run"),
    ("data counts headless.csv", "which is no line of names but that of an image: write one above it"),
    ("data counts mixed.txt", "mixed.txt, line 2: expected `path label`, a number as label as before, got 'b.jpg cat'"),
    ("data convert coco unsized.json out --to yolo", "data convert coco unsized.json unsized.sizes.json --images"),
    ("evaluate masks.json --annotations unsized.json", "image a: height and width are missing"),
    ("evaluate found.json --annotations mixed.json", "image number 2: id: expected a text, as the first has, got 2"),
    ("predict RUN photos --json found_now.json", "--csv FILE is for all"),
    ("predict RUN photos --threshold 50", "--threshold must be in [0, 1], got 50.0"),
    ("predict RUN photos --csv file.txt", "file.txt: exists already; --force replaces"),
    ("predict RUN photos --annotations objects.json", "gives the image ids for --json FILE, which is missing"),
    ("predict RUN photos --batch-size 0", "--batch-size must be at least 1, got 0"),
    ("predict RUN photos --limit 5", "--limit is for runs of detectors"),
    ("report gone", "gone: no such run"),
    ("report RUN --output photos", "photos: Is a directory"),
    ("data counts gone", "gone: no such list, folder or file of images"),
    ("data counts empty", "expected one folder of images for each category"),
    ("data counts not.zip", "not.zip: not a zip archive"),
    ("data long-tail photos --output file.txt", "file.txt exists; --force replaces it"),
    ("data stats gone.json", "gone.json: no such annotation file"),
    ("data convert yolo empty out.json", "name the folder that has the folders images and labels"),
    ("demo --folder file.txt", "file.txt"),
]
# What no user should read: numbers of system errors, addresses of objects, temporary files, tracebacks.
NOISE = re.compile(r"Errno|0x[0-9a-f]{6}|<_io|\.part\b|Traceback|\bnan\b(?!: expected)|PosixPath")


@pytest.fixture(scope="module")
def folder(run, tmp_path_factory):
    """A finished run, photographs, an empty folder, and files of several kinds."""
    folder = tmp_path_factory.mktemp("wrong")
    shutil.copytree(run, folder / "RUN")
    write_images(folder / "photos", {"cat": 2, "dog": 2}, size=16)
    write_images(folder / "nested" / "photos", {"cat": 2, "dog": 2}, size=16)
    write_images(folder / "splits", {"train/cat": 2, "train/dog": 2, "test/cat": 1}, size=16)
    write_images(folder / "yolo" / "images", {"train": 1}, size=16)
    (folder / "yolo" / "labels" / "train").mkdir(parents=True)
    (folder / "yolo" / "labels" / "train" / "0.txt").write_text("0 0.5 0.5 0.5 0.5")
    for file in ("yolo/data.yaml", "settings.yaml"):
        (folder / file).write_text("train: images\nnames: [cat]\n")
    zip_folder(folder / "photos", folder / "photos.zip")
    (folder / "far.csv").write_text("elsewhere/a.jpg,cat\nelsewhere/b.jpg,dog\n")
    (folder / "near.csv").write_text("cat/0.png,cat\ndog/0.png,dog\n")
    (folder / "headless.csv").write_text("a.jpg,1,0\n")
    (folder / "mixed.txt").write_text("a.jpg 0\nb.jpg cat\n")
    (folder / "empty").mkdir()
    (folder / "file.txt").write_text("text")
    (folder / "not.zip").write_text("text")
    (folder / "half.json").write_text("{")
    images = [{"id": 1, "file_name": "a.jpg", "width": 10, "height": 10}]
    box = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 5, 5]}
    annotations = [{**box, "id": 1, "area": 25, "iscrowd": 0}]
    objects = {"images": images, "annotations": annotations, "categories": [{"id": 1, "name": "cat"}]}
    (folder / "objects.json").write_text(json.dumps(objects))
    unsized = {**with_text_ids(objects), "images": [{"id": "a", "file_name": "a.jpg"}], "annotations": []}
    (folder / "unsized.json").write_text(json.dumps(unsized))
    (folder / "mixed.json").write_text(json.dumps({**unsized, "images": [*unsized["images"], {**images[0], "id": 2}]}))
    (folder / "masks.json").write_text(json.dumps([{**box, "score": 0.5, "segmentation": {}}]))
    (folder / "found.json").write_text(json.dumps([{**box, "score": 0.5}]))
    return folder


def files_of(folder):
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize(
    ("words", "message", "code"),
    [
        *((words, message, WRONG_USAGE) for words, message in USAGE + WORDS),
        *((words, message, FAILED) for words, message in FAILURES),
    ],
)
def test_a_wrong_use_gets_one_line_with_the_remedy_and_changes_nothing(words, message, code, folder):
    before = files_of(folder)
    done = equigrad(*words.split(), folder=folder)
    (line,) = done.err.splitlines()
    assert message in line
    assert done.code == code
    assert line.startswith("equigrad")
    assert not NOISE.search(line)
    named = [word for word in words.split() if "." in word and "=" not in word]
    assert all(line.count(word) <= 1 for word in named)  # a path is not said twice
    assert files_of(folder) == before


def test_there_are_forty_wrong_uses_of_all_commands():
    uses = [words.split() for words, _ in USAGE + WORDS + FAILURES]
    assert len(uses) >= 40
    commands = {words[0] for words in uses if words}
    assert commands >= {"train", "evaluate", "predict", "report", "recipes", "data", "demo"}
