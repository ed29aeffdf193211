"""A browser to look at pages with."""

from tests.helpers.browser import chromium, screenshots

__all__ = ["chromium", "screenshots"]
