"""The page of tools.playground in a browser: type, click, point, read.

Needs Chromium, Gradio, Playwright and axe, and skips without them. `make
test-browser` installs the packages and runs this file.
"""

import importlib.util
import re
import shutil
import time

import page_models
import page_site
import pytest

from tools.page import limits

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LACKING = [
    name
    for name in ("gradio", "playwright", "axe_playwright_python")
    if importlib.util.find_spec(name) is None
] + ([] if CHROMIUM else ["chromium"])

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        bool(LACKING), reason=f"no {', '.join(LACKING)}: make test-browser"
    ),
]

ARGUMENTS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
).split()
KINDS = (
    "masked_lm",
    "sentence_score",
    "pairs",
    "question_answering",
    "token_classification",
    "multiple_choice",
)
EVIL = (
    "<script>document.title='broken'</script><b>good</b> {{value}} ${1+1} "
    "film\x07 <img src=x onerror=\"document.title='broken'\">"
)
SECONDS = 60_000  # milliseconds; a busy machine is slow
DESKTOP, PHONE = (1300, 800), (390, 844)


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    return page_models.made_once(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def address(model_of):
    with page_site.served([model_of(kind) for kind in KINDS]) as found:
        yield found


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(
            executable_path=CHROMIUM, args=ARGUMENTS
        )
        yield opened
        opened.close()


class User:
    """A window of the browser on the page; it has shown the first example."""

    def __init__(self, browser, address: str, size=DESKTOP, is_dark=False):
        self.page = browser.new_page(
            viewport={"width": size[0], "height": size[1]},
            has_touch=size == PHONE,
            color_scheme="dark" if is_dark else "light",
        )
        self.page.set_default_timeout(SECONDS)
        self.requested: list[str] = []
        self.page.on("request", lambda r: self.requested.append(r.url))
        self.page.goto(address)
        self.done()

    def done(self) -> "User":
        """Wait until the shown tab has a result, and no other is computed."""
        self.shown(".results :is(p, h2, table, .js-plotly-plot)")
        self.page.locator(".results .pending:visible").first.wait_for(
            state="detached"
        )
        self.page.wait_for_timeout(300)  # it fades in
        return self

    def open(self, tab: str) -> "User":
        """Open a tab, on a phone from its menu; wait for its example."""
        found = self.page.get_by_role("tab", name=tab, exact=True)
        if not found.first.is_visible():
            self.page.locator(".overflow-menu > button").click()
            found = self.page.locator(".overflow-dropdown button")
            found = found.filter(has_text=re.compile(f"^{tab}"))
        found.first.click()
        self.page.wait_for_timeout(500)
        return self.done()

    def fill(self, label: str, text: str) -> "User":
        """Type into a box."""
        box = self.page.get_by_label(label, exact=True)
        box.locator("visible=true").fill(text)
        return self

    def run(self) -> "User":
        """Click Run; wait for the end."""
        self.shown("button.run").click()
        self.page.wait_for_timeout(500)
        return self.done()

    def shown(self, selector: str):
        """Wait for something on the page; return the visible ones."""
        found = self.page.locator(f"{selector}:visible")
        found.first.wait_for()
        return found

    def text(self) -> str:
        """Return the results of the shown tab."""
        return self.shown(".results").inner_text()

    def told(self, text: str) -> "User":
        """Wait until the shown tab has a text among its results."""
        for _ in range(100):
            if text in self.text():
                return self
            self.page.wait_for_timeout(200)
        raise AssertionError(f"{text!r} not in {self.text()!r}")


@pytest.fixture(scope="module")
def user(browser, address):
    return User(browser, address)


MASK = "Text with [MASK] for each word to find"


def test_the_page_opens_with_an_example(user, address):
    assert "Paris is the" in user.text() and "[MASK] 2" in user.text()
    assert user.page.title() == f"{', '.join(KINDS)} - BERT playground"
    assert user.page.inner_text("h1") == "BERT playground"
    icon = user.page.request.get(f"{address}favicon.ico")
    assert icon.headers["content-type"] == "image/svg+xml"


def test_results_are_beside_the_input_on_a_desktop(user):
    left = user.shown("textarea").first.bounding_box()
    right = user.shown(".results").bounding_box()
    assert right["x"] >= left["x"] + left["width"]
    assert abs(right["y"] - left["y"]) < 100


def test_on_a_phone_results_are_under_run_and_examples_under_them(
    browser, address
):
    """Gaps between boxes have 16 pixels."""
    one = User(browser, address, PHONE)
    boxes = (
        one.shown(selector).first.bounding_box()
        for selector in ("button.run", ".results", ".sides .gallery")
    )
    run, results, examples = boxes
    assert 0 <= results["y"] - run["y"] - run["height"] <= 20
    assert examples["y"] > results["y"] + results["height"]
    one.page.close()


def test_the_facts_of_the_models_are_behind_an_i(user):
    fact = user.page.get_by_text("word pieces, uncased").first
    assert not fact.is_visible()
    user.page.locator("summary").click()
    fact.wait_for()
    user.page.locator("summary").click()


def test_an_example_runs_when_it_is_clicked(user):
    user.page.get_by_text("Return [MASK] if the object is [MASK].").click()
    user.told("if the object")


def test_shift_enter_runs(user):
    user.open("Masked words").fill(MASK, "the [MASK] sat")
    user.page.get_by_label(MASK).locator("visible=true").press("Shift+Enter")
    user.told("sat")


def test_a_mistake_is_a_sentence_and_the_page_goes_on(user):
    user.open("Masked words").fill(MASK, "nothing").run()
    user.told("o [MASK] in the text")
    assert "--" not in user.text()
    user.fill(MASK, "a [MASK]").run().told("[MASK] 1")
    assert "in the text" not in user.text()


@pytest.mark.parametrize(
    ("tab", "fields", "wanted"),
    [
        (
            "Sentence score",
            {"Sentence": "the cat sat"},
            ["Perplexity", "given all others", "%"],
        ),
        (
            "Next sentence",
            {"Text": "the cat sat", "Second text, which may follow": "a mat"},
            ["The second text follows", "%"],
        ),
        ("Classes", {"Text": "good film"}, ["bad", "good", "so so"]),
        ("Classes", {"Text": "good " * 40}, ["longer than the model reads"]),
        ("Reasons", {"Text": "good film"}, ["Log odds of", "film"]),
        (
            "Questions",
            {"Question": "How?", "Context": "a  Good film . " * 2000},
            ["Good film", "probability"],
        ),
        ("Entities", {"Text": "ann jr saw rome. " * 500}, ["LOC"]),
        (
            "Choices",
            {"Context": "a", "Choices, one in each line": "good\nbad"},
            ["1. good", "2. bad"],
        ),
        ("Word pieces", {"Text": "good film"}, ["places are used"]),
        (
            "Neighbors",
            {
                "Sentence": "good film",
                "Sentences to search, one in each line": "bad\ngood film",
            },
            ["The nearest of 2 sentences", "1.000"],
        ),
    ],
)
def test_tabs(user, tab, fields, wanted):
    user.open(tab)
    for label, text in fields.items():
        user.fill(label, text)
    user.run()
    for text in wanted:
        user.told(text)


def test_a_bar_is_as_long_as_its_probability(user):
    """Its color changes there."""
    share = user.open("Choices").shown(".share").first
    wanted = share.evaluate("e => e.style.getPropertyValue('--share')")
    drawn = share.evaluate("e => getComputedStyle(e, '::before').background")
    (*_, found) = re.findall(r"([\d.]+)%(?=, )", drawn)
    assert float(found) == float(wanted.rstrip("%"))


# --- Attention, with a real pointer ------------------------------------------


def test_the_heat_map_tells_the_weight_under_the_pointer(user):
    user.open("Attention").fill("Text", "good film").run()
    user.page.wait_for_timeout(2000)  # a new figure replaces the first one
    user.page.locator(
        ".heatmaplayer:visible"
    ).first.scroll_into_view_if_needed()
    box = user.shown(".heatmaplayer").first.bounding_box()
    middle = (box["x"] + box["width"] / 3, box["y"] + box["height"] / 3)
    user.page.mouse.move(*middle)
    told = user.page.locator(".hoverlayer .hovertext")
    told.first.wait_for()
    assert re.search(r"→ \S+ \d+ \d+\.\d%$", told.first.text_content())
    assert user.page.locator(".cbaxis:visible").count()  # the scale


# --- Requests ----------------------------------------------------------------


@pytest.fixture
def slow(model_of, monkeypatch):
    """A model of pairs that needs 0.2 seconds for each batch."""
    model = model_of("question_answering")
    run = model.run

    def slow_run(batch):
        time.sleep(0.2)
        return run(batch)

    monkeypatch.setattr(model, "run", limits.checked(slow_run))


def test_a_request_can_be_cancelled(browser, address, slow):
    one, other = User(browser, address), User(browser, address)
    one.open("Questions").fill("Context", "a  Good film . " * 2000)
    one.shown("button.run").click()
    one.shown("button.cancel").click()
    one.page.locator("button.cancel:visible").wait_for(state="detached")
    started = time.monotonic()
    other.fill(MASK, "the [MASK] sat").run()  # it does not wait
    assert "sat" in other.text() and time.monotonic() - started < 9
    for user in (one, other):
        user.page.close()


def test_a_long_request_ends(browser, address, slow, monkeypatch):
    monkeypatch.setattr(limits, "MAX_SECONDS", 1)
    one = User(browser, address).open("Questions")
    one.fill("Context", "a  Good film . " * 2000).run()
    one.told("took more than 1 seconds").page.close()


def test_the_address_opens_the_same(browser, address, user):
    user.open("Classes").fill("Text", "good & <b>film</b>").run()
    url, shown = user.page.url, user.text()
    again = User(browser, url)
    assert again.text() == shown
    assert (
        again.page.get_by_role("tab", selected=True).inner_text() == "Classes"
    )
    again.page.close()


def test_html_and_control_characters_are_text(user):
    """In every tab that shows the text of the input."""
    for tab, fields in (
        ("Entities", {"Text": EVIL}),
        ("Questions", {"Question": "How?", "Context": EVIL}),
        (
            "Choices",
            {"Context": "a", "Choices, one in each line": f"{EVIL}\nbad"},
        ),
        ("Word pieces", {"Text": EVIL}),
        ("Attention", {"Text": EVIL}),
    ):
        user.open(tab)
        for label, text in fields.items():
            user.fill(label, text)
        user.run()
        results = user.shown(".results")
        assert not results.locator("script, img[onerror]").count()
        assert "broken" not in user.page.title()


def test_two_users_at_once(browser, address):
    """Each gets the answer to an own text."""
    users = [User(browser, address) for _ in range(2)]
    texts = ["the [MASK] cat", "a [MASK] mat on [MASK]"]
    for _ in range(3):
        for one, text in zip(users, texts, strict=True):
            one.fill(MASK, text)
            one.shown("button.run").click()
        for one, text in zip(users, texts, strict=True):
            one.told(text.split("[MASK]")[0])
            one.fill(MASK, "x").run().told("o [MASK] in the text")
    for one in users:
        one.page.close()


# --- Everybody ---------------------------------------------------------------


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
def test_every_tab_can_be_used_by_everybody(browser, address, size, is_dark):
    """axe finds no violation; nothing is wider than the screen."""
    from axe_playwright_python.sync_playwright import Axe

    one = User(browser, address, size, is_dark)
    tabs = "Masked words,Sentence score,Next sentence,Classes,Questions"
    tabs += ",Entities,Choices,Word pieces,Attention,Neighbors,Reasons"
    for tab in tabs.split(","):
        one.open(tab)
        width = one.page.evaluate("document.documentElement.scrollWidth")
        assert width <= size[0], tab
        if tab == "Attention":
            one.shown(".heatmaplayer")  # an empty figure has no right name
        found = Axe().run(one.page).response["violations"]
        nodes = [node for v in found for node in v["nodes"]]
        assert not nodes, (tab, nodes[0]["failureSummary"])
    one.page.close()


def test_nothing_is_requested_from_another_host(user, address):
    """All that the tests above have loaded: scripts, fonts, pictures."""
    others = [
        url
        for url in user.requested
        if not url.startswith((address, "data:", "blob:"))
    ]
    assert user.requested and not others
    assert re.match(r"http://127\.0\.0\.1:\d+/$", address)
