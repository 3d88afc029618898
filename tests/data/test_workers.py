"""Workers: the same batches as without, errors with their origin, and no thread left behind."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import traceback

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import needle as ndl
from needle.data import DataLoader, NDArrayDataset
from tests.data.files import write_mnist


def threads():
    return [t.name for t in threading.enumerate() if t.name.startswith("needle-loader")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    yield
    gc.collect()
    assert threads() == []


class Squares(ndl.data.Dataset):
    """(i², i), one by one; counts what was asked for."""

    def __init__(self, n):
        super().__init__()
        self.n = n
        self.loaded = 0

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        self.loaded += 1
        return np.float32(i * i), i


def wait_until(condition):
    """Till it holds; not for ever."""
    for _ in range(10_000):
        if condition():
            return
        time.sleep(0.005)
    raise AssertionError("waited in vain")


# The same batches ---------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    n=st.integers(1, 30), size=st.integers(1, 7), count=st.integers(1, 4),
    factor=st.integers(1, 3), shuffle=st.booleans(), drop_last=st.booleans(),
    persistent=st.booleans(), by_item=st.booleans(),
)  # fmt: skip
def test_batches_are_those_without_workers(
    n, size, count, factor, shuffle, drop_last, persistent, by_item
):
    data = Squares(n) if by_item else NDArrayDataset(np.arange(n) ** 2, np.arange(n))
    options = {"batch_size": size, "shuffle": shuffle, "drop_last": drop_last}
    several = {"num_workers": count, "prefetch_factor": factor, "persistent_workers": persistent}

    def passes(loader):
        np.random.seed(n)
        return [[(x.tolist(), y.tolist()) for x, y in loader] for _ in range(2)]

    assert passes(DataLoader(data, **options, **several)) == passes(DataLoader(data, **options))


@pytest.mark.parametrize("count", [1, 3])
def test_random_transforms_draw_as_without_workers(tmp_path, count):
    """Also when the model draws in between."""
    write_mnist(tmp_path)
    transforms = [ndl.data.RandomCrop(2), ndl.data.RandomFlipHorizontal()]
    dataset = ndl.data.MNIST(tmp_path, transforms=transforms)

    def run(**options):
        np.random.seed(5)
        batches = DataLoader(dataset, 8, shuffle=True, **options)
        return [(x.numpy().sum(), np.random.rand()) for _ in range(2) for x, _ in batches]

    assert run(num_workers=count) == run()


def test_one_worker_draws_in_order_if_nobody_else_does():
    class Noisy(Squares):
        def __getitem__(self, i):
            return np.random.rand(3)

    def run(**options):
        np.random.seed(1)
        return [x.tolist() for x in DataLoader(Noisy(20), 3, **options)]

    assert run(num_workers=1) == run()


def test_workers_load_at_the_same_time_and_collate():
    both = threading.Barrier(2, timeout=60)
    names = set()

    class Meeting(Squares):
        def __getitem__(self, i):
            both.wait()  # breaks if only one thread comes
            return i

    def collate(items):
        names.add(threading.current_thread().name)
        return np.stack(items)

    batches = [x.tolist() for x in DataLoader(Meeting(8), 2, num_workers=2, collate_fn=collate)]
    assert batches == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert names == {"needle-loader-0", "needle-loader-1"}


def test_operators_may_run_in_workers():
    class Products(Squares):
        def __getitem__(self, i):
            return (ndl.full((64, 64), i) @ ndl.ones(64, 64)).numpy()

    for i, x in enumerate(DataLoader(Products(24), 4, num_workers=3)):
        expected = np.repeat(np.arange(4 * i, 4 * i + 4) * 64.0, 64 * 64).reshape(4, 64, 64)
        np.testing.assert_array_equal((x @ ndl.eye(64)).numpy(), expected)


def test_position_resumes_with_workers():
    loader = DataLoader(Squares(10), 2, shuffle=True, num_workers=2)
    iterator = iter(loader)
    next(iterator), next(iterator)
    state = loader.state_dict()
    assert state["position"] == 2  # not what was loaded ahead
    rest = [y.tolist() for _, y in iterator]
    other = DataLoader(Squares(10), 2, shuffle=True, num_workers=2)
    other.load_state_dict(state)
    assert [y.tolist() for _, y in other] == rest


def test_passes_side_by_side():
    loader = DataLoader(Squares(9), 2, num_workers=2, persistent_workers=True)
    pairs = [(a[1].tolist(), b[1].tolist()) for a, b in zip(loader, loader, strict=True)]
    assert [a for a, _ in pairs] == [b for _, b in pairs] == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]


# Bounds and ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "factor"), [(1, None), (2, 3)])
def test_a_bounded_number_of_batches_is_loaded_ahead(count, factor):
    data = Squares(1000)
    loader = DataLoader(data, 5, num_workers=count, prefetch_factor=factor)
    iterator = iter(loader)
    assert data.loaded == 0
    for given_out in (1, 2, 3):
        next(iterator)
        most = 5 * (given_out + count * (factor or 2))
        wait_until(lambda most=most: data.loaded == most)
    time.sleep(0.05)
    assert data.loaded == most
    iterator.close()


@pytest.mark.parametrize("persistent", [False, True])
def test_a_break_ends_the_work_between_two_items(persistent):
    class Slow(Squares):
        def __getitem__(self, i):
            time.sleep(0.005 if i >= 1000 else 0)
            return super().__getitem__(i)

    data = Slow(100_000)
    loader = DataLoader(data, 1000, num_workers=2, persistent_workers=persistent)
    for _ in loader:
        wait_until(lambda: data.loaded > 1010)  # in the middle of batches that take seconds
        break
    loaded = data.loaded
    assert len(threads()) == (2 if persistent else 0)
    time.sleep(0.1)
    assert data.loaded <= loaded + 2  # each worker ends the item that it was at


def test_an_abandoned_pass_and_a_failed_loop():
    iterator = iter(DataLoader(Squares(100), 1, num_workers=3))
    next(iterator)
    assert len(threads()) == 3
    del iterator
    assert threads() == []
    with pytest.raises(ZeroDivisionError):
        for _ in DataLoader(Squares(100), 1, num_workers=3):
            _ = 1 / 0


def test_persistent_workers_live_as_long_as_the_loader():
    begun = []
    loader = DataLoader(
        Squares(6), 2, num_workers=2, persistent_workers=True, worker_init_fn=begun.append
    )
    for _ in range(3):
        assert len(list(loader)) == 3
        for _ in loader:
            break
    assert sorted(begun) == [0, 1] and len(threads()) == 2
    del loader
    assert threads() == []


def test_each_pass_begins_with_worker_init_fn():
    begun = []

    def init(number):
        begun.append((number, threading.current_thread().name))

    loader = DataLoader(Squares(4), 2, num_workers=2, worker_init_fn=init)
    for _ in range(2):
        list(loader)
    assert sorted(begun) == [(i, f"needle-loader-{i}") for i in (0, 0, 1, 1)]


# Errors -------------------------------------------------------------------------------------------


def test_an_error_comes_in_its_turn_with_the_workers_traceback():
    class Broken(Squares):
        def __getitem__(self, i):
            return self.read(i)

        def read(self, i):
            if i == 5:
                raise OSError("disk on fire")
            return i

    seen = []
    with pytest.raises(OSError, match="disk on fire") as caught:
        for x in DataLoader(Broken(20), 2, num_workers=3):
            seen.extend(x.tolist())
    assert seen == [0, 1, 2, 3]
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[0].startswith("test_an_error") and names[-2:] == ["__getitem__", "read"]


def test_an_error_of_worker_init_fn():
    def init(number):
        raise ValueError(f"no database for worker {number}")

    with pytest.raises(ValueError, match="no database for worker 0"):
        list(DataLoader(Squares(4), 2, num_workers=1, worker_init_fn=init))


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"num_workers": -1}, r"\[DataLoader\] expected num_workers >= 0, got -1"),
        ({"num_workers": 1.5}, r"\[DataLoader\] expected num_workers >= 0, got 1\.5"),
        ({"num_workers": 1, "prefetch_factor": 0}, r"expected prefetch_factor >= 1, got 0"),
        ({"num_workers": 1, "prefetch": 2}, r"expected num_workers or prefetch, got both"),
        ({"prefetch_factor": 2}, r"\[DataLoader\] prefetch_factor needs num_workers > 0, got 0"),
        ({"persistent_workers": True}, r"\[DataLoader\] persistent_workers needs num_workers > 0"),
    ],
)
def test_bad_arguments(arguments, text):
    with pytest.raises(ValueError, match=text):
        DataLoader(Squares(3), **arguments)


# Streams ------------------------------------------------------------------------------------------


class Stream(ndl.data.IterableDataset):
    """0 to n - 1; then an error, if wanted."""

    def __init__(self, n, broken=False):
        self.n, self.broken = n, broken
        self.readers = set()

    def __iter__(self):
        for i in range(self.n):
            self.readers.add(threading.current_thread().name)
            yield i
        if self.broken:
            raise OSError("the line is dead")


def test_a_stream_is_read_by_one_worker():
    stream = Stream(7)
    batches = [x.tolist() for x in DataLoader(stream, 2, num_workers=4, pin_memory=True)]
    assert batches == [[0, 1], [2, 3], [4, 5], [6]]
    assert stream.readers == {"needle-loader-0"}


def test_a_stream_resumes_and_fails_in_its_turn():
    loader = DataLoader(Stream(5), 2, num_workers=2)
    next(iter(loader))
    other = DataLoader(Stream(5), 2, num_workers=2)
    other.load_state_dict(loader.state_dict())
    assert [x.tolist() for x in other] == [[2, 3], [4]]
    seen = []
    with pytest.raises(OSError, match="the line is dead"):
        for x in DataLoader(Stream(4, broken=True), 2, num_workers=2):
            seen.append(x.tolist())
    assert seen == [[0, 1], [2, 3]]


def test_an_endless_stream_is_read_no_further_than_asked():
    endless = DataLoader(Stream(10**9), 2, num_workers=1)
    for i, x in enumerate(endless):
        assert x.tolist() == [2 * i, 2 * i + 1]
        if i == 5:
            break


# Processes ----------------------------------------------------------------------------------------

SCRIPT = """
    import os, sys, time
    import numpy as np
    from needle.data import DataLoader, Dataset

    class Items(Dataset):
        def __init__(self, seconds=0.0):
            self.seconds = seconds
        def __len__(self):
            return 50
        def __getitem__(self, i):
            if i > 0:
                time.sleep(self.seconds)
            return np.int64(i)
"""


def run(code, seconds=120):
    source = textwrap.dedent(SCRIPT) + textwrap.dedent(code)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", source]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


@pytest.mark.parametrize("options", ["", ", persistent_workers=True"])
def test_a_program_ends_in_the_middle_of_a_pass(options):
    """Also while an item takes longer than anyone waits for."""
    process = run(f"""
        from needle.data import workers
        workers.PATIENCE = 0.1
        held = [iter(DataLoader(Items(s), 1, num_workers=2{options})) for s in (0, 0.001, 3600)]
        print([next(iterator).item() for iterator in held])
    """)
    assert (process.returncode, process.stdout, process.stderr) == (0, "[0, 0, 0]\n", "")


def test_an_ending_program_loads_nothing_more():
    code = """
        from needle.data import workers
        workers.PATIENCE = 100
        iterator = iter(DataLoader(Items(2.0), 1, num_workers=2, prefetch_factor=30))
        next(iterator)
    """
    process = run(code, seconds=40)  # what was begun would take 50
    assert (process.returncode, process.stderr) == (0, "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_in_the_middle_of_a_pass():
    process = run("""
        loader = DataLoader(Items(0.001), 5, num_workers=2, persistent_workers=True)
        iterator = iter(loader)
        next(iterator)
        child = os.fork()
        if child == 0:
            try:
                next(iterator)
            except RuntimeError as error:
                print(error)
            print(sum(x.sum().item() for x in loader), flush=True)
            sys.exit(0)
        print(os.waitpid(child, 0)[1], sum(x.sum().item() for x in iterator))
    """)
    assert process.stderr == "" and process.returncode == 0
    assert process.stdout.splitlines() == [
        "[DataLoader] this pass began before a fork, and its threads are the parent's; begin a "
        "new pass in the child.",
        str(sum(range(50))),
        f"0 {sum(range(5, 50))}",
    ]
