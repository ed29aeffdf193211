"""The table that is printed, and its rows."""

from minitf.learn.conformance import Row, Table


def test_a_table_is_text_and_rows():
    table = Table([Row("future", "right"), Row("scale", "wrong", "word " * 40), Row("loss", "not given", "give loss")])
    lines = str(table).splitlines()
    assert lines[0] == "future  right"
    assert lines[-1] == "loss    not given  give loss"
    assert max(map(len, lines)) <= 116
    assert lines[2].startswith(" " * 19 + "word")
    assert not table.is_right


def test_nothing_given_is_not_right():
    assert not Table([Row("loss", "not given")]).is_right
    assert Table([Row("loss", "not given"), Row("future", "right")]).is_right
