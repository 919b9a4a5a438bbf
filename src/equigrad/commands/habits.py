"""Options of Ultralytics, timm and Hugging Face, and their equivalents here; docs/habits.md has the whole table."""

from collections.abc import Sequence

from equigrad.errors import UsageError
from equigrad.recipes.names import MODULES

_SIZE = "--image-size PIXELS, where the recipe has it, as all of own_data do"
_RUN = "--folder FOLDER says where it goes; a folder that has a run is never changed by another"
_STOP = "there is no early stopping: the tail is learned last, when the mean stands still; --epochs sets the length"
_LOG = "the run folder has tensorboard/ and metrics.jsonl, which other trackers import"
_RANKS = "several GPUs: torchrun --nproc-per-node N -m equigrad train RECIPE --folder RUN; one: CUDA_VISIBLE_DEVICES=0"
_PRECISION = "--precision bf16 or fp16"
_CHECKPOINTS = "--set training.checkpoint_every=1000, in steps"
_EVALUATIONS = "--set training.evaluate_every=5, in epochs; none is only at the end"
_WEIGHTS = "--init takes a weight file or an earlier run; docs/weights.md"
_DATA = "--set data.train=… and --set data.test=…, with the recipes own_data:…"

HABITS = {
    **dict.fromkeys(("imgsz", "img_size", "input_size"), _SIZE),
    **dict.fromkeys(
        ("project", "name", "exist_ok", "experiment", "output", "output_dir", "overwrite_output_dir"), _RUN
    ),
    **dict.fromkeys(("patience", "early_stopping", "early_stopping_patience"), _STOP),
    **dict.fromkeys(("wandb", "log_wandb", "report_to", "tensorboard", "mlflow"), _LOG),
    **dict.fromkeys(("gpu", "gpus", "devices", "num_gpu", "local_rank"), _RANKS),
    **dict.fromkeys(("amp", "fp16", "bf16", "half", "amp_dtype"), _PRECISION),
    **dict.fromkeys(("save_period", "save_steps", "save_strategy", "checkpoint_hist"), _CHECKPOINTS),
    **dict.fromkeys(("val", "val_interval", "eval_steps", "eval_strategy", "do_eval"), _EVALUATIONS),
    **dict.fromkeys(("pretrained", "initial_checkpoint", "checkpoint", "weights", "model_name_or_path"), _WEIGHTS),
    **dict.fromkeys(("data", "data_dir", "train_dir", "dataset_name", "train_split"), _DATA),
    **dict.fromkeys(("learning_rate", "lr0"), "--lr"),
    **dict.fromkeys(("num_train_epochs", "max_epochs"), "--epochs"),
    **dict.fromkeys(
        ("batch", "per_device_train_batch_size", "auto_find_batch_size"),
        "--batch-size is that of all processes together; it is never chosen for you, because it changes the result",
    ),
    **dict.fromkeys(("num_workers", "dataloader_num_workers", "nw"), "--workers"),
    **dict.fromkeys(("gradient_accumulation_steps", "grad_accum_steps", "nbs"), "--set training.accumulate=2"),
    **dict.fromkeys(("clip_grad", "max_grad_norm"), "--set training.max_grad_norm=1"),
    **dict.fromkeys(("ema", "model_ema"), "--set training.ema=Ema"),
    **dict.fromkeys(("opt", "optim", "optimizer"), "--set training.optimizer=AdamW, or SGD"),
    **dict.fromkeys(("sched", "cos_lr", "lr_scheduler_type"), "--set training.schedule.decay=Cosine"),
    **dict.fromkeys(
        ("warmup_epochs", "warmup_steps"),
        "--set training.schedule.warmup.length=500 --set training.schedule.warmup.unit=steps",
    ),
    **dict.fromkeys(("torchcompile", "torch_compile"), "--set training.compile=true"),
    **dict.fromkeys(
        ("freeze", "freeze_layers"), "--frozen backbone with own_data, else --set training.frozen=backbone"
    ),
    "sync_bn": "--set training.sync_batch_norm=true",
    "channels_last": "--set training.channels_last=true",
    "logging_steps": "--set training.log_every=10",
    "save_total_limit": "--set training.keep_checkpoints=3",
    "resume_from_checkpoint": "--run FOLDER --resume continues from the last checkpoint of the folder",
    "load_best_model_at_end": "the last weights are used; the best epoch on the test set would flatter the result",
    "cache": "images are read again in each epoch; the operating system keeps in memory what fits",
    "push_to_hub": "nothing is sent anywhere; a run folder is plain files, which you can upload",
    "source": "images are plain words: equigrad predict RUN IMAGE…",
    "conf": "--threshold SCORE",
    "max_det": "--limit COUNT",
    "save_json": "--json FILE",
}


def check_habits(recipe: str, assignments: Sequence[str]) -> None:
    """ValueError for `--set WORD=…` with a word of another tool, which no recipe of the package has."""
    words = [assignment.partition("=")[0] for assignment in assignments]
    for word in words if recipe.partition(":")[0] in MODULES else ():
        if word in HABITS and word != "data":  # which is a setting too
            raise UsageError(f"--set {word}: no such setting; here: {HABITS[word]}")
