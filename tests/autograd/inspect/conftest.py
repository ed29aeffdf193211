"""A browser to look at pages with."""

from tests.helpers.browser import chromium, screenshots, window

__all__ = ["chromium", "screenshots", "window"]
