"""Data: category frequencies, readers of the real benchmarks, transforms, and generated glyph scenes."""
