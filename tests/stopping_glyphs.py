"""Generated images that bring a signal when they are read, as a scheduler would send it."""

import signal

from equigrad.tasks.classification.data import GlyphImages

_load = GlyphImages.load  # tests put `load_stopping` in its place


def load_stopping(images: GlyphImages):
    """What `GlyphImages.load` gives, with a SIGTERM at each training image."""
    train_set, test_set = _load(images)
    plain = train_set.transform

    def transform(image):
        signal.raise_signal(signal.SIGTERM)
        return plain(image)

    train_set.transform = transform
    return train_set, test_set
