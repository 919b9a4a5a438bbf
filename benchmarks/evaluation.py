"""Detection metrics against the official LVIS evaluator and faster-coco-eval, on the same made detections.

    python benchmarks/evaluation.py                                  # 5,000 images x 300 detections x 1,203 categories
    python benchmarks/evaluation.py --images 500 --iou-type segm     # masks
    python benchmarks/evaluation.py --images 20000 --only equigrad   # the size of LVIS val

Each evaluator runs in a process of its own that reads both files, evaluates, and reports its CPU time (with that of the
processes it starts, without that of importing libraries) and its peak resident memory. CPU time, because other work on
the machine hardly changes it. The official package gets an environment of its own in `--environment`, made if absent.
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from made_detections import make_annotations, make_detections, write_detections

HERE = Path(__file__).parent
EVALUATORS = ("equigrad", "lvis", "faster-coco-eval")
LVIS_NAMES = {"AP": "AP_all", "AP50": "AP_50", "AP75": "AP_75", "APr": "APr", "APc": "APc", "APf": "APf"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=5000)
    parser.add_argument("--per-image", type=int, default=300)
    parser.add_argument("--categories", type=int, default=1203)
    parser.add_argument("--iou-type", default="bbox", choices=("bbox", "segm"))
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--only", nargs="+", choices=EVALUATORS, default=EVALUATORS[:2])
    parser.add_argument("--environment", type=Path, default=Path(tempfile.gettempdir(), "venv_lvis"))
    parser.add_argument("--folder", type=Path, help="keep the made files here")
    parser.add_argument("--run", choices=EVALUATORS, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.run:
        print(json.dumps(run(arguments)))
        return
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
        (folder / "annotations.json").write_text(json.dumps(content))


def start(name, arguments, folder):
    files = (folder / "annotations.json", folder / "predictions.json")
    if name == "lvis":
        command = [lvis_python(arguments.environment), HERE / "lvis_reference.py", *files]
    else:
        command = [sys.executable, __file__, "--run", name, "--folder", folder, "--workers", str(arguments.workers)]
    command = [str(word) for word in (*command, "--iou-type", arguments.iou_type)]
    shown = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(shown.stdout.splitlines()[-1])


def lvis_python(environment):
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "lvis==0.5.3", "pycocotools"], check=True)
    return python


def run(arguments):
    files = (arguments.folder / "annotations.json", arguments.folder / "predictions.json")
    evaluate = run_equigrad if arguments.run == "equigrad" else run_faster_coco_eval
    result, phases = evaluate(*files, arguments)
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    seconds = sum(phases.values()) + usage[1].ru_utime + usage[1].ru_stime
    # Of several processes the largest counts once for each: an upper bound.
    peak = 1024 * (usage[0].ru_maxrss + arguments.workers * usage[1].ru_maxrss)
    return {"result": result, "seconds": seconds, "peak": peak, "phases": phases}


def run_equigrad(annotations_file, predictions_file, arguments):
    from equigrad.data.detection.formats.coco_json import read_coco
    from equigrad.evaluation.detection.evaluator import evaluate
    from equigrad.evaluation.detection.prediction_files import read_predictions

    times = [time.process_time()]
    annotations = read_coco(annotations_file)
    times.append(time.process_time())
    predictions = read_predictions(predictions_file, annotations)
    times.append(time.process_time())
    result = evaluate(predictions, annotations, arguments.iou_type, num_workers=arguments.workers).result()
    times.append(time.process_time())
    names = ("read annotations", "read predictions", "evaluate")
    phases = dict(zip(names, np.diff(times).tolist(), strict=True))
    return {name: None if math.isnan(value) else value for name, value in result.items()}, phases


def run_faster_coco_eval(annotations_file, predictions_file, arguments):
    """With the rule it lacks, the 300 best of an image, applied before; the made files have no more."""
    from faster_coco_eval import COCO, COCOeval_faster

    start = time.process_time()
    truth = COCO(str(annotations_file))
    evaluator = COCOeval_faster(truth, truth.loadRes(str(predictions_file)), arguments.iou_type, lvis_style=True)
    evaluator.params.maxDets = [300]
    evaluator.run()
    result = {name: evaluator.stats_as_dict[theirs] for name, theirs in LVIS_NAMES.items()}
    return result, {"all": time.process_time() - start}


if __name__ == "__main__":
    main()
