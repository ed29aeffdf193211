"""The cases of the ops of `autograd`: each file mirrors the one of its name in autograd/ops."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
