from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, strategies as st
from torch.testing import assert_close

import equigrad
from equigrad.models.segmentation.sliding_window import Scale, SlidingWindow, WholeImage, best_categories

SOFTMAX = equigrad.SoftmaxScores()


def network(images):
    """Three logits a place of 4 x 4 pixels: the means of the colours."""
    return 5 * F.avg_pool2d(images, 4, ceil_mode=True)


def random_images(*shape):
    return torch.rand(2, 3, *shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("averages_scores", [False, True])
@pytest.mark.parametrize("window", [24, 100])
def test_one_window_that_covers_the_image_is_the_whole_image(window, averages_scores):
    images = random_images(24, 20)
    whole = WholeImage()(network, images, SOFTMAX)
    sliding = SlidingWindow(window, 7, averages_scores=averages_scores)(network, images, SOFTMAX)
    assert torch.equal(sliding.labels, whole.labels)
    assert_close(sliding.scores, whole.scores)


@given(st.integers(1, 60), st.integers(1, 20), st.data())
def test_windows_cover_the_image_evenly_and_the_last_ends_with_it(length, window, data):
    stride = data.draw(st.integers(1, window))
    spans = [(span.start, span.stop) for span in SlidingWindow(window, stride)._spans(length)]
    assert spans[0][0] == 0
    assert spans[-1][1] == length
    assert all(stop - start == min(window, length) for start, stop in spans)
    steps = [after[0] - before[0] for before, after in pairwise(spans)]
    assert all(step == stride for step in steps[:-1])
    assert all(1 <= step <= stride for step in steps)


def test_an_image_of_683_columns_has_two_windows_of_512():
    assert [span.start for span in SlidingWindow()._spans(683)] == [0, 171]
    assert [span.start for span in SlidingWindow()._spans(1024)] == [0, 341, 512]


def answers_by_window(images):
    """Category 0 or 1 by the first pixel of the window, with logits 4 : 0 or 0 : 1; at full resolution."""
    is_bright = images[:, :1, :1, :1] > 0.5
    logits = torch.where(is_bright, torch.tensor([0.0, 1.0]).view(2, 1, 1), torch.tensor([4.0, 0.0]).view(2, 1, 1))
    return logits.expand(-1, -1, *images.shape[-2:])


@pytest.mark.parametrize("averages_scores", [False, True])
def test_where_two_windows_overlap_their_mean_counts_by_hand(averages_scores):
    """Windows [0, 4) and [2, 6) of one row: dark and bright, which disagree on columns 2 and 3."""
    images = torch.zeros(1, 3, 1, 6)
    images[..., 2] = 1.0
    labels, scores = SlidingWindow(4, 2, averages_scores=averages_scores)(answers_by_window, images, SOFTMAX)
    assert labels.flatten().tolist() == [0, 0, 0, 0, 1, 1]
    dark, bright = torch.tensor([4.0, 0.0]).softmax(0), torch.tensor([0.0, 1.0]).softmax(0)
    mean = (dark + bright) / 2 if averages_scores else torch.tensor([2.0, 0.5]).softmax(0)
    expected = torch.stack([dark[0], dark[0], mean[0], mean[0], bright[1], bright[1]])
    assert_close(scores.flatten(), expected)


@pytest.mark.parametrize("inference", [WholeImage(Scale(32, 48)), SlidingWindow(32, 16, scale=Scale(32, 48))])
def test_the_network_sees_the_scale_and_the_answer_has_the_images_size(inference):
    seen = []

    def recording(images):
        seen.append(tuple(images.shape[-2:]))
        return network(images)

    images = (random_images(50, 100) * 255).byte()
    labels, scores = inference(recording, images, SOFTMAX)
    assert labels.shape == scores.shape == (2, 50, 100)
    assert set(seen) == {(24, 48)} if isinstance(inference, WholeImage) else {(24, 32)}
    # Each half of a picture of two colours keeps its colour.
    halves = torch.zeros(1, 3, 50, 100, dtype=torch.uint8)
    halves[:, 0, :, :50], halves[:, 2, :, 50:] = 255, 255
    labels, _ = inference(network, halves, SOFTMAX)
    assert (labels[..., :44] == 0).all()
    assert (labels[..., 56:] == 2).all()


def test_the_scale_keeps_the_shape_within_both_sides():
    assert Scale(512, 2048)(torch.zeros(1, 3, 300, 400)).shape[-2:] == (512, 683)
    assert Scale(512, 2048)(torch.zeros(1, 3, 4000, 500)).shape[-2:] == (2048, 256)


def test_the_best_category_is_that_of_the_interpolated_logits():
    logits = torch.randn(2, 6, 5, 7, generator=torch.Generator().manual_seed(0))
    labels, scores = best_categories(logits, (33, 29), SOFTMAX)
    best = F.interpolate(logits, size=(33, 29), mode="bilinear").softmax(1).max(1)
    assert_close(scores, best.values)
    assert (labels == best.indices).float().mean() > 0.999  # float32 may break a tie the other way


@pytest.mark.parametrize("stride", [0, 513])
def test_a_stride_beyond_the_window_is_refused(stride):
    with pytest.raises(ValueError, match=f"stride must be 1 ... 512, the window, got {stride}"):
        SlidingWindow(512, stride)
