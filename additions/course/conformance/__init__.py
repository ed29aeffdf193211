"""Conformance checks: a table of properties of your own attention, layer or model, compared with the paper.

    from additions.course.conformance import check_attention, check_layer, check_model

    print(check_attention(my_attention))                      # my_attention(q, k, v, mask)
    print(check_layer(my_layer, d_model=16))                  # my_layer(x, mask)
    print(check_model(my_model, vocab_size=100))              # my_model(source, target) -> logits

They take functions of NumPy arrays, PyTorch modules, modules of this project and any other callable.  What is not given
is reported as "not given", not as a failure.  docs/learn.md has an example of each kind.
"""

from additions.course.conformance.attention import check_attention
from additions.course.conformance.layer import check_layer
from additions.course.conformance.model import check_model
from additions.course.conformance.table import Row, Table

__all__ = ["Row", "Table", "check_attention", "check_layer", "check_model"]
