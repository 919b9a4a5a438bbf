"""Generated data for all three tasks: scenes of characters from fonts, so nothing is downloaded."""

from typing import TYPE_CHECKING

from equigrad.lazy import lazy_exports

if TYPE_CHECKING:
    from equigrad.data.glyphs.drawing import GlyphSet as GlyphSet, choose_glyphs as choose_glyphs
    from equigrad.data.glyphs.files import (
        write_classification as write_classification,
        write_detection as write_detection,
        write_segmentation as write_segmentation,
    )
    from equigrad.data.glyphs.layout import GlyphData as GlyphData, glyph_images as glyph_images
    from equigrad.data.glyphs.scenes import Scene as Scene, SceneStyle as SceneStyle, render_scene as render_scene
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
