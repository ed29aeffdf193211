from tests.helpers.fixtures import ground

__all__ = ["ground"]
