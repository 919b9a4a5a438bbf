import numpy as np
import pytest
from fontTools.colorLib.builder import buildCOLR, buildCPAL
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from fontTools.ttLib import TTFont
from PIL import Image

from equigrad.analysis.pictures import text as texts
from equigrad.analysis.pictures.text import category_text, draw_text, fitted, font_file, legible, one_line, text_width


def test_what_steers_a_terminal_or_breaks_a_line_is_no_part_of_a_name():
    assert one_line("red\x1b[31m \n\tcup\u202e\x00") == "red [31m cup"


def test_a_very_long_name_is_cut():
    assert len(one_line("long " * 10_000)) <= 60
    assert one_line("x" * 60) == "x" * 60
    assert one_line("x" * 61) == "x" * 59 + "…"


@pytest.mark.parametrize("width", [0, 5, 40, 200])
def test_a_text_is_shortened_until_it_fits(width):
    shown = fitted("a name that is rather long", width, 18)
    assert text_width(shown, 18) <= width


def test_a_text_that_fits_stays_whole():
    assert fitted("cup", 200, 18) == "cup"


@pytest.mark.parametrize("name", ["Straße", "кошка", "γάτα", "قطة", "❤️"])
def test_scripts_of_the_default_font_stay_as_they_are(name):
    assert category_text(name, 3) == name.removesuffix("\ufe0f")


@pytest.fixture
def fonts(tmp_path, monkeypatch):
    """The fonts of a system: none at first."""
    monkeypatch.setattr(texts, "_system_fonts", lambda: sorted(tmp_path.iterdir()))
    monkeypatch.setattr(texts, "_noted", [])
    cached = (legible, texts.font_file, texts._emoji)
    for function in cached:
        function.cache_clear()
    yield tmp_path
    for function in cached:
        function.cache_clear()


def write_font(file, letters):
    """A font in which every letter is a square."""
    pen = TTGlyphPen(None)
    for move, point in ((pen.moveTo, (0, 0)), (pen.lineTo, (0, 500)), (pen.lineTo, (500, 500)), (pen.lineTo, (500, 0))):
        move(point)
    pen.closePath()
    names = [".notdef", *(f"u{ord(letter):x}" for letter in letters)]
    builder = FontBuilder(1000)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap({ord(letter): f"u{ord(letter):x}" for letter in letters})
    builder.setupGlyf(dict.fromkeys(names, pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (600, 0)))
    builder.setupHorizontalHeader(ascent=800, descent=-200)
    builder.setupNameTable({"familyName": "Squares", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    builder.save(file)


@pytest.mark.usefixtures("fonts")
def test_letters_that_no_font_has_become_code_points_after_the_label():
    assert category_text("猫 cup", 17) == "17: U+732B cup"
    assert category_text("👨\u200d👩", 2) == "2: U+1F468 U+1F469"
    assert category_text("", 4) == "4"
    assert font_file(legible("猫")) == font_file("cup")


def test_a_font_of_the_system_that_has_the_letters_is_taken(fonts):
    write_font(fonts / "squares.ttf", "猫犬" + texts._BESIDE_NAMES)
    write_font(fonts / "without_digits.ttf", "猫犬鳥👩")
    (fonts / "broken.ttf").write_bytes(b"no font")
    assert category_text("猫", 17) == "猫"
    assert font_file("猫 0.91") == fonts / "squares.ttf"
    assert category_text("猫👩", 17) == "17: 猫 U+1F469"


def test_a_name_without_a_font_can_still_be_told_from_others_when_it_is_cut():
    shown = [fitted(category_text("猫" * 30 + end, label), 120, 18) for label, end in enumerate("ab")]
    assert shown[0] != shown[1]


def test_missing_letters_are_noted_once(fonts, capsys):
    assert legible("cup") == "cup"
    assert capsys.readouterr().err == ""
    assert legible("猫") == "U+732B"
    assert legible("🦄") == "U+1F984"
    (note,) = capsys.readouterr().err.splitlines()
    assert note.startswith("note: no font of this system has U+732B of a name")


def write_emoji_font(file, letters):
    """A font in which every letter is a blue square of coloured layers."""
    write_font(file, letters)
    with TTFont(file) as font:
        names = [name for name in font.getGlyphOrder() if name != ".notdef"]
        font["COLR"] = buildCOLR({name: [(name, 0)] for name in names}, version=0)
        font["CPAL"] = buildCPAL([[(0.0, 0.0, 1.0, 1.0)]])
        font.save(file)


def drawn(text, size=40):
    """The colours of a text in black on white."""
    image = Image.new("RGB", (400, 60), "white")
    draw_text(image, (0, 30), text, size, "black", is_middle=True)
    return image


def test_emoji_are_drawn_in_colour_by_a_font_that_has_them(fonts):
    write_emoji_font(fonts / "colour.ttf", "🦊🐱")
    assert category_text("🦊 fox 🐱", 1) == "🦊 fox 🐱"
    assert category_text("🦊 猫", 1) == "1: 🦊 U+732B"
    colours = {colour for _, colour in drawn("🦊 fox").getcolors()}
    assert {(0, 0, 255), (0, 0, 0)} <= colours
    shown = np.asarray(drawn("🦊 fox"))
    assert np.flatnonzero((shown < 128).any(axis=(0, 2)))[-1] < text_width("🦊 fox", 40)
    assert all(text_width(fitted("🦊🐱" * 9, width, 18), 18) <= width for width in (0, 10, 40, 100))


def test_emoji_of_the_system_are_drawn_in_colour():
    if texts._emoji() is None or ord("🦊") not in texts._emoji().letters:
        pytest.skip("no font of this system has coloured emoji (Debian: fonts-noto-color-emoji)")
    assert category_text("🦊 fox", 1) == "🦊 fox"
    shown = np.asarray(drawn("🦊")).astype(int)
    assert (shown.max(2) - shown.min(2)).max() > 100  # not grey
    assert drawn("👍🏽").tobytes() != drawn("👍").tobytes()  # a skin tone is part of the emoji
    assert text_width("👍🏽", 40) == text_width("👍", 40)


def test_figures_show_emoji_by_their_numbers(fonts):
    write_emoji_font(fonts / "colour.ttf", "🦊")
    assert legible("🦊 fox", with_emoji=False) == "U+1F98A fox"
