from tests.helpers.browser import chromium, screenshots, window
from tests.helpers.fixtures import ground, make_run, searches, tiny_run, tiny_vocabulary

__all__ = ["chromium", "ground", "make_run", "screenshots", "searches", "tiny_run", "tiny_vocabulary", "window"]
