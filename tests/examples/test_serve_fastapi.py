"""The example server on a real port, asked over HTTP."""

import http.client
import io
import json
import threading
from contextlib import contextmanager

import numpy as np
import pytest
import torch
import uvicorn
from PIL import Image
from serve_fastapi import MAX_BYTES, application, pixels

import equigrad
from equigrad.data.images.transforms import evaluation_transform, small_evaluation_transform
from equigrad.models.backbones.small_conv_net import SmallConvNet
from equigrad.models.classification.classifier import build_classifier
from equigrad.models.deployment.classifier import DeployedClassifier
from equigrad.tasks.classification.export import preprocessing_of
from equigrad.tasks.export.comparison import score_difference
from equigrad.tasks.export.deployable import Deployable
from equigrad.tasks.export.formats import write_onnx
from equigrad.tasks.export.metadata import metadata

NAMES = ["cat", "dog", "eel"]
TRANSFORM = small_evaluation_transform(32)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return build_classifier(SmallConvNet(width=4), 3, equigrad.CrossEntropyLoss(), equigrad.SoftmaxScores()).eval()


@pytest.fixture(scope="module")
def server(model, tmp_path_factory):
    """Host and port of the server."""
    deployable = Deployable(
        model=DeployedClassifier(model).eval(),
        inputs={"images": {0: "batch"}},
        multiples={},
        outputs=("scores",),
        metadata=metadata("classification", NAMES, model, preprocessing=preprocessing_of(TRANSFORM)),
        prepare=lambda image: (TRANSFORM(image)[None],),
        run=model,
        compare=score_difference,
        test_images=list,
    )
    file = tmp_path_factory.mktemp("serve") / "model.onnx"
    file.write_bytes(write_onnx(deployable, (torch.zeros(2, 3, 32, 32, dtype=torch.uint8),)))
    with served(application(str(file))) as address:
        yield address


@contextmanager
def served(app):
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.02)
        assert thread.is_alive()
    yield server.servers[0].sockets[0].getsockname()
    server.should_exit = True
    thread.join(10)


def ask(server, content):
    connection = http.client.HTTPConnection(*server, timeout=300)
    connection.request("POST", "/predict", body=content)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def picture(size=(50, 40), kind="PNG", **settings):
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (*size[::-1], 3), dtype=np.uint8))
    content = io.BytesIO()
    image.save(content, kind, **settings)
    return image, content.getvalue()


def test_the_server_says_what_the_model_says(server, model):
    image, content = picture()
    status, answer = ask(server, content)
    assert status == 200
    with torch.no_grad():
        scores = model(TRANSFORM(image)[None])[0]["scores"]
    assert [entry["category"] for entry in answer] == [NAMES[label] for label in scores.argsort(descending=True)]
    assert [entry["score"] for entry in answer] == pytest.approx(scores.sort(descending=True).values.tolist(), rel=1e-4)


def many_pixels():
    """64 million pixels of one colour, in a small file."""
    content = io.BytesIO()
    Image.new("1", (8000, 8000)).save(content, "PNG")
    return content.getvalue()


BAD = {
    "empty": (lambda: b"", 415),
    "text": (lambda: b"not an image", 415),
    "cut off": (lambda: picture()[1][:200], 415),
    "too many bytes": (lambda: b"\0" * (MAX_BYTES + 1), 413),
    "too many pixels": (many_pixels, 413),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_upload_is_refused_and_the_server_goes_on(server, case):
    content, expected = BAD[case]
    status, answer = ask(server, content())
    assert status == expected
    assert "was expected" in answer["detail"]
    assert ask(server, picture()[1])[0] == 200


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("size", [(50, 40), (37, 61), (300, 100)])
def test_photographs_are_prepared_as_in_the_test_of_the_run(size, interpolation):
    transform = evaluation_transform(24, resize=32, interpolation=interpolation)
    image, content = picture(size)
    prepared = pixels(content, {"preprocessing": preprocessing_of(transform)})
    np.testing.assert_array_equal(prepared[0], transform(image).numpy())


def test_photographs_that_a_phone_has_stored_lying_are_turned():
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    image, content = picture((50, 40), exif=exif)
    turned = image.transpose(Image.Transpose.ROTATE_270)
    prepared = pixels(content, {"preprocessing": preprocessing_of(TRANSFORM)})
    np.testing.assert_array_equal(prepared[0], TRANSFORM(turned).numpy())
