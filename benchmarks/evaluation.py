"""Detection metrics against other evaluators, on the same made detections.

    python benchmarks/evaluation.py                                  # 5,000 images x 300 detections x 1,203 categories
    python benchmarks/evaluation.py --images 500 --iou-type segm     # masks
    python benchmarks/evaluation.py --images 20000 --only equigrad hotcoco            # the size of LVIS val
    python benchmarks/evaluation.py --rules coco --images 1000 --categories 80 --only equigrad pycocotools
    python benchmarks/evaluation.py --only before equigrad --before REVISION          # of this repository

Each evaluator runs in a process of its own that reads both files, evaluates, and reports its CPU time (without that of
importing libraries) and its peak resident memory. CPU time, because other work on the machine hardly changes it.
The official package gets an environment of its own in `--environment`, made if absent.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from made_detections import make_annotations, make_detections, write_detections

HERE = Path(__file__).parent
EVALUATORS = ("equigrad", "before", "hotcoco", "lvis", "faster-coco-eval", "pycocotools")
NAMES = {"AP": "AP_all", "AP50": "AP_50", "AP75": "AP_75"}  # ours, and those of faster-coco-eval
GROUPS = ("APr", "APc", "APf")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--per-image", type=int, default=300)
    parser.add_argument("--categories", type=int, default=1203)
    parser.add_argument("--iou-type", default="bbox", choices=("bbox", "segm"))
    parser.add_argument("--rules", default="lvis", choices=("lvis", "coco"))
    parser.add_argument("--only", nargs="+", choices=EVALUATORS, default=("equigrad", "hotcoco", "lvis"))
    parser.add_argument("--before", help="a revision whose evaluator runs too, as `before`")
    parser.add_argument("--environment", type=Path, default=Path(tempfile.gettempdir(), "venv_lvis"))
    parser.add_argument("--folder", type=Path, help="keep the made files here")
    parser.add_argument("--run", choices=EVALUATORS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(run(arguments)))
        return
    if "before" in arguments.only and not arguments.before:
        parser.error("before needs --before REVISION")
    with tempfile.TemporaryDirectory() as folder:
        compare(arguments, Path(arguments.folder or folder))


def compare(arguments, folder):
    make_files(arguments, folder)
    results = {}
    print("| evaluator | CPU s | peak GB | AP | largest difference |\n|---|---|---|---|---|")
    for name in arguments.only:
        results[name] = measured = start(name, arguments, folder)
        against = next(iter(results.values()))["result"]
        difference = max(apart(against[key], value) for key, value in measured["result"].items() if key in against)
        print(
            f"| {name} | {measured['seconds']:.1f} | {measured['peak'] / 1e9:.2f} | {measured['result']['AP']:.6f} "
            f"| {difference:.1e} |",
            flush=True,
        )
    if "phases" in results.get("equigrad", {}):
        print({phase: round(seconds, 1) for phase, seconds in results["equigrad"]["phases"].items()})
    if {"equigrad", "lvis"} <= results.keys():
        ratio = results["lvis"]["seconds"] / results["equigrad"]["seconds"]
        print(f"equigrad takes {1 / ratio:.3f} of the time of lvis: {ratio:.1f} x faster")


def apart(ours, theirs):
    """The official evaluator says -1 where there is nothing to find."""
    return abs((-1 if ours is None else ours) - (-1 if theirs is None else theirs))


def make_files(arguments, folder):
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "annotations.json").exists():
        with_masks = arguments.iou_type == "segm"
        content = make_annotations(0, arguments.images, arguments.categories, with_masks=with_masks)
        write_detections(make_detections(1, content, arguments.per_image), folder / "predictions.json", with_masks)
        if arguments.rules == "coco":
            content = without_federation(content)
        (folder / "annotations.json").write_text(json.dumps(content))


def without_federation(content):
    """The same for COCO's rules: every category counts in every image."""
    federated = ("neg_category_ids", "not_exhaustive_category_ids")
    images = [{name: image[name] for name in image if name not in federated} for image in content["images"]]
    categories = [{name: row[name] for name in ("id", "name")} for row in content["categories"]]
    annotations = [row | {"iscrowd": 0} for row in content["annotations"]]
    return {"images": images, "categories": categories, "annotations": annotations}


def start(name, arguments, folder):
    files = (folder / "annotations.json", folder / "predictions.json")
    environment = dict(os.environ)
    if name == "lvis":
        command = [lvis_python(arguments.environment), HERE / "lvis_reference.py", *files]
    else:
        command = [sys.executable, __file__, "--run", name, "--folder", folder, "--rules", arguments.rules]
    command = [str(word) for word in (*command, "--iou-type", arguments.iou_type)]
    with tempfile.TemporaryDirectory() as source:
        if name == "before":
            archive = subprocess.run(
                ["git", "archive", arguments.before, "src"], cwd=HERE.parent, stdout=subprocess.PIPE, check=True
            )
            subprocess.run(["tar", "-x", "-C", source], input=archive.stdout, check=True)
            environment["PYTHONPATH"] = str(Path(source, "src"))
        shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return json.loads(shown.stdout.splitlines()[-1])


def lvis_python(environment):
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "lvis==0.5.3", "pycocotools"], check=True)
    return python


def run(arguments):
    files = (arguments.folder / "annotations.json", arguments.folder / "predictions.json")
    evaluators = {"hotcoco": run_hotcoco, "faster-coco-eval": run_faster_coco_eval, "pycocotools": run_pycocotools}
    result, phases = evaluators.get(arguments.run, run_equigrad)(*files, arguments)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"result": result, "seconds": sum(phases.values()), "peak": peak, "phases": phases}


def run_equigrad(annotations_file, predictions_file, arguments):
    from equigrad.data.detection.formats.coco_json import read_coco
    from equigrad.evaluation.detection.evaluator import evaluate
    from equigrad.evaluation.detection.prediction_files import read_predictions

    times = [time.process_time()]
    annotations = read_coco(annotations_file)
    times.append(time.process_time())
    predictions = read_predictions(predictions_file, annotations)
    times.append(time.process_time())
    result = evaluate(predictions, annotations, arguments.iou_type).result()
    times.append(time.process_time())
    names = ("read annotations", "read predictions", "evaluate")
    phases = dict(zip(names, np.diff(times).tolist(), strict=True))
    return {name: None if math.isnan(value) else value for name, value in result.items()}, phases


def run_hotcoco(annotations_file, predictions_file, arguments):
    """AP and AP of groups alone, without AP-fixed and AP-pool, and without our checks of the file."""
    import hotcoco

    start = time.process_time()
    truth = hotcoco.COCO(str(annotations_file))
    found = truth.load_res(str(predictions_file))
    evaluator = hotcoco.COCOeval(truth, found, arguments.iou_type, lvis_style=arguments.rules == "lvis")
    evaluator.run()
    shown = evaluator.get_results()
    return {name: shown[name] for name in (*NAMES, *GROUPS) if name in shown}, {"all": time.process_time() - start}


def run_pycocotools(annotations_file, predictions_file, arguments):
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    if arguments.rules == "lvis":
        raise ValueError("pycocotools has no federated rules: use --rules coco")
    start = time.process_time()
    truth = COCO(str(annotations_file))
    evaluator = COCOeval(truth, truth.loadRes(str(predictions_file)), arguments.iou_type)
    evaluator.evaluate()
    evaluator.accumulate()
    evaluator.summarize()
    return dict(zip(NAMES, evaluator.stats.tolist(), strict=False)), {"all": time.process_time() - start}


def run_faster_coco_eval(annotations_file, predictions_file, arguments):
    """With the rule it lacks, the 300 best of an image, applied before; the made files have no more."""
    from faster_coco_eval import COCO, COCOeval_faster

    start, is_federated = time.process_time(), arguments.rules == "lvis"
    truth = COCO(str(annotations_file))
    found = truth.loadRes(str(predictions_file))
    evaluator = COCOeval_faster(truth, found, arguments.iou_type, lvis_style=is_federated)
    if is_federated:
        evaluator.params.maxDets = [300]
    evaluator.run()
    names = NAMES | {name: name for name in GROUPS if is_federated}
    result = {name: evaluator.stats_as_dict[theirs] for name, theirs in names.items()}
    return result, {"all": time.process_time() - start}


if __name__ == "__main__":
    main()
