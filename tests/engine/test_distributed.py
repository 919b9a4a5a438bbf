import shutil
import signal
from dataclasses import replace

import torch

from engine.toy import NoisyVectors, Options, ToyModel, finish, run
from equigrad.engine import SGD, Schedule, Training, TrainSettings, launch
from equigrad.engine.checkpoint import checkpoint_files, load_checkpoint
from equigrad.sampling import RepeatFactorSampler
from quick_processes import run_as_torchrun


def final(folder):
    return load_checkpoint(checkpoint_files(folder)[-1])


def stop_in_evaluation(folder):
    """A training whose second rank alone gets a signal, in the first of its evaluations."""
    fabric = launch(accelerator="cpu")
    sampler = RepeatFactorSampler([0] * 64, drop_last=True)
    settings = TrainSettings(SGD(0.1), Schedule(epochs=2), batch_size=16, num_workers=0)
    seen = []
    with Training(fabric, ToyModel(stochastic=False), NoisyVectors(), sampler, settings, folder) as training:
        while training.run_to_evaluation():
            with training.evaluation_model():
                for batch in training.until_stopped(range(3 + fabric.global_rank)):
                    seen.append(batch)
                    if fabric.global_rank == 1:
                        signal.raise_signal(signal.SIGTERM)
            training.log_evaluation({"accuracy": 0.5})
    print(f"rank {fabric.global_rank}: {seen}, {training.step}, {training.interrupted}", flush=True)
    return 0


def test_a_signal_on_one_rank_ends_the_evaluation_of_both(tmp_path):
    shown = run_as_torchrun(stop_in_evaluation, tmp_path / "run", output=tmp_path / "output.txt")
    assert "rank 0: [0, 1, 2], 4, True" in shown
    assert "rank 1: [0], 4, True" in shown
    assert shown.count("stopped at step 4 of 8 during the evaluation") == 1  # only the first rank speaks
    assert shown.count("training: 8 steps") == 1


def test_two_processes_train_what_one_trains_on_the_joined_batch_and_may_take_over_a_run(tmp_path):
    alone = Options(tmp_path / "alone", stochastic=False, num_workers=0, batch_size=16, epochs=2)
    assert finish(alone, tmp_path / "output.txt") == 0
    run_as_torchrun(run, replace(alone, folder=tmp_path / "together"), output=tmp_path / "together.txt")
    expected, actual = final(tmp_path / "alone"), final(tmp_path / "together")
    assert actual["step"] == expected["step"]
    torch.testing.assert_close(actual["model"], expected["model"], atol=1e-6, rtol=1e-5)
    assert expected["model"]["criterion.statistics.negative"].sum() > 0
    torch.testing.assert_close(actual["ema"]["model"], expected["ema"]["model"], atol=1e-6, rtol=1e-5)
    assert len(actual["ranks"]) == 2
    assert actual["sampler"] == expected["sampler"]
    # Two processes go on with what one began.
    shutil.copytree(tmp_path / "alone", tmp_path / "handed over")
    assert finish(replace(alone, resume=True, epochs=3), tmp_path / "output.txt") == 0
    taking_over = replace(alone, folder=tmp_path / "handed over", resume=True, epochs=3)
    shown = run_as_torchrun(run, taking_over, output=tmp_path / "taking over.txt")
    assert shown.count("resuming at step 12 of 18") == 1
    expected, actual = final(tmp_path / "alone"), final(tmp_path / "handed over")
    assert actual["step"] == 18
    torch.testing.assert_close(actual["model"], expected["model"], atol=1e-6, rtol=1e-5)
