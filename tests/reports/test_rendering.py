"""Reports as pages, JSON, Markdown and files of coefficients; names stay text."""

import csv
import json
import re
from base64 import b64decode, b64encode
from hashlib import sha256
from html import escape, unescape
from html.parser import HTMLParser

import numpy as np
import pytest
from pyarrow import parquet

import priormtl
from priormtl import MultiTaskClassifier, MultiTaskRegressor, load, save
from priormtl.audits import audit_prior
from priormtl.baselines import RMTL
from priormtl.reports import Report, report
from priormtl.reports.build import (
    pack_numbers,
    save_coefficients,
    to_json,
    to_markdown,
    to_page,
    to_page_data,
)
from priormtl.reports.content import spell
from shown_models import TASKS, drawn_rows, fitted_of, model_of, tuned_model

# Making


DEGENERATE = {
    "one task": model_of([[1.0, 2.0]]),
    "one feature": model_of([[1.0], [2.0], [3.0], [4.0]]),
    "one number": model_of([[1.0]]),
    "all zero": model_of(np.zeros((5, 3))),
    "huge": model_of(np.full((5, 3), 1e300)),
    "tiny": model_of(np.full((5, 3), 1e-300)),
    "mixed": model_of([[1e300, 1e-300], [-1e300, 0.0]] * 3),
    "unicode": model_of(np.eye(5), list("äß漢🙂\ud800"), ["é", "", " ", "\n", "\x00"]),
    "same names": model_of(np.eye(5), ["a"] * 5, ["t"] * 5),
    "numbered tasks": model_of(np.eye(4), None, np.arange(4)),
}


@pytest.mark.parametrize("model", DEGENERATE.values(), ids=DEGENERATE)
def test_every_model_has_a_report(model):
    made = report(model)
    page, text = made.to_html(), made.to_markdown()
    told = json.loads(made.to_json())
    assert page.encode()
    assert text.encode()
    assert len(told["findings"]) == 5
    assert np.array_equal(
        np.sort(np.ravel(told["coefficients"]["values"])), np.sort(model.coef_.ravel())
    )


def test_rows_are_scored():
    X, y, task, _ = drawn_rows()
    made = report(tuned_model(), X, y, task=task)
    assert made.content.metric == "R²"
    assert made.content.table("tasks")["task"] == TASKS
    assert "On the given rows" in made.content.finding("quality").sentence


def test_saved_models_tell_the_same_coefficients(tmp_path):
    save(tuned_model(), tmp_path / "m.model")
    loaded = report(load(tmp_path / "m.model"))
    kept = report(tuned_model())
    assert loaded.content.finding("prior") == kept.content.finding("prior")
    assert loaded.content.finding("certificate") == kept.content.finding("certificate")


def test_classifiers_and_methods_compared_are_reported():
    X, y, task, _ = drawn_rows()
    made = report(
        MultiTaskClassifier(5.0).fit(X, y > 0, task=task), X, y > 0, task=task
    )
    assert made.content.metric == "AUC"
    other = report(RMTL().fit(X, y, task=task), X, y, task=task)
    assert other.content.finding("certificate").question == "Did the fit converge?"


def test_an_audit_speaks_of_the_same_relations():
    X, y, task, _ = drawn_rows()
    audit = audit_prior(tuned_model(), X, y, task=task, n_repeats=1)
    told, own = (
        report(tuned_model(), audit=audit).content,
        report(tuned_model()).content,
    )
    assert told.finding("prior").sentence.startswith(audit.helped.sentence)
    table = told.table("relations")
    after = dict(zip(table["relation"], table["violation_after"], strict=True))
    table = own.table("relations")
    for name, value in zip(table["relation"], table["violation_after"], strict=True):
        assert after[name] == pytest.approx(value, abs=1e-6)


def test_model_is_left_as_it_was():
    X, y, task, _ = drawn_rows()
    model = MultiTaskClassifier(5.0).fit(X, y > 0, task=task)
    before = dict(vars(model))
    report(model, X, y > 0, task=task)
    assert vars(model) == before


def test_files_appear_whole(tmp_path):
    made = report(tuned_model())
    made.save(tmp_path / "r.html", coefficients=tmp_path / "c.csv")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page == made.to_html()
    assert (tmp_path / "c.csv").exists()
    with pytest.raises(ValueError, match="coefficients must be"):
        made.save(tmp_path / "other.html", coefficients=tmp_path / "c.txt")
    assert {path.name for path in tmp_path.iterdir()} == {"r.html", "c.csv"}


def test_notebooks_show_the_page_apart():
    shown = report(model_of([[1.0]], ["<b>"]))._repr_html_()
    assert shown.startswith("<iframe")
    assert shown.count("<") == 2
    assert "allow-same-origin" not in shown


def test_public_name():
    assert priormtl.report is report
    assert isinstance(report(model_of([[1.0]])), Report)


@pytest.mark.parametrize("given", [{"X": [[1.0]]}, {"y": [1.0]}])
def test_rows_need_targets(given):
    with pytest.raises(ValueError, match="must be given together with"):
        report(model_of([[1.0]]), **given)


def test_unfitted_models_are_refused():
    with pytest.raises(TypeError, match="Call fit first"):
        report(MultiTaskRegressor())


# Page


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
    elements = Elements(report(tuned_model()).to_html())
    policy = next(a["content"] for _, a in elements.found if "http-equiv" in a)
    code = [text for (tag, a), text in elements.texts if tag == "script" and not a]
    style = [text for (tag, _), text in elements.texts if tag == "style"]
    assert len(code) == len(style) == 1
    assert policy.startswith("default-src 'none';")
    assert re.findall(r"'sha256-[^']+'", policy) == [digest(code[0]), digest(style[0])]
    assert "unsafe" not in policy


def test_nothing_refers_to_the_outside():
    page = report(tuned_model()).to_html()
    for tag, settings in Elements(page).found:
        assert "src" not in settings, tag
        assert "style" not in settings, tag
        assert not any(name.startswith("on") for name in settings), tag
        assert settings.get("href", "#").startswith(("#", "data:,")), tag
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)


@pytest.mark.parametrize("name", [EVIL, '"><img src=x>', "a & b", "${title} $title"])
def test_names_and_titles_stay_text(name):
    page = report(model_of([[1.0]] * 5, [name], [name] * 5), title=name).to_html()
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
    assert report(tuned_model()).to_html() == report(tuned_model()).to_html()


# Plain


def unpack(text):
    values = np.frombuffer(b64decode(text), "<f8")
    return [None if not np.isfinite(value) else value for value in values.tolist()]


def test_packed_numbers_are_exact():
    values = np.array([0.1, -1e300, np.nan, 5e-324])
    assert np.array_equal(np.frombuffer(b64decode(pack_numbers(values))), values, True)


def test_page_and_json_hold_the_same():
    content = report(tuned_model()).content
    plain, page = json.loads(to_json(content)), json.loads(to_page_data(content))
    for table in page["tables"].values():
        for column in table["columns"]:
            if not column["text"]:
                column["values"] = unpack(column["values"])
    block = page.pop("coefficients")
    told = plain.pop("coefficients")
    assert page == plain
    assert unpack(block["values"]) == [v for row in told["values"] for v in row]
    assert block["shape"] == [len(told["features"]), len(told["tasks"])]


def test_coefficients_are_the_models():
    model = tuned_model()
    told = json.loads(report(model).to_json())["coefficients"]
    names = model.feature_names_in_.tolist()
    place = [names.index(name) for name in told["features"]]
    assert np.array_equal(np.array(told["values"]), model.coef_[:, place].T)
    assert told["tasks"] == model.tasks_.tolist()


def test_unknown_numbers_are_null():
    text = report(model_of(np.zeros((2, 2)), objective_=0.0, dual_gap_=1.0)).to_json()
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text)["tables"]["features"]["columns"][5]["values"] == [None] * 2


def test_page_data_hold_no_markup():
    name = "</script><script>alert(1)</script>&amp;"
    content = report(model_of([[1.0]], [name])).content
    text = to_page_data(content)
    assert not set("<>&") & set(text)
    told = json.loads(text)["tables"]["features"]["columns"][0]["values"]
    assert told == [name]


# Markdown


def plain(text):
    return unescape(text.replace("\\", ""))


def test_every_answer_and_table_is_there():
    content = report(tuned_model()).content
    text = plain(to_markdown(content, 30))
    for finding in content.findings:
        assert f"## {finding.question} {finding.value}" in text
        assert finding.sentence in text
        assert finding.note in text
    for table in content.tables:
        assert f"**{table.title}**" in text
        for column in table.columns:
            cells = column.values[:30]
            words = cells if column.is_text else [spell(float(v)) for v in cells]
            assert all(word in text for word in words)


def test_long_tables_are_cut_and_counted():
    text = report(model_of([[1.0] * 50])).to_markdown(rows=10)
    assert "… and 40 more rows." in text
    assert "… and 40 more features." in text


@pytest.mark.parametrize("name", ["a|b", "<b>x</b>", "*x*", "line\nbreak", "[x](y)"])
def test_names_stay_names(name):
    text = report(model_of([[1.0]], [name])).to_markdown()
    row = next(line for line in text.splitlines() if "| 1 |" in line)
    assert row.replace("\\|", "").count("|") == 8
    assert "<b>" not in text
    assert "[x](y)" not in text


# Coefficients


COEF = np.array([[0.1, -1e300], [np.pi, 0.0]])
NAMES = (['comma, "quote"', "é\nline"], ["a", "b"])


def test_csv_holds_every_digit(tmp_path):
    save_coefficients(fitted_of(COEF, *NAMES), tmp_path / "c.csv")
    with (tmp_path / "c.csv").open(encoding="utf-8", newline="") as file:
        head, *rows = list(csv.reader(file))
    assert head == ["feature", "a", "b"]
    assert [row[0] for row in rows] == NAMES[0]
    assert np.array_equal(np.array([row[1:] for row in rows], float), COEF.T)


def test_parquet_holds_the_same(tmp_path):
    save_coefficients(fitted_of(COEF, *NAMES), tmp_path / "c.parquet")
    table = parquet.read_table(tmp_path / "c.parquet")
    assert table.column_names == ["feature", "a", "b"]
    assert np.array_equal(np.stack([table["a"], table["b"]]), COEF)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"ends in .csv or .parquet"):
        save_coefficients(fitted_of(COEF), tmp_path / "c.xlsx")
    assert not list(tmp_path.iterdir())
