import json
from html.parser import HTMLParser

from hypothesis import given, strategies as st

from equigrad.analysis.markup import Html, element, join, listing, script_data, table, users_name

# Half of it made of what could end an element, an attribute or a script.
HOSTILE = st.one_of(
    st.text(), st.lists(st.sampled_from(["</script>", "<!--", "]]>", "&lt;", '"', "'", "<b>", "$x", "\\"])).map("".join)
)


class Reader(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.attributes, self.text = [], [], ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


@given(HOSTILE, HOSTILE)
def test_text_and_attributes_come_out_as_they_went_in(text, attribute):
    read = Reader(element("p", text, title=attribute))
    assert read.elements == ["p"]
    assert read.text == text
    assert dict(read.attributes).get("title", "") == attribute


@given(HOSTILE)
def test_tables_and_lists_have_only_their_own_elements(text):
    read = Reader(join([table(text, [text, text], [[text, text]]), listing([text])]))
    expected = ["div", "table", "caption", "thead", "tr", "th", "th", "tbody", "tr", "th", "td", "ul", "li"]
    assert read.elements == expected
    assert read.text == text * 6


@given(st.recursive(HOSTILE, lambda inner: st.lists(inner) | st.dictionaries(HOSTILE, inner)))
def test_data_in_a_script_is_the_same_and_holds_no_tag(value):
    written = script_data(value)
    assert json.loads(written) == value
    assert not set("<>&") & set(written)


def test_markup_is_not_escaped_twice():
    assert element("b", Html("<i>x</i>"), " & y") == "<b><i>x</i> &amp; y</b>"
    assert element("span", class_="a", aria_hidden="true") == '<span class="a" aria-hidden="true"></span>'


def test_a_users_name_breaks_after_underscores_and_cannot_become_an_element():
    assert users_name("a_b<c>") == "<bdi>a_<wbr>b&lt;c&gt;</bdi>"
