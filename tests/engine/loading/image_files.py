"""A data set of image files, which tests damage."""

import numpy as np
import torch
from PIL import Image


def write_images(folder, count=8):
    files = [folder / f"{number}.png" for number in range(count)]
    for number, file in enumerate(files):
        noise = np.random.default_rng(number).integers(0, 255, (16, 16), dtype=np.uint8)
        Image.fromarray(noise).save(file)
    return files


class Images:
    """Items are the pixels and the index of each file."""

    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        return torch.from_numpy(np.array(Image.open(self.files[index]))), index
