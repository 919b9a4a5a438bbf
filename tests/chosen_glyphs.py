"""Chooses the glyphs of generated data when it is imported, which takes seconds: in the server of `quick_processes`."""

from equigrad.data.glyphs.drawing import choose_glyphs

choose_glyphs(1)  # a larger choice continues this one
