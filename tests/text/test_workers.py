import os
import signal
import time
from collections.abc import Iterator
from itertools import count, islice

import pytest

from bertie.text.workers import in_order


class Delayed:
    """Squares; the earlier items take longer, so that results come back out of order."""

    def __call__(self, number: int) -> int:
        time.sleep(0.02 * (number % 3 == 0))
        return number * number


class Numbered:
    """How many items this copy of the function has seen."""

    def __init__(self) -> None:
        self.num_seen = 0

    def __call__(self, number: int) -> tuple[int, int]:
        self.num_seen += 1
        return os.getpid(), self.num_seen


def refuse_seven(number: int) -> int:
    if number == 7:
        raise ValueError("7 is not allowed.")
    return number


def kill_itself(number: int) -> int:
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fail_otherwise(number: int) -> int:
    raise KeyError(number)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_results_come_in_the_order_of_the_items(workers: int) -> None:
    assert list(in_order(Delayed(), range(20), workers)) == [number * number for number in range(20)]


def test_no_items_no_results() -> None:
    assert list(in_order(Delayed(), [], 2)) == []


def test_each_process_keeps_its_copy_of_the_function() -> None:
    results = list(in_order(Numbered(), range(12), 2))
    assert {process for process, _ in results}.isdisjoint({os.getpid()})
    most: dict[int, int] = {}
    for process, num_seen in results:
        most[process] = max(num_seen, most.get(process, 0))
    assert len(most) <= 2
    assert sum(most.values()) == 12


def test_items_are_drawn_only_as_far_ahead_as_the_window() -> None:
    drawn = []

    def items() -> Iterator[int]:
        for number in count():
            drawn.append(number)
            yield number

    assert list(islice(in_order(Delayed(), items(), 2), 5)) == [0, 1, 4, 9, 16]
    assert len(drawn) <= 5 + 2 * 2


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_of_the_function_is_raised_here(workers: int) -> None:
    with pytest.raises(ValueError, match="7 is not allowed"):
        list(in_order(refuse_seven, range(20), workers))


def test_a_killed_process_is_reported() -> None:
    with pytest.raises(ChildProcessError, match=r"killed by signal 9.*fewer workers"):
        list(in_order(kill_itself, range(20), 2))


def test_a_process_that_fails_is_reported(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ChildProcessError, match="ended with code 1"):
        list(in_order(fail_otherwise, range(20), 2))
    assert "KeyError" in capfd.readouterr().err


def test_no_workers_are_refused() -> None:
    with pytest.raises(ValueError, match="workers=0: give 1 or more"):
        list(in_order(refuse_seven, range(3), 0))


def test_far_more_workers_than_cores_are_refused() -> None:
    with pytest.raises(ValueError, match=r"workers=100000 is far more than .* give at most [0-9]+\."):
        next(in_order(refuse_seven, range(3), 100_000))
