from tests.helpers.fixtures import ground, make_run, searches, tiny_run, tiny_vocabulary

__all__ = ["ground", "make_run", "searches", "tiny_run", "tiny_vocabulary"]
