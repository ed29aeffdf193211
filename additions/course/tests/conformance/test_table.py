"""The table that is printed, and its rows."""

from additions.course.conformance import Row, Table


def test_a_table_is_text_and_rows():
    table = Table([Row("future", "right"), Row("scale", "wrong", "word " * 40), Row("loss", "not given", "give loss")])
    lines = str(table).splitlines()
    assert lines[0] == "future  right"
    assert lines[-2] == "loss    not given  give loss"
    assert lines[-1] == "1 wrong, 1 not given"
    assert max(map(len, lines)) <= 116
    assert lines[2].startswith(" " * 19 + "word")
    assert not table.is_right


def test_nothing_given_is_not_right():
    assert not Table([Row("loss", "not given")]).is_right
    assert Table([Row("loss", "not given"), Row("future", "right")]).is_right


def test_the_last_line_counts():
    right, missing = Row("future", "right"), Row("loss", "not given")
    assert Table([right, right]).summary == "all right"
    assert Table([right, missing]).summary == "all right, 1 not given"
    assert Table([missing]).summary == "nothing right, 1 not given"
    assert Table([right, Row("scale", "wrong"), Row("residual", "wrong")]).summary == "2 wrong"
