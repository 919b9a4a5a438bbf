"""A server for an exported classifier: FastAPI and ONNX Runtime, without equigrad and without torch.

equigrad export runs/own --format onnx
pip install fastapi uvicorn onnxruntime numpy pillow
python examples/serve_fastapi.py runs/own/model.onnx
curl --data-binary @photo.jpg http://127.0.0.1:8000/predict
"""

import argparse
import io
import json

import numpy as np
import onnxruntime
import uvicorn
from fastapi import FastAPI, HTTPException, Request
from PIL import Image, ImageOps
from starlette.concurrency import run_in_threadpool

MAX_BYTES, MAX_PIXELS = 10_000_000, 50_000_000
FORMATS = ("JPEG", "PNG", "WEBP", "BMP")


def application(file: str) -> FastAPI:
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    about = json.loads(session.get_modelmeta().custom_metadata_map["equigrad"])
    if about["task"] != "classification":
        raise SystemExit(f"{file}: expected a classifier, this is a model of {about['task']}")
    app = FastAPI()

    @app.post("/predict")
    async def predict(request: Request) -> list[dict[str, object]]:
        content = b""
        async for part in request.stream():  # counted as it arrives: what a header says may be wrong
            content += part
            if len(content) > MAX_BYTES:
                raise HTTPException(413, f"an image of at most {MAX_BYTES} bytes was expected")
        scores = await run_in_threadpool(lambda: session.run(None, {"images": pixels(content, about)})[0][0])
        best = np.argsort(-scores)[:5]
        return [{"category": about["categories"][label], "score": float(scores[label])} for label in best]

    return app


def pixels(content: bytes, about: dict) -> np.ndarray:
    """A batch of one image, (1, 3, H, W) of uint8, prepared as in the test of the run."""
    try:
        image = Image.open(io.BytesIO(content), formats=FORMATS)
        if image.width * image.height > MAX_PIXELS:
            raise HTTPException(413, f"an image of at most {MAX_PIXELS} pixels was expected")
        image = ImageOps.exif_transpose(image).convert("RGB")  # phones store photographs lying, and say so in EXIF
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise HTTPException(415, f"an image ({', '.join(FORMATS)}) was expected") from error
    steps = about["preprocessing"]
    resize, crop = steps["resize"], steps.get("centre_crop")
    if len(resize) == 1:  # the shorter side
        resize = [int(resize[0] * side / min(image.size)) for side in (image.height, image.width)]
    image = image.resize(resize[::-1], Image.Resampling[steps["interpolation"].upper()])
    if crop:
        left, top = (round((have - want) / 2) for have, want in zip(image.size, crop[::-1], strict=True))
        image = image.crop((left, top, left + crop[1], top + crop[0]))
    return np.asarray(image).transpose(2, 0, 1)[None]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=8000)
    parsed = parser.parse_args()
    uvicorn.run(application(parsed.model), host="127.0.0.1", port=parsed.port)
