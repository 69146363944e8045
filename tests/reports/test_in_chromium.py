"""The page in a real browser: content, interactions, layouts, and no way out."""

import csv
import io
import json
import os
import shutil
import time
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest

from priormtl.reports import report
from priormtl.reports.content import spell
from shown_models import (
    FEATURES,
    TASKS,
    audit_of,
    drawn_rows,
    model_of,
    tuned_model,
)

pytestmark = pytest.mark.slow
# Headless, and without a way to the network.
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
EVIL = "<script>window.hacked = 1</script>"
KEYS = {"left": "\ue012", "up": "\ue013", "right": "\ue014", "down": "\ue015"}
HOME, END, TAB = "\ue011", "\ue010", "\ue004"


@contextmanager
def open_browser(folder):
    """Browser whose profile and downloads lie in ``folder``; skips where absent."""
    webdriver = pytest.importorskip("selenium.webdriver")
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    for name, path in programs.items():
        if path is None:
            pytest.skip(f"{name} is not installed: apt-get install chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    for flag in (*FLAGS, f"--user-data-dir={folder / 'profile'}"):
        options.add_argument(flag)
    options.set_capability(
        "goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"}
    )
    service = webdriver.ChromeService(programs["chromedriver"], log_output=os.devnull)
    browser = webdriver.Chrome(options=options, service=service)
    try:
        yield browser
    finally:
        browser.quit()


def resize(browser, width, height=900):
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def use_scheme(browser, scheme):
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def save_downloads(browser, folder):
    settings = {"behavior": "allow", "downloadPath": str(folder)}
    browser.execute_cdp_cmd("Browser.setDownloadBehavior", settings)


def requested(browser):
    """Addresses asked for since the last call."""
    messages = [
        json.loads(e["message"])["message"] for e in browser.get_log("performance")
    ]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def wait_for(condition, seconds=300.0):
    """First true value of ``condition``."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)
    return value


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chromium")
    with open_browser(folder) as opened:
        save_downloads(opened, folder)
        opened.downloads = folder
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Addresses of pages by name."""
    folder = tmp_path_factory.mktemp("pages")
    rng = np.random.default_rng(0)
    wide = model_of(
        rng.normal(size=(300, 80)), None, [f"school {i}" for i in range(300)]
    )
    evil = model_of(rng.normal(size=(6, 3)), [EVIL, "é", 'a "b", c'], [EVIL] * 6)
    made = {
        "tuned": report(tuned_model(), audit=audit_of(), title="Exams"),
        "wide": report(wide),
        "evil": report(evil, title=EVIL),
        "zero": report(model_of(np.zeros((5, 3)))),
        "single": report(model_of([[1e300]])),
    }
    for name, one in made.items():
        one.save(folder / f"{name}.html")
    return {name: (folder / f"{name}.html").as_uri() for name in made}


@pytest.fixture
def tuned(browser, pages):
    resize(browser, 1280)
    browser.get(pages["tuned"])
    return browser


def find(browser, selector):
    return browser.find_element("css selector", selector)


def press(browser, selector):
    """Click in the middle of an element, in one script: no scrolling comes between."""
    script = """const element = arguments[0];
      element.scrollIntoView({block: "center", behavior: "instant"});
      const box = element.getBoundingClientRect();
      const top = document.elementFromPoint(
        box.x + box.width / 2, box.y + box.height / 2);
      if (element !== top && !element.contains(top)) return "covered";
      top.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}));
      return "clicked";"""
    element = find(browser, selector)
    assert browser.execute_script(script, element) == "clicked"


def texts(browser, selector):
    script = (
        "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
    )
    return browser.execute_script(script, selector)


def choose(browser, words, value):
    """Set the control with these words, as a user's change would."""
    browser.execute_script(
        """const label = [...document.querySelectorAll("label")]
             .find(l => l.textContent.startsWith(arguments[0]));
           const control = label.querySelector("input, select");
           if (control.type === "checkbox") control.click();
           else { control.value = arguments[1];
                  control.dispatchEvent(new Event("input"));
                  control.dispatchEvent(new Event("change")); }""",
        words,
        value,
    )


def shown_features(browser):
    return texts(browser, ".names div")


def map_readout(browser):
    return find(browser, "#coefficients .readout").text


def first_column(browser, section):
    return texts(browser, f"#{section} .data tbody th")


def tasks_by_effect(content):
    """Tasks as the page ranks them: the largest effect in units of its error first."""
    tasks = content.table("tasks")
    ratio = np.abs(tasks["effect"]) / (tasks["effect_high"] - tasks["effect_low"])
    return [tasks["task"][i] for i in np.argsort(-ratio, kind="stable")]


def test_content_is_there(tuned):
    content = report(tuned_model(), audit=audit_of()).content
    assert tuned.title == find(tuned, "h1").text == "Exams"
    values = texts(tuned, ".findings .value")
    assert values == [finding.value for finding in content.findings]
    assert first_column(tuned, "features") == list(content.table("features")["feature"])
    assert first_column(tuned, "tasks") == tasks_by_effect(content)
    assert first_column(tuned, "relations") == ["age ~ sleep"]
    assert set(shown_features(tuned)) <= set(FEATURES)
    links = texts(tuned, "nav a:not([hidden])")
    assert links == texts(tuned, "main section:not([hidden]) > h2")[:1] + links[1:]
    assert len(links) == 8


def test_nothing_is_asked_for_and_nothing_is_wrong(browser, pages):
    browser.get_log("browser")
    requested(browser)
    for address in pages.values():
        browser.get(address)
        outside = [url for url in requested(browser) if not url.startswith("data:,")]
        assert outside == [address]
    assert browser.get_log("browser") == []


def test_names_stay_text(browser, pages):
    browser.get(pages["evil"])
    assert browser.execute_script("return window.hacked") is None
    assert browser.title == find(browser, "h1").text == EVIL
    assert EVIL in first_column(browser, "features")
    assert EVIL in shown_features(browser)
    assert browser.execute_script("return document.scripts.length") == 2


def test_policy_blocks_what_is_not_the_pages_own(tuned):
    tuned.execute_script(
        """const script = document.createElement("script");
           script.textContent = "window.hacked = 1";
           document.body.append(script);
           document.body.setAttribute("style", "color: rgb(1, 2, 3)");"""
    )
    assert tuned.execute_script("return window.hacked") is None
    colour = "return getComputedStyle(document.body).color"
    assert tuned.execute_script(colour) != "rgb(1, 2, 3)"
    assert len(tuned.get_log("browser")) == 2  # both are reported


def per_deviation(feature):
    """Coefficients of a feature over tasks, in its standard deviations."""
    deviation = drawn_rows()[0][feature].std(ddof=0)
    return tuned_model().coef_[:, FEATURES.index(feature)] * deviation


def test_the_map_is_read_by_pointer(tuned):
    from selenium.webdriver import ActionChains  # noqa: PLC0415

    canvas = find(tuned, ".map canvas")
    tuned.execute_script(
        "arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", canvas
    )
    width, height = canvas.size["width"], canvas.size["height"]
    ActionChains(tuned).move_to_element_with_offset(
        canvas, 5 - width // 2, height // 2 - 3
    ).perform()
    feature = shown_features(tuned)[-1]
    assert (
        map_readout(tuned) == f"{feature} in East: {spell(per_deviation(feature)[0])}"
    )


def test_the_map_is_read_by_keys(tuned):
    canvas = find(tuned, ".map canvas")
    first, second, *_ = shown_features(tuned)
    canvas.send_keys(HOME)
    assert map_readout(tuned).startswith(f"{first} in East: ")
    canvas.send_keys(KEYS["down"], KEYS["right"])
    assert map_readout(tuned).startswith(f"{second} in North: ")
    canvas.send_keys(END, KEYS["right"], KEYS["up"], KEYS["up"])
    assert map_readout(tuned).startswith(f"{first} in West: ")
    assert find(tuned, "#coefficients .readout").get_attribute("role") == "status"


def test_features_and_tasks_of_the_map_are_sorted_and_filtered(tuned):
    choose(tuned, "Features by", "name")
    assert shown_features(tuned) == sorted(shown_features(tuned))
    choose(tuned, "Find tasks", "OUTH")
    assert "1 of 4 tasks" in find(tuned, "#coefficients .more").text
    find(tuned, ".map canvas").send_keys(HOME)
    assert " in South: " in map_readout(tuned)
    choose(tuned, "Find tasks", "nowhere")
    assert "Nothing to show" in map_readout(tuned)
    choose(tuned, "Find tasks", "")
    choose(tuned, "Tasks by", "score")
    find(tuned, ".map canvas").send_keys(HOME)
    content = report(tuned_model()).content
    best = TASKS[int(np.argmax(content.table("tasks")["score"]))]
    assert f" in {best}: " in map_readout(tuned)


def test_values_are_per_standard_deviation_until_asked(tuned):
    find(tuned, ".map canvas").send_keys(HOME)
    feature = shown_features(tuned)[0]
    scaled = map_readout(tuned)
    choose(tuned, "Values", "raw")
    find(tuned, ".map canvas").send_keys(HOME)
    value = tuned_model().coef_[0, FEATURES.index(feature)]
    assert map_readout(tuned) == f"{feature} in East: {spell(value)}" != scaled


def test_only_selected_features_are_shown_until_asked(browser, pages):
    browser.get(pages["zero"])
    assert "Nothing to show" in map_readout(browser)
    choose(browser, "Only selected", None)
    assert shown_features(browser) == ["x0", "x1", "x2"]


def test_the_map_may_be_a_table(tuned):
    choose(tuned, "As a table", None)
    head = texts(tuned, "#coefficients thead th")
    assert head == ["Feature", *TASKS]
    cells = texts(tuned, "#coefficients tbody tr:first-child td")
    feature = texts(tuned, "#coefficients tbody tr:first-child th")[0]
    assert cells == [spell(value) for value in per_deviation(feature)]
    assert not find(tuned, ".map canvas").is_displayed()


def test_tables_sort_by_any_column(tuned):
    head = find(tuned, "#features thead th:nth-child(1) button")
    head.send_keys(" ")
    assert first_column(tuned, "features") == sorted(FEATURES)
    cell = find(tuned, "#features thead th:nth-child(1)")
    assert cell.get_attribute("aria-sort") == "ascending"
    press(tuned, "#features thead th:nth-child(1) button")
    assert first_column(tuned, "features") == sorted(FEATURES)[::-1]


def test_tables_are_filtered_and_grow(browser, pages):
    browser.get(pages["wide"])
    assert len(first_column(browser, "tasks")) == 12
    press(browser, "#tasks .more button")
    assert len(first_column(browser, "tasks")) == 112
    choose(browser, "Find in tasks", "SCHOOL 29")
    wanted = ["school 29", *(f"school {i}" for i in range(290, 300))]
    assert first_column(browser, "tasks") == wanted


@pytest.mark.parametrize("name", ["tasks", "search"])
def test_charts_are_read_by_keys(tuned, name):
    if name == "tasks":  # it opens with scores, since no effect is certain
        choose(tuned, "Show", "effect")
    chart = find(tuned, f"#{name} .chart svg")
    chart.send_keys(HOME)
    low = find(tuned, f"#{name} .readout").text
    chart.send_keys(END)
    high = find(tuned, f"#{name} .readout").text
    assert low != high
    number = [float(words.split()[-1].replace("−", "-")) for words in (low, high)]
    if name == "tasks":
        tasks = report(tuned_model()).content.table("tasks")
        order = np.argsort(tasks["effect"])
        ends = tasks["effect_high"][order[[0, -1]]]  # read out last
        assert number == pytest.approx(ends, rel=1e-2)


def test_the_search_shows_one_epsilon_at_a_time(tuned):
    points = "#search .chart circle:not(.mark):not(.chosen)"
    assert len(texts(tuned, points)) == 8
    assert len(texts(tuned, "#search .chosen")) == 1
    other = 0.0 if tuned_model().epsilon_ else 10.0
    choose(tuned, "epsilon", f"{other:g}")
    assert len(texts(tuned, points)) == 8
    assert texts(tuned, "#search .chosen") == []


def read_download(browser, name):
    path = browser.downloads / f"{name}.csv"
    path.unlink(missing_ok=True)
    press(browser, f"[data-download={name}]")
    wait_for(path.exists)
    text = wait_for(lambda: path.read_text(encoding="utf-8"))
    return list(csv.reader(io.StringIO(text)))


def test_downloads_hold_every_digit(tuned):
    head, *rows = read_download(tuned, "coefficients")
    assert head == ["feature", *TASKS]
    place = [FEATURES.index(row[0]) for row in rows]
    values = np.array([row[1:] for row in rows], dtype=float)
    assert np.array_equal(values, tuned_model().coef_[:, place].T)
    head, *rows = read_download(tuned, "search")
    table = report(tuned_model()).content.table("search")
    assert [float(row[head.index("score")]) for row in rows] == table["score"].tolist()


def test_downloads_quote_what_needs_it(browser, pages):
    browser.get(pages["evil"])
    _, *rows = read_download(browser, "features")
    assert {row[0] for row in rows} == {EVIL, "é", 'a "b", c'}


@pytest.mark.parametrize(
    ("width", "scheme"), [(375, "dark"), (768, "light"), (1440, "light")]
)
def test_nothing_is_wider_than_the_screen(browser, pages, width, scheme):
    use_scheme(browser, scheme)
    resize(browser, width)
    measure = (
        "const e = document.documentElement; return [e.scrollWidth, e.clientWidth]"
    )
    for name in ("tuned", "wide", "evil"):
        browser.get(pages[name])
        needed, there = browser.execute_script(measure)
        assert needed <= there, name


def test_dark_is_dark_and_repaints(tuned):
    def looks():
        return tuned.execute_script(
            """const brush = document.querySelector(".map canvas").getContext("2d");
               const pixel = [...brush.getImageData(2, 100, 1, 1).data];
               return [getComputedStyle(document.body).backgroundColor, pixel];"""
        )

    use_scheme(tuned, "light")
    wait_for(lambda: looks()[0] == "rgb(255, 255, 255)")
    _, light = looks()
    use_scheme(tuned, "dark")
    wait_for(lambda: looks()[0] != "rgb(255, 255, 255)" and looks()[1] != light)


def test_wide_maps_fit_on_paper(browser, pages):
    resize(browser, 1280)
    browser.get(pages["wide"])
    canvas = find(browser, ".map canvas")
    before = canvas.size["width"]
    browser.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert canvas.size["width"] <= 520 < before
    browser.execute_script("dispatchEvent(new Event('afterprint'))")
    assert canvas.size["width"] == before


def test_the_keyboard_reaches_everything(tuned):
    from selenium.webdriver import ActionChains  # noqa: PLC0415

    tuned.execute_script(
        """window.seen = [];
           addEventListener("focusin", ({target: e}) =>
             seen.push(e.textContent || e.ariaLabel || ""));"""
    )
    ActionChains(tuned).send_keys(TAB * 70).perform()
    seen = tuned.execute_script("return seen")
    assert seen[0] == "Skip to the answers"
    assert any(words.startswith("Map of coefficients") for words in seen)
    assert seen.count("Download CSV") == 6


def test_landmarks_and_headings_are_in_order(tuned):
    script = "return [...document.querySelectorAll('h1, h2, h3')].map(e => e.tagName)"
    levels = [int(tag[1]) for tag in tuned.execute_script(script)]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    for landmark in ("header", "nav[aria-label]", "main", "footer"):
        assert find(tuned, landmark)


def test_a_notebook_frame_shows_the_page(browser, tmp_path):
    page = report(tuned_model())
    frame = page._repr_html_()
    (tmp_path / "notebook.html").write_text(frame, encoding="utf-8")
    browser.get((tmp_path / "notebook.html").as_uri())
    browser.switch_to.frame(find(browser, "iframe"))
    assert first_column(browser, "tasks") == tasks_by_effect(page.content)
    browser.switch_to.default_content()
