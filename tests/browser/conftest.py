"""A Chromium without a window, for the tests of what a person sees."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


def lacks(what: str) -> None:
    """Skip, but not where everything must be tested."""
    if os.environ.get("CI"):
        pytest.fail(f"{what}; CI is set, and so nothing is skipped", pytrace=False)
    pytest.skip(what)


@pytest.fixture(scope="session")
def browser() -> Iterator:
    """A browser: of this machine, or what `playwright install chromium` brought."""
    for package in ("playwright", "axe_playwright_python"):
        if find_spec(package) is None:
            lacks(f"{package} is not installed: pip install -c constraints.txt -e '.[browser]'")
    from playwright import sync_api

    with sync_api.sync_playwright() as playwright:
        path = next(filter(None, map(shutil.which, NAMES)), None)
        try:
            found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except sync_api.Error as error:
            why = str(error).splitlines()[0]
            lacks(f"no Chromium starts (apt-get install chromium brings one): {why}")
        yield found
        found.close()
