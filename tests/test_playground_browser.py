"""The page of playground.py in a browser: type, click, read.

Needs Chromium, Gradio and Playwright, and skips without them. `make
test-browser` installs the two packages and runs this file.
"""

import importlib.util
import re
import shutil

import page_models
import page_site
import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
LACKING = [
    name
    for name in ("gradio", "playwright")
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


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    model_of = page_models.made_once(tmp_path_factory.mktemp("models"))
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
    """A window of the browser on the page."""

    def __init__(self, browser, address: str, width: int = 1300):
        size = {"width": width, "height": 800}
        self.page = browser.new_page(viewport=size)
        self.page.set_default_timeout(SECONDS)
        self.requested: list[str] = []
        self.page.on("request", lambda r: self.requested.append(r.url))
        self.page.goto(address)
        self.page.locator("button:visible", has_text="Run").wait_for()

    def open(self, tab: str) -> "User":
        """Click a tab; wait until it is shown.

        Tabs have boxes of the same label: text that comes too early would be in
        the box of the tab before.
        """
        self.page.get_by_role("tab", name=tab).click()
        self.page.get_by_role("tab", name=tab, selected=True).wait_for()
        self.page.wait_for_timeout(200)
        return self

    def fill(self, label: str, text: str) -> "User":
        """Type into a box."""
        box = self.page.get_by_label(label, exact=True)
        box.locator("visible=true").fill(text)
        return self

    def run(self) -> "User":
        """Click Run."""
        self.page.locator("button:visible", has_text="Run").click()
        return self

    def shown(self, selector: str):
        """Wait for something that a result has; return the visible ones."""
        found = self.page.locator(f"{selector}:visible")
        found.first.wait_for()
        return found


@pytest.fixture(scope="module")
def user(browser, address):
    return User(browser, address)


BARS = ".bert-bars"
MASK = "Text with [MASK] for each word to find"


def test_masked_words(user):
    user.fill(MASK, "the [MASK] sat on [MASK].").run()
    assert "MASK] 2" in user.shown(".bert-text").inner_text()
    assert user.shown(BARS).count() == 2


def test_an_example_is_clicked(user):
    user.open("Masked words")
    user.page.get_by_text("Return [MASK] if the object is [MASK].").click()
    user.run()
    user.shown(".bert-text").filter(has_text="if the object").wait_for()


def test_a_mistake_is_a_line_and_the_page_goes_on(user):
    user.open("Masked words").fill(MASK, "nothing").run()
    error = user.shown(".bert-error textarea")
    assert "no [MASK]" in error.input_value()
    user.fill(MASK, "a [MASK]").run()
    user.shown(BARS)
    assert not user.page.locator(".bert-error:visible").count()


def test_next_sentence(user):
    user.open("Next sentence").fill("Text", "the cat sat")
    user.fill("Second text, which may follow", "on a mat .").run()
    assert "the second text follows" in user.shown(BARS).inner_text()


def test_classes_of_a_pair(user):
    user.open("Classes").fill("Text", "good film").fill("Second text", "bad")
    user.run()
    shown = user.shown(BARS).inner_text()
    assert all(name in shown for name in ("bad", "good", "so so"))


def test_a_text_that_is_cut_shows_what_is_not_read(user):
    user.open("Classes").fill("Text", "good " * 40 + "film end").run()
    assert "not read" in user.shown(".bert-text").inner_text()


def test_the_answer_in_ten_thousand_words(user):
    words = " ".join(f"a  Good film {n} ." for n in range(2000))
    user.open("Questions").fill("Question", "How?").fill("Context", words)
    user.run()
    assert "Good film" in user.shown(".bert-text").inner_text()
    user.shown("table")


def test_a_long_text_scrolls(user):
    words = "ann jr saw rome. " * 500
    user.open("Entities").fill("Text", words).run()
    box = user.shown(".bert-text")
    is_scrolled = "box => box.scrollHeight > 5 * box.clientHeight"
    assert box.evaluate(is_scrolled)
    assert "LOC" in box.inner_text()


def test_choices(user):
    user.open("Choices").fill("Context", "the film")
    user.fill("Choices, one in each line", "was good\nwas bad").run()
    shown = user.shown(BARS).inner_text()
    assert "1. was good" in shown and "2. was bad" in shown


def test_word_pieces_of_all_models_side_by_side(user):
    user.open("Word pieces").fill("Text", "good film").run()
    assert user.shown(".bert-text").count() == len(KINDS)
    assert user.shown("h3 code").all_inner_texts() == list(KINDS)


@pytest.mark.parametrize("picture", ["lines", "all heads", "heat map"])
def test_attention_changes_with_a_choice(user, picture):
    """No click on Run is needed once there is a text."""
    user.open("Attention").fill("Text", "good film")
    user.page.get_by_label("Picture").click()
    user.page.get_by_role("option", name=picture, exact=True).click()
    selector = (
        ".bert-lines svg" if picture == "lines" else ".bert-plot .heatmaplayer"
    )
    user.page.locator(selector).nth(len(KINDS) - 1).wait_for(state="attached")


def test_neighbors(user):
    user.open("Neighbors").fill("Sentence", "good film")
    user.fill("Sentences to search, one in each line", "bad\ngood film").run()
    user.shown("table").filter(has_text="good film").first.wait_for()


def test_html_and_control_characters_are_text(user):
    """In every tab that shows the text of the input."""
    for tab, fields in (
        ("Entities", {"Text": EVIL}),
        ("Questions", {"Question": "How?", "Context": EVIL}),
        ("Choices", {"Context": EVIL, "Choices, one in each line": EVIL}),
        ("Word pieces", {"Text": EVIL}),
        ("Attention", {"Text": EVIL}),
    ):
        user.open(tab)
        for label, text in fields.items():
            user.fill(label, text)
        user.run()
        user.page.wait_for_timeout(1000)
        results = user.shown(":is(.bert-text, .bert-error, .bert-plot)")
        assert not results.locator("script, img").count()
        if tab == "Questions":
            assert "{{value}}" in results.first.inner_text()
        assert "broken" not in user.page.title()


def test_two_users_at_once(browser, address):
    """Each gets the answer to an own text."""
    users = [User(browser, address) for _ in range(2)]
    texts = ["the [MASK] cat", "a [MASK] mat on [MASK]"]
    for _ in range(3):
        for one, text in zip(users, texts, strict=True):
            one.fill(MASK, text).run()
        for one, text in zip(users, texts, strict=True):
            first = text.split("[MASK]")[0]
            one.shown(".bert-text").filter(has_text=first).wait_for()
            assert one.shown(BARS).count() == text.count("[MASK]")
            one.fill(MASK, "x").run()
            one.shown(".bert-error")
    for one in users:
        one.page.close()


def test_a_phone_shows_every_tab(browser, address):
    """Nothing is wider than the screen; boxes scroll on their own."""
    phone = User(browser, address, width=390)
    phone.fill(MASK, "the [MASK] sat").run()
    phone.shown(BARS)
    width = phone.page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390
    phone.page.close()


def test_nothing_is_requested_from_another_host(user, address):
    """All that the tests above have loaded: scripts, fonts, pictures."""
    others = [
        url
        for url in user.requested
        if not url.startswith((address, "data:", "blob:"))
    ]
    assert user.requested and not others
    assert re.match(r"http://127\.0\.0\.1:\d+/$", address)
