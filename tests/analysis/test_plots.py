import subprocess
import sys

import numpy as np
import pytest
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from analysis.run_folders import COUNTS, PATH, evaluation, statistics, write_run
from equigrad.analysis.comparison import COLOURS
from equigrad.analysis.history import RunHistory
from equigrad.analysis.plots import plot_gradients, plot_groups, plot_ratio_over_training, plot_tail

FIGURES = (plot_gradients, plot_ratio_over_training, plot_groups)
RATIO = (1, 0.9, 0.6, 0.4, 0.1, 0.01)  # of a run, by default


def load(folder, **content):
    return RunHistory.load(write_run(folder, **content))


@pytest.fixture
def drawn(monkeypatch, tmp_path):
    """Draws a figure into a file and returns it, to be asked what is in it."""
    saved = []
    save = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *rest, **options: saved.append(figure) or save(figure, *rest, **options)
    )

    def draw(plot, *arguments, **options):
        plot(*arguments, tmp_path / "figure.png", **options)
        return saved[-1]

    return draw


def pixels(file):
    with Image.open(file) as image:
        assert image.format == "PNG"
        return np.asarray(image.convert("RGB")).astype(int)


def amount(image, colour):
    """Pixels of a colour."""
    rgb = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    return int((np.abs(image - rgb).max(axis=2) < 8).sum())


def legend_of(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def curves(axes):
    """The lines with a name."""
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def heights(axes):
    """Of the bars of each run or group."""
    return {bars.get_label(): [bar.get_height() for bar in bars] for bars in axes.containers}


@pytest.mark.parametrize("plot", FIGURES, ids=lambda plot: plot.__name__)
def test_a_figure_is_a_png_twice_as_wide_as_a_readme(tmp_path, plot):
    plot([load(tmp_path / "bce"), load(tmp_path / "eql")], tmp_path / "figure.png")
    assert pixels(tmp_path / "figure.png").shape[1] == 1660
    assert not list(tmp_path.glob(".*"))


def test_gradients_have_three_panels_with_every_category_of_every_run(tmp_path, drawn):
    equal = (1, 1, 0.9, 0.8, 0.6, 0.5)
    figure = drawn(plot_gradients, [load(tmp_path / "bce"), load(tmp_path / "eql", ratio=equal)])
    positive, negative, ratio = figure.axes
    titles = ["Positive gradient received", "Negative gradient received", "Ratio of positive to negative"]
    assert [axes.get_title(loc="left") for axes in figure.axes] == titles
    assert legend_of(figure) == ["bce", "eql"]
    for axes, scale in ((positive, 100), (negative, None), (ratio, 1)):
        for own, line in zip((RATIO, equal), curves(axes).values(), strict=True):
            expected = np.full(6, 100.0) if scale is None else scale * np.array(own)
            np.testing.assert_allclose(line.get_ydata(), expected)
            assert list(line.get_xdata()) == [1, 2, 3, 4, 5, 6]
    assert [to_hex(line.get_color()) for line in curves(ratio).values()] == list(COLOURS[:2])
    assert len({line.get_linestyle() for line in curves(ratio).values()}) == 2  # distinct without colour, too
    assert (positive.get_yscale(), ratio.get_yscale()) == ("log", "linear")
    assert ratio.get_xlabel() == "6 categories, most frequent first"


def test_groups_are_named_between_their_borders(tmp_path, drawn):
    first, *_ = drawn(plot_gradients, [load(tmp_path / "run")]).axes
    assert [(text.get_text(), text.xy[0]) for text in first.texts] == [
        ("frequent", 1.5),
        ("common", 3.5),
        ("rare", 5.5),
    ]
    borders = [line.get_xdata()[0] for line in first.lines if len(set(line.get_xdata())) == 1]
    assert borders == [2.5, 4.5]


def test_colour_stays_with_a_run_when_another_has_no_statistics(tmp_path, drawn):
    runs = [load(tmp_path / "ce", statistics=None), load(tmp_path / "eql")]
    figure = drawn(plot_gradients, runs)
    assert legend_of(figure) == ["eql"]
    shown = pixels(tmp_path / "figure.png")
    assert amount(shown, COLOURS[0]) == 0
    assert amount(shown, COLOURS[1]) > 100


def test_the_ratio_is_drawn_after_each_fifth_of_a_run(tmp_path, drawn):
    arrays = statistics([1.0] * 6, steps=(0, 20, 40, 60, 80, 100))
    growing = np.linspace(0, 1, 6)[:, None]  # from nothing to balance
    arrays[f"{PATH}.positive"] *= growing
    figure = drawn(plot_ratio_over_training, [load(tmp_path / "run", statistics=arrays)])
    (panel,) = figure.axes
    names = [f"after {share} %" for share in (20, 40, 60, 80, 100)]
    assert legend_of(figure) == names
    for share, name in zip((0.2, 0.4, 0.6, 0.8, 1.0), names, strict=True):
        np.testing.assert_allclose(curves(panel)[name].get_ydata(), share)
    assert panel.get_title(loc="left") == "run, 100 steps"
    assert figure.get_supylabel() == "gradient ratio"
    balance = [line for line in panel.lines if line.get_label().startswith("_") and set(line.get_ydata()) == {1}]
    assert len(balance) == 1


def test_every_run_with_statistics_has_a_panel(tmp_path, drawn):
    runs = [load(tmp_path / name) for name in "abc"] + [load(tmp_path / "ce", statistics=None)]
    panels = drawn(plot_ratio_over_training, runs).axes
    shown = [panel.get_title(loc="left") for panel in panels if panel.get_visible()]
    assert shown == ["a, 100 steps", "b, 100 steps", "c, 100 steps"]


def test_bars_are_the_metrics_of_the_groups_in_per_cent(tmp_path, drawn):
    second = evaluation([0.5] * 6, {"AP": 0.35, "APr": 0.21, "APc": 1.0})
    figure = drawn(plot_groups, [load(tmp_path / "bce"), load(tmp_path / "eql", evaluation=second)])
    (axes,) = figure.axes
    names = [tick.get_text() for tick in axes.get_xticklabels()]
    assert names == ["AP", "APf", "APc", "APr"]
    assert heights(axes) == {"bce": pytest.approx([30, 50, 20, 1]), "eql": pytest.approx([35, 0, 100, 21])}
    assert [text.get_text() for text in axes.texts] == ["30.0", "50.0", "20.0", "1.0", "35.0", "–", "100", "21.0"]
    assert legend_of(figure) == ["bce", "eql"]
    assert [to_hex(bars[0].get_facecolor()) for bars in axes.containers] == list(COLOURS[:2])
    shown = pixels(tmp_path / "figure.png")
    assert min(amount(shown, COLOURS[0]), amount(shown, COLOURS[1])) > 10_000
    assert amount(shown, COLOURS[2]) == 0


def test_chosen_metrics_are_drawn_alone(tmp_path, drawn):
    (axes,) = drawn(plot_groups, [load(tmp_path / "run")], metrics=["APr", "AP"]).axes
    assert heights(axes) == {"run": pytest.approx([1, 30])}


@pytest.mark.parametrize(
    ("ratio", "scale", "highest"),
    [((100, 50, 20, 10, 1, 0.1), "symlog", 300), ((2, 1, 1, 1, 1, 1), "linear", 2.6), ((0,) * 6, "linear", 1.3)],
    ids=["far above balance", "above balance", "zero"],
)
def test_the_axis_of_the_ratio_has_room_for_all_runs_and_for_balance(tmp_path, drawn, ratio, scale, highest):
    run = load(tmp_path / "run", ratio=ratio)
    for axes in (drawn(plot_gradients, [run]).axes[2], drawn(plot_ratio_over_training, [run]).axes[0]):
        assert axes.get_yscale() == scale
        assert axes.get_ylim() == pytest.approx((0, highest))


def test_a_run_without_any_gradient_yet_is_drawn_empty(tmp_path, drawn):
    run = load(tmp_path / "run", statistics=statistics([1.0] * 6, steps=[0]))
    for plot in (plot_gradients, plot_ratio_over_training):
        for axes in drawn(plot, [run]).axes:
            assert curves(axes)
            assert not any(np.isfinite(line.get_ydata()).any() for line in curves(axes).values())


@pytest.mark.parametrize("plot", FIGURES, ids=lambda plot: plot.__name__)
def test_names_are_not_taken_for_formulas(tmp_path, drawn, plot):
    name = r"$\undefined{x}$ & <b>"
    figure = drawn(plot, [RunHistory.load(write_run(tmp_path / "run"), name=name)])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert any(name in text for text in [*legend_of(figure), *titles])
    assert not any(text.get_parse_math() for text in figure.legends[0].get_texts())


def test_the_tail_has_a_bar_for_every_category_in_the_colour_of_its_group(drawn):
    counts = np.array([3, 900, 0, 40])
    figure = drawn(plot_tail, counts, {"rare": np.array([0, 2]), "frequent": np.array([1, 3])})
    (axes,) = figure.axes
    assert heights(axes) == {"rare (2)": [3, 0], "frequent (2)": [900, 40]}
    middles = [[bar.get_x() + bar.get_width() / 2 for bar in bars] for bars in axes.containers]
    assert middles == [pytest.approx([3, 4]), pytest.approx([1, 2])]
    assert [to_hex(bars[0].get_facecolor()) for bars in axes.containers] == list(COLOURS[:2])
    assert legend_of(figure) == ["rare (2)", "frequent (2)"]
    assert axes.get_yscale() == "symlog"
    assert axes.get_xlabel() == "4 categories, most frequent first"


def test_without_counts_the_axis_says_what_categories_are_sorted_by(tmp_path, drawn):
    run = load(tmp_path / "run", evaluation=None)
    assert (
        drawn(plot_gradients, [run]).axes[2].get_xlabel() == f"{len(COUNTS)} categories, most positive gradient first"
    )


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
    code = "import sys, equigrad.analysis; print([m for m in ('matplotlib', 'PIL') if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


@pytest.mark.filterwarnings("error")  # matplotlib warns of letters that it draws as boxes
def test_names_of_runs_in_any_script_are_drawn_without_boxes(tmp_path):
    names = ("猫", "قطة", "🦄 unicorn", "\U000e0001")
    runs = [RunHistory.load(write_run(tmp_path / str(number)), name) for number, name in enumerate(names)]
    plot_groups(runs, tmp_path / "groups.png")
    plot_ratio_over_training(runs, tmp_path / "ratio.png")
    assert (tmp_path / "groups.png").stat().st_size > 0
