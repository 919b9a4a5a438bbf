"""RT-DETR of Hugging Face on long-tailed glyph scenes, with its own loss and with an equalized one.

    python examples/hf_rt_detr.py --loss host --run runs/host
    python examples/hf_rt_detr.py --loss equalized --run runs/equalized

A small model from scratch, trained by the Trainer. The two runs of a seed have the same initial weights, batches and
matching costs; only the classification term differs. Needs transformers.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from transformers import (
    RTDetrConfig,
    RTDetrForObjectDetection,
    RTDetrResNetConfig,
    Trainer,
    TrainingArguments,
    set_seed,
)

import equigrad
from equigrad.data.detection import read_coco
from equigrad.data.frequency import exponential_profile
from equigrad.data.glyphs import GlyphData, SceneStyle, write_detection
from equigrad.evaluation import evaluate_predictions
from equigrad.integrations import hf

NUM_CLASSES = 20
IMAGE_SIZE = 64


class Scenes(Dataset):
    """Images in memory, with labels from 0 and boxes as the model takes them: centre and size as shares of the side."""

    def __init__(self, root: Path, split: str) -> None:
        self.file = root / "annotations" / f"lvis_{split}.json"
        content = json.loads(self.file.read_text())
        self.image_ids = [image["id"] for image in content["images"]]
        self.images = [
            torch.from_numpy(np.array(Image.open(root / "images" / image["file_name"]))) for image in content["images"]
        ]
        self.objects: dict[int, list[tuple[int, list[float]]]] = {number: [] for number in self.image_ids}
        for entry in content["annotations"]:
            self.objects[entry["image_id"]].append((entry["category_id"] - 1, entry["bbox"]))

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> dict[str, object]:
        categories, boxes = zip(*self.objects[self.image_ids[index]], strict=True)
        left_top, size = torch.tensor(boxes).div(IMAGE_SIZE).chunk(2, dim=1)
        labels = {"class_labels": torch.tensor(categories), "boxes": torch.cat([left_top + size / 2, size], 1)}
        return {"pixel_values": self.images[index].permute(2, 0, 1) / 127.5 - 1, "labels": labels}


def collate(samples: list[dict[str, object]]) -> dict[str, object]:
    images = torch.stack([sample["pixel_values"] for sample in samples])
    return {"pixel_values": images, "labels": [sample["labels"] for sample in samples]}


def build_model() -> RTDetrForObjectDetection:
    backbone = RTDetrResNetConfig(
        embedding_size=16,
        hidden_sizes=[16, 32, 64, 96],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = RTDetrConfig(
        backbone_config=backbone,
        freeze_backbone_batch_norms=False,
        encoder_in_channels=[32, 64, 96],
        encoder_hidden_dim=64,
        encoder_ffn_dim=128,
        encoder_attention_heads=4,
        hidden_expansion=0.5,
        d_model=64,
        decoder_in_channels=[64, 64, 64],
        decoder_ffn_dim=128,
        decoder_attention_heads=4,
        decoder_layers=2,
        num_queries=10,
        num_denoising=10,
        num_labels=NUM_CLASSES,
    )
    return RTDetrForObjectDetection(config)


def losses(name: str) -> torch.nn.Module:
    return {
        "varifocal": lambda: equigrad.VarifocalLoss(constant_weight=True),
        "equalized": lambda: equigrad.EqualizedVarifocalLoss(NUM_CLASSES, constant_weight=True),
    }[name]()


@torch.no_grad()
def detections(model: RTDetrForObjectDetection, scenes: Scenes) -> list[dict[str, object]]:
    """All pairs of query and category, best first, in the standard result format."""
    model.eval()
    found = []
    for start in range(0, len(scenes), 64):
        indices = range(start, min(start + 64, len(scenes)))
        outputs = model(pixel_values=torch.stack([scenes[index]["pixel_values"] for index in indices]))
        for index, scores, boxes in zip(indices, outputs.logits.sigmoid(), outputs.pred_boxes, strict=True):
            values, chosen = scores.flatten().topk(100)
            found += entries(scenes.image_ids[index], values, chosen % NUM_CLASSES, boxes[chosen // NUM_CLASSES])
    return found


def entries(image_id: int, scores: Tensor, labels: Tensor, boxes: Tensor) -> list[dict[str, object]]:
    centre, size = (boxes * IMAGE_SIZE).chunk(2, dim=1)
    rows = zip(scores.tolist(), labels.tolist(), torch.cat([centre - size / 2, size], 1).tolist(), strict=True)
    return [{"image_id": image_id, "category_id": label + 1, "bbox": box, "score": score} for score, label, box in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--loss", choices=["host", "varifocal", "equalized"], default="equalized")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--max-count", type=int, default=400, help="objects of the most frequent category")
    parser.add_argument("--test-count", type=int, default=20, help="objects of each category in the test scenes")
    parser.add_argument("--data", type=Path, default=Path("data/hf_scenes"))
    parser.add_argument("--run", type=Path, default=Path("runs/hf_rt_detr"))
    arguments = parser.parse_args()

    counts = exponential_profile(NUM_CLASSES, arguments.max_count, imbalance_factor=100)
    data = GlyphData(counts, eval_count=arguments.test_count, glyphs_per_image=(1, 2))
    style = SceneStyle(image_size=IMAGE_SIZE, glyph_size=(0.4, 0.6)).at_difficulty(0.0)
    root = write_detection(arguments.data, data, not_exhaustive_rate=0.0, style=style)

    set_seed(arguments.seed)
    model = build_model()
    if arguments.loss != "host":
        hf.equalize(model, losses(arguments.loss))
    settings = TrainingArguments(
        str(arguments.run),
        max_steps=arguments.steps,
        per_device_train_batch_size=16,
        learning_rate=1e-3,
        lr_scheduler_type="cosine",
        warmup_steps=min(100, arguments.steps // 10),
        weight_decay=1e-4,
        max_grad_norm=0.1,
        seed=arguments.seed,
        use_cpu=True,
        save_strategy="no",
        logging_steps=50,
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
    )
    Trainer(model, settings, train_dataset=Scenes(root, "train"), data_collator=collate).train()

    val = Scenes(root, "val")
    file = arguments.run / "predictions.json"
    file.write_text(json.dumps(detections(model, val)))
    result = evaluate_predictions(file, read_coco(val.file)).result()
    (arguments.run / "result.json").write_text(json.dumps(result, indent=1))
    print("  ".join(f"{name} {100 * result[name]:.1f}" for name in ("AP", "AP50", "APr", "APc", "APf")))


if __name__ == "__main__":
    main()
