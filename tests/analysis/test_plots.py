import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from analysis.run_folders import evaluation, statistics, write_run
from equigrad.analysis.comparison import COLOURS
from equigrad.analysis.history import RunHistory
from equigrad.analysis.plots import plot_gradients, plot_groups, plot_ratio_over_training

FIGURES = (plot_gradients, plot_ratio_over_training, plot_groups)


def load(folder, **content):
    return RunHistory.load(write_run(folder, **content))


def pixels(file):
    with Image.open(file) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB")).astype(int)


def amount(image, colour):
    """Pixels of a colour."""
    rgb = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    return int((np.abs(image - rgb).max(axis=2) < 8).sum())


@pytest.mark.parametrize("plot", FIGURES, ids=lambda plot: plot.__name__)
def test_a_figure_is_a_png_twice_as_wide_as_a_readme(tmp_path, plot):
    plot([load(tmp_path / "bce"), load(tmp_path / "eql")], tmp_path / "figure.png")
    assert pixels(tmp_path / "figure.png").shape[1] == 1660
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("plot", [plot_gradients, plot_groups], ids=lambda plot: plot.__name__)
def test_every_run_has_its_colour(tmp_path, plot):
    runs = [load(tmp_path / name) for name in ("a", "b")]
    plot(runs[:1], tmp_path / "one.png")
    plot(runs, tmp_path / "two.png")
    assert amount(pixels(tmp_path / "one.png"), COLOURS[0]) > 100
    assert amount(pixels(tmp_path / "one.png"), COLOURS[1]) == 0
    assert amount(pixels(tmp_path / "two.png"), COLOURS[1]) > 100


def test_colour_stays_with_a_run_when_another_has_no_statistics(tmp_path):
    runs = [load(tmp_path / "ce", statistics=None), load(tmp_path / "eql")]
    plot_gradients(runs, tmp_path / "figure.png")
    assert amount(pixels(tmp_path / "figure.png"), COLOURS[0]) == 0
    assert amount(pixels(tmp_path / "figure.png"), COLOURS[1]) > 100


def test_a_bar_is_as_high_as_its_metric(tmp_path):
    heights = []
    for number, value in enumerate((0.2, 0.4)):
        content = evaluation([0.5] * 6, {"AP": value, "APr": 0.8})
        plot_groups([load(tmp_path / str(number), evaluation=content)], tmp_path / "bars.png", metrics=["AP", "APr"])
        image = pixels(tmp_path / "bars.png")[:, :800]  # the first bar is on the left
        blue = (np.abs(image - [0x00, 0x72, 0xB2]).max(axis=2) < 8).sum(axis=0)
        heights.append(int(np.median(blue[blue > 20])))
    assert heights[1] == pytest.approx(2 * heights[0], rel=0.05)


@pytest.mark.parametrize("ratio", [(100, 50, 20, 10, 1, 0.1), (0, 0, 0, 0, 0, 0)], ids=["far above 1", "zero"])
def test_extreme_ratios_are_drawn_without_a_warning(tmp_path, ratio):
    run = load(tmp_path / "run", ratio=ratio)
    plot_gradients([run], tmp_path / "gradients.png")
    plot_ratio_over_training([run] * 3, tmp_path / "ratio.png")
    assert pixels(tmp_path / "ratio.png").size


def test_a_run_without_any_gradient_yet_is_drawn_empty(tmp_path):
    nothing = statistics([1.0] * 6, steps=[0])
    run = load(tmp_path / "run", statistics=nothing)
    for plot in (plot_gradients, plot_ratio_over_training):
        plot([run], tmp_path / "figure.png")
        assert amount(pixels(tmp_path / "figure.png"), "#ffffff") > 1_000_000


def test_names_are_not_taken_for_formulas(tmp_path):
    run = RunHistory.load(write_run(tmp_path / "run"), name=r"$\undefined{x}$ & <b>")
    for plot in FIGURES:
        plot([run], tmp_path / "figure.png")


def test_nothing_to_draw_is_said_in_one_line(tmp_path):
    run = load(tmp_path / "run", statistics=None)
    with pytest.raises(ValueError, match="no gradients to draw"):
        plot_gradients([run], tmp_path / "figure.png")
    with pytest.raises(ValueError, match=r"metrics must be among .*, got \['APx'\]"):
        plot_groups([run], tmp_path / "figure.png", metrics=["APx"])
    with pytest.raises(ValueError, match="at least one run"):
        plot_groups([load(tmp_path / "other", evaluation=None)], tmp_path / "figure.png")
    assert not (tmp_path / "figure.png").exists()


def test_importing_the_analysis_loads_no_plotting_library():
    code = "import sys, equigrad.analysis; print([m for m in ('matplotlib', 'plotly') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"
