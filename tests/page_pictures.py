"""Pictures of a page for the README: python -m tests.page_pictures PAGE FOLDER (`make page-pictures`)."""

import sys
from pathlib import Path

from PIL import Image
from tests.browser import visit

# What is pictured, with a margin; of the test images, the first two categories.
_MARGIN = 'window.pictured.style.padding = "16px"; await settled(); return null;'
PICTURES = {
    "page_samples_won.png": 'window.pictured = document.querySelector("#won figure");',
    "page_test_images.png": """
        window.pictured = document.querySelector(".example-columns");
        for (const category of [...window.pictured.children].slice(2)) category.remove();""",
}


def main() -> None:
    page, folder = (Path(argument) for argument in sys.argv[1:])
    for name, choose in PICTURES.items():
        file = folder / name
        complaints = visit(page.resolve(), choose + _MARGIN, width=1200, picture=file).complaints
        assert not complaints, complaints
        # 256 colours, the rare ones of swatches among them: a third of the size, and no difference to see.
        colours = Image.open(file).convert("RGB").quantize(256, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        colours.save(file, optimize=True)
        print(f"{file}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
