from minitf.system.arithmetic import sum_left_to_right


def test_every_addition_rounds():
    assert sum_left_to_right([0.1] * 10) == 0.9999999999999999  # compensated: 1.0
    assert sum_left_to_right(iter([1.0, 1e100, -1e100])) == 0.0  # compensated: 1.0
    assert sum_left_to_right([]) == 0.0
