"""The page: one file under its own policy, in which names stay text."""

import re
from base64 import b64encode
from hashlib import sha256
from html import escape
from html.parser import HTMLParser

import pytest

from priormtl.reports import report
from priormtl.reports.page import to_page
from reported_models import model_of, tuned_model

EVIL = "<script>alert(1)</script>"


class Elements(HTMLParser):
    """Tags and their settings, and the text of scripts and styles."""

    def __init__(self, page):
        super().__init__()
        self.found, self.texts = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, text):
        if self.found and self.found[-1][0] in {"script", "style"}:
            self.texts.append((self.found[-1], text))
            self.found.append(("", {}))


def digest(text):
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def test_policy_names_exactly_the_pages_own_parts():
    elements = Elements(report(tuned_model()).html())
    policy = next(a["content"] for _, a in elements.found if "http-equiv" in a)
    code = [text for (tag, a), text in elements.texts if tag == "script" and not a]
    style = [text for (tag, _), text in elements.texts if tag == "style"]
    assert len(code) == len(style) == 1
    assert policy.startswith("default-src 'none';")
    assert re.findall(r"'sha256-[^']+'", policy) == [digest(code[0]), digest(style[0])]
    assert "unsafe" not in policy


def test_nothing_refers_to_the_outside():
    page = report(tuned_model()).html()
    for tag, settings in Elements(page).found:
        assert "src" not in settings, tag
        assert "style" not in settings, tag
        assert not any(name.startswith("on") for name in settings), tag
        assert settings.get("href", "#").startswith(("#", "data:,")), tag
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)


@pytest.mark.parametrize("name", [EVIL, '"><img src=x>', "a & b", "${title} $title"])
def test_names_and_titles_stay_text(name):
    page = report(model_of([[1.0]] * 5, [name], [name] * 5), title=name).html()
    assert EVIL not in page
    assert "<img" not in page
    assert f"<title>{escape(name)}</title>" in page
    assert f"<h1>{escape(name)}</h1>" in page


def test_answers_do_not_need_the_script():
    content = report(tuned_model()).content
    page = to_page(content)
    static = page[: page.index('<script type="application/json"')]
    for finding in content.findings:
        assert escape(finding.value) in static
        assert escape(finding.sentence) in static
        assert escape(finding.note) in static


def test_the_page_is_the_same_each_time():
    assert report(tuned_model()).html() == report(tuned_model()).html()
