"""Work shared out to processes, its results in the order of the work: the same for any number of processes."""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import TypeAlias, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Error: TypeAlias = ValueError | OSError
Line: TypeAlias = "Connection[Item, tuple[Result] | Error]"  # to a process: items there, answers back
Team: TypeAlias = "dict[Line[Item, Result], SpawnProcess]"

MOST_WORKERS = 16  # a core: a slip of the finger must not fill the memory with processes


def in_order(function: Callable[[Item], Result], items: Iterable[Item], workers: int) -> Iterator[Result]:
    """`function` of each item, in the order of the items; at most two items a process are on their way at a time.

    Each process is given the function once, so what it has looked up stays with it; one worker is this process itself.
    A ValueError or OSError of the function is raised here, and ChildProcessError when a process dies.
    """
    if workers < 1:
        raise ValueError(f"workers={workers}: give 1 or more processes.")
    cores = os.cpu_count() or 1
    if workers > MOST_WORKERS * cores:
        raise ValueError(
            f"workers={workers} is far more than this machine's cores, {cores}, can serve: give at most "
            f"{MOST_WORKERS * cores}."
        )
    if workers == 1:
        yield from map(function, items)
        return
    with _team(function, workers) as team:
        yield from _share_out(items, team)


def _share_out(items: Iterable[Item], team: "Team[Item, Result]") -> Iterator[Result]:
    numbered = enumerate(items)
    free = list(team)
    busy: dict[Line[Item, Result], int] = {}
    results: dict[int, Result] = {}
    num_yielded = 0
    while True:
        # The window keeps results from piling up behind a slow item.
        while free and len(busy) + len(results) < 2 * len(team):
            following = next(numbered, None)
            if following is None:
                break
            connection = free.pop()
            busy[connection], item = following
            _send(connection, item, team)
        if not busy:
            return
        ready = set(wait(list(busy)))
        for connection in [one for one in busy if one in ready]:
            results[busy.pop(connection)] = _receive(connection, team)
            free.append(connection)
        while num_yielded in results:
            yield results.pop(num_yielded)
            num_yielded += 1


@contextmanager
def _team(function: Callable[[Item], Result], workers: int) -> "Iterator[Team[Item, Result]]":
    """That many processes by the connection to each; they end with the block, or when this process dies."""
    context = multiprocessing.get_context("spawn")  # a fork would copy the locks of threads as they happen to stand
    team: Team[Item, Result] = {}
    try:
        for _ in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(function, theirs), daemon=True)
            process.start()
            team[ours] = process
            theirs.close()  # so that nothing but the process itself holds its end open
        yield team
    finally:
        for connection, process in team.items():
            connection.close()
            process.terminate()
            process.join()


def _serve(function: Callable[[Item], Result], connection: "Connection[object, Item]") -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group: the first process ends the others
    while True:
        try:
            item = connection.recv()
        except EOFError:  # the first process is gone
            return
        answer: tuple[Result] | Error
        try:
            answer = (function(item),)
        except (ValueError, OSError) as error:
            error.add_note(traceback.format_exc())
            answer = error
        try:
            connection.send(answer)
        except BrokenPipeError:
            return


def _send(connection: "Line[Item, Result]", item: Item, team: "Team[Item, Result]") -> None:
    try:
        connection.send(item)
    except ConnectionError as error:
        raise _death(team[connection]) from error


def _receive(connection: "Line[Item, Result]", team: "Team[Item, Result]") -> Result:
    try:
        answer = connection.recv()
    except (EOFError, ConnectionError) as gone:
        raise _death(team[connection]) from gone
    if isinstance(answer, tuple):
        return answer[0]
    raise answer


def _death(process: SpawnProcess) -> ChildProcessError:
    process.join()
    code = process.exitcode or 0
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return ChildProcessError(
        f"A worker process {how} before its work was done. If memory ran out, start again with fewer workers."
    )
