"""Drawn glyphs: long-tailed data that needs no download."""
