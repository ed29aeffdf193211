"""Give every Python process of a test the card that is none.

STUB=numbers: launches are computed; counts: counted; compiles: compiled by NVRTC and counted.
"""

import os
import sys

if os.environ.get("STUB"):
    if "PMI_RANK" in os.environ and "STUB_DEVICES_OF_RANKS" in os.environ:
        os.environ["STUB_DEVICES"] = os.environ["STUB_DEVICES_OF_RANKS"]
    sys.path.insert(0, os.environ["STUB_PROJECT"])
    from tests.emulation.real_cupy.stub import install

    stub = install(numbers=os.environ["STUB"] == "numbers", compiled=os.environ["STUB"] == "compiles")
